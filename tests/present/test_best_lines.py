"""Choosing the lines of a passage for the terminal, the page and a model."""

import re
from dataclasses import replace

from thumbindex.model import Passage
from thumbindex.present.best_lines import ShownLines, all_lines, best_lines


def passage(text: str, *words: str) -> Passage:
    """Return a passage from line 11 of a note, completely matched, with some words marked."""
    last = 11 + text.count("\n")
    marks = tuple(sorted(match.span() for word in words for match in re.finditer(word, text, re.I)))
    return Passage(1, "f", "a.md", "A", ("A",), 11, last, 11, last, 1.0, text, marks=marks)


def within(characters: int, source: Passage) -> ShownLines:
    return best_lines(source, lambda each: len(each.text) <= characters)


ROWS = "\n".join(f"Row {number} of a long list." for number in range(1, 30))


def test_match_that_fits_is_shown_completely() -> None:
    long_passage = replace(passage(ROWS, "Row 17"), match_start_line=20, match_end_line=30)
    lines = within(1000, long_passage)
    assert (lines.first, lines.last, lines.start_line) == (9, 19, 20)


def test_longer_match_shows_the_lines_with_most_query_words() -> None:
    lines = within(60, passage(ROWS, "Row 17", "Row 18", "Row 29"))
    assert (lines.start_line, lines.text) == (
        27,
        "Row 17 of a long list.\nRow 18 of a long list.",
    )


def test_overlong_line_is_cut_around_most_query_words() -> None:
    line = f"Salt and more. {'Something else is said here. ' * 40}Salt with pepper. " + "x" * 500
    lines = within(60, passage(f"# A\n{line}", "salt", "pepper"))
    assert lines.is_broken
    assert (lines.start_line, len(lines.text)) == (12, 60)
    assert lines.text.startswith("…Salt with pepper. xxx")
    assert lines.text.endswith("x…")


def test_lines_have_the_notes_numbers_and_marked_words() -> None:
    first, second = all_lines(passage("One salt.\nTwo.", "salt")).lines
    assert (first.number, first.pieces) == (
        11,
        (("One ", False), ("salt", True), (".", False)),
    )
    assert (second.number, second.pieces) == (12, (("Two.", False),))


def test_lines_are_not_numbered_if_a_comment_is_left_out() -> None:
    long_passage = replace(
        passage("One.\nThe salt.\nTwo."), end_line=20, match="The salt.", match_start_line=15
    )
    lines = within(10, long_passage)
    assert [line.number for line in lines.lines] == [None]
    assert (lines.text, lines.start_line) == ("The salt.", 15)
