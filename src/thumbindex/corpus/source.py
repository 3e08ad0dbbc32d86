"""Remove comments and data from a note, with line numbers kept.

Outside an Obsidian vault, `%%` marks a comment only if the marks have lines of their own: two lines
that are only `%%`, or a line that begins and ends with `%%`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from thumbindex.corpus.markdown import CODE_TYPES, block_tokens, is_mdx
from thumbindex.corpus.payload import find_payloads

_COMMENT_MARK = re.compile(r"<!--|%%|\{/\*|`+|\n[ \t]*(?=\n)")
_NOT_LINE_FEED = re.compile(r"[^\n]")
_FIRST_IN_LINE = re.compile(r"^[^\S\n]*+(?=%%)", re.M)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text without comments and payloads.

    Line numbers are those of the file. Offsets are positions in `text`.
    """

    text: str
    starts: Sequence[int]  # offset of each line's first character
    # offsets of the line feeds left from removed text: they count as lines but are never shown
    removed_line_ends: tuple[int, ...]

    def line_at(self, offset: int) -> int:
        """Return the number, from 1, of the line that contains an offset."""
        return bisect_right(self.starts, offset)

    def trim(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the start and end offset of a range of lines, without blank lines at either end.

        `first` is the first line, from 0. `last` is exclusive. Returns None if all lines are blank.
        """
        start = self.starts[first] if first < len(self.starts) else len(self.text)
        part = self.text[start : self.starts[last] if last < len(self.starts) else len(self.text)]
        end = len(part.rstrip())
        if not end:
            return None
        return start + part.rfind("\n", 0, len(part) - len(part.lstrip())) + 1, start + end

    def text_between(self, start: int, end: int) -> str:
        """Return the file's text between two offsets, without comments and payloads."""
        low, high = (
            bisect_left(self.removed_line_ends, start),
            bisect_left(self.removed_line_ends, end),
        )
        if low == high:
            return self.text[start:end]
        cuts = (start - 1, *self.removed_line_ends[low:high], end)
        return "".join(self.text[a + 1 : b] for a, b in pairwise(cuts))


def line_starts(text: str) -> array[int]:
    """Return the offset of each line's first character. Only a line feed ends a line."""
    starts = array("q", (0,))
    starts.extend(match.end() for match in re.finditer("\n", text))
    return starts


def read_source(text: str, path: str = "", in_vault: bool = True) -> SourceText:
    """Return a text without comments and payloads. JSX comments are removed from `.mdx` files."""
    parts: list[str] = []
    removed_line_ends: list[int] = []
    position = size = 0
    for start, end in _removed_spans(text, path, in_vault):
        lines = text.count("\n", start, end)
        parts += (text[position:start], "\n" * lines)
        size += start - position
        removed_line_ends.extend(range(size, size + lines))
        size += lines
        position = end
    clean = "".join((*parts, text[position:])) if parts else text
    return SourceText(clean, line_starts(clean), tuple(removed_line_ends))


def _removed_spans(text: str, path: str, in_vault: bool) -> Iterator[tuple[int, int]]:
    spans = [(start, end) for start, end, _ in find_payloads(text)]
    if spans:  # a `%%` or `<!--` in a payload is no comment
        cuts = [0, *(offset for span in spans for offset in span), len(text)]
        parts = [text[a:b] for a, b in pairwise(cuts)]
        parts[1::2] = [_NOT_LINE_FEED.sub("x", payload) for payload in parts[1::2]]
        text = "".join(parts)
    position = 0
    for start, end in sorted((*spans, *find_comments(text, path, in_vault))):
        if end > position:
            yield max(start, position), end
            position = end


def find_comments(text: str, path: str, in_vault: bool) -> Sequence[tuple[int, int]]:
    """Return (start, end) of each comment outside code: `<!-- -->`, `%% %%`, `{/* */}` in MDX."""
    mdx = is_mdx(path)
    if not ("<!--" in text or "%%" in text or (mdx and "{/*" in text)):
        return ()
    lines = text.split("\n")
    for token in block_tokens(text, mdx):
        first, last = token.map or (0, 0)
        if token.type in CODE_TYPES or token.type == "math_block":
            lines[first:last] = [" " * len(line) for line in lines[first:last]]
    if not in_vault and "%%" in text:
        lines = [line if _is_own_line(line) else line.replace("%%", "  ") for line in lines]
    return tuple(_comments("\n".join(lines), mdx))


def comment_lines(path: str, text: str, in_vault: bool) -> tuple[tuple[int, int], ...]:
    """Return the first and last line (from 1) of each comment outside code."""
    starts = line_starts(text)
    return tuple(
        (bisect_right(starts, start), bisect_right(starts, end - 1))
        for start, end in find_comments(text, path, in_vault)
    )


def _is_own_line(line: str) -> bool:
    """Return whether a line is only `%%`, or one comment."""
    line = line.strip()
    return line == "%%" or (line[:2] == line[-2:] == "%%" and line.count("%%") == 2)


def _comments(text: str, mdx: bool) -> Iterator[tuple[int, int]]:
    marks = list(_COMMENT_MARK.finditer(text))
    twins = _closing_offsets(marks)
    first_in_line = {match.end() for match in _FIRST_IN_LINE.finditer(text)}
    # closing marks that do not occur again: another search would take quadratic time
    missing: set[str] = set()
    position = 0
    for index, mark in enumerate(marks):
        if mark.start() < position:
            continue
        end = -1
        if mark[0] == "<!--":
            end = _find_close("-->", text, mark.start() + 2, missing)
        elif mark[0] == "{/*" and mdx:
            end = _find_close("*/}", text, mark.end(), missing)
        elif index in twins:
            paragraph, anywhere = twins[index]
            end = anywhere if mark.start() in first_in_line else paragraph
            if mark[0] != "%%":  # a code span is skipped
                position, end = max(position, end), -1
        if end >= 0:
            yield mark.start(), end
            position = end


def _find_close(close: str, text: str, start: int, missing: set[str]) -> int:
    offset = -1 if close in missing else text.find(close, start)
    if offset < 0:
        missing.add(close)
        return -1
    return offset + len(close)


def _closing_offsets(marks: Sequence[re.Match[str]]) -> dict[int, tuple[int, int]]:
    """For each `%%` or backtick run in `marks`, map its index to a pair of offsets:

    first: end of the next identical mark in the paragraph, or -1
    second: end of the next `%%` in the text, or -1 (always -1 for backticks)
    """
    twins: dict[int, tuple[int, int]] = {}
    next_in_paragraph: dict[str, int] = {}
    next_anywhere = -1
    for index in range(len(marks) - 1, -1, -1):
        mark = marks[index]
        if mark[0][0] == "\n":
            next_in_paragraph.clear()
        elif mark[0][0] in "%`":
            twins[index] = (
                next_in_paragraph.get(mark[0], -1),
                next_anywhere if mark[0] == "%%" else -1,
            )
            next_in_paragraph[mark[0]] = mark.end()
            next_anywhere = mark.end() if mark[0] == "%%" else next_anywhere
    return twins
