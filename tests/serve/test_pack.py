"""Passages within a token budget."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from thumbindex.corpus.parse import parse_document
from thumbindex.model import Passage
from thumbindex.serve.pack import cut_passage, fit_passages, match_lines
from thumbindex.settings import CorpusSettings


def passage(lines: int, width: int = 30, match: tuple[int, int] = (5, 6), rank: int = 1) -> Passage:
    text = "\n".join(f"line {number} ".ljust(width, ".") for number in range(1, lines + 1))
    return Passage(rank, "f", "a.md", "A", ("A",), 1, lines, *match, 1.0, text)


def parsed(text: str, match: str) -> Passage:
    """Return a document's one section as a passage, with the chunk that holds `match` marked."""
    parts = parse_document("a.md", text.encode(), CorpusSettings())
    (section,), chunk = parts.sections, next(each for each in parts.chunks if match in each.text)
    lines = (section.start_line, section.end_line, chunk.start_line, chunk.end_line)
    return Passage(1, "f", "a.md", "A", ("A",), *lines, 1.0, section.text, match=chunk.text)


def as_text(each: Passage) -> str:
    return f"{each.citation}\n{each.text}"


def as_payload(each: Passage) -> dict[str, Any]:
    return {"citation": each.citation, "text": each.text}


def fit(passages: list[Passage], tokens: int) -> tuple[Passage, ...]:
    return fit_passages(passages, tokens, as_text, as_payload)


def test_what_fits_is_left_as_it_is() -> None:
    passages = [passage(3, match=(1, 1)), passage(4, match=(1, 1))]
    assert fit(passages, 2000) == tuple(passages)


def test_the_last_passage_is_cut_to_the_lines_around_its_match() -> None:
    shown = fit([passage(10), passage(100, match=(50, 51))], 400)
    assert (shown[0].text, len(shown)) == (passage(10).text, 2)
    assert shown[1].start_line <= 50 < 51 <= shown[1].end_line
    assert shown[1].text.startswith(f"line {shown[1].start_line} ")
    assert len(shown[1].text.splitlines()) == shown[1].end_line - shown[1].start_line + 1


def test_the_first_match_is_shown_even_over_budget() -> None:
    (shown,) = fit([passage(40, width=200, match=(20, 20))], 1)
    assert (shown.start_line, shown.end_line) == (20, 20)
    assert shown.text.startswith("line 20 ")


def test_an_overlong_line_is_cut_inside() -> None:
    long = passage(1, width=5000, match=(1, 1))
    assert len(fit([long], 200)[0].text) < 800
    assert fit([long], 200)[0].text.endswith("…")


def test_a_passage_whose_comments_were_left_out_is_cut_all_the_same() -> None:
    left_out = Passage(1, "f", "a.md", "A", ("A",), 10, 90, 85, 86, 1.0, "\n".join(["word " * 20] * 20))
    assert 0 < len(cut_passage(left_out, 300).text) <= 300


PARAGRAPH = "Some words that fill a paragraph. " * 8
COMMENTED = f"# A\n\n{PARAGRAPH}\n\n<!-- not\n\nto\nbe\nseen -->\n\n{PARAGRAPH}\n\n## B\n\nThe needle lies here.\n\n## C\n\n{PARAGRAPH}"


def test_below_a_left_out_comment_the_match_is_found_by_its_text() -> None:
    whole = parsed(COMMENTED, "needle")
    shown = cut_passage(whole, 200)
    first, last = match_lines(whole) or (0, 0)
    assert whole.text.split("\n")[first : last + 1] == ["The needle lies here."]
    assert "The needle lies here." in shown.text
    assert len(shown.text) <= 200


def test_lines_that_a_left_out_comment_makes_uncertain_are_not_claimed() -> None:
    whole = parsed(COMMENTED, "needle")
    shown = cut_passage(whole, 200)
    assert (shown.start_line, shown.end_line) == (whole.start_line, whole.end_line) == (1, 19)


def test_of_equal_texts_around_a_comment_the_one_in_reach_is_the_match() -> None:
    twice = Passage(1, "f", "a.md", "A", ("A",), 1, 9, 9, 9, 1.0, "same\n\nother\n\n\n\nsame", match="same")
    assert match_lines(twice) == (6, 6)


def test_a_row_whose_header_is_repeated_from_further_up_is_found() -> None:
    rows = "\n".join(f"| row {number} | {'x' * 60} |" for number in range(12))
    whole = parsed(f"# A\n\n%% not\nseen %%\n\n| a | b |\n| - | - |\n{rows}\n", "row 9")
    first, last = match_lines(whole) or (0, 0)
    assert whole.match.startswith("| a | b |\n| - | - |\n| row ")
    assert "\n".join(whole.text.split("\n")[first : last + 1]) == whole.match.split("\n", 2)[2]


def test_a_match_far_inside_an_overlong_line_is_shown_whole() -> None:
    line = "".join(f"Sentence number {number} goes on for some time. " for number in range(40))
    whole = parsed(f"# A\n\n{line}\n", "number 35 ")
    (shown,) = fit([whole], 100)
    assert whole.match in shown.text
    assert (shown.start_line, shown.end_line, shown.text[0]) == (3, 3, "…")


def test_only_a_line_feed_ends_a_line() -> None:
    odd = "line\u2028with\x0cmany\x85ends " * 10
    whole = parsed("# A\n\n" + "\n\n".join([odd] * 3) + "\n\n## B\n\nThe needle.\n\n## C\n\n" + odd, "needle")
    shown = cut_passage(whole, 40)
    assert (shown.text.split("\n")[shown.match_start - shown.start_line], shown.match_start) == ("The needle.", 11)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(100, 1500))
def test_beyond_the_first_match_text_and_json_each_stay_within_the_budget(sizes: list[int], tokens: int) -> None:
    passages = [passage(size, match=(size, size), rank=n) for n, size in enumerate(sizes, start=1)]
    shown = fit(passages, tokens)
    assert sum(len(as_text(each)) for each in shown) <= tokens * 4 + 10
    assert sum(len(json.dumps(as_payload(each))) for each in shown) <= tokens * 4 + 10
