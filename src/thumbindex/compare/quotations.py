"""Find a quotation in a note: word for word, else the nearest match and the words that differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple
from unicodedata import normalize

from thumbindex.text import CJK, strip_markup

_SIGN_VARIANTS = {"'": "‘’‚‛′", "-": "‐‑‒–−", "": "\u00ad\u200b\u200c\u200d\u2060\ufeff"}
_PLAIN_SIGNS = {ord(sign): plain for plain, signs in _SIGN_VARIANTS.items() for sign in signs}

_WORD = re.compile(
    rf"[{CJK}]"  # each for itself: nothing stands between two words there
    r"|(?<![^\W_])[-+]?\d+(?:[.,:]\d+)*"
    rf"|(?:(?![{CJK}_])\w)+(?:'(?:(?![{CJK}_])\w)+)*"
    r"|[=≤≥≠≈±%$€£¥°→←↔⇒+✓✔✗✘✅❌☑☒☐]|(?<=[\s\d])[<>](?=[\s\d=])"  # <name> is a placeholder
)
"""The tokens of a quotation: words, numbers with their sign, and meaningful signs; no other
punctuation, no emphasis.
"""

_GAP = re.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|…|\.{3,}")
"""An omission in a quotation."""

_MAX_GAP_WORDS = 300
"""Maximum words that an omission stands for: more is another passage."""

_MAX_CANDIDATES = 200
"""Maximum candidate positions tried in one note: a word or two may occur hundreds of times."""

_MAX_COMPARED_WORDS = 300
"""Maximum words of a quotation that are compared with the nearest match."""

_LOOKAHEAD, _TRIGRAM_LOOKAHEAD = 8, 2_000
"""Words of the source that are searched for the next visible word, and for the next three in a row.
"""

_MAX_DIFFERENCES, _MAX_DIFFERENCE_WORDS = 3, 8
"""Maximum differences reported, and maximum words of one."""


class WordSpan(NamedTuple):
    """A range of a note's words: the first and the last one, counted from 0."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoteWords:
    """The words of a text as a reader sees it, and the line, from 1, of each."""

    written: tuple[str, ...]
    folded: tuple[str, ...]
    lines: tuple[int, ...]
    joined: str  # a space before and behind each
    starts: tuple[int, ...]  # of each in it

    def span_lines(self, span: WordSpan) -> tuple[int, int]:
        """Return the first and the last line of some words."""
        return self.lines[span.first], self.lines[span.last]


def quotation_parts(quotation: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of a quotation, in the parts between its gaps."""
    parts = (_words(_visible(part)) for part in _GAP.split(quotation))
    return tuple(tuple(part) for part in parts if part)


def tokenize_note(text: str) -> NoteWords:
    """Tokenize a note."""
    written, lines = _words(_visible(text)), list[int]()
    source = list(_words_of_lines(text.translate(_PLAIN_SIGNS)))
    runs = defaultdict[tuple[str, ...], list[int]](list)
    for n in range(len(source) - 2):
        runs[tuple(word for word, _ in source[n : n + 3])].append(n)
    at, number = 0, 1
    # visible words are in the order of the source, which has more: link targets, comments
    for n, word in enumerate(written):
        near = next(
            (
                each
                for each in range(at, min(at + _LOOKAHEAD, len(source)))
                if source[each][0] == word
            ),
            None,
        )
        if near != at and (places := runs.get(tuple(written[n : n + 3]))):
            following = bisect_left(places, at)
            if following < len(places) and places[following] < at + _TRIGRAM_LOOKAHEAD:
                near = places[following]
        if near is not None:
            at, number = near + 1, source[near][1]
        lines.append(number)
    folded = tuple(map(str.casefold, written))
    starts = tuple(accumulate((len(each) + 1 for each in folded), initial=0))[: len(folded)]
    return NoteWords(tuple(written), folded, tuple(lines), f" {' '.join(folded)} ", starts)


def find_quotation(parts: Sequence[Sequence[str]], note: NoteWords) -> tuple[WordSpan, ...]:
    """Return the occurrences of a quotation's words in a note; between its parts words may be
    omitted.
    """
    found = []
    for first in islice(_occurrences(parts[0], note, 0), _MAX_CANDIDATES) if parts else ():
        last = first + len(parts[0]) - 1
        for part in parts[1:]:
            following = next(_occurrences(part, note, last + 1, _MAX_GAP_WORDS), None)
            if following is None:
                break
            last = following + len(part) - 1
        else:
            found.append(WordSpan(first, last))
    return tuple(found)


def nearest_match(parts: Sequence[Sequence[str]], note: NoteWords) -> tuple[WordSpan, float] | None:
    """Return the nearest match of a quotation in a note, and the share of its words that match in
    order; None if none do.
    """
    # Imported here: no question needs it, and every program of ours would wait for it.
    from rapidfuzz.fuzz import partial_ratio_alignment

    quoted = [each.casefold() for part in parts for each in part][:_MAX_COMPARED_WORDS]
    best = partial_ratio_alignment(quoted, note.folded)
    if not quoted or not best:
        return None
    half = len(quoted) // 2
    low, high = max(0, best.dest_start - half), best.dest_end + half + 1
    operations = _operations(quoted, note.folded[low:high])
    blocks = _densest_run(
        [(a, low + c, b - a) for kind, a, b, c, _ in operations if kind == "equal"]
    )
    if not blocks:
        return None
    # A word that is replaced at either end counts in: as many words of the note as of the quotation
    # stand beside the first and the last match.
    begin = max(0, blocks[0][1] - blocks[0][0])
    end = min(len(note.folded), blocks[-1][1] + len(quoted) - blocks[-1][0])
    return WordSpan(begin, end - 1), sum(size for *_, size in blocks) / len(quoted)


def word_differences(parts: Sequence[Sequence[str]], note: NoteWords, span: WordSpan) -> str:
    """Describe the words that differ between a quotation and a note, the quotation's first."""
    quoted, (first, last) = [each for part in parts for each in part][:_MAX_COMPARED_WORDS], span
    there = note.folded[first : last + 1]
    operations = [
        each
        for each in _operations([each.casefold() for each in quoted], there)
        if each[0] != "equal"
    ]
    told = [
        f"{_quoted_words(quoted[a:b])} against {_quoted_words(note.written[first + c : first + d])}"
        for _, a, b, c, d in operations[:_MAX_DIFFERENCES]
    ]
    return ", ".join(told) + (
        f", and {len(operations) - _MAX_DIFFERENCES} more"
        if len(operations) > _MAX_DIFFERENCES
        else ""
    )


def _operations(
    quoted: Sequence[str], there: Sequence[str]
) -> list[tuple[str, int, int, int, int]]:
    """Return the edits between two texts as `difflib` opcodes; adjacent edits are merged."""
    from rapidfuzz.distance import Levenshtein

    merged = list[tuple[str, int, int, int, int]]()
    for opcode in Levenshtein.opcodes(quoted, there):
        kind, (a, b) = opcode.tag, (opcode.src_start, opcode.src_end)
        c, d = opcode.dest_start, opcode.dest_end
        if merged and kind != "equal" != merged[-1][0]:
            _, a, _, c, _ = merged.pop()
        merged.append((kind, a, b, c, d))
    return merged


def _densest_run(blocks: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int]]:
    """Return the run of matches (offset in the quotation, in the note, size) with most words, less
    the unmatched words of the note between them.
    """
    best, most, begin, score = (0, 0), 0, 0, 0
    for at, (a, c, size) in enumerate(blocks):
        before_a, before_c, before = blocks[at - 1] if at > begin else (a, c, 0)
        score -= max(0, (c - before_c) - (a - before_a)) if before else 0
        if score <= 0:
            begin, score = at, 0
        score += size
        if score > most:
            most, best = score, (begin, at + 1)
    return blocks[best[0] : best[1]]


def _quoted_words(words: Sequence[str]) -> str:
    if not words:
        return "nothing"
    ellipsis = " …" if len(words) > _MAX_DIFFERENCE_WORDS else ""
    return f"`{' '.join(words[:_MAX_DIFFERENCE_WORDS])}{ellipsis}`"


def _visible(markdown: str) -> str:
    return normalize("NFC", strip_markup(markdown).translate(_PLAIN_SIGNS))


def _words_of_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield each word with its line, from 1."""
    number = at = 0
    for match in _WORD.finditer(text):
        number += text.count("\n", at, match.start())
        at = match.start()
        yield match[0], number + 1


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _occurrences(
    part: Sequence[str], note: NoteWords, after: int, within: int | None = None
) -> Iterator[int]:
    """Yield the positions, from `after` on and at most `within` words later, at which a part of a
    quotation begins.
    """
    wanted = f" {' '.join(map(str.casefold, part))} "
    if after >= len(note.starts):
        return
    last = len(note.starts) if within is None else after + within + len(part)
    end = note.starts[last] + 1 if last < len(note.starts) else len(note.joined)
    at = note.joined.find(wanted, note.starts[after], end)
    while at >= 0:
        yield bisect_left(note.starts, at)
        at = note.joined.find(wanted, at + 1, end)
