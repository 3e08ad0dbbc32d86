"""Fit passages into a token budget: the best lines of each first, then whole matches, then as many
lines around them as there is room for.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thumbindex.model import Passage
from thumbindex.text import text_digest

LEAST_TOKENS = 50
"""Of each match, as far as it has so many, before a better one is shown whole: fewer say too
little, where there is room for more.
"""

_LEAD = 80
"""Characters before the query's first word of a line that is cut, in which the beginning of a
sentence is looked for.
"""

MOST_TOKEN_CHARACTERS = 6
"""A token stands for no more of them (`encode.embed`), so that of a text without line ends no more
than this is ever looked at.
"""

_ELLIPSIS = "…"

_SENTENCE_END = re.compile(r"[.!?;:|]\s+")

_MARKS_TRIED = 20
"""Of the words in a line that is cut, those from whose sentences it may begin."""

_HEADER_LINES = 2
"""Lines of a table's header, which chunks of its later rows repeat."""

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


def match_lines(passage: Passage) -> tuple[int, int] | None:
    """Return which lines of a passage's text matched, from 0, the last one included; None where
    that cannot be told.
    """
    above = passage.match_start - passage.start_line
    left_out = _lines_left_out(passage)
    if not left_out:
        return above, passage.match_end - passage.start_line
    # Comments were left out above, inside or below: the match stands as far up as all of those
    # lines at most.
    match = _match_within(passage)
    low, high = sorted((above - left_out, above))
    for found in re.finditer(re.escape(match), passage.text) if match else ():
        first = passage.text.count("\n", 0, found.start())
        if low <= first <= high:
            return first, first + match.count("\n")
    return None


def _holds(held: Collection[str], passage: Passage) -> bool:
    """Tell whether a caller that holds these ids has the passage's whole match."""
    own, match = passage_id(passage), match_lines(passage)
    for digest, _, lines in (each.partition(":") for each in held):
        first, _, last = lines.partition("-")
        if digest != own:
            continue
        if not lines or (
            match
            and first.isdecimal()
            and last.isdecimal()
            and int(first) <= match[0] + 1
            and match[1] + 1 <= int(last)
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
    lines, matched = passage.text.split("\n"), matched_lines(passage)
    first, last = matched.start, matched.stop - 1
    if _match_size(passage, of) > room:
        return _best_lines(passage, room, of, size, marks)
    room -= _match_size(passage, of)
    before = None
    while before != (first, last):  # below and above by turns
        before = (first, last)
        if last + 1 < len(lines) and (cost := of(lines[last + 1])) <= room:
            last, room = last + 1, room - cost
        if first > 0 and (cost := of(lines[first - 1])) <= room:
            first, room = first - 1, room - cost
    if (first, last) == (0, len(lines) - 1):
        return Shown(passage, passage_id(passage), (passage.start_line, passage.end_line))
    return _placed(
        passage,
        "\n".join(lines[first : last + 1]),
        first,
        last,
        passage_id(passage, first, last),
        size,
    )


def _best_lines(passage: Passage, room: int, of: Size, size: Size, marks: Marks) -> Shown:
    """Return those lines of a match around its best one that hold the most of the query's words; of
    that one alone a part where it is too long.
    """
    passage = replace(passage, marks=tuple(marks(passage)))
    lines, matched, words = passage.text.split("\n"), matched_lines(passage), words_by_line(passage)
    best = best_line(lines, matched, words)
    if of(lines[best]) > room:
        text = _cut_inside(passage, best, room, of)
        own = passage_id(passage, best, best, broken=True)
        return _placed(passage, text, best, best, own, size)
    windows = []
    for first in range(best, matched.start - 1, -1):
        left = room - sum(map(of, lines[first : best + 1]))
        if left < 0:
            break
        last = best
        while last + 1 < matched.stop and (cost := of(lines[last + 1])) <= left:
            last, left = last + 1, left - cost
        windows.append((first, last))
    first, last = max(
        windows, key=lambda each: len(frozenset[str]().union(*words[each[0] : each[1] + 1]))
    )
    while last > best and not lines[last].strip():
        last -= 1
    while first < best and not lines[first].strip():
        first += 1
    return _placed(
        passage,
        "\n".join(lines[first : last + 1]),
        first,
        last,
        passage_id(passage, first, last),
        size,
    )


# ------------------------------------------------------------------ which lines say most

_IDLE = re.compile(r"[\s|:\-=*_>]*|\s*(?:`{3}|~{3}).*")
"""A line that says nothing: an empty one, a rule, the fence of a block."""


def is_idle(line: str) -> bool:
    """Tell whether a line says nothing."""
    return _IDLE.fullmatch(line) is not None


def matched_lines(passage: Passage) -> range:
    """Return which of a passage's lines matched, from 0, all of them where that cannot be told."""
    last = passage.text.count("\n")
    start, stop = match_lines(passage) or (0, last)
    return range(max(0, min(start, last)), max(0, min(stop, last)) + 1)


def words_by_line(passage: Passage) -> list[frozenset[str]]:
    """Return which of the query's words stand in each line of a passage, as its marks say."""
    ends = [match.start() for match in re.finditer("\n", passage.text)]
    found: list[set[str]] = [set() for _ in range(len(ends) + 1)]
    for start, end in passage.marks:
        found[bisect_left(ends, start)].add(passage.text[start:end].casefold())
    return list(map(frozenset, found))


def best_line(lines: Sequence[str], matched: range, words: Sequence[frozenset[str]]) -> int:
    """Return the line with the most of the query's words, of those that matched; the first of them
    where none has any.
    """
    return max(
        (n for n in matched if not is_idle(lines[n])),
        key=lambda n: len(words[n]),
        default=matched.start,
    )


def _placed(passage: Passage, text: str, first: int, last: int, own: str, size: Size) -> Shown:
    """Return some lines of a passage, with what the others would cost."""

    def estimated(text: str) -> int:
        if len(text) <= _COUNTED:
            return size(text)
        return size(text[:_COUNTED]) * len(text) // _COUNTED

    left_out = max(1, estimated(passage.text) - estimated(text))
    cut = replace(passage, text=text)
    # else it cannot be told which of the section's lines these are
    if not _lines_left_out(passage):
        cut = replace(
            cut, start_line=passage.start_line + first, end_line=passage.start_line + last
        )
    return Shown(cut, own, (passage.start_line, passage.end_line), left_out)


def _lines_left_out(passage: Passage) -> int:
    return passage.end_line - passage.start_line - passage.text.count("\n")


def _match_within(passage: Passage) -> str:
    """Return the part of the matching chunk's text that stands in the passage as it is: a repeated
    table header does not.
    """
    rows = passage.match.split("\n", _HEADER_LINES)[-1]
    return next((each for each in (passage.match, rows) if each in passage.text), "")


def _cut_inside(passage: Passage, number: int, room: int, size: Size) -> str:
    """Return as much of an overlong line as fits: from the sentence on in which the most of the
    query's words follow, else from its match on.
    """
    lines = passage.text.split("\n")
    line, offset = lines[number], sum(len(each) + 1 for each in lines[:number])
    marks = [
        (start - offset, end - offset)
        for start, end in passage.marks
        if offset <= start < offset + len(line)
    ]
    match = _match_within(passage)
    begins = [
        max(0, line.find(match)) if match else 0,
        *(_sentence_start(line, start) for start, _ in marks[:_MARKS_TRIED]),
    ]

    def reached(begin: int) -> int:
        end = begin + len(beginning_within(line[begin:], room - 2 * size(_ELLIPSIS), size))
        return len(
            {line[start:stop].casefold() for start, stop in marks if begin <= start and stop <= end}
        )

    begin = max(dict.fromkeys(begins), key=reached)
    shown = beginning_within(line[begin:], room - size(_ELLIPSIS * 2), size)
    if not shown:
        return ""
    return (
        f"{_ELLIPSIS if begin else ''}{shown}{_ELLIPSIS if begin + len(shown) < len(line) else ''}"
    )


def _sentence_start(line: str, at: int) -> int:
    """Return where the sentence of a place in a line begins, or not far before it a word."""
    start = max(0, at - _LEAD)
    ends = list(_SENTENCE_END.finditer(line, start, at))
    return ends[-1].end() if ends else 0 if not start else max(start, line.find(" ", start, at) + 1)


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
