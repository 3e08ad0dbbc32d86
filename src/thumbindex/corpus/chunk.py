"""Cut a document into chunks and sections: at blocks, sentences, lines, rows and words, none longer
than the maximum.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile, groupby, pairwise

from thumbindex.corpus.markdown import Block, Outline, Region, Shape, Source
from thumbindex.model import BlockKind, Chunk, Section
from thumbindex.settings import ChunkSettings

_KIND = {
    BlockKind.PROSE: 1.0,
    BlockKind.LIST: 0.95,
    BlockKind.TABLE: 0.9,
    BlockKind.CODE: 0.85,
    BlockKind.HEADING: 0.4,
}
_FULL = 200  # characters from which length counts for all it can


def base_salience(
    kind: BlockKind, depth: int, place: int, ordinal: int, count: int, size: int
) -> float:
    """Return the salience of a chunk in [0, 1] (spec/dedup.md, section 3).

    kind · (0.30 · (1 - depth / 6) + 0.30 / (1 + place) + 0.20 · (1 - ordinal / (count - 1)) + 0.20
    · min(1, size / 200)): the number of headings below the title, the position under its own
    heading and in the document, and the length in characters. A first paragraph near the top of a
    document comes near 1, a one-line tail under a deep heading near 0.
    """
    high = 1 - min(depth, 6) / 6
    early = 1 - ordinal / (count - 1) if count > 1 else 1.0
    score = 0.30 * high + 0.30 / (1 + place) + 0.20 * early + 0.20 * min(1.0, size / _FULL)
    return round(_KIND[kind] * score, 4)


_SENTENCE = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”’)\]*_`]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*|\n[ \t]*\n"
)
_BREAK = re.compile(r"[\s。！？]")
_PHRASE = re.compile(r"[^,.;。？！]+[,.;。？！]?|[,.;。？！]")
# characters given to the sentence splitter at once: where nothing else does, it splits by letters
_SPLITTER_READS = 20_000
_CLOSING_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the source that is not cut again; `prefix` is a table's header, repeated before
    rows that stand apart from it.
    """

    start: int
    end: int
    kind: BlockKind
    language: str = ""
    prefix: str = ""

    @property
    def size(self) -> int:
        """Count the characters of the piece, prefix included."""
        return self.end - self.start + (len(self.prefix) + 1 if self.prefix else 0)


def cut_children(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut each block of a container, and the lines that stand in no block of it (link definitions,
    what is nested too deeply).
    """
    line = block.start
    for child in block.children:
        yield from _cut_gap(source, block, line, child.start, maximum)
        yield from _cut(source, replace(child, start=max(line, child.start)), maximum)
        line = max(line, child.end)
    yield from _cut_gap(source, block, line, block.end, maximum)


def cut_span(source: Source, start: int, end: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch into parts of at most `maximum` characters, between words where there are
    any.
    """
    while end - start > maximum:
        part = source.text[start : start + maximum + 1]
        word = max(part.rfind(" "), part.rfind("\t"), part.rfind("\n"))
        cut = start + (word if word > maximum // 2 else maximum)
        if size := len(source.text[start:cut].rstrip()):
            yield start, start + size
        start = cut
        while start < end and source.text[start].isspace():
            start += 1
    if source.text[start:end].strip():
        yield start, end


def _cut(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    span = (
        source.trim(block.start, block.end)
        if block.start < block.end and block.shape is not Shape.RULE
        else None
    )
    if span is None:
        return
    whole = Piece(*span, block.kind, block.language)
    if whole.size <= maximum:
        yield whole
    elif block.shape is Shape.CONTAINER and block.children:
        yield from cut_children(source, block, maximum)
    elif block.shape is Shape.TABLE:
        yield from _cut_table(source, block, maximum)
    elif block.shape is Shape.PROSE:
        yield from (
            replace(whole, start=a, end=b) for a, b in cut_sentences(source, *span, maximum)
        )
    elif block.shape is Shape.TEXT:
        yield from (replace(whole, start=a, end=b) for a, b in cut_span(source, *span, maximum))
    else:
        yield from _cut_lines(source, block, maximum)


def _cut_gap(source: Source, block: Block, first: int, last: int, maximum: int) -> Iterator[Piece]:
    span = source.trim(first, last) if first < last else None
    if span and source.text[slice(*span)].strip("> \t\n"):  # an empty line of a quote is no text
        yield from _cut(source, Block(Shape.LINES, block.kind, first, last), maximum)


def _cut_lines(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut where lines are blank, else at every line; a fence that closes code is left out where it
    would stand alone.
    """
    last = block.end
    if (
        block.kind is BlockKind.CODE
        and (tail := source.trim(last - 1, last))
        and _CLOSING_FENCE.match(source.text[slice(*tail)])
    ):
        last -= 1
    for first, end in _runs(source, block.start, last):
        span = source.trim(first, end)
        whole = Piece(*span, block.kind, block.language) if span else None
        if whole and whole.size <= maximum:
            yield replace(whole, end=_with_fence(source, whole, block, end, last, maximum))
        elif whole:
            for line in range(first, end):
                if span := source.trim(line, line + 1):
                    yield from (
                        replace(whole, start=a, end=b) for a, b in cut_span(source, *span, maximum)
                    )


def _with_fence(
    source: Source, piece: Piece, block: Block, end: int, last: int, maximum: int
) -> int:
    """Return where a piece ends when it is code's last and the closing fence fits in it."""
    if end < last or last == block.end:
        return piece.end
    closed = source.trim(last, block.end)
    return closed[1] if closed and closed[1] - piece.start <= maximum else piece.end


def _runs(source: Source, first: int, last: int) -> Iterator[tuple[int, int]]:
    start = first
    for line in range(first, last):
        if source.trim(line, line + 1) is None:
            if start < line:
                yield start, line
            start = line + 1
    if start < last:
        yield start, last


def _cut_table(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut between rows: the first piece holds the header, the others repeat it unless it takes half
    of the maximum.
    """
    head = source.trim(block.start, block.start + 2)
    rows = [
        span for line in range(block.start + 2, block.end) if (span := source.trim(line, line + 1))
    ]
    if head is None or not rows or head[1] - head[0] > maximum // 2:
        yield from _cut_lines(source, replace(block, shape=Shape.LINES), maximum)
        return
    if rows[0][1] - head[0] <= maximum:
        yield Piece(head[0], rows.pop(0)[1], block.kind)
    else:
        yield Piece(*head, block.kind)
    for start, end in rows:
        row = Piece(start, end, block.kind, prefix=source.show(*head))
        if row.size <= maximum:
            yield row
        else:
            yield from (Piece(a, b, block.kind) for a, b in cut_span(source, start, end, maximum))


def cut_sentences(source: Source, start: int, end: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Cut a paragraph into parts of whole sentences, at most `maximum` characters each and of about
    one size.
    """
    for first, last in cut_span(source, start, end, _SPLITTER_READS):
        part = source.text[first:last]
        if not _BREAK.search(part):
            yield from cut_span(source, first, last, maximum)
            continue
        even = len(part) // -(-len(part) // maximum)
        # in steps of fifty: an edit of a few letters seldom cuts the rest anew
        size = -(-(even + maximum // 5) // 50) * 50
        position = first
        for text in split_sentences(part, min(maximum, size)):
            position = source.text.index(text, position)  # behind white space
            yield from cut_span(source, position, position + len(text), maximum)
            position += len(text)


def split_sentences(text: str, size: int) -> list[str]:
    """Split a text into parts of whole sentences, as many as fit; of a sentence that is too long,
    of phrases, words or letters.

    The parts are those of LlamaIndex's SentenceSplitter, whose import takes two seconds and 67 MB:
    a test compares them.
    """
    packed = [""]
    for unit in _units(text, size):
        if packed[-1] and len(packed[-1]) + len(unit) > size:
            packed.append("")
        packed[-1] += unit
    return [part for each in packed if (part := each.strip())]


def _units(text: str, size: int) -> Iterator[str]:
    """Yield the largest units of a text that are not longer than `size`."""
    if len(text) <= size:
        yield text
        return
    for split in (
        partial(_split_before, "\n\n\n"),
        _sentences,
        _PHRASE.findall,
        partial(_split_before, " "),
        list,
    ):
        if len(parts := split(text)) > 1:
            for part in parts:
                yield from _units(part, size)
            return


def _split_before(separator: str, text: str) -> list[str]:
    first, *others = text.split(separator)
    return [*([first] if first else []), *(f"{separator}{each}" for each in others)]


def _sentences(text: str) -> list[str]:
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]


_Group = list[Piece]


@dataclass(frozen=True, slots=True)
class Draft:
    """A chunk that has no section yet."""

    piece: Piece
    reach: int  # offset where the headings begin that lead to it, or the piece
    level: int  # of its heading, 0 before the first one
    headings: tuple[str, ...]  # down to it, without the title
    place: int  # position under its own heading, from 0


def draft_chunks(source: Source, outline: Outline, settings: ChunkSettings) -> list[Draft]:
    """Cut a document into chunks in order; a heading with nothing below it becomes a chunk of its
    own line.
    """
    drafts: list[Draft] = []
    above: list[Region] = []
    reach: int | None = None
    for region, following in zip(outline.regions, (*outline.regions[1:], None), strict=True):
        above = [*(r for r in above if r.level < region.level), region]
        if reach is None and region.level:
            reach = source.starts[region.start]
        pieces = (
            join(cut_children(source, region.body, settings.child_max), settings)
            if region.body.start < region.body.end
            else []
        )
        if not pieces and region.level and (following is None or following.level <= region.level):
            pieces = list(_heading_pieces(source, region, settings.child_max))
        headings = tuple(r.heading for r in above if r.heading)
        for place, piece in enumerate(pieces):
            drafts.append(
                Draft(piece, piece.start if reach is None else reach, region.level, headings, place)
            )
            reach = None
    return drafts


def join(pieces: Iterable[Piece], settings: ChunkSettings) -> list[Piece]:
    """Join neighbors to chunks of at most `child_max` characters, and of at least `child_min` where
    that can be.
    """
    groups: list[_Group] = []
    for piece in pieces:
        if groups and _fit(groups[-1], [piece], settings):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    for index in range(len(groups) - 1, 0, -1):
        _fill(groups[index - 1], groups[index], settings)
    return [_whole(group) for group in groups]


def _fit(left: _Group, right: _Group, settings: ChunkSettings) -> bool:
    if _size([left[0], right[-1]]) > settings.child_max or (left[0].prefix and not right[0].prefix):
        return False  # a table's header is repeated before its rows only
    if min(_size(left), _size(right)) < settings.child_min:
        # asked first: a group of hundreds of tiny pieces is not looked through for each of them
        return True
    return len({piece.kind for piece in (*left, *right)}) == 1


def _fill(left: _Group, right: _Group, settings: ChunkSettings) -> None:
    """Move pieces from a full group to a small one behind it, as long as the full one stays long
    enough.
    """
    while _size(right) < settings.child_min and len(left) > 1:
        if _size(left[:-1]) < settings.child_min or not _fit([left[-1]], right, settings):
            return
        right.insert(0, left.pop())


def _size(group: _Group) -> int:
    return group[-1].end - group[0].start + group[0].size - (group[0].end - group[0].start)


def _whole(group: _Group) -> Piece:
    kinds, languages = {piece.kind for piece in group}, {piece.language for piece in group}
    kind = kinds.pop() if len(kinds) == 1 else BlockKind.PROSE
    language = languages.pop() if len(languages) == 1 and kind is BlockKind.CODE else ""
    return Piece(group[0].start, group[-1].end, kind, language, group[0].prefix)


def _heading_pieces(source: Source, region: Region, maximum: int) -> Iterator[Piece]:
    span = source.trim(region.start, region.body.start)
    if span:
        yield from (
            Piece(start, end, BlockKind.HEADING) for start, end in cut_span(source, *span, maximum)
        )


_Run = tuple[int, int]
"""Positions of the chunks of one stretch, half open."""

_DEEPEST = 7  # the preamble and six levels of headings


def gather_sections(drafts: Sequence[Draft], settings: ChunkSettings) -> list[_Run]:
    """Return the runs of chunks that are one section each, in order, at most `parent_max`
    characters with the headings in them.
    """
    starts = [i for i, draft in enumerate(drafts) if draft.place == 0]
    return _gather(drafts, list(pairwise([*starts, len(drafts)])), 0, settings) if drafts else []


def section_start(drafts: Sequence[Draft], run: _Run, settings: ChunkSettings) -> int:
    """Return the offset where a section begins: at its first heading, unless that is so long that
    it does not fit.
    """
    return max(drafts[run[0]].reach, drafts[run[1] - 1].piece.end - settings.parent_max)


def _gather(
    drafts: Sequence[Draft], regions: Sequence[_Run], depth: int, settings: ChunkSettings
) -> list[_Run]:
    """Gather the regions below one heading, the deepest headings first."""
    whole = regions[0][0], regions[-1][1]
    if _size_of_run(drafts, whole) <= settings.parent_max:
        return [whole]
    if len(regions) == 1:
        return _split(drafts, whole, settings)
    if depth > _DEEPEST:
        return _merge(
            drafts,
            [run for region in regions for run in _split(drafts, region, settings)],
            settings,
        )
    below = [
        list(members)
        for _, members in groupby(
            regions, key=lambda region: drafts[region[0]].headings[: depth + 1]
        )
    ]
    return _merge(
        drafts,
        [run for members in below for run in _gather(drafts, members, depth + 1, settings)],
        settings,
    )


def _split(drafts: Sequence[Draft], run: _Run, settings: ChunkSettings) -> list[_Run]:
    """Split a stretch into parts of about one size, as few as the maximum allows."""
    total = _size_of_run(drafts, run)
    target = total / -(-total // settings.parent_max)
    cuts = [run[0]]
    for position in range(run[0] + 1, run[1]):
        if (
            _size_of_run(drafts, (cuts[-1], position)) >= target
            or _size_of_run(drafts, (cuts[-1], position + 1)) > settings.parent_max
        ):
            cuts.append(position)
    return list(pairwise([*cuts, run[1]]))


def _merge(drafts: Sequence[Draft], runs: Sequence[_Run], settings: ChunkSettings) -> list[_Run]:
    merged: list[_Run] = []
    for run in runs:
        if not merged:
            merged.append(run)
            continue
        joined = (merged[-1][0], run[1])
        smallest = min(_size_of_run(drafts, merged[-1]), _size_of_run(drafts, run))
        is_small = smallest < settings.parent_min
        if is_small and _size_of_run(drafts, joined) <= settings.parent_max:
            merged[-1] = joined
        else:
            merged.append(run)
    return merged


def _size_of_run(drafts: Sequence[Draft], run: _Run) -> int:
    return drafts[run[1] - 1].piece.end - drafts[run[0]].reach


def cut_document(
    source: Source, outline: Outline, title: str, settings: ChunkSettings
) -> tuple[tuple[Section, ...], tuple[Chunk, ...]]:
    """Cut a document into sections and their chunks; one without text has one of each, empty, at
    line 1.
    """
    largest = min(settings.child_max, settings.parent_max)
    settings = replace(settings, child_max=largest, child_min=min(settings.child_min, largest))
    drafts = draft_chunks(source, outline, settings)
    if not drafts:
        return (Section(0, 1, 1, ""),), (
            Chunk(
                0,
                0,
                BlockKind.PROSE,
                (title,),
                1,
                1,
                "",
                base_salience(BlockKind.PROSE, 0, 0, 0, 1, 0),
            ),
        )
    sections: list[Section] = []
    chunks: list[Chunk] = []
    for ordinal, run in enumerate(gather_sections(drafts, settings)):
        start, end = section_start(drafts, run, settings), drafts[run[1] - 1].piece.end
        sections.append(
            Section(
                ordinal, source.line_at(start), source.line_at(end - 1), source.show(start, end)
            )
        )
        chunks += [_chunk(source, drafts, position, ordinal, title) for position in range(*run)]
    return tuple(sections), tuple(chunks)


def _chunk(
    source: Source, drafts: Sequence[Draft], ordinal: int, section: int, title: str
) -> Chunk:
    draft, piece = drafts[ordinal], drafts[ordinal].piece
    headings = tuple(dropwhile(lambda heading: _plain(heading) == _plain(title), draft.headings))
    text = source.show(piece.start, piece.end)
    return Chunk(
        ordinal=ordinal,
        section=section,
        kind=piece.kind,
        heading_path=(title, *headings),
        start_line=source.line_at(piece.start),
        end_line=source.line_at(piece.end - 1),
        text=f"{piece.prefix}\n{text}" if piece.prefix else text,
        salience=base_salience(
            piece.kind, len(headings), draft.place, ordinal, len(drafts), len(text)
        ),
        language=piece.language,
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
