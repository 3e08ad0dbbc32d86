"""Pieces under one heading joined to chunks: as long as the maximum allows, kinds kept apart where they are long enough, no small tails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from thumbindex.corpus.blocks import Outline, Region
from thumbindex.corpus.chunk import Piece, cut_children, cut_span
from thumbindex.corpus.source import Source
from thumbindex.model import BlockKind
from thumbindex.settings import ChunkSettings

Group = list[Piece]


@dataclass(frozen=True, slots=True)
class Draft:
    """A chunk that has no section yet."""

    piece: Piece
    reach: int  # offset where the headings begin that lead to it, or the piece
    level: int  # of its heading, 0 before the first one
    headings: tuple[str, ...]  # down to it, without the title
    place: int  # position under its own heading, from 0


def draft_chunks(source: Source, outline: Outline, settings: ChunkSettings) -> list[Draft]:
    """Cut a document into chunks in order; a heading with nothing below it becomes a chunk of its own line."""
    drafts: list[Draft] = []
    above: list[Region] = []
    reach: int | None = None
    for region, following in zip(outline.regions, (*outline.regions[1:], None), strict=True):
        above = [*(r for r in above if r.level < region.level), region]
        if reach is None and region.level:
            reach = source.starts[region.start]
        pieces = join(cut_children(source, region.body, settings.child_max), settings) if region.body.start < region.body.end else []
        if not pieces and region.level and (following is None or following.level <= region.level):
            pieces = list(_heading_pieces(source, region, settings.child_max))
        headings = tuple(r.heading for r in above if r.heading)
        for place, piece in enumerate(pieces):
            drafts.append(Draft(piece, piece.start if reach is None else reach, region.level, headings, place))
            reach = None
    return drafts


def join(pieces: Iterable[Piece], settings: ChunkSettings) -> list[Piece]:
    """Join neighbors to chunks of at most `child_max` characters, and of at least `child_min` where that can be."""
    groups: list[Group] = []
    for piece in pieces:
        if groups and _fit(groups[-1], [piece], settings):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    for index in range(len(groups) - 1, 0, -1):
        _fill(groups[index - 1], groups[index], settings)
    return [_whole(group) for group in groups]


def _fit(left: Group, right: Group, settings: ChunkSettings) -> bool:
    joined = left + right
    if _size(joined) > settings.child_max or (left[0].prefix and not right[0].prefix):
        return False  # a table's header is repeated before its rows only
    alike = len({piece.kind for piece in joined}) == 1
    return alike or min(_size(left), _size(right)) < settings.child_min


def _fill(left: Group, right: Group, settings: ChunkSettings) -> None:
    """Move pieces from a full group to a small one behind it, as long as the full one stays long enough."""
    while _size(right) < settings.child_min and len(left) > 1:
        if _size(left[:-1]) < settings.child_min or not _fit([left[-1]], right, settings):
            return
        right.insert(0, left.pop())


def _size(group: Group) -> int:
    return group[-1].end - group[0].start + group[0].size - (group[0].end - group[0].start)


def _whole(group: Group) -> Piece:
    kinds, languages = {piece.kind for piece in group}, {piece.language for piece in group}
    kind = kinds.pop() if len(kinds) == 1 else BlockKind.PROSE
    language = languages.pop() if len(languages) == 1 and kind is BlockKind.CODE else ""
    return Piece(group[0].start, group[-1].end, kind, language, group[0].prefix)


def _heading_pieces(source: Source, region: Region, maximum: int) -> Iterator[Piece]:
    span = source.trim(region.start, region.body.start)
    if span:
        yield from (Piece(start, end, BlockKind.HEADING) for start, end in cut_span(source, *span, maximum))
