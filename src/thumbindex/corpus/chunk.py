"""Cut a document into sections (parents) and chunks (children).

Cuts fall between blocks, sentences, lines, table rows or words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, pairwise

from thumbindex.corpus.cuts import cut_at_words, cut_sentences
from thumbindex.corpus.markdown import Block, ParsedMarkdown, Region, SplitMode
from thumbindex.corpus.source import SourceText
from thumbindex.model import BlockKind, Chunk, Section
from thumbindex.settings import ChunkSettings

# ------------------------------------------------------------------ the document


def cut_document(
    source: SourceText, markdown: ParsedMarkdown, title: str, settings: ChunkSettings
) -> tuple[tuple[Section, ...], tuple[Chunk, ...]]:
    """Cut a document into sections and chunks.

    An empty document gets one empty section with one empty chunk, at line 1.
    """
    largest = min(settings.child_max, settings.parent_max)
    settings = replace(settings, child_max=largest, child_min=min(settings.child_min, largest))
    drafts = _draft_chunks(source, markdown, settings)
    if not drafts:
        salience = _base_salience(BlockKind.PROSE, 0, 0, 0, 1, 0)
        empty = Chunk(0, 0, BlockKind.PROSE, (title,), 1, 1, "", salience)
        return (Section(0, 1, 1, ""),), (empty,)
    sections: list[Section] = []
    chunks: list[Chunk] = []
    for ordinal, run in enumerate(group_sections(drafts, settings)):
        end = drafts[run[1] - 1].fragment.end
        # cuts off the beginning of leading headings that are too long for the section
        start = max(drafts[run[0]].start, end - settings.parent_max)
        first, last = source.line_at(start), source.line_at(end - 1)
        sections.append(Section(ordinal, first, last, source.text_between(start, end)))
        chunks += [_chunk(source, drafts, position, ordinal, title) for position in range(*run)]
    return tuple(sections), tuple(chunks)


def _chunk(
    source: SourceText, drafts: Sequence[DraftChunk], ordinal: int, section: int, title: str
) -> Chunk:
    draft, fragment = drafts[ordinal], drafts[ordinal].fragment
    headings = tuple(
        dropwhile(lambda heading: _normalized(heading) == _normalized(title), draft.headings)
    )
    text = source.text_between(fragment.start, fragment.end)
    return Chunk(
        ordinal=ordinal,
        section=section,
        kind=fragment.kind,
        heading_path=(title, *headings),
        start_line=source.line_at(fragment.start),
        end_line=source.line_at(fragment.end - 1),
        text=f"{fragment.prefix}\n{text}" if fragment.prefix else text,
        salience=_base_salience(
            fragment.kind, len(headings), draft.position, ordinal, len(drafts), len(text)
        ),
        language=fragment.language,
    )


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


_KIND_SALIENCE = {
    BlockKind.PROSE: 1.0,
    BlockKind.LIST: 0.95,
    BlockKind.TABLE: 0.9,
    BlockKind.CODE: 0.85,
    BlockKind.HEADING: 0.4,
}
_FULL_LENGTH = 200  # a chunk with this many characters gets the full score for length


def _base_salience(
    kind: BlockKind, depth: int, position: int, ordinal: int, count: int, size: int
) -> float:
    """Return the salience of a chunk, from 0 to 1.

    The first paragraph of a document scores near 1. The last line under a deep heading scores
    near 0. The formula, where `kind_weight` depends on the kind of block:

        kind_weight * (0.30 * (1 - depth / 6) + 0.30 / (1 + position)
                       + 0.20 * (1 - ordinal / (count - 1)) + 0.20 * min(1, size / 200))

    depth: number of headings above the chunk, without the title
    position: position of the chunk under its heading, from 0
    ordinal: position of the chunk among the `count` chunks of the document, from 0
    size: length of the chunk in characters
    """
    height = 1 - min(depth, 6) / 6
    earliness = 1 - ordinal / (count - 1) if count > 1 else 1.0
    score = (
        0.30 * height
        + 0.30 / (1 + position)
        + 0.20 * earliness
        + 0.20 * min(1.0, size / _FULL_LENGTH)
    )
    return round(_KIND_SALIENCE[kind] * score, 4)


# ------------------------------------------------------------------ chunks


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of the source, before small pieces are merged into chunks.

    `prefix` is the table header to repeat before the piece, or empty.
    """

    start: int
    end: int
    kind: BlockKind
    language: str = ""
    prefix: str = ""

    @property
    def size(self) -> int:
        """Number of characters, including the prefix."""
        return self.end - self.start + (len(self.prefix) + 1 if self.prefix else 0)


@dataclass(frozen=True, slots=True)
class DraftChunk:
    """A chunk that is not assigned to a section yet."""

    fragment: Fragment
    start: int  # offset of the headings directly above, or of the fragment if there are none
    headings: tuple[str, ...]  # heading path without the title
    position: int  # of the chunk under its heading, from 0


_TARGET = re.compile(r"\]\(|\]\[|\[\[")


def _draft_chunks(
    source: SourceText, markdown: ParsedMarkdown, settings: ChunkSettings
) -> list[DraftChunk]:
    """Cut a document into chunks, in order.

    A heading that has neither text nor subheadings becomes a chunk of its own.
    """
    drafts: list[DraftChunk] = []
    heading_stack: list[Region] = []
    heading_start: int | None = None
    for region, following in zip(markdown.regions, (*markdown.regions[1:], None), strict=True):
        heading_stack = [*(r for r in heading_stack if r.level < region.level), region]
        if heading_start is None and region.level:
            heading_start = source.starts[region.start]
        fragments: list[Fragment] = []
        if region.body.start < region.body.end:
            pieces = list(cut_blocks(source, region.body, settings.child_max))
            # a target of a link that was left out stays between two chunks
            after_targets = [
                n
                for n, (before, after) in enumerate(pairwise(pieces), 1)
                if _TARGET.search(source.text, before.end, after.start)
            ]
            for first, last in pairwise([0, *after_targets, len(pieces)]):
                fragments += merge_fragments(pieces[first:last], settings)
        if (
            not fragments
            and region.level
            and (following is None or following.level <= region.level)
        ):
            fragments = list(_heading_fragments(source, region, settings.child_max))
        headings = tuple(r.heading for r in heading_stack if r.heading)
        for position, fragment in enumerate(fragments):
            start = fragment.start if heading_start is None else heading_start
            drafts.append(DraftChunk(fragment, start, headings, position))
            heading_start = None
    return drafts


def _heading_fragments(source: SourceText, region: Region, maximum: int) -> Iterator[Fragment]:
    span = source.trim(region.start, region.body.start)
    if span:
        heading = Fragment(*span, BlockKind.HEADING)
        yield from _parts(heading, cut_at_words(source.text, *span, maximum))


# ------------------------------------------------------------------ blocks

_CLOSING_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")


def cut_blocks(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
    """Cut the child blocks of `block`, and the lines between them, into fragments.

    The lines between child blocks are link definitions or blocks nested too deeply to be parsed.
    """
    line = block.start
    for child in block.children:
        yield from _cut_gap(source, block, line, child.start, maximum)
        yield from _cut(source, replace(child, start=max(line, child.start)), maximum)
        line = max(line, child.end)
    yield from _cut_gap(source, block, line, block.end, maximum)


def _cut(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
    if block.start >= block.end or block.split_mode is SplitMode.RULE:
        return
    span = source.trim(block.start, block.end)
    if span is None:
        return
    fragment = Fragment(*span, block.kind, block.language)
    if fragment.size <= maximum:
        yield fragment
    elif block.split_mode is SplitMode.CONTAINER and block.children:
        yield from cut_blocks(source, block, maximum)
    elif block.split_mode is SplitMode.TABLE:
        yield from _cut_table(source, block, maximum)
    elif block.split_mode is SplitMode.PROSE:
        yield from _parts(fragment, cut_sentences(source.text, *span, maximum))
    elif block.split_mode is SplitMode.UNPARSED:
        yield from _parts(fragment, cut_at_words(source.text, *span, maximum))
    else:
        yield from _cut_lines(source, block, maximum)


def _parts(fragment: Fragment, ranges: Iterable[tuple[int, int]]) -> Iterator[Fragment]:
    return (replace(fragment, start=start, end=end) for start, end in ranges)


def _cut_gap(
    source: SourceText, block: Block, first: int, last: int, maximum: int
) -> Iterator[Fragment]:
    span = source.trim(first, last) if first < last else None
    if span and source.text[slice(*span)].strip("> \t\n"):  # skips empty lines of a quote
        yield from _cut(source, Block(SplitMode.LINES, block.kind, first, last), maximum)


def _cut_lines(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
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
                        yield from _parts(fragment, parts)


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


def _cut_table(source: SourceText, block: Block, maximum: int) -> Iterator[Fragment]:
    """Cut a table between rows, and repeat the header in the later fragments.

    If the header takes more than half the maximum, it is not repeated.
    """
    head = source.trim(block.start, block.start + 2)
    rows = [
        span for line in range(block.start + 2, block.end) if (span := source.trim(line, line + 1))
    ]
    if head is None or not rows or head[1] - head[0] > maximum // 2:
        yield from _cut_lines(source, replace(block, split_mode=SplitMode.LINES), maximum)
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
            yield from _parts(Fragment(start, end, block.kind), parts)


# ------------------------------------------------------------------ small fragments

_FragmentGroup = list[Fragment]


def merge_fragments(fragments: Iterable[Fragment], settings: ChunkSettings) -> list[Fragment]:
    """Merge neighboring fragments.

    A merged fragment has at most `child_max` and, if possible, at least `child_min` characters.
    """
    groups: list[_FragmentGroup] = []
    for fragment in fragments:
        if groups and _can_merge(groups[-1], [fragment], settings):
            groups[-1].append(fragment)
        else:
            groups.append([fragment])
    for index in range(len(groups) - 1, 0, -1):
        _move_to_small(groups[index - 1], groups[index], settings)
    return [_merged(group) for group in groups]


def _can_merge(before: _FragmentGroup, after: _FragmentGroup, settings: ChunkSettings) -> bool:
    if _size([before[0], after[-1]]) > settings.child_max:
        return False
    if before[0].prefix and not after[0].prefix:
        return False  # a repeated table header may precede only rows of its table
    if min(_size(before), _size(after)) < settings.child_min:
        # tested first: collecting the kinds of many tiny fragments is slow
        return True
    return len({fragment.kind for fragment in (*before, *after)}) == 1


def _move_to_small(before: _FragmentGroup, after: _FragmentGroup, settings: ChunkSettings) -> None:
    """Move fragments from the end of `before` to `after` until `after` has `child_min` characters.

    `before` keeps at least `child_min` characters.
    """
    while _size(after) < settings.child_min and len(before) > 1:
        if _size(before[:-1]) < settings.child_min or not _can_merge([before[-1]], after, settings):
            return
        after.insert(0, before.pop())


def _size(group: _FragmentGroup) -> int:
    return group[-1].end - group[0].start + group[0].size - (group[0].end - group[0].start)


def _merged(group: _FragmentGroup) -> Fragment:
    kinds, languages = (
        {fragment.kind for fragment in group},
        {fragment.language for fragment in group},
    )
    kind = kinds.pop() if len(kinds) == 1 else BlockKind.PROSE
    language = languages.pop() if len(languages) == 1 and kind is BlockKind.CODE else ""
    return Fragment(group[0].start, group[-1].end, kind, language, group[0].prefix)


# ------------------------------------------------------------------ sections

_ChunkRange = tuple[int, int]
"""Half-open range of chunk positions."""

_MAX_DEPTH = 7  # the preamble and six levels of headings


def group_sections(drafts: Sequence[DraftChunk], settings: ChunkSettings) -> list[_ChunkRange]:
    """Group consecutive chunks into sections. Headings count toward the limit `parent_max`."""
    starts = [i for i, draft in enumerate(drafts) if draft.position == 0]
    return (
        _group_below(drafts, list(pairwise([*starts, len(drafts)])), 0, settings) if drafts else []
    )


def _group_below(
    drafts: Sequence[DraftChunk],
    ranges: Sequence[_ChunkRange],
    depth: int,
    settings: ChunkSettings,
) -> list[_ChunkRange]:
    """Group the chunk ranges under one heading into sections.

    If all ranges together exceed `parent_max`, the ranges below each subheading are grouped first.
    Then neighboring small groups are merged.
    """
    full_range = ranges[0][0], ranges[-1][1]
    if _range_size(drafts, full_range) <= settings.parent_max:
        return [full_range]
    if len(ranges) == 1:
        return _split_range(drafts, full_range, settings)
    parts: list[_ChunkRange] = []
    if depth > _MAX_DEPTH:
        for chunks in ranges:
            parts += _split_range(drafts, chunks, settings)
    else:
        by_heading = groupby(ranges, lambda chunks: drafts[chunks[0]].headings[: depth + 1])
        for _, members in by_heading:
            parts += _group_below(drafts, list(members), depth + 1, settings)
    return _merge_small(drafts, parts, settings)


def _split_range(
    drafts: Sequence[DraftChunk], run: _ChunkRange, settings: ChunkSettings
) -> list[_ChunkRange]:
    """Split a range into parts of similar size, as few as `parent_max` allows."""
    total = _range_size(drafts, run)
    target = total / -(-total // settings.parent_max)
    cuts = [run[0]]
    for ordinal in range(run[0] + 1, run[1]):
        if (
            _range_size(drafts, (cuts[-1], ordinal)) >= target
            or _range_size(drafts, (cuts[-1], ordinal + 1)) > settings.parent_max
        ):
            cuts.append(ordinal)
    return list(pairwise([*cuts, run[1]]))


def _merge_small(
    drafts: Sequence[DraftChunk], runs: Sequence[_ChunkRange], settings: ChunkSettings
) -> list[_ChunkRange]:
    merged: list[_ChunkRange] = []
    for run in runs:
        if not merged:
            merged.append(run)
            continue
        joined = (merged[-1][0], run[1])
        smallest = min(_range_size(drafts, merged[-1]), _range_size(drafts, run))
        is_small = smallest < settings.parent_min
        if is_small and _range_size(drafts, joined) <= settings.parent_max:
            merged[-1] = joined
        else:
            merged.append(run)
    return merged


def _range_size(drafts: Sequence[DraftChunk], run: _ChunkRange) -> int:
    return drafts[run[1] - 1].fragment.end - drafts[run[0]].start
