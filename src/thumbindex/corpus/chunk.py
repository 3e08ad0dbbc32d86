"""Cut a document into sections (parents) and chunks (children).

Cuts fall between blocks, sentences, lines, table rows or words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, pairwise, takewhile

from thumbindex.corpus.cuts import cut_at_words, cut_sentences, last_sentence
from thumbindex.corpus.long_blocks import Fragment, cut_at, cut_lines, cut_table
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
class DraftChunk:
    """A chunk that is not assigned to a section yet."""

    fragment: Fragment
    start: int  # offset of the headings directly above, or of the fragment if there are none
    headings: tuple[str, ...]  # heading path without the title
    position: int  # of the chunk under its heading, from 0


_TARGET = re.compile(r"\s*(?:\]\(|\]\[|!?\[\[)")


def _draft_chunks(
    source: SourceText, markdown: ParsedMarkdown, settings: ChunkSettings
) -> list[DraftChunk]:
    """Cut a document into chunks, in order.

    A heading that has neither text nor subheadings joins the next chunk.
    """
    drafts: list[DraftChunk] = []
    heading_stack: list[Region] = []
    heading_start: int | None = None
    empty: Fragment | None = None  # headings without text, from the first to the last
    for region, following in zip(markdown.regions, (*markdown.regions[1:], None), strict=True):
        heading_stack = [*(r for r in heading_stack if r.level < region.level), region]
        if heading_start is None and region.level:
            heading_start = source.starts[region.start]
        pieces = cut_blocks(source, region.body, settings, empty.start if empty else None)
        if pieces and empty:
            pieces, empty = [empty, *pieces], None
        elif (
            not pieces
            and region.level
            and (following is None or following.level <= region.level)
            and (span := source.trim(region.start, region.body.start))
        ):
            start = empty.start if empty else span[0]
            empty = Fragment(start, span[1], BlockKind.HEADING, is_lead=True)
            if following is None or empty.size > settings.child_max - settings.child_min:
                parts = cut_at_words(source.text, start, span[1], settings.child_max)
                pieces, empty = cut_at(replace(empty, is_lead=False), parts), None
        headings = tuple(r.heading for r in heading_stack if r.heading)
        # a target of a link that was left out stays between two chunks
        after_targets = [
            n
            for n, (before, after) in enumerate(pairwise(pieces), 1)
            if _TARGET.match(source.text, before.end, after.start)
        ]
        fragments = [
            fragment
            for first, last in pairwise([0, *after_targets, len(pieces)])
            for fragment in merge_fragments(pieces[first:last], settings)
        ]
        for position, fragment in enumerate(fragments):
            start = fragment.start if heading_start is None else heading_start
            drafts.append(DraftChunk(fragment, start, headings, position))
            heading_start = None
    return drafts


# ------------------------------------------------------------------ blocks

_LEAD = re.compile(r"[^\s:][:：][*_]*\Z|^[ \t>]*\*\*[^*\n]+\*\*\Z", re.M)


def cut_blocks(
    source: SourceText,
    block: Block,
    settings: ChunkSettings,
    lead: int | None = None,
    depth: int = 0,
) -> list[Fragment]:
    """Cut the child blocks of `block`, and the lines between them, into fragments.

    The first fragment leaves room for the leads before it, which begin at the offset `lead`.
    """
    fragments: list[Fragment] = []
    has_own_line = block.split_mode is SplitMode.ITEM and len(block.children) > 1
    for number, child in enumerate(_with_gaps(source, block)):
        pieces = _cut(source, child, settings, lead, depth)
        if not pieces:
            continue
        last = pieces[-1]
        if child.split_mode is SplitMode.PROSE and _LEAD.search(source.text, last.start, last.end):
            start = last_sentence(source.text, last.start, last.end)
            if rest := source.text[last.start : start].rstrip():
                pieces[-1] = replace(last, end=last.start + len(rest))
                last = replace(last, start=start)
                pieces.append(last)
        if (
            (has_own_line and number == 0)
            or child.split_mode is SplitMode.TERM
            or _LEAD.search(source.text, last.start, last.end)
        ):
            pieces[-1] = replace(last, is_lead=True)
            longest = settings.child_max - settings.child_min
            if lead is None or len(pieces) > 1 or last.end - lead > longest:
                lead = last.start
        else:
            lead = None
        fragments += pieces
    return fragments


def _with_gaps(source: SourceText, block: Block) -> Iterator[Block]:
    """Yield the child blocks, and a block for the lines between two of them.

    These lines are link definitions or blocks nested too deeply to be parsed.
    """
    line = block.start
    for child in (*block.children, Block(SplitMode.RULE, block.kind, block.end, block.end)):
        span = source.trim(line, child.start) if line < child.start else None
        if span and source.text[slice(*span)].strip("> \t\n"):  # skips empty lines of a quote
            yield Block(SplitMode.LINES, block.kind, line, child.start)
        yield replace(child, start=max(line, child.start))
        line = max(line, child.end)


def _cut(
    source: SourceText, block: Block, settings: ChunkSettings, lead: int | None, depth: int
) -> list[Fragment]:
    if block.start >= block.end or block.split_mode is SplitMode.RULE:
        return []
    span = source.trim(block.start, block.end)
    if span is None:
        return []
    room = settings.child_max - (0 if lead is None else span[0] - lead)
    if room < settings.child_min:
        room, lead = settings.child_max, None
    fragment = Fragment(*span, block.kind, block.language, depth=depth)
    if fragment.size <= room:
        return [fragment]
    inner_depth = depth + (block.split_mode is SplitMode.ITEM)
    if block.split_mode in (SplitMode.CONTAINER, SplitMode.ITEM) and block.children:
        pieces = cut_blocks(source, block, settings, lead, inner_depth)
    elif block.split_mode is SplitMode.TABLE:
        pieces = [*cut_table(source, block, room)]
    elif block.split_mode is SplitMode.PROSE:
        pieces = cut_at(fragment, cut_sentences(source.text, *span, room))
    elif block.split_mode is SplitMode.UNPARSED:
        pieces = cut_at(fragment, cut_at_words(source.text, *span, room))
    else:
        pieces = [*cut_lines(source, block, room)]
    return [
        replace(piece, depth=max(piece.depth, inner_depth) if number else depth)
        for number, piece in enumerate(pieces)
    ]


# ------------------------------------------------------------------ small fragments

_FragmentGroup = list[Fragment]


def merge_fragments(fragments: Iterable[Fragment], settings: ChunkSettings) -> list[Fragment]:
    """Merge neighboring fragments.

    A merged fragment has at most `child_max` and, if possible, at least `child_min` characters.
    Leads stay with the next fragment. Cuts are where the nesting is least deep.
    """
    units: list[Fragment] = []
    for fragment in fragments:
        if units and units[-1].is_lead and _fits(units[-1], fragment, settings):
            units[-1] = _merged([units[-1], fragment])
        else:
            units.append(fragment)
    groups: list[_FragmentGroup] = []
    start = 0
    while start < len(units):
        end = _find_cut(units, start, settings)
        groups.append(units[start:end])
        start = end
    for index in range(len(groups) - 1, 0, -1):
        _move_to_small(groups[index - 1], groups[index], settings)
    return [_merged(group) for group in groups]


def _find_cut(units: Sequence[Fragment], start: int, settings: ChunkSettings) -> int:
    """Return where the group that begins at `start` ends."""
    first, kinds, best = units[start], {units[start].kind}, 0
    for end in range(start + 1, len(units)):
        following = units[end]
        if following.depth < first.depth:
            return end  # the rest of a list item does not begin the next one's chunk
        if _size([first, units[end - 1]]) >= settings.child_min:
            if following.size >= settings.child_min and kinds != {following.kind}:
                return end
            if not best or following.depth <= units[best].depth:
                best = end
        if not _fits(first, following, settings):
            return best or end
        kinds.add(following.kind)
    return len(units)


def _fits(first: Fragment, last: Fragment, settings: ChunkSettings) -> bool:
    """Return whether one chunk may begin with `first` and end with `last`."""
    # a repeated table header may precede only rows of its table
    return _size([first, last]) <= settings.child_max and not (first.prefix and not last.prefix)


def _move_to_small(before: _FragmentGroup, after: _FragmentGroup, settings: ChunkSettings) -> None:
    """Move fragments from the end of `before` to `after` until `after` has `child_min` characters.

    `before` keeps at least `child_min` characters, and the beginning of what `after` ends.
    """
    while _size(after) < settings.child_min and len(before) > 1:
        if (
            _size(before[:-1]) < settings.child_min
            or before[-1].depth > after[0].depth
            or not _fits(before[-1], after[-1], settings)
        ):
            return
        after.insert(0, before.pop())


def _size(group: _FragmentGroup) -> int:
    return group[-1].end - group[0].start + group[0].size - (group[0].end - group[0].start)


def _merged(group: _FragmentGroup) -> Fragment:
    kinds = {fragment.kind for fragment in group}
    languages = {fragment.language for fragment in group}
    if len(kinds) > 1:
        kinds.discard(BlockKind.HEADING)
    kind = kinds.pop() if len(kinds) == 1 else BlockKind.PROSE
    return replace(
        group[0],
        end=group[-1].end,
        kind=kind,
        language=languages.pop() if len(languages) == 1 and kind is BlockKind.CODE else "",
        is_lead=group[-1].is_lead,
    )


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
    """Split a range into parts of similar size, longer than a chunk.

    Cuts are where the nesting is least deep.
    """
    total = _range_size(drafts, run)
    target = total / -(-total // settings.parent_max)
    cuts = [run[0]]

    def preference(option: tuple[int, int]) -> tuple[bool, int, bool, float]:
        at, size = option
        depth = drafts[at].fragment.depth
        return size < settings.child_max, depth, size < target, abs(size - target)

    while _range_size(drafts, (cuts[-1], run[1])) > settings.parent_max and cuts[-1] + 1 < run[1]:
        sizes = ((at, _range_size(drafts, (cuts[-1], at))) for at in range(cuts[-1] + 1, run[1]))
        options = [*takewhile(lambda option: option[1] <= settings.parent_max, sizes)]
        cuts.append(min(options, key=preference)[0] if options else cuts[-1] + 1)
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
