"""Fit passages into a token budget: the best lines of each first, then whole matches, then as many
lines around them as there is room for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thumbindex.model import Passage
from thumbindex.serve.best_lines import (
    ShownLines,
    best_lines,
    is_complete,
    lines_between,
    matched_lines,
)
from thumbindex.text import text_digest

LEAST_TOKENS = 50
"""Of each match, as far as it has so many, before a better one is shown whole: fewer say too
little, where there is room for more.
"""

MOST_TOKEN_CHARACTERS = 6
"""A token stands for no more of them (`encode.embed`), so that of a text without line ends no more
than this is ever looked at.
"""

_COUNTED = 4_000
"""Characters of a section that are counted to say what the rest of it costs: beyond that it is
estimated.
"""

Size = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as an answer shows it: whole, cut to some lines of its text, or as a pointer to
    what the caller holds.
    """

    passage: Passage
    id: str
    section: tuple[int, int]  # first and last line of the whole
    left_out: int = 0  # tokens of it that are not shown
    is_held: bool = False

    @property
    def digest(self) -> str:
        """The digest of the whole text, also where this is cut."""
        return self.id.partition(":")[0]

    @property
    def is_cut(self) -> bool:
        """Tell whether lines of the section are not shown."""
        return self.left_out > 0


Form = tuple[Callable[[Shown], str], Callable[[Shown], dict[str, Any]]]
"""How a passage is written as text, and as structured content."""


Marks = Callable[[Passage], Sequence[tuple[int, int]]]
"""Tells where the query's words stand in a passage's text, in characters; asked only where a match
does not fit.
"""


def own_marks(passage: Passage) -> Sequence[tuple[int, int]]:
    """Return the marks that a passage has."""
    return passage.marks


@dataclass(frozen=True, slots=True)
class Room:
    """Which passages come within a budget, the first of each document before others, and what there
    is for their texts.
    """

    tokens: int
    needs: Mapping[int, int]  # by rank, what is kept of the match of each
    of: Size  # what a line costs (`line_sizer`)


def room_for(
    passages: Sequence[Passage],
    tokens: int,
    form: Form,
    size: Size,
    held: Collection[str] = (),
    least: int = LEAST_TOKENS,
) -> Room:
    """Return which passages come where there are `least` tokens of each match at least, and of
    shorter ones all.
    """
    (as_text, as_payload), of = form, line_sizer(size)
    first: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        first.setdefault((passage.folder, passage.path), passage)
    needs: dict[int, int] = {}
    for passage in sorted(passages, key=lambda each: first[each.folder, each.path] is not each):
        bare = _without_text(passage, _holds(held, passage))
        need = 0 if bare.is_held else min(least, _match_size(passage, of))
        # With what stands between two passages; in the larger of its two forms, like the lines of
        # the text.
        cost = 1 + max(size(as_text(bare)), size(dump(as_payload(bare))))
        if cost + need > tokens - sum(needs.values()):
            break
        tokens, needs[passage.rank] = tokens - cost, need
    return Room(tokens, needs, of)


def fit_passages(
    passages: Sequence[Passage],
    found: Room,
    size: Size,
    held: Collection[str] = (),
    marks: Marks = own_marks,
) -> tuple[Shown, ...]:
    """Return the passages for which there is room, best first, each with what fits of its text;
    `size` counts a text's tokens.

    Matches are shown whole as far as there is room, the best first; of the others the lines with
    the query's words. What room is left goes to the lines around the matches, best first. A text is
    counted by its lines: where a token goes over the end of one, the whole may come out a little
    larger.
    """
    of, room, kept = found.of, found.tokens, sum(found.needs.values())
    chosen: dict[int, Shown] = {}
    by_rank = {passage.rank: passage for passage in passages}
    for rank, need in found.needs.items():
        passage, kept = by_rank[rank], kept - need
        own = min(room - kept, _match_size(passage, of))
        chosen[rank] = (
            _without_text(passage, is_held=True)
            if _holds(held, passage)
            else _cut(passage, own, of, size, marks)
        )
        room -= _text_size(chosen[rank], of)
    for passage in passages:
        narrow = chosen.get(passage.rank)
        if narrow is not None and narrow.is_cut and room > 0:
            room += _text_size(narrow, of)
            chosen[passage.rank] = wide = _cut(passage, room, of, size, marks)
            room -= _text_size(wide, of)
    return tuple(chosen[passage.rank] for passage in passages if passage.rank in chosen)


def passage_id(
    passage: Passage, first: int = 0, last: int | None = None, broken: bool = False
) -> str:
    """Return the id of a passage's text, or of some lines of it, counted from 0: equal as long as
    the text is, wherever it stands.

    What was cut inside a line is marked as `broken`: who holds that holds no whole match.
    """
    digest = text_digest(passage.text)
    return digest if last is None else f"{digest}:{first + 1}-{last + 1}{'~' if broken else ''}"


def _holds(held: Collection[str], passage: Passage) -> bool:
    """Tell whether a caller that holds these ids has the passage's whole match."""
    own, match = passage_id(passage), matched_lines(passage)
    for digest, _, lines in (each.partition(":") for each in held):
        first, _, last = lines.partition("-")
        if digest != own:
            continue
        if not lines or (
            first.isdecimal()
            and last.isdecimal()
            and int(first) <= match.start + 1
            and match.stop <= int(last)
        ):
            return True
    return False


def _without_text(passage: Passage, is_held: bool) -> Shown:
    """Return a pointer to what the caller holds; else what stands beside the text of a passage that
    is cut.
    """
    bare, section = replace(passage, text=""), (passage.start_line, passage.end_line)
    if is_held:
        return Shown(bare, passage_id(passage), section, is_held=True)
    last = passage.text.count("\n")
    return Shown(bare, passage_id(passage, last, last), section, 1 + len(passage.text))


def _text_size(shown: Shown, of: Size) -> int:
    return sum(map(of, shown.passage.text.split("\n"))) if shown.passage.text else 0


def _match_size(passage: Passage, of: Size) -> int:
    lines, matched = passage.text.split("\n"), matched_lines(passage)
    return sum(map(of, lines[matched.start : matched.stop]))


def _cut(passage: Passage, room: int, of: Size, size: Size, marks: Marks) -> Shown:
    """Return the match and the lines around it that fit; where it does not fit itself, its best
    lines.
    """
    if _match_size(passage, of) > room:
        marked = replace(passage, marks=tuple(marks(passage)))
        best = best_lines(marked, lambda each: sum(map(of, each.text.split("\n"))) <= room)
        return _shown(passage, best, size)
    lines, matched = passage.text.split("\n"), matched_lines(passage)
    first, last = matched.start, matched.stop - 1
    room -= _match_size(passage, of)
    before = None
    while before != (first, last):  # below and above by turns
        before = (first, last)
        if last + 1 < len(lines) and (cost := of(lines[last + 1])) <= room:
            last, room = last + 1, room - cost
        if first > 0 and (cost := of(lines[first - 1])) <= room:
            first, room = first - 1, room - cost
    return _shown(passage, lines_between(passage, first, last), size)


def _shown(passage: Passage, lines: ShownLines, size: Size) -> Shown:
    """Return a passage with the lines that are shown, and what the others would cost."""
    section = (passage.start_line, passage.end_line)
    if len(lines.text) == len(passage.text):
        return Shown(passage, passage_id(passage), section)

    def estimated(text: str) -> int:
        if len(text) <= _COUNTED:
            return size(text)
        return size(text[:_COUNTED]) * len(text) // _COUNTED

    left_out = max(1, estimated(passage.text) - estimated(lines.text))
    first, last = lines.first, lines.last
    cut = replace(passage, text=lines.text)
    if is_complete(passage):
        start = passage.start_line
        cut = replace(cut, start_line=start + first, end_line=start + last)
    own = passage_id(passage, first, last, broken=lines.is_broken)
    return Shown(cut, own, section, left_out)


def beginning_within(text: str, room: int, size: Size) -> str:
    """Return as much of a text's beginning as fits."""
    low, high = 0, min(len(text), MOST_TOKEN_CHARACTERS * max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def line_sizer(size: Size) -> Size:
    """Return what a line costs with its end, in JSON, the larger of its two forms: quotes and line
    ends grow there.
    """
    counted: dict[str, int] = {}

    def of(line: str) -> int:
        if line not in counted:
            counted[line] = size(dump(f"\n{line}")[1:-1])
        return counted[line]

    return of


def dump(payload: Any) -> str:
    """Return structured content as it is sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
