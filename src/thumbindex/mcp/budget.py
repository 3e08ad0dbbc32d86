"""Fit an answer into a token budget.

Passages are kept in rank order: whole, as the lines that answer, or as a citation alone. Rows are
kept in order until the budget is used up. Parts of structured content are kept by priority.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from thumbindex.model import Passage
from thumbindex.present.excerpts import (
    ELLIPSIS,
    ShownLines,
    below_headings,
    choose_lines,
    is_complete,
    share_of_room,
)
from thumbindex.text import character_start, text_digest

MIN_TEXT_TOKENS = 40
"""If the budget has fewer tokens left than this, a text is left out instead of being cut."""

_LEAST_TOKENS = 2 * MIN_TEXT_TOKENS
"""Tokens reserved for a passage's text, which is sent twice: as text and as structured content."""

_MAX_TOKEN_CHARS = 6
"""Assumed maximum characters per token."""

_CHARS_PER_TOKEN = 4

_COUNTED_CHARS = 4_000
"""The tokens of a longer text are estimated from this many characters at its beginning."""

_MAX_BACK = 100
"""Maximum characters by which a cut in a line moves back to the end of a word."""

CountTokens = Callable[[str], int]
"""Function that counts a text's tokens."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as shown in an answer. `passage` holds only the part of the text that is shown."""

    passage: Passage
    id: str  # digest of the whole text, even if the shown text is cut
    section: tuple[int, int]  # first and last line of the whole section
    left_out: int = 0  # tokens of the section that are not shown
    is_citation: bool = False  # shown without its text


def fit_passages(
    passages: Sequence[Passage],
    tokens: int,
    cost: Callable[[ShownPassage], int],
    size: CountTokens,
    is_sure: bool = False,
) -> tuple[ShownPassage, ...]:
    """Return the passages that fit into `tokens`, best first.

    If `is_sure` is True, the first passage takes as much of the room as it needs. `cost` counts the
    tokens of a formatted passage, and `size` the tokens of a text.
    """
    line_size = _sent_twice(size)
    fitting = list[tuple[Passage, ShownPassage]]()
    for passage in passages:
        for bare, reserved in _fallback_forms(passage):
            if cost(bare) + reserved <= tokens:
                fitting.append((passage, bare))
                tokens -= cost(bare) + reserved
                break
        else:
            break
    behind = sum(not bare.is_citation for _, bare in fitting)
    tokens += _LEAST_TOKENS * behind
    shown = list[ShownPassage]()
    for passage, bare in fitting:
        if bare.is_citation:
            shown.append(bare)
            continue
        behind -= 1
        share = share_of_room(tokens, behind, _LEAST_TOKENS, is_sure and not shown)
        lines = _fitting_lines(passage, share, line_size)
        tokens -= _tokens_of(lines, line_size)
        explained = replace(passage, explanation=bare.passage.explanation)
        shown.append(_shown_passage(explained, lines, size))
    return tuple(shown)


def _fallback_forms(passage: Passage) -> Sequence[tuple[ShownPassage, int]]:
    """Return the ways to show a passage, fullest first, each with tokens to reserve for text."""
    bare, section = replace(passage, text=""), (passage.start_line, passage.end_line)
    left_out = max(1, len(passage.text) // _CHARS_PER_TOKEN)
    cut = ShownPassage(bare, text_digest(passage.text), section, left_out)
    unexplained = replace(cut, passage=replace(bare, explanation=None))
    forms: list[tuple[ShownPassage, int]] = [(cut, _LEAST_TOKENS), (unexplained, _LEAST_TOKENS)]
    return [*forms, (replace(cut, is_citation=True), 0)]


def _fitting_lines(passage: Passage, room: int, line_size: CountTokens) -> ShownLines:
    """Return the lines to show in `room` tokens."""
    whole = below_headings(passage)
    # skip counting if the text is far too long
    if len(passage.text) <= _MAX_TOKEN_CHARS * room and _tokens_of(whole, line_size) <= room:
        return whole
    return choose_lines(passage, room, lambda lines: _tokens_of(lines, line_size))


def _tokens_of(chosen: ShownLines, line_size: CountTokens) -> int:
    return sum(map(line_size, chosen.text.split("\n")))


def _shown_passage(passage: Passage, chosen: ShownLines, size: CountTokens) -> ShownPassage:
    section, text = (passage.start_line, passage.end_line), chosen.text
    cut = replace(passage, text=text)
    if chosen.is_whole:
        return ShownPassage(cut, text_digest(passage.text), section)
    if is_complete(passage):
        start = passage.start_line
        cut = replace(cut, start_line=start + chosen.first, end_line=start + chosen.last)
    left_out = max(1, _estimate_tokens(passage.text, size) - _estimate_tokens(text, size))
    return ShownPassage(cut, text_digest(passage.text), section, left_out)


def _estimate_tokens(text: str, size: CountTokens) -> int:
    sample = text[:_COUNTED_CHARS]
    return size(sample) * len(text) // max(1, len(sample))


# ------------------------------------------------------------------ rows, parts and lines


def fit_rows(rows: Sequence[_Item], room: int, cost: Callable[[_Item], int]) -> Sequence[_Item]:
    """Return the leading rows that fit into `room` tokens."""
    for number, row in enumerate(rows):
        room -= cost(row)
        if room < 0:
            return rows[:number]
    return rows


def fit_parts(parts: Mapping[str, Any], room: int, size: CountTokens) -> dict[str, Any]:
    """Return the parts that fit into `room` tokens as JSON. Earlier parts have priority."""
    fitting = {}
    for name, value in parts.items():
        cost = size(compact_json({name: value}))
        if cost <= room:
            fitting[name] = value
            room -= cost
    return fitting


def fit_lines(text: str, room: int, line_size: CountTokens) -> str:
    """Return the leading lines of a text that fit into `room` tokens.

    If the next line is longer than `room` by itself, its start follows. At least one character of
    the text is returned.
    """
    lines, longest = text.split("\n"), _MAX_TOKEN_CHARS * room

    def cost(line: str) -> int:  # skip counting if a line is far too long
        return line_size(line) if len(line) <= longest else room + 1

    fitting = fit_rows(lines, room, cost)
    left = room - sum(map(cost, fitting))
    following = lines[len(fitting) :][:1]
    if not following or (fitting and (left < MIN_TEXT_TOKENS or cost(following[0]) <= room)):
        return "\n".join(fitting)
    length = _fitting_length(following[0], left, line_size)
    return "\n".join((*fitting, following[0][: _good_cut(following[0], length)]))


def fit_line(line: str, room: int, size: CountTokens) -> str:
    """Return a line, cut with an ellipsis if it does not fit."""
    if len(line) <= _MAX_TOKEN_CHARS * room and size(line) <= room:
        return line
    return line[: _fitting_length(line, room, lambda start: size(start + ELLIPSIS))] + ELLIPSIS


def _fitting_length(line: str, room: int, size: CountTokens) -> int:
    """Return the length of the longest start of a line that fits into `room` tokens."""
    lengths = range(1, min(len(line), _MAX_TOKEN_CHARS * max(room, 0)) + 1)
    return bisect_right(lengths, room, key=lambda length: size(line[:length]))


def _good_cut(line: str, length: int) -> int:
    """Return a place to cut, close before `length`: behind a space, or before a whole character."""
    behind_space = line.rfind(" ", max(1, length - _MAX_BACK), length) + 1
    return behind_space or max(1, character_start(line, 0, length))


def line_counter(size: CountTokens) -> CountTokens:
    """Return a function that counts the tokens of a line in JSON, including its line break.

    The counts are cached.
    """
    return cache(lambda line: size(compact_json(f"\n{line}")[1:-1]))


def _sent_twice(size: CountTokens) -> CountTokens:
    """Return a function that counts the tokens of a line in text and in JSON together."""
    in_json = line_counter(size)
    return cache(lambda line: size(line) + in_json(line))


def compact_json(payload: Any) -> str:
    """Return structured content as it is sent: JSON without spaces."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
