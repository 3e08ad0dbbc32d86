"""Made notes: the same for the same seed; variants look as real notes do, and their vocabulary
grows as real ones do.
"""

import re
from itertools import islice
from pathlib import Path

from notes import Author, make_variants, make_vault, note_path, split_paragraphs

FENCED = "---\ntags: [a]\n\nb: c\n---\n# Title\n\nFirst.\n\n```python\none\n\ntwo\n```\n\nLast."

WORDS = [
    f"{letter}{other}{'ine' if number % 3 else 'ate'}"
    for number, letter in enumerate("bcdfghjklm")
    for other in "aeiou"
]


def real(count: int) -> list[tuple[str, str]]:
    return [
        (
            f"{n}.md",
            f"# Note {n}\n\n"
            + "\n\n".join(f"common words {WORDS[(n * 3 + m) % 50]} here" for m in range(3)),
        )
        for n in range(count)
    ]


def vocabulary(texts: list[str]) -> int:
    return len({word for text in texts for word in re.findall(r"[^\W\d_]{4,}", text)})


def test_the_same_seed_writes_the_same_vault_of_notes_about_as_long_as_was_asked(
    tmp_path: Path,
) -> None:
    make_vault(tmp_path, 3, 5000)
    author = Author()
    texts = [note_path(tmp_path, n).read_text(encoding="utf-8") for n in range(3)]
    assert texts == [author.write_note(n, 3, 5000) for n in range(3)]
    assert all(5000 <= len(text) < 6500 and text.count("[[note ") >= 5 for text in texts)


def test_a_fence_and_front_matter_stay_whole() -> None:
    assert split_paragraphs(FENCED) == (
        "---\ntags: [a]\n\nb: c\n---\n# Title",
        "First.",
        "```python\none\n\ntwo\n```",
        "Last.",
    )


def test_each_variant_has_its_own_path_and_the_headings_of_a_real_note() -> None:
    made = list(islice(make_variants(real(5)), 10))
    assert made == list(islice(make_variants(real(5)), 10))
    assert len({path for path, _ in made}) == 10
    assert [text.splitlines()[0] for _, text in made[5:]] == [f"# Note {n}" for n in range(5)]


def test_the_vocabulary_grows_more_slowly_than_the_text_and_does_not_stop() -> None:
    sizes = [
        vocabulary([text for _, text in (*real(16), *islice(make_variants(real(16)), copies * 16))])
        for copies in (0, 3, 15)
    ]
    assert (sizes[0] < sizes[1] < sizes[2], sizes[2] < 16 * sizes[0]) == (True, True)
