"""Fit an answer into a token budget.

Passages come in rank order until the budget ends: whole, as their best lines, or as a citation
alone. Rows and parts come in their order until it ends.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from thumbindex.model import Passage
from thumbindex.present.best_lines import (
    ELLIPSIS,
    ShownLines,
    all_lines,
    best_lines,
    is_complete,
    matched_lines,
    matched_part,
)
from thumbindex.text import text_digest

LEAST_TEXT = 40
"""Tokens: with less room than that for its text, a passage or a note is only named."""

_TOKEN_CHARACTERS = 6
"""Characters that a token stands for at most (`encode.embed`)."""

_COUNTED = 4_000
"""Characters of a text that are counted; the rest is estimated from them."""

Size = Callable[[str], int]
"""Counts the tokens of a text."""

Row = TypeVar("Row")


Form = Literal["text", "citation", "held"]
"""With its text, as a citation alone, or as a pointer to what the caller has."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as an answer shows it: `passage` has the text that is shown, and its lines."""

    passage: Passage
    id: str
    section: tuple[int, int]  # first and last line of the whole
    left_out: int = 0  # tokens of it that are not shown
    form: Form = "text"

    @property
    def digest(self) -> str:
        """The digest of the whole text, also if this is cut."""
        return self.id.partition(":")[0]


def fit_passages(
    passages: Sequence[Passage],
    tokens: int,
    cost: Callable[[Shown], int],
    size: Size,
    held: Collection[str] = (),
    marked: Callable[[Passage], Passage] = lambda passage: passage,
) -> tuple[Shown, ...]:
    """Return the passages that fit, best first.

    `cost` counts a passage as it is written, `size` a text. `held` are ids of passages that the
    caller has; `marked` returns a passage with the query's words, asked only if it is cut.
    """
    of = line_sizer(size)
    taken = list[tuple[Passage, Shown, int]]()  # with what is kept of the tokens for its text
    for passage in passages:
        for bare, text in _without_text(passage, held, of):
            if cost(bare) + text <= tokens:
                taken.append((passage, bare, text))
                tokens -= cost(bare) + text
                break
        else:
            break
    shown = list[Shown]()
    for passage, bare, text in taken:
        if bare.form == "text":
            tokens += text
            lines = _lines_that_fit(passage, tokens, of, marked)
            tokens -= _cost(lines, of)
            explained = replace(passage, explanation=bare.passage.explanation)
            shown.append(_shown(explained, lines, size))
        else:
            shown.append(bare)
    return tuple(shown)


def passage_id(passage: Passage, lines: tuple[int, int] | None = None, broken: bool = False) -> str:
    """Return the id of a passage's text, or of some of its lines, counted from 0: the same as long
    as the text is, wherever it stands.

    An id that is `broken` is of a text that was cut inside a line.
    """
    digest = text_digest(passage.text)
    return f"{digest}:{lines[0] + 1}-{lines[1] + 1}{'~' if broken else ''}" if lines else digest


def _without_text(passage: Passage, held: Collection[str], of: Size) -> Sequence[tuple[Shown, int]]:
    """Return the forms of a passage, the fullest first, each with the tokens to keep for its
    text.
    """
    bare, section = replace(passage, text=""), (passage.start_line, passage.end_line)
    if _holds(held, passage):
        return [(Shown(bare, passage_id(passage), section, form="held"), 0)]
    matched = matched_lines(passage)
    own = passage_id(passage, (matched[0], matched[-1]), broken=True)
    cut = Shown(bare, own, section, max(1, _about(passage.text, of)))
    text = min(LEAST_TEXT, _cost(matched_part(passage), of))
    unexplained = replace(cut, passage=replace(bare, explanation=None))
    return [(cut, text), (unexplained, text), (replace(cut, form="citation"), 0)]


def _holds(held: Collection[str], passage: Passage) -> bool:
    """Return True if a caller that has these ids has the passage's whole match."""
    match = matched_lines(passage)
    whole_or_lines = re.compile(rf"{passage_id(passage)}(?::(\d{{1,9}})-(\d{{1,9}}))?")
    for each in filter(None, map(whole_or_lines.fullmatch, held)):
        if each[1] is None or (int(each[1]) <= match.start + 1 and match.stop <= int(each[2])):
            return True
    return False


def _lines_that_fit(
    passage: Passage, room: int, of: Size, marked: Callable[[Passage], Passage]
) -> ShownLines:
    """Return a whole section, its match, or the best lines of that, the first that fits."""
    for each in (all_lines(passage), matched_part(passage)):
        # a section that is much too long is not even counted
        if len(each.text) <= _TOKEN_CHARACTERS * room and _cost(each, of) <= room:
            return each
    return best_lines(marked(passage), lambda each: _cost(each, of) <= room)


def _cost(chosen: ShownLines, of: Size) -> int:
    return sum(map(of, chosen.text.split("\n")))


def _shown(passage: Passage, chosen: ShownLines, size: Size) -> Shown:
    """Return a passage with the lines that were chosen, cited by them."""
    section, text = (passage.start_line, passage.end_line), chosen.text
    if text == passage.text:
        return Shown(passage, passage_id(passage), section)
    cut, lines = replace(passage, text=text), (chosen.first, chosen.last)
    if is_complete(passage):
        start = passage.start_line
        cut = replace(cut, start_line=start + lines[0], end_line=start + lines[1])
    left_out = max(1, _about(passage.text, size) - _about(text, size))
    return Shown(cut, passage_id(passage, lines, chosen.is_broken), section, left_out)


def _about(text: str, size: Size) -> int:
    """Return about how many tokens a text has."""
    counted = text[:_COUNTED]
    return size(counted) * len(text) // max(1, len(counted))


# ------------------------------------------------------------------ rows, parts and lines


def rows_within(rows: Sequence[Row], room: int, cost: Callable[[Row], int]) -> Sequence[Row]:
    """Return the first rows that fit."""
    for number, row in enumerate(rows):
        room -= cost(row)
        if room < 0:
            return rows[:number]
    return rows


def parts_within(parts: Mapping[str, Any], room: int, size: Size) -> dict[str, Any]:
    """Return the parts of structured content that fit, the first ones before others."""
    taken = {}
    for name, value in parts.items():
        cost = size(dump({name: value}))
        if cost <= room:
            taken[name] = value
            room -= cost
    return taken


def lines_within(text: str, room: int, of: Size) -> str:
    """Return the first lines that fit, or the beginning of a first one that is too long."""
    lines, longest = text.split("\n"), _TOKEN_CHARACTERS * room
    # a line that is much too long is not even counted
    fitting = rows_within(lines, room, lambda line: of(line) if len(line) <= longest else room + 1)
    return "\n".join(fitting) if fitting else cut_line(lines[0], room, of)


def cut_line(line: str, room: int, size: Size) -> str:
    """Return a line, or as much of it as fits with an ellipsis."""
    if len(line) <= _TOKEN_CHARACTERS * room and size(line) <= room:
        return line
    lengths = range(1, min(len(line), _TOKEN_CHARACTERS * max(room, 0)) + 1)
    fitting = bisect_right(lengths, room, key=lambda length: size(line[:length] + ELLIPSIS))
    return line[:fitting] + ELLIPSIS


def line_sizer(size: Size) -> Size:
    """Return what a line costs with its end in JSON, the larger of the two forms of an answer."""
    counted: dict[str, int] = {}

    def of(line: str) -> int:
        if line not in counted:
            counted[line] = size(dump(f"\n{line}")[1:-1])
        return counted[line]

    return of


def dump(payload: Any) -> str:
    """Return structured content as it is sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
