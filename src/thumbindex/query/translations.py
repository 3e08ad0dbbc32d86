"""Which chunks of a page and its translation say the same: told by the pages' outlines and by what nobody translates, not by vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from thumbindex.language import language_of
from thumbindex.model import BlockKind, Chunk, ChunkId, DocumentId
from thumbindex.ports import Catalog
from thumbindex.query.reading import without_code
from thumbindex.text import looks_like_code

MOST_CHUNKS = 200
"""Chunks of a page: one with more is not read for this."""

LIKE_OUTLINES = 0.8
"""The least share of headings, with their depths and what stands below them, that two pages have in common in order."""

LIKE_TOKENS = 0.5
"""The least share of numbers, identifiers and code that two pages have in common."""

BARE_HEADINGS = 3
"""Pages without any number or code are told by their outlines alone, by so many headings at least."""

_READ = 4000
"""Characters by which a page's language is told."""

Pair = tuple[ChunkId, ChunkId]

_Shape = tuple[int, tuple[BlockKind, ...]]


def translations(first: DocumentId, second: DocumentId, catalog: Catalog) -> frozenset[Pair]:
    """Return the chunks that stand in the same place of two pages; none where they are in one language or one is no translation of the other."""
    ranges = [catalog.chunk_ids(each) for each in (first, second)]
    if max(map(len, ranges)) > MOST_CHUNKS:
        return frozenset()
    pages = [catalog.chunks([ChunkId(n) for n in own]) for own in ranges]
    mine, yours = ([each.text for each in page.values()] for page in pages)
    languages = {_language(mine), _language(yours)}
    if "" in languages or len(languages) == 1:
        return frozenset()
    runs = [[list(run) for _, run in groupby(page, key=lambda n: page[n].heading_path)] for page in pages]
    outlines: list[list[_Shape]] = [[_shape([page[n] for n in run]) for run in own] for page, own in zip(pages, runs, strict=True)]
    matcher = SequenceMatcher(None, outlines[0], outlines[1], autojunk=False)
    if matcher.ratio() < LIKE_OUTLINES or not _hold_the_same(mine, yours, min(map(len, outlines))):
        return frozenset()
    places = [_places(own, page) for page, own in zip(pages, runs, strict=True)]
    opposite = {block.b + n: block.a + n for block in matcher.get_matching_blocks() for n in range(block.size)}
    counterpart = {(opposite[at], *place): n for n, (at, *place) in places[1].items() if at in opposite}
    return frozenset((n, counterpart[place]) for n, place in places[0].items() if place in counterpart)


def _language(texts: Sequence[str]) -> str:
    return language_of(without_code("\n\n".join(texts)[:_READ]))


def _shape(run: Sequence[Chunk]) -> _Shape:
    """Return how deep a heading is, and the kinds of what stands below it: a translation may be cut into more chunks."""
    return len(run[0].heading_path), tuple(kind for kind, _ in groupby(each.kind for each in run))


def _hold_the_same(mine: Sequence[str], yours: Sequence[str], headings: int) -> bool:
    """Tell whether two pages have the numbers, identifiers and code of a page and its translation."""
    left, right = (Counter(token for text in texts for token in _untranslated(text)) for texts in (mine, yours))
    if not left and not right:
        return headings >= BARE_HEADINGS
    return (left & right).total() >= LIKE_TOKENS * (left | right).total()


def _untranslated(text: str) -> list[str]:
    bare = (token.strip(".,;:!?\"'`*_()[]{}<>|") for token in text.split())
    return [token for token in bare if looks_like_code(token) or any(c.isdigit() for c in token)]


def _places(runs: Sequence[Sequence[ChunkId]], page: Mapping[ChunkId, Chunk]) -> dict[ChunkId, tuple[int, BlockKind, int]]:
    """Say where each chunk stands: below which heading, of which kind, and how many of that kind stand before it there."""
    found: dict[ChunkId, tuple[int, BlockKind, int]] = {}
    for at, run in enumerate(runs):
        before: Counter[BlockKind] = Counter()
        for n in run:
            kind = page[n].kind
            found[n] = (at, kind, before[kind])
            before[kind] += 1
    return found
