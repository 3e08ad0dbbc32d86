"""The text that is cut: a file's lines with comments taken out, and the way back from a place in it to a line."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SIGN = re.compile(r"<!--|%%|\{/\*|`+|\n[ \t]*(?=\n)")


@dataclass(frozen=True, slots=True)
class Source:
    """A text whose line n is line n of the file, comments taken out; offsets count its characters."""

    text: str
    starts: tuple[int, ...]  # offset of each line's first character
    gone: tuple[int, ...]  # offsets of line ends that stood inside a comment: kept for counting, never shown

    def line_at(self, offset: int) -> int:
        """Return the line of an offset, from 1."""
        return bisect_right(self.starts, offset)

    def trim(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the offsets of the lines first to last (from 0, half open) without blank lines around; None where all are blank."""
        start = self.starts[first] if first < len(self.starts) else len(self.text)
        part = self.text[start : self.starts[last] if last < len(self.starts) else len(self.text)]
        end = len(part.rstrip())
        if not end:
            return None
        return start + part.rfind("\n", 0, len(part) - len(part.lstrip())) + 1, start + end

    def show(self, start: int, end: int) -> str:
        """Return the text between two offsets as it stands in the file, comments left out."""
        low, high = bisect_left(self.gone, start), bisect_left(self.gone, end)
        if low == high:
            return self.text[start:end]
        cuts = (start - 1, *self.gone[low:high], end)
        return "".join(self.text[a + 1 : b] for a, b in pairwise(cuts))


def line_starts(text: str) -> tuple[int, ...]:
    """Return the offset of each line's first character; only a line feed ends a line."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


def may_hold_comments(text: str, mdx: bool) -> bool:
    """Tell whether a text is worth the search for comments."""
    return "<!--" in text or "%%" in text or (mdx and "{/*" in text)


def leave_out_comments(text: str, code: Sequence[tuple[int, int]], mdx: bool) -> Source:
    """Take out `<!-- -->`, Obsidian's `%% %%` and, in MDX, `{/* */}`, except in code, whose lines (from 0, half open) are given."""
    kept: list[str] = []
    gone: list[int] = []
    position = size = 0
    for start, end in _comments(_blank(text, code), mdx):
        kept.append(text[position:start])
        size += start - position
        lines = text.count("\n", start, end)
        gone.extend(range(size, size + lines))
        kept.append("\n" * lines)
        size += lines
        position = end
    clean = "".join((*kept, text[position:]))
    return Source(clean, line_starts(clean), tuple(gone))


def comments_in(text: str, code: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield the comments of a text as they stand there, JSX's too, none that is code."""
    if may_hold_comments(text, mdx=True):
        yield from (text[start:end] for start, end in _comments(_blank(text, code), mdx=True))


def comment_lines(text: str, code: Sequence[tuple[int, int]], mdx: bool) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line, from 1, of each comment of a text."""
    starts = line_starts(text)
    yield from ((bisect_right(starts, start), bisect_right(starts, end - 1)) for start, end in _comments(_blank(text, code), mdx))


def _blank(text: str, code: Sequence[tuple[int, int]]) -> str:
    """Return the text with its lines of code as spaces, so that nothing in them is taken for a comment's sign."""
    starts = (*line_starts(text), len(text))
    parts: list[str] = []
    position = 0
    for first, last in code:
        start, end = starts[first], starts[min(last, len(starts) - 1)]
        parts += (text[position:start], re.sub(r"[^\n]", " ", text[start:end]))
        position = max(position, end)
    return "".join((*parts, text[position:]))


def _comments(text: str, mdx: bool) -> Iterator[tuple[int, int]]:
    signs = list(_SIGN.finditer(text))
    twins = _twins(signs)
    lost: set[str] = set()  # closing signs that do not come again: never searched for twice, so that time stays linear
    position = 0
    for index, sign in enumerate(signs):
        if sign.start() < position:
            continue
        end = -1
        if sign[0] == "<!--":
            end = _after("-->", text, sign.start() + 2, lost)
        elif sign[0] == "{/*" and mdx:
            end = _after("*/}", text, sign.end(), lost)
        elif index in twins:
            paragraph, anywhere = twins[index]
            line = text[text.rfind("\n", 0, sign.start()) + 1 : sign.start()] if sign[0] == "%%" else "-"
            end = paragraph if line.strip() else anywhere
            if sign[0] != "%%":  # a span of code: stepped over
                position, end = max(position, end), -1
        if end >= 0:
            yield sign.start(), end
            position = end


def _after(close: str, text: str, start: int, lost: set[str]) -> int:
    found = -1 if close in lost else text.find(close, start)
    if found < 0:
        lost.add(close)
        return -1
    return found + len(close)


def _twins(signs: Sequence[re.Match[str]]) -> dict[int, tuple[int, int]]:
    """Map each `%%` and run of backticks to the end of the next one like it: in the same paragraph, and anywhere; -1 for none."""
    twins: dict[int, tuple[int, int]] = {}
    near: dict[str, int] = {}
    far = -1
    for index in range(len(signs) - 1, -1, -1):
        sign = signs[index]
        if sign[0][0] == "\n":
            near.clear()
        elif sign[0][0] in "%`":
            twins[index] = near.get(sign[0], -1), far if sign[0] == "%%" else -1
            near[sign[0]] = sign.end()
            far = sign.end() if sign[0] == "%%" else far
    return twins
