"""Find a quotation in a note: verbatim, or else the nearest match and the words that differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple
from unicodedata import normalize

from thumbindex.text import CJK
from thumbindex.visible_text import strip_markup

_CHARACTER_VARIANTS = {"'": "‘’‚‛′", "-": "‐‑‒–−", "": "\u00ad\u200b\u200c\u200d\u2060\ufeff"}
_PLAIN_CHARACTERS = {
    ord(variant): plain for plain, variants in _CHARACTER_VARIANTS.items() for variant in variants
}

_WORD = re.compile(
    rf"[{CJK}]"  # one token per character: CJK has no spaces
    r"|(?<![^\W_])[-+]?\d+(?:[.,:]\d+)*"
    rf"|(?:(?![{CJK}_])\w)+(?:'(?:(?![{CJK}_])\w)+)*"
    r"|[=≤≥≠≈±%€£¥°→←↔⇒+✓✔✗✘✅❌☑☒☐]|\$(?=\d)"  # other dollar signs enclose formulas
    r"|(?<=[\s\d])[<>](?=[\s\d=])"  # <name> is a placeholder
)
"""A word, number or symbol, but no punctuation: `don't`, `-1.5`, `≤`."""

_GAP = re.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|…|\.{3,}")
_MAX_GAP_WORDS = 300
"""Maximum words of a note that an omission in a quotation can replace."""

_MAX_CANDIDATES = 200
"""Maximum positions in a note that are tried as the start of a quotation.

A quotation of one word may occur hundreds of times.
"""

_MAX_COMPARED_WORDS = 300
"""Only this many words at the start of a quotation are compared with the words of a note."""

_LOOKAHEAD, _TRIGRAM_LOOKAHEAD = 8, 2_000
"""How many words of a note's source are searched for the next visible word.

The second number applies to a search for the next three visible words in a row.
"""

_MAX_DIFFERENCES, _MAX_DIFFERENCE_WORDS = 3, 8
"""Maximum differences reported, and maximum words shown of each side of a difference."""


class WordSpan(NamedTuple):
    """A range of the words of a note: the positions of the first and the last, from 0."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoteWords:
    """The visible words of a note, and the line of each, from 1."""

    written: tuple[str, ...]
    folded: tuple[str, ...]
    lines: tuple[int, ...]
    joined: str  # the folded words, each between spaces
    starts: tuple[int, ...]  # offset of each word in `joined`

    def span_lines(self, span: WordSpan) -> tuple[int, int]:
        """Return the first and last line of a span."""
        return self.lines[span.first], self.lines[span.last]


def quotation_parts(quotation: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of a quotation, split into parts at omissions such as `[…]`."""
    parts = (_words(_visible(part)) for part in _GAP.split(quotation))
    return tuple(tuple(part) for part in parts if part)


def tokenize_note(text: str) -> NoteWords:
    """Return the visible words of a note with their lines."""
    written, lines = _words(_visible(text)), list[int]()
    source = list(_words_of_lines(text.translate(_PLAIN_CHARACTERS)))
    runs = defaultdict[tuple[str, ...], list[int]](list)
    for n in range(len(source) - 2):
        runs[tuple(word for word, _ in source[n : n + 3])].append(n)
    position, number = 0, 1
    # visible words are a subsequence of the source's, which include link targets and comments
    for n, word in enumerate(written):
        match = next(
            (
                candidate
                for candidate in range(position, min(position + _LOOKAHEAD, len(source)))
                if source[candidate][0] == word
            ),
            None,
        )
        if match != position and (positions := runs.get(tuple(written[n : n + 3]))):
            following = bisect_left(positions, position)
            if following < len(positions) and positions[following] < position + _TRIGRAM_LOOKAHEAD:
                match = positions[following]
        if match is not None:
            position, number = match + 1, source[match][1]
        lines.append(number)
    folded = tuple(map(str.casefold, written))
    starts = tuple(accumulate((len(word) + 1 for word in folded), initial=0))[: len(folded)]
    return NoteWords(tuple(written), folded, tuple(lines), f" {' '.join(folded)} ", starts)


def find_quotation(parts: Sequence[Sequence[str]], note: NoteWords) -> tuple[WordSpan, ...]:
    """Return where a quotation occurs in a note, with or without other words between the parts."""
    spans = []
    for first in islice(_occurrences(parts[0], note, 0), _MAX_CANDIDATES) if parts else ():
        last = first + len(parts[0]) - 1
        for part in parts[1:]:
            following = next(_occurrences(part, note, last + 1, _MAX_GAP_WORDS), None)
            if following is None:
                break
            last = following + len(part) - 1
        else:
            spans.append(WordSpan(first, last))
    return tuple(spans)


def nearest_match(parts: Sequence[Sequence[str]], note: NoteWords) -> tuple[WordSpan, float] | None:
    """Return the nearest match of a quotation, and the fraction of the quoted words that match.

    Returns None if no word matches.
    """
    # Imported here: only verification needs it, and the import takes time.
    from rapidfuzz.fuzz import partial_ratio_alignment

    quoted = [word.casefold() for part in parts for word in part][:_MAX_COMPARED_WORDS]
    best = partial_ratio_alignment(quoted, note.folded)
    if not quoted or not best:
        return None
    half = len(quoted) // 2
    note_start, note_end = max(0, best.dest_start - half), best.dest_end + half + 1
    operations = _operations(quoted, note.folded[note_start:note_end])
    blocks = _densest_run(
        [(a, note_start + c, b - a) for kind, a, b, c, _ in operations if kind == "equal"]
    )
    if not blocks:
        return None
    # The span includes replaced words at either end: as many as the quotation has before its first
    # and after its last match.
    begin = max(0, blocks[0][1] - blocks[0][0])
    end = min(len(note.folded), blocks[-1][1] + len(quoted) - blocks[-1][0])
    return WordSpan(begin, end - 1), sum(size for *_, size in blocks) / len(quoted)


def word_differences(parts: Sequence[Sequence[str]], note: NoteWords, span: WordSpan) -> str:
    """Describe each difference: the words of the quotation vs. the words of the note."""
    quoted = [word for part in parts for word in part][:_MAX_COMPARED_WORDS]
    first, last = span
    note_words = note.folded[first : last + 1]
    operations = [
        operation
        for operation in _operations([word.casefold() for word in quoted], note_words)
        if operation[0] != "equal"
    ]
    differences = [
        f"{_quoted_words(quoted[a:b])} vs. {_quoted_words(note.written[first + c : first + d])}"
        for _, a, b, c, d in operations[:_MAX_DIFFERENCES]
    ]
    return ", ".join(differences) + (
        f", and {len(operations) - _MAX_DIFFERENCES} more"
        if len(operations) > _MAX_DIFFERENCES
        else ""
    )


def _operations(
    quoted: Sequence[str], note_words: Sequence[str]
) -> list[tuple[str, int, int, int, int]]:
    """Return the edits between two texts as `difflib` opcodes, with adjacent edits merged."""
    from rapidfuzz.distance import Levenshtein

    merged = list[tuple[str, int, int, int, int]]()
    for opcode in Levenshtein.opcodes(quoted, note_words):
        kind, (a, b) = opcode.tag, (opcode.src_start, opcode.src_end)
        c, d = opcode.dest_start, opcode.dest_end
        if merged and kind != "equal" != merged[-1][0]:
            _, a, _, c, _ = merged.pop()
        merged.append((kind, a, b, c, d))
    return merged


def _densest_run(blocks: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int]]:
    """Return the run of matches with the best score: matching words minus extra words of the note.

    A match is (offset in the quotation, offset in the note, size).
    """
    best, best_score, begin, score = (0, 0), 0, 0, 0
    for position, (a, c, size) in enumerate(blocks):
        before_a, before_c, before_size = blocks[position - 1] if position > begin else (a, c, 0)
        score -= max(0, (c - before_c) - (a - before_a)) if before_size else 0
        if score <= 0:
            begin, score = position, 0
        score += size
        if score > best_score:
            best_score, best = score, (begin, position + 1)
    return blocks[best[0] : best[1]]


def _quoted_words(words: Sequence[str]) -> str:
    if not words:
        return "nothing"
    ellipsis = " …" if len(words) > _MAX_DIFFERENCE_WORDS else ""
    return f"`{' '.join(words[:_MAX_DIFFERENCE_WORDS])}{ellipsis}`"


def _visible(markdown: str) -> str:
    return normalize("NFC", strip_markup(markdown).translate(_PLAIN_CHARACTERS))


def _words_of_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield each word of a text with the number of its line, from 1."""
    number = offset = 0
    for match in _WORD.finditer(text):
        number += text.count("\n", offset, match.start())
        offset = match.start()
        yield match[0], number + 1


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _occurrences(
    part: Sequence[str], note: NoteWords, after: int, within: int | None = None
) -> Iterator[int]:
    """Yield each word position in a note at which a part of a quotation starts.

    The positions range from `after` to `within` words later. None for `within` sets no limit.
    """
    phrase = f" {' '.join(map(str.casefold, part))} "
    if after >= len(note.starts):
        return
    last = len(note.starts) if within is None else after + within + len(part)
    end = note.starts[last] + 1 if last < len(note.starts) else len(note.joined)
    offset = note.joined.find(phrase, note.starts[after], end)
    while offset >= 0:
        yield bisect_left(note.starts, offset)
        offset = note.joined.find(phrase, offset + 1, end)
