"""Choose the lines of a passage that are shown: its best line and as much around it as fits."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thumbindex.model import Passage

Piece = tuple[str, bool]
"""A part of a line, and whether it is a word of the query."""

ELLIPSIS = "…"

_LEAD = 80
"""Characters before a query's word in which the beginning of its sentence is looked for."""

_PLACES_TRIED = 5
"""Places of each word in an overlong line from whose sentences the shown part may begin."""

_HEADER_LINES = 2
"""Lines of a table's header, which chunks of its later rows repeat."""

_SENTENCE_END = re.compile(r"[.!?;:|]\s+")

_IDLE = re.compile(r"[\s|:\-=*_>]*|\s*(?:`{3}|~{3}).*")
"""An empty line, a rule, or the fence of a block."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a passage, in pieces."""

    number: int | None  # in the note; None if comments were left out of the passage
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ShownLines:
    """A part of a passage's text: whole lines, or a part of one line that is too long."""

    passage: Passage
    start: int  # in characters
    stop: int

    @property
    def first(self) -> int:
        """The first line, counted from 0."""
        return self.passage.text.count("\n", 0, self.start)

    @property
    def last(self) -> int:
        """The last line, counted from 0."""
        return self.passage.text.count("\n", 0, self.stop)

    @property
    def start_line(self) -> int:
        """The number of the first line in the note; the match's if it cannot be told."""
        if is_complete(self.passage):
            return self.passage.start_line + self.first
        return self.passage.match_start

    @property
    def is_broken(self) -> bool:
        """Return True if a line is shown in part."""
        return self._begins_inside or self._ends_inside

    @property
    def text(self) -> str:
        """The text, with an ellipsis where a line is cut."""
        shown = self.passage.text[self.start : self.stop]
        before, behind = self._begins_inside * ELLIPSIS, self._ends_inside * ELLIPSIS
        return f"{before}{shown}{behind}"

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in pieces, with an ellipsis where a line is cut."""
        lines = list(_pieces(self.passage, self.start, self.stop))
        if self._begins_inside:
            lines[0] = ((ELLIPSIS, False), *lines[0])
        if self._ends_inside:
            lines[-1] = (*lines[-1], (ELLIPSIS, False))
        first = self.passage.start_line + self.first if is_complete(self.passage) else None
        return tuple(
            Line(None if first is None else first + at, pieces) for at, pieces in enumerate(lines)
        )

    @property
    def words(self) -> frozenset[str]:
        """The query's words that are shown."""
        return frozenset(
            self.passage.text[start:stop].casefold()
            for start, stop in self.passage.marks
            if self.start <= start and stop <= self.stop
        )

    @property
    def _begins_inside(self) -> bool:
        return self.start > 0 and self.passage.text[self.start - 1] != "\n"

    @property
    def _ends_inside(self) -> bool:
        return self.stop < len(self.passage.text) and self.passage.text[self.stop] != "\n"


Fits = Callable[[ShownLines], bool]


def best_lines(passage: Passage, fits: Fits) -> ShownLines:
    """Return the lines of the match that fit: its best line, and around it those with the most of
    the query's words.

    A best line that does not fit is cut.
    """
    matched, best = matched_lines(passage), best_line(passage)
    if not fits(lines_between(passage, best, best)):
        return _part_of_line(passage, best, fits)
    last = best
    while last < matched[-1] and fits(lines_between(passage, best, last + 1)):
        last += 1
    windows = [lines_between(passage, best, last)]
    for first in range(best - 1, matched.start - 1, -1):
        while last > best and not fits(lines_between(passage, first, last)):
            last -= 1
        window = lines_between(passage, first, last)
        if not fits(window):
            break
        windows.append(window)
    most = max(windows, key=lambda each: (len(each.words), each.last - each.first))
    return _without_blank_edges(most, best)


def all_lines(passage: Passage) -> ShownLines:
    """Return the whole passage."""
    return ShownLines(passage, 0, len(passage.text))


def lines_between(passage: Passage, first: int, last: int) -> ShownLines:
    """Return some lines of a passage, counted from 0, the last one included."""
    starts = [0, *(match.end() for match in re.finditer("\n", passage.text))]
    stop = starts[last + 1] - 1 if last + 1 < len(starts) else len(passage.text)
    return ShownLines(passage, starts[first], stop)


def is_complete(passage: Passage) -> bool:
    """Return True if no comment was left out of a passage, so that its lines can be numbered."""
    return passage.end_line - passage.start_line == passage.text.count("\n")


def is_idle(line: str) -> bool:
    """Return True if a line says nothing."""
    return _IDLE.fullmatch(line) is not None


def matched_lines(passage: Passage) -> range:
    """Return the lines of a passage that matched, counted from 0; all if that cannot be told."""
    last = passage.text.count("\n")
    if is_complete(passage):
        start = passage.match_start - passage.start_line
        stop = passage.match_end - passage.start_line
    else:
        start, stop = _match_found(passage) or (0, last)
    return range(max(0, min(start, last)), max(0, min(stop, last)) + 1)


def best_line(passage: Passage) -> int:
    """Return the matched line with the most of the query's words; the first one if none has any."""
    lines, matched, words = passage.text.split("\n"), matched_lines(passage), _words(passage)
    return max(
        (n for n in matched if not is_idle(lines[n])),
        key=lambda n: len(words[n]),
        default=matched.start,
    )


def _without_blank_edges(shown: ShownLines, best: int) -> ShownLines:
    lines, first, last = shown.passage.text.split("\n"), shown.first, shown.last
    while last > best and not lines[last].strip():
        last -= 1
    while first < best and not lines[first].strip():
        first += 1
    return lines_between(shown.passage, first, last)


def _match_found(passage: Passage) -> tuple[int, int] | None:
    """Return the lines of the matching chunk by its text."""
    match = _match_within(passage)
    if not match:
        return None
    first = passage.text.count("\n", 0, passage.text.find(match))
    return first, first + match.count("\n")


def _match_within(passage: Passage) -> str:
    """Return the part of the matching chunk that the passage has: not a repeated table header."""
    rows = passage.match.split("\n", _HEADER_LINES)[-1]
    return next((each for each in (passage.match, rows) if each in passage.text), "")


def _words(passage: Passage) -> list[set[str]]:
    """Return the query's words by line."""
    ends = [match.start() for match in re.finditer("\n", passage.text)]
    words: list[set[str]] = [set() for _ in range(len(ends) + 1)]
    for start, stop in passage.marks:
        words[bisect_left(ends, start)].add(passage.text[start:stop].casefold())
    return words


def _part_of_line(passage: Passage, number: int, fits: Fits) -> ShownLines:
    """Return the part of a line that fits: from the sentence in which most of the query's words
    follow, else from the match.
    """
    line, match = lines_between(passage, number, number), _match_within(passage)
    begin = passage.text.find(match, line.start, line.stop) if match else -1
    begins, tried = [max(begin, line.start)], Counter[str]()
    for start, stop in passage.marks:
        word = passage.text[start:stop].casefold()
        if line.start <= start < line.stop and tried[word] < _PLACES_TRIED:
            tried[word] += 1
            begins.append(_sentence_start(passage.text, line.start, start))
    first = _longest_part(line, begins[0], fits)
    length = first.stop - first.start
    parts = [ShownLines(passage, at, min(at + length, line.stop)) for at in begins]
    best = max(parts, key=lambda each: len(each.words))
    return _longest_part(line, best.start, fits)


def _longest_part(line: ShownLines, start: int, fits: Fits) -> ShownLines:
    """Return as much of a line from a place on as fits."""
    passage, low, step = line.passage, start, 64
    while low + step < line.stop and fits(ShownLines(passage, start, low + step)):
        low, step = low + step, step * 2
    stops = range(low + 1, min(low + step, line.stop) + 1)
    too_long = bisect_left(stops, True, key=lambda stop: not fits(ShownLines(passage, start, stop)))
    return ShownLines(passage, start, low + too_long)


def _sentence_start(text: str, line_start: int, at: int) -> int:
    """Return where the sentence of a place begins, or a word not far before it."""
    start = max(line_start, at - _LEAD)
    ends = list(_SENTENCE_END.finditer(text, start, at))
    if ends:
        return ends[-1].end()
    return start if start == line_start else max(start, text.find(" ", start, at) + 1)


def _pieces(passage: Passage, start: int, stop: int) -> Sequence[tuple[Piece, ...]]:
    """Return the lines of a part of a passage, the query's words apart."""
    lines: list[list[Piece]] = [[]]
    end, text = start, passage.text
    marks = [each for each in passage.marks if start <= each[0] and each[1] <= stop]
    for mark_start, mark_stop in (*marks, (stop, stop)):
        for part, is_mark in ((text[end:mark_start], False), (text[mark_start:mark_stop], True)):
            for number, piece in enumerate(part.split("\n")):
                if number:
                    lines.append([])
                if piece:
                    lines[-1].append((piece, is_mark))
        end = mark_stop
    return [tuple(pieces) for pieces in lines]
