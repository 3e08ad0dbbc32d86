"""Lay out an answer as rows of text, for the command `query` and for `print(answer)` in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from thumbindex.model import Answer, Passage, Place
from thumbindex.present.excerpts import Line, ShownLines, choose_all, from_answer
from thumbindex.present.sentences import (
    NO_MARKDOWN,
    ModelState,
    answer_footer,
    confidence_sentence,
    copy_lines,
    disagreement_lines,
    filter_lines,
    freshness_sentence,
    missing_model_sentence,
    missing_vectors_sentence,
    passage_flag_lines,
    retired_line,
    weaker_lines,
)
from thumbindex.text import printable_line, strip_controls, wrap_words

MARK, SURE, DOUBT, WARNING = "bold red", "bold green", "bold red", "red"
"""Colors of matches, high and low confidence, and warnings: readable on any background."""

PIPED_WIDTH = 80
"""Columns of text in a pipe."""

MAX_ROWS = 45
"""Maximum rows of an answer with up to five passages, so that it fits on the screen."""

INDENT = "   "

_ROWS_AROUND, _LEAD_ROWS = 6, 3
"""Rows around all passages, and around the text of each passage."""

_LEAST_ROWS = 3
"""Rows of text that each passage may have."""

_ITEM_START = re.compile(r"[ >]*(?:(?:[-*+]|\d{1,9}[.)]) )?")
# a row may break between two of these; Korean has spaces
_WIDE = "\u2e80-\uabff\uf900-\uffef\U0001f000-\U0003ffff"
_WORD = re.compile(rf"(?:[{_WIDE}]|[^\s{_WIDE}]+)\s*")


@dataclass(frozen=True, slots=True)
class Page:
    """The size of the output, and a function that returns `path:line` in at most some columns."""

    is_terminal: bool
    width: int
    rows: int
    location: Callable[[Place, int | None], Text]

    def place_name(self, place: Place) -> str:
        """Return `path:line`."""
        return self.location(place, None).plain


def answer_text(answer: Answer) -> str:
    """Return an answer as `query` prints it in a pipe, with paths from the folder."""

    def location(place: Place, room: int | None) -> Text:
        folder = f"{place.folder}: " if answer.folders > 1 else ""
        return Text(printable_line(f"{folder}{place.path}:{place.start_line}"))

    page = Page(False, PIPED_WIDTH, MAX_ROWS, location)
    rows = header_rows(answer)
    for _, passage_rows in rows_by_passage(answer, page):
        rows += passage_rows
    rows += footer_rows(answer, indexing="library.index()")
    return "\n".join(row.plain for row in rows)


def header_rows(answer: Answer, narrowed: Sequence[str] = ()) -> list[Text]:
    """Return the rows above the passages: the confidence, and the filters."""
    rows = list[Text]()
    if answer.corrected:
        rows.append(_row(f"Searched for: {answer.corrected} (as typed: --verbatim)", "italic"))
    sure = confidence_sentence(answer, narrowed, answer.folders > 1)
    rows.append(_row(sure, SURE if answer.confidence_level == "high" else DOUBT))
    style = WARNING if answer.unmet or answer.undated else ""
    rows += [
        _row(text, style) for text in filter_lines(answer.filters, answer.unmet, answer.undated)
    ]
    if not answer.index.documents:
        rows.append(_row(NO_MARKDOWN, WARNING))
    return [*rows, Text()]


def footer_rows(
    answer: Answer, model: ModelState = "loaded", is_detailed: bool = False, *, indexing: str
) -> list[Text]:
    """Return what the answer may lack, and if `is_detailed`, how much was searched.

    `indexing` is the command that computes missing vectors, empty if a server does.
    """
    rows = [_row(text, "dim") for text in weaker_lines(answer, "--limit")]
    if is_detailed and answer.found and answer.confidence_level == "low":
        rows.append(
            _row(
                "Scores only compare the passages of this answer. The confidence rates the answer."
            )
        )
    if lacking := freshness_sentence(answer.freshness):
        rows.append(_row(lacking, WARNING))
    if is_detailed or answer.freshness or missing_model_sentence(answer, model):
        rows.append(_row(answer_footer(answer, model=model), "dim"))
    # with estimated vectors, only a doubtful answer is likely to change
    is_settled = answer.index.is_refining and answer.confidence_level != "low" and not is_detailed
    if not is_settled and (lacking := missing_vectors_sentence(answer.index, indexing)):
        rows.append(_row(lacking, "dim" if answer.index.is_refining else WARNING))
    return rows


def _row(text: str, style: str = "") -> Text:
    return Text(printable_line(text), style=style)


# ------------------------------------------------------------------ passages


def rows_by_passage(answer: Answer, page: Page) -> Iterator[tuple[Passage, list[Text]]]:
    """Yield each passage with its rows, best first: the lines that answer fit on the page."""
    count, width = len(answer.passages), page.width - len(INDENT)
    room = page.rows - _ROWS_AROUND - _LEAD_ROWS * count
    least = max(1, min(_LEAST_ROWS, room // max(1, count)))

    def size(shown: ShownLines) -> int:
        rows = _wrapped_rows(shown, width)
        return sum(max(1, math.ceil(row.cell_len / width)) for row in rows)

    for at, shown in enumerate(choose_all(answer, room, least, size), 1):
        above, below = _surrounding_rows(shown, page)
        text = [Text(INDENT) + row for row in _wrapped_rows(shown, width)]
        gap = [Text()] if least > 1 or at == count else []
        yield shown.passage, [*above, *text, *below, *gap]


def _surrounding_rows(shown: ShownLines, page: Page) -> tuple[Sequence[Text], Sequence[Text]]:
    """Return the rows above a passage's text (headings, location, day) and below it (copies,
    warnings).
    """
    passage = shown.passage
    day = passage.updated or passage.created
    warnings = [*passage_flag_lines(passage)[:1], *disagreement_lines(passage)]
    warnings += filter(None, [retired_line(passage)])
    room = page.width - len(INDENT)
    copies = copy_lines(
        passage, page.place_name, lambda line: cell_len(printable_line(line)) <= room
    )
    below = list(map(_row, copies))
    for warning in map(printable_line, warnings):
        wrapped = wrap_words(warning, room) if page.is_terminal else warning
        below += [Text(row, WARNING) for row in wrapped.split("\n")]
    above = location_rows(from_answer(shown), page, f"({day})" if day else "")
    return above, [Text(INDENT) + row for row in below]


def location_rows(shown: ShownLines, page: Page, more: str) -> tuple[Text, ...]:
    """Return the headings above the first line, and below them its location and `more`.

    If the headings are too long for a row, only the last one is kept.
    """
    passage, line = shown.passage, shown.start_line
    names = [printable_line(name) for name in shown.heading_path[1:] if name]
    names = names or [printable_line(passage.title)]
    room = page.width - len(INDENT)
    headings = " > ".join(names)
    heading = Text(headings if cell_len(headings) <= room else names[-1], "bold")
    heading.truncate(room, overflow="ellipsis")
    more = f"  {more}" if more else ""
    place = Place(passage.folder, passage.path, line, line)
    location = page.location(place, room - cell_len(more))
    return Text(f"{passage.rank}. ") + heading, Text.assemble(INDENT, location, more, style="dim")


def _wrapped_rows(shown: ShownLines, width: int) -> list[Text]:
    """Wrap lines into rows. The lines of a paragraph are joined if they are long.

    Lines of code and long words stay whole, so that they can be copied.
    """
    blocks, goes_on = list[tuple[Text, bool]](), False
    for line in shown.lines:
        text = line_text(line)
        if line.is_decoration or not text.plain.strip():
            continue
        if goes_on:
            above, _ = blocks.pop()
            text = above + Text(" ") + text[len(text.plain) - len(text.plain.lstrip()) :]
        blocks.append((text, line.is_code))
        goes_on = line.goes_on
    rows = list[Text]()
    for text, is_code in blocks:
        rows += [Text(INDENT) + text] if is_code else wrap_line(text, width)
    return rows


def wrap_line(text: Text, width: int) -> list[Text]:
    """Wrap a line between words. The rows of an item begin below its text."""
    match = _ITEM_START.match(text.plain)
    start = min(match.end() if match else 0, width // 2)
    cuts, column = list[int](), start
    for word in _WORD.finditer(text.plain, start):
        if column > start and column + cell_len(word[0].rstrip()) > width:
            cuts.append(word.start())
            column = start
        column += cell_len(word[0])
    rows = text.divide(cuts)
    for row in rows:
        row.rstrip()
    return [rows[0], *(Text(" " * start) + row for row in rows[1:])]


def line_text(line: Line) -> Text:
    """Return a line with the query's words marked, without control characters."""
    text = Text(tab_size=1)
    for piece, is_mark in line.pieces:
        text.append(strip_controls(piece), style=MARK if is_mark else "")
    text.expand_tabs(4)
    return text
