"""Choose the lines of a passage to show: the lines that answer, and as many more as fit."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import Literal

from thumbindex.model import Answer, Passage
from thumbindex.text import name_key
from thumbindex.visible_text import Markup, code_blocks, hidden_markup, strip_markup

MarkedText = tuple[str, bool]
"""A part of a text, and whether it is marked."""

ELLIPSIS = "…"

_LEAD = 80
"""Maximum characters shown before a match in an overlong sentence."""

_MATCHES_TRIED = 100
"""In an overlong sentence, only this many matches are considered when choosing its part."""

_CONTEXT_SHARE = 2
"""Share of the room, as 1 / n, that the answer and the lines introducing it may take together."""

_MATCH_FACTOR = 2
"""Factor for the query's words in the chunk that was found."""

_WORD_START = 5
"""Words count as one if this many letters at their beginning are equal: deploy, deployed."""

_REACH, _REACH_FACTOR = 800, 0.5
"""Characters behind the start of a unit whose words of the query count as well, and their factor.
"""

_WRAPPED_WIDTHS = range(60, 121)
"""Lengths of the lines of prose that may go on in the next line.

A shorter line is complete, and a longer one is a whole paragraph.
"""

_CACHED_TEXTS = 64

_MIN_SENTENCE = 30
"""A sentence with fewer characters is shown together with the next one."""

_DECORATION = re.compile(r"[\s|:\-=*_>]*|\s*(?:`{3,}[^`]*|~{3}.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_ROW = re.compile(r"^[ \t>]*+\|", re.M)
_BLOCK_START = re.compile(
    rf"{_ITEM.pattern}|{_HEADING.pattern}|[ \t>]*(?:[|<!]|\[[^\]]*\]:|\{{[{{%])"
)
_BLOCK_END = re.compile(rf"{_HEADING.pattern}|\s*(?:[|<]|\w+://\S*$)|.*(?:[:：]|\s\s|\\)$")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]*_]*\s+(?=[^\sa-z])|[。！？]\s*")
_NAME = re.compile(r"\w(?:::|->|[./_])\w|^[a-z]++[A-Z]")
_COLON = re.compile(r"[:：][*_\s]*$")
_DEFINITION = re.compile(r"\s*\n[ \t>]*:[ \t]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a passage without its unseen markup, with the query's words marked."""

    number: int | None  # in the note; None if comments were left out of the passage
    pieces: tuple[MarkedText, ...]
    goes_on: bool = False  # the paragraph goes on in the next line
    is_decoration: bool = False  # a fence, a ruler, or nothing that is seen
    is_code: bool = False

    @property
    def text(self) -> str:
        """The text of the line."""
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class ShownLines:
    """The part of a passage that is shown."""

    passage: Passage
    start: int  # in characters
    stop: int
    header: tuple[int, int] | None = None  # of a table that begins above

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
    def heading_path(self) -> tuple[str, ...]:
        """The note's title, and the headings above the first line."""
        title, *names = self.passage.heading_path or ("",)
        matched, _ = _matched_span(self.passage)
        headings = list(_headings(self.passage.text))
        below = {name_key(name) for at, name in headings if self.start <= at < matched}
        path = [title, *takewhile(lambda name: name_key(name) not in below, names)]
        nearest = next((name for at, name in reversed(headings) if at < self.start), title)
        if name_key(nearest) in map(name_key, path):
            return tuple(path)
        return (*(path if self.start < matched else [title]), nearest)

    @property
    def is_whole(self) -> bool:
        """Return whether the whole passage is shown, except headings above it."""
        text = self.passage.text
        return self.start <= below_headings(self.passage).start and self.stop == len(text)

    @property
    def text(self) -> str:
        """The text that is shown, with an ellipsis at each cut."""
        return "\n".join(line.text for line in self.lines)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that are shown, with an ellipsis at each cut.

        Links are shown as their text. Empty lines and those of unseen markup, such as an image, are
        left out, but one between two others stays.
        """
        lines: list[Line] = []
        written = self.passage.text[self.start : self.stop].split("\n")
        shown = self._lines(hidden_markup(self.passage.text))
        for line, source in zip(shown, written, strict=True):
            if line.text.strip():
                lines.append(line)
            elif lines and lines[-1].text and not source.strip():
                lines.append(replace(line, pieces=()))
        if lines and not lines[-1].text:
            lines.pop()
        lines = lines or [replace(line, is_decoration=False) for line in self.source_lines]
        if self._begins_inside:
            lines[0] = replace(lines[0], pieces=((ELLIPSIS, False), *lines[0].pieces))
        if self._ends_inside:
            lines[-1] = replace(lines[-1], pieces=(*lines[-1].pieces, (ELLIPSIS, False)))
        if self.header:
            lines = [*ShownLines(self.passage, *self.header).lines, *lines]
        return tuple(lines)

    @property
    def source_lines(self) -> tuple[Line, ...]:
        """The lines that are shown, as written."""
        return tuple(self._lines(()))

    def _lines(self, hidden: Sequence[Markup]) -> Iterator[Line]:
        text, start = self.passage.text, self.start
        first = self.passage.start_line + self.first if is_complete(self.passage) else None
        kinds = [
            (kind in ("text", "item") and n + 1 < len(block), kind == "decoration", kind == "code")
            for block in _blocks(text)
            for n, (kind, _, _) in enumerate(block)
        ]
        for n, line in enumerate(text[start : self.stop].split("\n")):
            pieces = _visible_pieces(self.passage, hidden, start, start + len(line))
            number = None if first is None else first + n
            yield Line(number, pieces, *kinds[self.first + n])
            start += len(line) + 1

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
        return bool(self.passage.text[: self.start].rpartition("\n")[2].strip())

    @property
    def _ends_inside(self) -> bool:
        return bool(self.passage.text[self.stop :].partition("\n")[0].strip())


Size = Callable[[ShownLines], int]
"""Function that returns the size of a text as shown: rows, characters or tokens."""


def choose_lines(passage: Passage, room: int, size: Size) -> ShownLines:
    """Return the lines that answer, and as many of the following lines as fit.

    If the whole passage fits, it is returned without the headings above it. Otherwise, the result
    begins at the best sentence, list item or row, or at the line that introduces it, and ends with
    a sentence, item or row. It goes beyond the next heading only if there is much room, and begins
    earlier if nothing is left below, except at an identifier.
    """
    whole = below_headings(passage)
    if size(whole) <= room:
        return whole
    units = _units(passage.text)
    best = _best_unit(passage, units)

    def shown(first: int, last: int) -> ShownLines:
        start = units[first].start
        return ShownLines(passage, start, units[last].stop, _table_header(passage.text, start))

    if size(shown(best, best)) > room:
        return _part_of_unit(passage, units[best], lambda part: size(part) <= room)
    headings = [n for n, unit in enumerate(units) if unit.kind == "heading" and n != best]
    top = max((n + 1 for n in headings if n < best), default=0)
    first = best
    for n in _introductions(units, top, best):
        # a term, or a line with a colon, comes with the very next line if both fit
        between = passage.text[units[n].stop : units[first].start]
        share = 1 if units[n].has_colon and _is_decoration(between) else _CONTEXT_SHARE
        if share * size(shown(n, best)) <= room:
            first = n
    ends = [*(n - 1 for n in headings if n > best), len(units) - 1]
    # the text below the next heading is shown, too, if there is much room
    end = next((n for n in ends if _CONTEXT_SHARE * size(shown(first, n)) > room), ends[-1])
    last = best + _largest_fitting(end - best, lambda n: size(shown(first, best + n)) <= room)
    if last == end and not _has_name(passage, units[best]):  # nothing is left below
        begin = first
        first -= _largest_fitting(begin - top, lambda n: size(shown(begin - n, last)) <= room)
        items = [unit.indent for unit in units[first : begin + 1] if unit.kind == "item"]
        while first < begin and (
            units[first].kind == "decoration" or units[first].indent > min(items, default=0)
        ):
            first += 1
    while last > best and _needs_more(units, last):
        last -= 1
    chosen = shown(first, last)
    if last == best < end and (_needs_more(units, best) or 2 * size(chosen) <= room):
        return _begin_next(chosen, units[best + 1 : end + 1], lambda part: size(part) <= room)
    return chosen


def _table_header(text: str, start: int) -> tuple[int, int] | None:
    """Return the span of a table's header if a row below it begins at `start`."""
    rows = list(takewhile(_ROW.match, reversed(text[:start].split("\n")[:-1])))
    if not _ROW.match(text, start) or len(rows) < 2 or not _is_decoration(rows[-2]):
        return None
    header = start - sum(len(row) + 1 for row in rows)
    return header, header + len(rows[-1])


def _introductions(units: Sequence[_Unit], top: int, best: int) -> Iterator[int]:
    """Yield the units that introduce the unit `best`, the nearest first.

    They are the earlier sentences of a paragraph, the items around a nested item, the beginning of
    a code block, and a line above that ends with a colon.
    """
    first = best
    for n in range(best - 1, top - 1, -1):
        unit, inner = units[n], units[first]
        if unit.kind == "decoration":
            continue
        is_next = all(between.kind == "decoration" for between in units[n + 1 : first])
        is_around = unit.kind == "item" and unit.indent < inner.indent
        if (
            unit.block == inner.block
            or is_around
            or (unit.has_colon and (is_next or inner.kind == "item"))
        ):
            first = n
            yield n
        elif unit.kind != "item" or inner.kind != "item":
            return


def _needs_more(units: Sequence[_Unit], last: int) -> bool:
    """Return whether an excerpt should not end with the unit `last`."""
    unit, below = units[last], units[last + 1 : last + 2]
    is_parent = unit.kind == "item" and any(unit.indent < other.indent for other in below)
    return unit.kind in ("heading", "decoration") or unit.has_colon or is_parent


def _begin_next(
    chosen: ShownLines, below: Sequence[_Unit], fits: Callable[[ShownLines], bool]
) -> ShownLines:
    """Add as many words of the next unit with text as fit."""
    following = next((unit for unit in below if unit.kind != "decoration"), None)
    if following is None or following.kind == "heading":
        return chosen
    start, text = following.start, chosen.passage.text[following.start : following.stop]
    length = _largest_fitting(len(text), lambda n: fits(replace(chosen, stop=start + n)))
    words = text if length == len(text) else text[:length].rpartition(" ")[0]
    return replace(chosen, stop=start + len(words)) if words.strip(" \t>*+-") else chosen


def choose_all(answer: Answer, room: int, least: int, size: Size) -> Iterator[ShownLines]:
    """Yield the lines of each passage. Together they fit into the room, best passage first.

    Each passage may take `least`.
    """
    for behind, passage in zip(reversed(range(len(answer.passages))), answer.passages, strict=True):
        is_sure = passage is answer.passages[0] and answer.confidence_level == "high"
        shown = choose_lines(passage, share_of_room(room, behind, least, is_sure), size)
        room -= size(shown)
        yield shown


def share_of_room(room: int, behind: int, least: int, is_sure: bool = False) -> int:
    """Return how much of the room a passage may take, if `behind` passages follow it.

    A sure passage leaves only `least` for each of them. Any other passage takes half of the rest.
    """
    spare = max(0, room - least * (behind + 1))
    return least + (spare if is_sure or not behind else spare // 2)


def all_lines(passage: Passage) -> ShownLines:
    """Return the whole passage."""
    return ShownLines(passage, 0, len(passage.text))


def below_headings(passage: Passage) -> ShownLines:
    """Return the whole passage without the headings above it that its heading path names."""
    names, start = set(map(name_key, passage.heading_path)), 0
    hidden = hidden_markup(passage.text)
    for line in passage.text.split("\n"):
        seen = _seen_text(passage.text, hidden, start, start + len(line)).strip()
        if seen and not (_HEADING.match(line) and name_key(seen.strip(" \t#")) in names):
            return ShownLines(passage, start, len(passage.text))
        start += len(line) + 1
    return all_lines(passage)


def _headings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the start and the visible text of each heading."""
    hidden = hidden_markup(text)
    for block in _blocks(text):
        for kind, start, stop in block:
            if kind == "heading":
                yield start, strip_markup(_seen_text(text, hidden, start, stop)).rstrip(" #")


def from_answer(shown: ShownLines) -> ShownLines:
    """Return the shown lines from the best sentence, item or row on."""
    units = _units(shown.passage.text)
    best = units[_best_unit(shown.passage, units)].start
    return replace(shown, start=best) if shown.start <= best < shown.stop else shown


def is_complete(passage: Passage) -> bool:
    """Return whether a passage's text has all lines from `start_line` to `end_line`."""
    return passage.end_line - passage.start_line == passage.text.count("\n")


def _is_decoration(line: str) -> bool:
    """Return whether a line is empty, a rule, or the fence of a block."""
    return _DECORATION.fullmatch(line) is not None


def _matched_span(passage: Passage) -> tuple[int, int]:
    """Return the offsets of the chunk that was found, or of its lines; of all if unknown."""
    text, start, stop = passage.text, 0, len(passage.text)
    if is_complete(passage):
        lines = list(pairwise([0, *(match.end() for match in re.finditer("\n", text)), stop + 1]))
        first = min(max(0, passage.match_start_line - passage.start_line), len(lines) - 1)
        last = min(max(first, passage.match_end_line - passage.start_line), len(lines) - 1)
        start, stop = lines[first][0], lines[last][1] - 1
    at = text.find(passage.match, start, stop) if passage.match else -1
    return (at, at + len(passage.match)) if at >= 0 else (start, stop)


# ------------------------------------------------------------------ sentences, items and rows

_Kind = Literal["text", "item", "code", "heading", "decoration"]


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence, list item, table row, line of code or heading of a passage."""

    kind: _Kind
    block: int  # number of its paragraph, item or code block
    start: int  # in characters
    stop: int
    indent: int = 0
    has_colon: bool = False  # it ends with a colon, or a definition follows


def _units(text: str) -> list[_Unit]:
    """Cut a text into units. A sentence may go on in the next line."""
    units: list[_Unit] = []
    for block, lines in enumerate(_blocks(text)):
        kind, start, stop = lines[0][0], lines[0][1], lines[-1][2]
        if kind not in ("text", "item"):
            units += [_Unit(kind, block, start, stop) for kind, start, stop in lines]
            continue
        source = text[start:stop]
        indent = len(source) - len(source.lstrip(" \t>")) + (kind == "item")
        ends = [
            start + match.end()
            for match in _SENTENCE_END.finditer(source)
            if _MIN_SENTENCE <= match.end() < len(source) and not _ROW.match(source)
        ]
        for at, (first, last) in enumerate(pairwise([start, *ends, stop])):
            last = first + len(text[first:last].rstrip())
            has_colon = bool(_COLON.search(text, first, last) or _DEFINITION.match(text, last))
            units.append(_Unit("text" if at else kind, block, first, last, indent, has_colon))
    return units


@lru_cache(maxsize=_CACHED_TEXTS)
def _blocks(text: str) -> Sequence[tuple[tuple[_Kind, int, int], ...]]:
    return tuple(_iterate_blocks(text))


def _iterate_blocks(text: str) -> Iterator[tuple[tuple[_Kind, int, int], ...]]:
    """Yield the lines of each block, as kind, start and stop.

    A block is a paragraph, an item, a row, a heading, or a code block with its fences.
    """
    block: list[tuple[_Kind, int, int]] = []
    code = {start: (stop, is_closed) for start, stop, is_closed in code_blocks(text)}
    hidden = hidden_markup(text)
    above, start, code_stop, is_closed = "", 0, -1, False
    for line in text.split("\n"):
        kind: _Kind = "text"
        stop = start + len(line)
        in_code = start < code_stop
        if in_code:
            kind = "decoration" if is_closed and stop == code_stop else "code"
        elif start in code:
            kind, (code_stop, is_closed) = "decoration", code[start]
        elif _is_decoration(_seen_text(text, hidden, start, stop)):
            kind = "decoration"
        elif _HEADING.match(line):
            kind = "heading"
        elif _ITEM.match(line):
            kind = "item"
        is_prose = kind == "text" and bool(block) and block[-1][0] in ("text", "item")
        if block and not in_code and not (is_prose and _goes_on(above, line)):
            yield tuple(block)
            block = []
        block.append((kind, start, stop))
        above, start = line, stop + 1
    yield tuple(block)


def _goes_on(line: str, following: str) -> bool:
    """Return whether a paragraph goes on from one line to the next.

    A short line does not: in notes, its line break is meant. Nor does a long one.
    """
    return (
        len(line) in _WRAPPED_WIDTHS
        and not _BLOCK_END.match(line)
        and not _BLOCK_START.match(following)
        and not _is_decoration(following)
    )


def _best_unit(passage: Passage, units: Sequence[_Unit]) -> int:
    """Return the index of the unit that an excerpt should begin with.

    The unit has most of the query's words, and the units behind it as many of the others as
    possible. A word counts more if fewer units have it, and in the chunk that was found. If no unit
    has a word, return the first unit that was found.
    """
    starts = [unit.start for unit in units]
    words: list[set[str]] = [set() for _ in units]
    for start, stop in passage.marks:
        word = passage.text[start:stop].casefold()[:_WORD_START]
        words[max(0, bisect_right(starts, start) - 1)].add(word)
    frequency = Counter(word for unit_words in words for word in unit_words)
    weights = {word: math.log(1 + len(units) / count) for word, count in frequency.items()}
    matched_start, matched_stop = _matched_span(passage)

    def weight(n: int) -> tuple[float, bool]:
        behind = words[n + 1 : bisect_left(starts, units[n].start + _REACH)]
        others = set[str]().union(*behind) - words[n]
        total = sum(map(weights.__getitem__, sorted(words[n])))
        total += _REACH_FACTOR * sum(map(weights.__getitem__, sorted(others)))
        is_matched = units[n].start < matched_stop and matched_start < units[n].stop
        return (_MATCH_FACTOR if is_matched else 1) * total, is_matched

    with_text = [n for n, unit in enumerate(units) if unit.kind not in ("heading", "decoration")]
    with_word = [n for n in with_text if words[n]]
    return max(with_word or with_text or range(len(units)), key=weight)


def _has_name(passage: Passage, unit: _Unit) -> bool:
    """Return whether a unit has an identifier of the query with several parts."""
    marks = (passage.text[at:stop] for at, stop in passage.marks if unit.start <= at < unit.stop)
    return any(map(_NAME.search, marks))


def _part_of_unit(passage: Passage, unit: _Unit, fits: Callable[[ShownLines], bool]) -> ShownLines:
    """Return the part of a unit that fits and contains the most words of the query."""

    def part(start: int) -> ShownLines:
        length = _largest_fitting(
            unit.stop - start, lambda n: fits(ShownLines(passage, start, start + n))
        )
        return ShownLines(passage, start, start + max(1, length))

    marks = [start for start, _ in passage.marks if unit.start <= start < unit.stop]
    matched, _ = _matched_span(passage)
    first = part(matched if unit.start <= matched < unit.stop else unit.start)
    length = first.stop - first.start
    lead = min(_LEAD, length // 4)
    starts = [_part_start(passage.text, unit.start, at, lead) for at in marks[:_MATCHES_TRIED]]
    parts = [first, *(ShownLines(passage, at, min(at + length, unit.stop)) for at in starts)]
    return part(max(parts, key=lambda shown: len(shown.words)).start)


def _part_start(text: str, unit_start: int, at: int, lead: int) -> int:
    """Return the start of a word at most `lead` characters before the offset `at`."""
    start = max(unit_start, at - lead)
    return start if start == unit_start else text.find(" ", start, at) + 1 or start


def _largest_fitting(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, or 0 if none does.

    Numbers more than twice as large as the result are not tried.
    """
    tried = 1
    while tried < most and fits(tried):
        tried *= 2
    numbers = range(1, min(tried, most) + 1)
    return bisect_left(numbers, True, key=lambda number: not fits(number))


# ------------------------------------------------------------------ visible text


def _visible_pieces(
    passage: Passage, hidden: Sequence[Markup], start: int, stop: int
) -> tuple[MarkedText, ...]:
    """Return a line's text without its unseen markup, with the query's words marked."""
    pieces: list[MarkedText] = []
    for begin, end, shown in _visible_spans(hidden, start, stop):
        if shown:
            pieces.append((shown, False))
        at = begin
        first = max(0, bisect_left(passage.marks, (begin,)) - 1)
        for mark_start, mark_stop in islice(passage.marks, first, None):
            if mark_start >= end:
                break
            low, high = max(at, mark_start), min(end, mark_stop)
            if low < high:
                pieces += [(passage.text[at:low], False), (passage.text[low:high], True)]
                at = high
        pieces.append((passage.text[at:end], False))
    return tuple(piece for piece in pieces if piece[0])


def _seen_text(text: str, hidden: Sequence[Markup], start: int, stop: int) -> str:
    spans = _visible_spans(hidden, start, stop)
    return "".join(shown + text[begin:end] for begin, end, shown in spans)


def _visible_spans(
    hidden: Sequence[Markup], start: int, stop: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the spans between hidden markup, each with the text that replaces the markup before."""
    shown = ""
    for begin, end, replacement in hidden:
        if begin < stop and end > start:
            yield start, max(start, begin), shown
            start, shown = min(end, stop), replacement
    yield start, stop, shown
