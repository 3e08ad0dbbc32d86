"""Choose the lines of a passage to show: its best line, and as many lines around it as fit."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, pairwise

from thumbindex.model import Passage

MarkedText = tuple[str, bool]
"""A part of a text, and whether it is marked."""

ELLIPSIS = "…"

_LEAD = 80
"""Maximum characters shown before a match in an overlong line."""

_SENTENCES_TRIED = 100
"""In an overlong line, only this many matches are considered when choosing the part to show."""

_SENTENCE_END = re.compile(r".*[.!?;:|]\s+")

_DECORATION = re.compile(r"[\s|:\-=*_>]*|\s*(?:`{3}|~{3}).*")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a passage, with the query's words marked."""

    number: int | None  # in the note; None if comments were left out of the passage
    pieces: tuple[MarkedText, ...]


@dataclass(frozen=True, slots=True)
class ShownLines:
    """The part of a passage that is shown: whole lines, or a part of an overlong line."""

    passage: Passage
    start: int  # in characters
    stop: int

    @property
    def first(self) -> int:
        """The index of the first line in the passage, from 0."""
        return self.passage.text.count("\n", 0, self.start)

    @property
    def last(self) -> int:
        """The index of the last line in the passage, from 0."""
        return self.passage.text.count("\n", 0, self.stop)

    @property
    def start_line(self) -> int:
        """The line number, in the note, of the first line shown.

        If the passage lacks lines of the note, the line number of the first matching line.
        """
        if is_complete(self.passage):
            return self.passage.start_line + self.first
        return self.passage.match_start_line

    @property
    def is_broken(self) -> bool:
        """Return whether a line is cut."""
        return self._begins_inside or self._ends_inside

    @property
    def text(self) -> str:
        """The text that is shown, with an ellipsis at each cut."""
        shown = self.passage.text[self.start : self.stop]
        before, behind = self._begins_inside * ELLIPSIS, self._ends_inside * ELLIPSIS
        return f"{before}{shown}{behind}"

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that are shown, with an ellipsis at each cut."""
        lines = list(_marked_lines(self.passage, self.start, self.stop))
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


_Fits = Callable[[ShownLines], bool]


def best_lines(passage: Passage, fits: _Fits) -> ShownLines:
    """Return the best line of a passage, with as many matched lines around it as fit.

    If the best line does not fit, returns a part of the line.
    """
    matched, best = matched_lines(passage), best_line(passage)
    if not fits(lines_between(passage, best, best)):
        return _part_of_line(passage, best, fits)
    below = _largest_fitting(
        matched[-1] - best, lambda n: fits(lines_between(passage, best, best + n))
    )
    last = best + below
    above = _largest_fitting(
        best - matched[0], lambda n: fits(lines_between(passage, best - n, last))
    )
    first = best - above
    lines = passage.text.split("\n")
    while first < best and is_decoration(lines[first]):  # a rule above is not shown
        first += 1
    return lines_between(passage, first, last)


def all_lines(passage: Passage) -> ShownLines:
    """Return the whole passage."""
    return ShownLines(passage, 0, len(passage.text))


def matched_part(passage: Passage) -> ShownLines:
    """Return the matched lines of a passage."""
    matched = matched_lines(passage)
    return lines_between(passage, matched[0], matched[-1])


def lines_between(passage: Passage, first: int, last: int) -> ShownLines:
    """Return the lines from index `first` to `last` (inclusive) of a passage, from 0."""
    starts = [0, *(match.end() for match in re.finditer("\n", passage.text))]
    stop = starts[last + 1] - 1 if last + 1 < len(starts) else len(passage.text)
    return ShownLines(passage, starts[first], stop)


def is_complete(passage: Passage) -> bool:
    """Return whether a passage's text has all lines from `start_line` to `end_line`."""
    return passage.end_line - passage.start_line == passage.text.count("\n")


def is_decoration(line: str) -> bool:
    """Return whether a line is empty, a rule, or the fence of a block."""
    return _DECORATION.fullmatch(line) is not None


def matched_lines(passage: Passage) -> range:
    """Return the indexes of a passage's matched lines, from 0; all lines if they are unknown."""
    last, at = passage.text.count("\n"), _match_start(passage)
    start, stop = 0, last
    if is_complete(passage):
        start = passage.match_start_line - passage.start_line
        stop = passage.match_end_line - passage.start_line
    elif at >= 0:
        start = passage.text.count("\n", 0, at)
        stop = start + passage.match.count("\n")
    return range(max(0, min(start, last)), max(0, min(stop, last)) + 1)


def best_line(passage: Passage) -> int:
    """Return the index of the matched line that contains the most distinct words of the query.

    If no line contains any, return the first matched line.
    """
    lines, matched = passage.text.split("\n"), matched_lines(passage)
    ends = [match.start() for match in re.finditer("\n", passage.text)]
    words: list[set[str]] = [set() for _ in lines]
    for start, stop in passage.marks:
        words[bisect_left(ends, start)].add(passage.text[start:stop].casefold())
    return max(
        (n for n in matched if not is_decoration(lines[n])),
        key=lambda n: len(words[n]),
        default=matched.start,
    )


def _match_start(passage: Passage) -> int:
    """Return the offset of the matching chunk's text in the passage, or -1."""
    return passage.text.find(passage.match) if passage.match else -1


def _part_of_line(passage: Passage, number: int, fits: _Fits) -> ShownLines:
    """Return the part of a line that fits and contains the most words of the query.

    The part starts at the match or at the start of a sentence.
    """
    line = lines_between(passage, number, number)

    def part(start: int) -> ShownLines:
        length = _largest_fitting(
            line.stop - start, lambda n: fits(ShownLines(passage, start, start + n))
        )
        return ShownLines(passage, start, start + max(1, length))

    marks = [start for start, _ in passage.marks if line.start <= start < line.stop]
    starts = [_sentence_start(passage.text, line.start, at) for at in marks[:_SENTENCES_TRIED]]
    match = _match_start(passage)
    first = part(match if line.start <= match < line.stop else line.start)
    length = first.stop - first.start
    parts = [first, *(ShownLines(passage, at, min(at + length, line.stop)) for at in starts)]
    return part(max(parts, key=lambda shown: len(shown.words)).start)


def _largest_fitting(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, or 0 if none does.

    Numbers more than twice as large as the result are not tried.
    """
    tried = 1
    while tried < most and fits(tried):
        tried *= 2
    numbers = range(1, min(tried, most) + 1)
    return bisect_left(numbers, True, key=lambda number: not fits(number))


def _sentence_start(text: str, line_start: int, at: int) -> int:
    """Return the start of the sentence that contains the offset `at`.

    If that is too far before `at`, return the start of a closer word.
    """
    start = max(line_start, at - _LEAD)
    if sentences := _SENTENCE_END.match(text, start, at):
        return sentences.end()
    return start if start == line_start else text.find(" ", start, at) + 1 or start


def _marked_lines(passage: Passage, start: int, stop: int) -> Sequence[tuple[MarkedText, ...]]:
    """Return the lines between two offsets in a passage, with the query's words marked."""
    lines: list[list[MarkedText]] = [[]]
    marks = [mark for mark in passage.marks if start <= mark[0] and mark[1] <= stop]
    ends = (start, *chain.from_iterable(marks), stop)
    for (begin, end), is_mark in zip(pairwise(ends), cycle((False, True)), strict=False):
        for number, piece in enumerate(passage.text[begin:end].split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append((piece, is_mark))
    return [tuple(pieces) for pieces in lines]
