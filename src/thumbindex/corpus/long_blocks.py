"""Cut tables, code and other blocks of lines that are longer than a chunk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from thumbindex.corpus.cuts import cut_at_words
from thumbindex.corpus.markdown import Block, SplitMode
from thumbindex.corpus.source import SourceText
from thumbindex.model import BlockKind

_CLOSING_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of the source, before small pieces are merged into chunks.

    `prefix` is the table header to repeat before the piece, or empty. `depth` is how deeply the cut
    before the piece is nested. A lead is not cut off from the next piece: a heading without text,
    the first paragraph of a list item, the term of a definition, a line that ends in `:`.
    """

    start: int
    end: int
    kind: BlockKind
    language: str = ""
    prefix: str = ""
    depth: int = 0
    is_lead: bool = False

    @property
    def size(self) -> int:
        """Number of characters, including the prefix."""
        return self.end - self.start + (len(self.prefix) + 1 if self.prefix else 0)


def cut_at(fragment: Fragment, ranges: Iterable[tuple[int, int]]) -> list[Fragment]:
    """Return the parts of a fragment at the given ranges of the source."""
    return [replace(fragment, start=start, end=end) for start, end in ranges]


def cut_lines(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
    """Cut a block at blank lines. If a part is still too long, cut it at every line."""
    last = block.end
    if (
        block.kind is BlockKind.CODE
        and (tail := source.trim(last - 1, last))
        and _CLOSING_FENCE.match(source.text[slice(*tail)])
    ):
        last -= 1  # a closing fence is no fragment of its own
    for first, end in _nonblank_runs(source, block.start, last):
        span = source.trim(first, end)
        fragment = Fragment(*span, block.kind, block.language) if span else None
        if fragment and fragment.size <= maximum:
            yield replace(
                fragment, end=_end_with_fence(source, fragment, block, end, last, maximum)
            )
        elif fragment:
            is_code = block.kind is BlockKind.CODE
            for line in range(first, end):
                if span := source.trim(line, line + 1):
                    fragment = Fragment(*span, block.kind, block.language)
                    if fragment.size <= maximum:
                        yield fragment
                    else:
                        parts = cut_at_words(source.text, *span, maximum, is_code=is_code)
                        yield from cut_at(fragment, parts)


def _end_with_fence(
    source: SourceText, fragment: Fragment, block: Block, end: int, last: int, maximum: int
) -> int:
    """Return where `fragment` ends, with the closing fence if that comes next and fits."""
    if end < last or last == block.end:
        return fragment.end
    closed = source.trim(last, block.end)
    return closed[1] if closed and closed[1] - fragment.start <= maximum else fragment.end


def _nonblank_runs(source: SourceText, first: int, last: int) -> Iterator[tuple[int, int]]:
    start = first
    for line in range(first, last):
        if source.trim(line, line + 1) is None:
            if start < line:
                yield start, line
            start = line + 1
    if start < last:
        yield start, last


def cut_table(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
    """Cut a table between rows, and repeat the header in the later fragments.

    If the header takes more than half the maximum, it is not repeated.
    """
    head = source.trim(block.start, block.start + 2)
    rows = [
        span for line in range(block.start + 2, block.end) if (span := source.trim(line, line + 1))
    ]
    if head is None or not rows or head[1] - head[0] > maximum // 2:
        yield from cut_lines(source, replace(block, split_mode=SplitMode.LINES), maximum)
        return
    if rows[0][1] - head[0] <= maximum:
        yield Fragment(head[0], rows.pop(0)[1], block.kind)
    else:
        yield Fragment(*head, block.kind)
    for start, end in rows:
        row = Fragment(start, end, block.kind, prefix=source.text_between(*head))
        if row.size <= maximum:
            yield row
        else:
            parts = cut_at_words(source.text, start, end, maximum)
            yield from cut_at(Fragment(start, end, block.kind), parts)
