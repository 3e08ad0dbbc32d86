"""Variants of notes: as real ones look, no two the same, and with a vocabulary that grows as real ones do."""

import re
from itertools import islice

from thumbindex.study.bench.variants import Variants, split_paragraphs

FENCED = "---\ntags: [a]\n\nb: c\n---\n# Title\n\nFirst.\n\n```python\none\n\ntwo\n```\n\nLast."

WORDS = [f"{letter}{other}{'ine' if number % 3 else 'ate'}" for number, letter in enumerate("bcdfghjklm") for other in "aeiou"]


def notes(count: int) -> list[tuple[str, str]]:
    return [(f"{n}.md", f"# Note {n}\n\n" + "\n\n".join(f"common words {WORDS[(n * 3 + m) % 50]} here" for m in range(3))) for n in range(count)]


def vocabulary(texts: list[str]) -> int:
    return len({word for text in texts for word in re.findall(r"[^\W\d_]{4,}", text)})


def test_a_fence_and_front_matter_stay_whole() -> None:
    assert split_paragraphs(FENCED) == ("---\ntags: [a]\n\nb: c\n---\n# Title", "First.", "```python\none\n\ntwo\n```", "Last.")


def test_the_same_notes_give_the_same_variants() -> None:
    assert list(islice(Variants(notes(5)), 20)) == list(islice(Variants(notes(5)), 20))


def test_each_variant_has_its_own_path_and_the_headings_of_a_real_note() -> None:
    made = list(islice(Variants(notes(5)), 10))
    assert len({path for path, _ in made}) == 10
    assert [text.splitlines()[0] for _, text in made[5:]] == [f"# Note {n}" for n in range(5)]


def test_the_vocabulary_grows_more_slowly_than_the_text_and_does_not_stop() -> None:
    real = notes(16)
    sizes = [vocabulary([text for _, text in (*real, *islice(Variants(real), copies * 16))]) for copies in (0, 3, 15)]
    assert (sizes[0] < sizes[1] < sizes[2], sizes[2] < 16 * sizes[0]) == (True, True)
