"""Cut text between sentences and words, never inside a link, a token or a character."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from thumbindex.text import CJK, character_start
from thumbindex.visible_text import LINK_DESTINATION

_Range = tuple[int, int]

_SENTENCE_END = re.compile(
    # a class of characters comes first, because `re` finds those fast
    r"[.!?…。！？\n](?:"
    r"(?<=[.!?…])(?<![.!?…]{2})[.!?…]*[\"'”’)\]*_`]*\s+(?=[^a-z\s])"
    r"|(?<=[。！？])[。！？]*[」』”’）]*"
    r"|(?<=\n)[ \t]*\n)"
)
# Chinese, Korean, Thai and other letters of `CJK` may be cut from any letter beside them
_LETTER = re.compile(rf"(?<=[{CJK}])(?=\w)|(?<=\w)(?=\w)(?=[{CJK}])")

_SIGN = r"[!-/:-@\[\]^`{-~]"
_PART_OF_TOKEN = re.compile(r"[\"'<>`](?=[!-~]|\w)|(?<=\W)(?=https?://)")
_IN_TOKEN = (
    _PART_OF_TOKEN,
    re.compile(r"[,;](?![,;])(?=[!-~]|\w)"),
    re.compile(rf"{_SIGN}(?!{_SIGN})(?=[!-~]|\w)"),
)
_AT_WORDS = (re.compile(r"(?=[ \t\n])"), _LETTER, *_IN_TOKEN)
_AT_SENTENCES = (
    re.compile(r"(?<!\n)(?=\n\n\n)"),
    _SENTENCE_END,
    re.compile(  # phrases
        r"[,.;。？！，、；：](?:(?<=[,.;])[\"'”’»)\]*_`]*(?=\s)|(?<=[。？！，、；：])[」』”’）]*)"
    ),
    re.compile(r"(?= )"),
    *_AT_WORDS,
)
"""Patterns that end where a text may be cut, best first."""

# maximum characters split at once, so that the parts of a very long paragraph have similar sizes
_MAX_SPLITTER_CHARS = 20_000

_WHOLE = re.compile(
    r"\\[^\w\s]"
    r"|\[\[(?P<page>[^\[\]|\n]*+\|)?+[^\[\]\n]*+\]\]"
    r"|\[(?:[^\[\]\\]++|\\.|\[(?:[^\[\]\\]++|\\.)*+\])*+"
    rf"(?P<target>\](?:\(\s*+{LINK_DESTINATION}\s*+\)|\[[^\[\]]*+\]))"
    r"|`(?<!``)(?P<more>`*+)(?:[^`]++|(?!`(?P=more)(?!`))`++){1,100}+`(?P=more)(?!`)"
    r"|</?[A-Za-z][^<>]*+>",
    re.S,
)
"""An escaped sign, wikilink, link, image, code span, HTML tag or address in `<>`."""


class _Links(NamedTuple):
    """Ranges that are not cut, and targets of links that are too long for one piece."""

    starts: list[int]
    ends: list[int]
    targets: list[_Range]

    def contains(self, offset: int) -> bool:
        """Return whether a cut at an offset would be inside a link."""
        before = bisect_left(self.starts, offset) - 1
        return before >= 0 and offset < self.ends[before]

    def edges(self, start: int, end: int) -> set[int]:
        """Return the offsets in a range where a link begins or ends."""
        ranges = ((side, bisect_left(side, start), bisect_left(side, end)) for side in self[:2])
        return {offset for side, low, high in ranges for offset in side[low:high]}


def _find_links(text: str, start: int, end: int, maximum: int) -> _Links:
    links = _Links([], [], [])
    _add_links(links, text, start, end, maximum)
    links.targets.sort()
    return links


def _add_links(links: _Links, text: str, start: int, end: int, maximum: int) -> None:
    for match in _WHOLE.finditer(text, start, end):
        if match[0][0] == "\\":
            continue  # an escaped sign, such as a bracket that begins no link
        first, last = match.span()
        first -= first > start and text[first - 1] == "!"  # an image
        if last - first <= maximum:
            links.starts.append(first)
            links.ends.append(last)
        elif match["target"]:
            _add_links(links, text, match.start() + 1, match.start("target"), maximum)
            links.targets.append(match.span("target"))
        elif match["page"]:
            links.targets.append((first, match.end("page")))


def cut_at_words(
    text: str, start: int, end: int, maximum: int, *, is_code: bool = False
) -> Iterator[_Range]:
    """Cut a range into parts of at most `maximum` characters, between words if possible.

    The target of a link that is longer than `maximum` is in no part. Code has no links.
    """
    if end - start <= maximum:
        yield from _trimmed(text, start, end, False)
        return
    links = _find_links(text, start, start if is_code else end, maximum)
    for first, last in _without(links.targets, start, end):
        units = _split(text, first, last, maximum, maximum, _AT_WORDS, links)
        yield from _pack(text, units, maximum, maximum)


def cut_sentences(text: str, start: int, end: int, maximum: int) -> Iterator[_Range]:
    """Cut a paragraph between sentences into parts of similar size, at most `maximum` long.

    Longer sentences are cut at phrases or words. For links, see `cut_at_words`.
    """
    links = _find_links(text, start, end, maximum)
    for first_part, last_part in _without(links.targets, start, end):
        for first, last in cut_at_words(text, first_part, last_part, _MAX_SPLITTER_CHARS):
            even = (last - first) // -(-(last - first) // maximum)
            # a multiple of 50, so that a small edit rarely moves the other cuts
            size = min(maximum, -(-(even + maximum // 5) // 50) * 50)
            units = _split(text, first, last, size, maximum, _AT_SENTENCES, links)
            yield from _pack(text, units, size, maximum, is_prose=True)


def last_sentence(text: str, start: int, end: int) -> int:
    """Return where the last sentence of a paragraph begins."""
    links = _find_links(text, start, end, end - start)
    offsets = (match.end() for match in _SENTENCE_END.finditer(text, start, end))
    return max((n for n in offsets if n < end and not links.contains(n)), default=start)


def _without(targets: Sequence[_Range], start: int, end: int) -> Iterator[_Range]:
    """Yield the parts of a range that are outside the targets."""
    offsets = [start, *(offset for target in targets for offset in target), end]
    return zip(offsets[::2], offsets[1::2], strict=True)


def _split(
    text: str,
    start: int,
    end: int,
    size: int,
    maximum: int,
    patterns: Sequence[re.Pattern[str]],
    links: _Links,
) -> Iterator[_Range]:
    """Split a range only as finely as needed for each unit to have at most `size` characters.

    A link or token of up to `maximum` characters, and any address, is one unit.
    """
    for number, pattern in enumerate(patterns, 1):
        if end - start <= (maximum if pattern in _IN_TOKEN else size):
            break
        offsets = {match.end() for match in pattern.finditer(text, start, end)}
        if pattern is _PART_OF_TOKEN:
            offsets |= links.edges(start, end)
        elif pattern in _IN_TOKEN and "://" in text[start:end]:
            break
        offsets = {offset for offset in offsets - {start, end} if not links.contains(offset)}
        if offsets:
            for first, last in pairwise((start, *sorted(offsets), end)):
                if last - first <= size:  # tested here too: a call for each unit is slow
                    yield first, last
                else:
                    yield from _split(text, first, last, size, maximum, patterns[number:], links)
            return
    yield start, end


def _pack(
    text: str, units: Iterable[_Range], size: int, maximum: int, *, is_prose: bool = False
) -> Iterator[_Range]:
    """Join consecutive units to parts of at most `size` characters, or of one unit.

    A unit longer than `maximum` is cut between characters. The rest of an address is left out.
    White space before a part counts only in prose.
    """
    start = begin = end = -1
    for first, end in units:
        is_too_long = end - first > maximum
        if start < 0:
            start = begin = first
        elif end - begin > size and begin < first and not (is_too_long and first - begin < size):
            yield from _trimmed(text, begin, first, is_prose)
            begin = first
        if not is_prose and begin == first > start:
            begin += _indent(text, first, end)
        while is_too_long and end - begin > size:
            cut = character_start(text, begin, begin + size)
            yield from _trimmed(text, begin, cut, is_prose)
            begin = end if "://" in text[first:cut] else cut
    yield from _trimmed(text, begin, end, is_prose)


def _trimmed(text: str, start: int, end: int, is_prose: bool) -> Iterator[_Range]:
    if size := len(text[start:end].rstrip()):
        yield start + (_indent(text, start, end) if is_prose else 0), start + size


def _indent(text: str, start: int, end: int) -> int:
    return end - start - len(text[start:end].lstrip())
