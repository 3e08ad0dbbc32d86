"""Fit an answer into a token budget.

Passages come in rank order: whole, as their best lines, or as a citation alone. Rows and parts come
in their order.
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

MIN_TEXT_TOKENS = 40
"""Minimum tokens for the text of a passage or a note; with fewer, only its citation is shown."""

_MAX_TOKEN_CHARS = 6
"""Maximum characters of a token (`encode.embed`)."""

_COUNTED_CHARS = 4_000
"""Characters of a text whose tokens are counted; the rest is estimated."""

CountTokens = Callable[[str], int]
"""Counts the tokens of a text."""

_Item = TypeVar("_Item")


_ShownForm = Literal["text", "citation", "seen"]
"""With its text, as a citation alone, or as the id of a passage that the caller has."""


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as an answer shows it: `passage` has the shown text and its lines."""

    passage: Passage
    id: str
    section: tuple[int, int]  # first and last line of the whole
    left_out: int = 0  # tokens of it that are not shown
    form: _ShownForm = "text"

    @property
    def digest(self) -> str:
        """The digest of the whole text, also if it is cut."""
        return self.id.partition(":")[0]


def fit_passages(
    passages: Sequence[Passage],
    tokens: int,
    cost: Callable[[ShownPassage], int],
    size: CountTokens,
    seen: Collection[str] = (),
    marked: Callable[[Passage], Passage] = lambda passage: passage,
) -> tuple[ShownPassage, ...]:
    """Return the passages that fit, best first.

    `cost` counts a passage as it is written, `size` a text. `seen` are ids of passages that the
    caller has; `marked` returns a passage with the query's words, called only if it is cut.
    """
    of = line_counter(size)
    taken = list[
        tuple[Passage, ShownPassage, int]
    ]()  # with what is kept of the tokens for its text
    for passage in passages:
        for bare, text in _fallback_forms(passage, seen, of):
            if cost(bare) + text <= tokens:
                taken.append((passage, bare, text))
                tokens -= cost(bare) + text
                break
        else:
            break
    shown = list[ShownPassage]()
    for passage, bare, text in taken:
        if bare.form == "text":
            tokens += text
            lines = _fitting_lines(passage, tokens, of, marked)
            tokens -= _tokens_of(lines, of)
            explained = replace(passage, explanation=bare.passage.explanation)
            shown.append(_shown_passage(explained, lines, size))
        else:
            shown.append(bare)
    return tuple(shown)


def passage_id(passage: Passage, lines: tuple[int, int] | None = None, broken: bool = False) -> str:
    """Return the id of a passage's text, or of some of its lines, counted from 0.

    The id depends on the text alone. It is `broken` if the text was cut inside a line.
    """
    digest = text_digest(passage.text)
    return f"{digest}:{lines[0] + 1}-{lines[1] + 1}{'~' if broken else ''}" if lines else digest


def _fallback_forms(
    passage: Passage, seen: Collection[str], of: CountTokens
) -> Sequence[tuple[ShownPassage, int]]:
    """Return the forms of a passage, the fullest first, with the tokens to reserve for its text."""
    bare, section = replace(passage, text=""), (passage.start_line, passage.end_line)
    if _has_seen(seen, passage):
        return [(ShownPassage(bare, passage_id(passage), section, form="seen"), 0)]
    matched = matched_lines(passage)
    own = passage_id(passage, (matched[0], matched[-1]), broken=True)
    cut = ShownPassage(bare, own, section, max(1, _estimate_tokens(passage.text, of)))
    text = min(MIN_TEXT_TOKENS, _tokens_of(matched_part(passage), of))
    unexplained = replace(cut, passage=replace(bare, explanation=None))
    return [(cut, text), (unexplained, text), (replace(cut, form="citation"), 0)]


def _has_seen(seen: Collection[str], passage: Passage) -> bool:
    """Return whether the ids that a caller has cover the passage's whole match."""
    match = matched_lines(passage)
    whole_or_lines = re.compile(rf"{passage_id(passage)}(?::(\d{{1,9}})-(\d{{1,9}}))?")
    for each in filter(None, map(whole_or_lines.fullmatch, seen)):
        if each[1] is None or (int(each[1]) <= match.start + 1 and match.stop <= int(each[2])):
            return True
    return False


def _fitting_lines(
    passage: Passage, room: int, of: CountTokens, marked: Callable[[Passage], Passage]
) -> ShownLines:
    """Return the first that fits: a whole section, its match, or the best lines of its match."""
    for each in (all_lines(passage), matched_part(passage)):
        # a section that is much too long is not even counted
        if len(each.text) <= _MAX_TOKEN_CHARS * room and _tokens_of(each, of) <= room:
            return each
    return best_lines(marked(passage), lambda each: _tokens_of(each, of) <= room)


def _tokens_of(chosen: ShownLines, of: CountTokens) -> int:
    return sum(map(of, chosen.text.split("\n")))


def _shown_passage(passage: Passage, chosen: ShownLines, size: CountTokens) -> ShownPassage:
    """Return a passage cut to the chosen lines, with their citation."""
    section, text = (passage.start_line, passage.end_line), chosen.text
    if text == passage.text:
        return ShownPassage(passage, passage_id(passage), section)
    cut, lines = replace(passage, text=text), (chosen.first, chosen.last)
    if is_complete(passage):
        start = passage.start_line
        cut = replace(cut, start_line=start + lines[0], end_line=start + lines[1])
    left_out = max(1, _estimate_tokens(passage.text, size) - _estimate_tokens(text, size))
    return ShownPassage(cut, passage_id(passage, lines, chosen.is_broken), section, left_out)


def _estimate_tokens(text: str, size: CountTokens) -> int:
    """Return about how many tokens a text has."""
    counted = text[:_COUNTED_CHARS]
    return size(counted) * len(text) // max(1, len(counted))


# ------------------------------------------------------------------ rows, parts and lines


def fit_rows(rows: Sequence[_Item], room: int, cost: Callable[[_Item], int]) -> Sequence[_Item]:
    """Return the first rows that fit."""
    for number, row in enumerate(rows):
        room -= cost(row)
        if room < 0:
            return rows[:number]
    return rows


def fit_parts(parts: Mapping[str, Any], room: int, size: CountTokens) -> dict[str, Any]:
    """Return the parts of structured content that fit, the first ones before others."""
    taken = {}
    for name, value in parts.items():
        cost = size(compact_json({name: value}))
        if cost <= room:
            taken[name] = value
            room -= cost
    return taken


def fit_lines(text: str, room: int, of: CountTokens) -> str:
    """Return the first lines that fit, or the beginning of a first one that is too long."""
    lines, longest = text.split("\n"), _MAX_TOKEN_CHARS * room
    # a line that is much too long is not even counted
    fitting = fit_rows(lines, room, lambda line: of(line) if len(line) <= longest else room + 1)
    return "\n".join(fitting) if fitting else fit_line(lines[0], room, of)


def fit_line(line: str, room: int, size: CountTokens) -> str:
    """Return a line, or as much of it as fits with an ellipsis."""
    if len(line) <= _MAX_TOKEN_CHARS * room and size(line) <= room:
        return line
    lengths = range(1, min(len(line), _MAX_TOKEN_CHARS * max(room, 0)) + 1)
    fitting = bisect_right(lengths, room, key=lambda length: size(line[:length] + ELLIPSIS))
    return line[:fitting] + ELLIPSIS


def line_counter(size: CountTokens) -> CountTokens:
    """Return a function that counts a line and its end in JSON, and remembers the count."""
    counted: dict[str, int] = {}

    def of(line: str) -> int:
        if line not in counted:
            counted[line] = size(compact_json(f"\n{line}")[1:-1])
        return counted[line]

    return of


def compact_json(payload: Any) -> str:
    """Return structured content as it is sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
