"""Fit passages into a token budget: whole ones first, the last one cut to the lines around its match."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from thumbindex.model import Passage

CHARACTERS_A_TOKEN = 4
"""The usual estimate for English text; a budget is a wish, not a contract with one model's tokenizer."""

_WORTH_SHOWING = 200
"""Characters below which a cut passage says too little to stand in an answer, unless it is the first."""

_ELLIPSIS = "…"

_HEADER_LINES = 2
"""Lines of a table's header, which chunks of its later rows repeat."""


def fit_passages(
    passages: Sequence[Passage],
    tokens: int,
    as_text: Callable[[Passage], str],
    as_payload: Callable[[Passage], dict[str, Any]],
    taken: tuple[int, int] = (0, 0),
) -> tuple[Passage, ...]:
    """Return the passages, best first, whose text and whose JSON each stay within the budget; `taken` is what each holds already.

    The first passage's match is always shown, even where that breaks the budget.
    """
    room = tokens * CHARACTERS_A_TOKEN
    text_used, json_used = taken
    kept: list[Passage] = []
    for passage in passages:
        left = min(room - text_used - _cost_beside(passage, as_text), room - json_used - _cost_beside(passage, lambda each: _dump(as_payload(each))))
        shown = cut_passage(passage, left, _size)
        if kept and (left < _WORTH_SHOWING or (shown is not passage and (len(shown.text) < _WORTH_SHOWING or _size(shown.text) > left))):
            break
        kept.append(shown)
        if shown is not passage:
            break
        text_used += len(as_text(shown))
        json_used += len(_dump(as_payload(shown)))
    return tuple(kept)


def cut_passage(passage: Passage, room: int, size: Callable[[str], int] = len) -> Passage:
    """Return the passage with as many whole lines around its match as fit into `room` characters; itself where all of it fits.

    Of lines that are too long for that, the match is shown, even where it alone does not fit.
    """
    if size(passage.text) <= room:
        return passage
    lines = passage.text.split("\n")
    first, last = match_lines(passage) or (0, 0)
    first, last = _widen(lines, first, last, lambda a, b: size("\n".join(lines[a : b + 1])) <= room)
    text = "\n".join(lines[first : last + 1])
    if size(text) > max(room, _WORTH_SHOWING):
        text = _cut_inside(text, _match_within(passage), max(room, _WORTH_SHOWING))
    if _lines_left_out(passage):
        return replace(passage, text=text)  # which of the section's lines these are cannot be told
    return replace(passage, text=text, start_line=passage.start_line + first, end_line=passage.start_line + last)


def match_lines(passage: Passage) -> tuple[int, int] | None:
    """Return which lines of a passage's text matched, from 0, the last one included; None where that cannot be told."""
    above = passage.match_start - passage.start_line
    left_out = _lines_left_out(passage)
    if not left_out:
        return above, passage.match_end - passage.start_line
    # Comments were left out above, inside or below: the match stands as far up as all of those lines at most.
    match = _match_within(passage)
    low, high = sorted((above - left_out, above))
    for found in re.finditer(re.escape(match), passage.text) if match else ():
        first = passage.text.count("\n", 0, found.start())
        if low <= first <= high:
            return first, first + match.count("\n")
    return None


def _lines_left_out(passage: Passage) -> int:
    return passage.end_line - passage.start_line - passage.text.count("\n")


def _match_within(passage: Passage) -> str:
    """Return the part of the matching chunk's text that stands in the passage as it is: a repeated table header does not."""
    rows = passage.match.split("\n", _HEADER_LINES)[-1]
    return next((each for each in (passage.match, rows) if each in passage.text), "")


def _cut_inside(text: str, match: str, room: int) -> str:
    """Cut overlong lines down to the match and what follows it."""
    room -= 2 * len(_ELLIPSIS)
    at = max(0, text.find(match))
    begin = max(0, min(at, len(text) - room))
    end = max(at + len(match), begin + room)
    return f"{_ELLIPSIS if begin else ''}{text[begin:end]}{_ELLIPSIS if end < len(text) else ''}"


def _widen(lines: Sequence[str], first: int, last: int, fits: Callable[[int, int], bool]) -> tuple[int, int]:
    """Take in lines below and above by turns while they fit."""
    before = None
    while before != (first, last):
        before = (first, last)
        if last + 1 < len(lines) and fits(first, last + 1):
            last += 1
        if first > 0 and fits(first - 1, last):
            first -= 1
    return first, last


def _cost_beside(passage: Passage, write: Callable[[Passage], str]) -> int:
    return len(write(replace(passage, text="")))


def _size(text: str) -> int:
    """Count characters in the larger of the two forms: quotes and line ends grow in JSON."""
    return max(len(text), len(_dump(text)) - 2)


def _dump(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False)
