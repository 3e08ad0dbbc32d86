"""Fit passages into a token budget: whole ones first, the last one cut to the lines around its match."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from thumbindex.model import Passage

CHARACTERS_A_TOKEN = 4
"""The usual estimate for English text; a budget is a wish, not a contract with one model's tokenizer."""

_WORTH_SHOWING = 200
"""Characters below which a cut passage says too little to stand in an answer, unless it is the first."""

_ELLIPSIS = "…"


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
        # Quotes and line ends grow in JSON: what counts is the larger of the two forms.
        shown = cut_passage(passage, left, lambda text: max(len(text), len(_dump(text)) - 2))
        if kept and (left < _WORTH_SHOWING or (shown is not passage and len(shown.text) < _WORTH_SHOWING)):
            break
        kept.append(shown)
        if shown is not passage:
            break
        text_used += len(as_text(shown))
        json_used += len(_dump(as_payload(shown)))
    return tuple(kept)


def cut_passage(passage: Passage, room: int, size: Callable[[str], int] = len) -> Passage:
    """Return the passage with as many whole lines around its match as fit into `room` characters; itself where all of it fits."""
    if size(passage.text) <= room:
        return passage
    lines = passage.text.splitlines()
    # A passage with comments left out has fewer lines than its range: then the match is looked for at the same distance from its start.
    first = min(max(0, passage.match_start - passage.start_line), len(lines) - 1)
    last = min(max(first, passage.match_end - passage.start_line), len(lines) - 1)
    first, last = _widen(lines, first, last, lambda a, b: size("\n".join(lines[a : b + 1])) <= room)
    text = "\n".join(lines[first : last + 1])
    if size(text) > room >= _WORTH_SHOWING:
        text = text[: room - len(_ELLIPSIS)] + _ELLIPSIS
    return replace(passage, text=text, start_line=passage.start_line + first, end_line=passage.start_line + last)


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


def _dump(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False)
