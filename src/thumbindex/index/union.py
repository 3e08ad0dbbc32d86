"""Several folders' snapshots seen as one: ids begin with the folder's number, hits are merged by
score, words are as rare as in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property, partial, reduce
from operator import and_, or_, sub
from typing import TypeVar

import numpy as np

from thumbindex.index.bm25f import idf
from thumbindex.index.filters import by_form, nearest, newest_first
from thumbindex.model import (
    Abbreviation,
    Chunk,
    ChunkId,
    Condition,
    Document,
    DocumentId,
    FilterField,
    Filters,
    Hit,
    RankedList,
    Section,
    Term,
    Verdict,
)
from thumbindex.ports import (
    CHUNK_BITS,
    DOCUMENT_BITS,
    Catalog,
    Days,
    Duplicates,
    KeywordIndex,
    KeywordWeights,
    LinkGraph,
    Mask,
    Matrix,
    Salience,
    Selection,
    Snapshot,
    Vector,
    VectorIndex,
)

_T = TypeVar("_T")


def unite(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return one snapshot over all of them; one alone is returned as it is."""
    if len(snapshots) == 1:
        return snapshots[0]
    return Snapshot(
        sum(s.generation for s in snapshots),
        UnionCatalog([s.catalog for s in snapshots]),
        UnionKeywordIndex([s.keyword for s in snapshots], [len(s.catalog) for s in snapshots]),
        UnionVectorIndex([s.vector for s in snapshots]),
        UnionLinkGraph([s.graph for s in snapshots]),
        next((s.vocabulary for s in snapshots if s.vocabulary), None),
        UnionDuplicates([s.duplicates for s in snapshots], [s.catalog for s in snapshots]),
    )


_CHUNK, _DOCUMENT = (1 << CHUNK_BITS) - 1, (1 << DOCUMENT_BITS) - 1


def _split(ids: Sequence[ChunkId]) -> Iterator[tuple[int, list[int], list[ChunkId]]]:
    """Yield each folder that chunks are of: its number, where in `ids` its chunks stand, and their
    ids in it.
    """
    parts: dict[int, list[int]] = {}
    for at, n in enumerate(ids):
        parts.setdefault(n >> CHUNK_BITS, []).append(at)
    for part, own in parts.items():
        yield part, own, [ChunkId(ids[n] & _CHUNK) for n in own]


def _chunk(part: int, own: int) -> ChunkId:
    return ChunkId(part << CHUNK_BITS | own)


def _document(part: int, own: int) -> DocumentId:
    return DocumentId(part << DOCUMENT_BITS | own)


def _own(document: DocumentId) -> tuple[int, DocumentId]:
    """Return the folder of a document, by number, and its id in it."""
    return document >> DOCUMENT_BITS, DocumentId(document & _DOCUMENT)


def _in_union(hits: Iterable[Hit], part: int) -> list[Hit]:
    """Give one folder's hits their ids in the union."""
    return [
        replace(hit, chunk=_chunk(part, hit.chunk), document=_document(part, hit.document))
        for hit in hits
    ]


def _merged(hits: Iterable[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits of all folders, ranked anew; ties by folder and position."""
    best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:limit]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(best, 1))


class UnionSelection(Selection):
    """Selection over several folders, one of each."""

    def __init__(self, parts: Sequence[Selection]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        found = np.zeros(len(chunks), dtype=np.bool_)
        for part, at, own in _split(chunks):
            found[at] = self.parts[part].among(own)
        return found

    def first(self, most: int) -> Sequence[ChunkId]:
        found: list[ChunkId] = []
        for number, part in enumerate(self.parts):
            found += [_chunk(number, n) for n in part.first(most - len(found))]
        return found

    def of_documents(self) -> Selection:
        return UnionSelection([part.of_documents() for part in self.parts])

    def __and__(self, other: Selection) -> Selection:
        return UnionSelection(list(map(and_, self.parts, _parts_of(other))))

    def __or__(self, other: Selection) -> Selection:
        return UnionSelection(list(map(or_, self.parts, _parts_of(other))))

    def __sub__(self, other: Selection) -> Selection:
        return UnionSelection(list(map(sub, self.parts, _parts_of(other))))


def _beside(
    parts: Sequence[_T], within: Selection | None
) -> Iterator[tuple[int, _T, Selection | None]]:
    """Yield each folder's number and part, with its piece of a selection of the union."""
    own: Sequence[Selection | None] = [None] * len(parts)
    if within is not None:
        own = _parts_of(within)
    yield from zip(range(len(parts)), parts, own, strict=True)


def _parts_of(selection: Selection) -> Sequence[Selection]:
    if not isinstance(selection, UnionSelection):
        raise TypeError(f"{selection!r} is no selection of a union.")
    return selection.parts


def _joined(
    found: Sequence[Selection | None], otherwise: Iterable[Callable[[], Selection]]
) -> Selection | None:
    """Return one selection of the folders' own, None if all are None, else what is `otherwise`
    made for a folder without one.
    """
    if all(each is None for each in found):
        return None
    return UnionSelection(
        [make() if each is None else each for each, make in zip(found, otherwise, strict=True)]
    )


class UnionDocuments:
    """The documents of several folders."""

    def __init__(self, parts: Sequence[Catalog]) -> None:
        self._parts = parts

    def __getitem__(self, document: DocumentId, /) -> Document:
        """Return a document."""
        part, own = _own(document)
        return self._parts[part].documents[own]


class UnionCatalog:
    """Catalog over several."""

    def __init__(self, parts: Sequence[Catalog]) -> None:
        self._parts = parts
        self.documents = UnionDocuments(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def languages(self) -> Mapping[str, int]:
        return sum((Counter(part.languages) for part in self._parts), Counter[str]())

    def document_of(self, chunk: ChunkId) -> DocumentId:
        part = chunk >> CHUNK_BITS
        return _document(part, self._parts[part].document_of(ChunkId(chunk & _CHUNK)))

    def chunk_ids(self, document: DocumentId) -> range:
        part, own = _own(document)
        ids = self._parts[part].chunk_ids(own)
        return range(_chunk(part, ids.start), _chunk(part, ids.stop))

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        return self._loaded(ids, lambda part: part.chunks)

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        return self._loaded(ids, lambda part: part.sections)

    def _loaded(
        self,
        ids: Sequence[ChunkId],
        load: Callable[[Catalog], Callable[[Sequence[ChunkId]], Mapping[ChunkId, _T]]],
    ) -> dict[ChunkId, _T]:
        found = ((part, load(self._parts[part])(own)) for part, _, own in _split(ids))
        return {_chunk(part, n): record for part, records in found for n, record in records.items()}

    # -------------------------------------------------------------- which chunks and documents

    def select(self, filters: Filters) -> Selection | None:
        found = [part.select(filters) for part in self._parts]
        return _joined(found, [part.everything for part in self._parts])

    def everything(self) -> Selection:
        return UnionSelection([part.everything() for part in self._parts])

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        own = {part: ids for part, _, ids in _split(chunks)}
        return UnionSelection(
            [part.only(own.get(number, ())) for number, part in enumerate(self._parts)]
        )

    def every(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        found: list[ChunkId] = []
        for number, part, own in _beside(self._parts, within):
            found += [_chunk(number, n) for n in part.every(step, own, start)]
            start = (start - (len(part) if own is None else len(own))) % step
        return found

    def meeting(self, condition: Condition) -> Selection:
        return UnionSelection([part.meeting(condition) for part in self._parts])

    def is_met(self, condition: Condition) -> bool:
        return any(part.is_met(condition) for part in self._parts)

    def near(self, field: FilterField, value: str) -> tuple[str, ...]:
        names = [name for part in self._parts for name in part.near(field, value)]
        return nearest(field, value, by_form(field, names)) if names else ()

    def named(self, letters: str, longest: int) -> Sequence[DocumentId]:
        return [
            _document(number, n)
            for number, part in enumerate(self._parts)
            for n in part.named(letters, longest)
        ]

    def defined(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        return sum((Counter(part.defined(forms)) for part in self._parts), Counter[Abbreviation]())

    # -------------------------------------------------------------- days

    @cached_property
    def days(self) -> Days:
        found = [part.days for part in self._parts]
        first, written = ([each[at] for each in found if each[at]] for at in (0, 1))
        return Days(
            min(filter(None, first), default=None), max(filter(None, written), default=None)
        )

    def newest_day(self, last: date | None) -> date | None:
        return max(filter(None, (part.newest_day(last) for part in self._parts)), default=None)

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        chunks, total = dict[DocumentId, ChunkId](), 0
        for number, part, own in _beside(self._parts, within):
            newest, count = part.newest(own, limit)
            chunks |= {_document(number, part.document_of(n)): _chunk(number, n) for n in newest}
            total += count
        ordered = newest_first(self.documents, chunks)
        return [chunks[n] for n in ordered[:limit]], total

    def undated(self, within: Selection | None) -> int:
        return sum(part.undated(own) for _, part, own in _beside(self._parts, within))


class UnionKeywordIndex:
    """KeywordIndex over several folders of so many chunks each."""

    def __init__(self, parts: Sequence[KeywordIndex], chunks: Sequence[int]) -> None:
        self._parts, self._chunks = parts, chunks
        self.languages = frozenset[str]().union(*(part.languages for part in parts))

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Search each folder and merge by score; a word counts by its idf in all of them: in a
        folder of three notes none is rare.

        How long texts usually are is each folder's own, and a document's score is corrected by the
        idf of chunks.
        """
        held = [
            [len(self._holding_any(part, term, weights.fields)) for term in terms]
            for part in self._parts
        ]
        known = [idf(sum(counts), sum(self._chunks)) for counts in zip(*held, strict=True)]
        hits, documents = list[Hit](), dict[DocumentId, float]()
        for n, part, own in _beside(self._parts, within):
            asked = [
                replace(term, weight=term.weight * rarity / idf(count, self._chunks[n]))
                for term, rarity, count in zip(terms, known, held[n], strict=True)
            ]
            found = part.search(asked, weights, limit, own)
            hits += _in_union(found.hits, n)
            documents |= {_document(n, d): score for d, score in found.documents.items()}
        return RankedList(_merged(hits, limit), documents)

    @staticmethod
    def _holding_any(part: KeywordIndex, term: Term, fields: Collection[str]) -> Selection:
        """Return the chunks of a folder that hold a term in any of its forms."""
        return reduce(or_, [part.holding(each.text, fields) for each in (term, *term.others)])

    def holding(self, text: str, fields: Collection[str]) -> Selection:
        return UnionSelection([part.holding(text, fields) for part in self._parts])

    def holding_phrase(self, text: str) -> Selection:
        return UnionSelection([part.holding_phrase(text) for part in self._parts])

    def frequency(self, word: str) -> int:
        return sum(part.frequency(word) for part in self._parts)

    def adjacent(self, text: str) -> int:
        return sum(part.adjacent(text) for part in self._parts)

    def words(self, lengths: range) -> Collection[str]:
        """Return the word forms of these lengths."""
        return {word for part in self._parts for word in part.words(lengths)}


class UnionVectorIndex:
    """VectorIndex over several of one model, some of which may have no vectors yet."""

    def __init__(self, parts: Sequence[VectorIndex]) -> None:
        self._parts = parts
        self._dimensions = max(
            (part.vectors(()).shape[1] for part in parts if len(part)), default=1
        )

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        """Search each folder and merge by cosine."""
        hits = (
            hit
            for n, part, own in _beside(self._parts, within)
            if len(part)
            for hit in _in_union(part.search(query, limit, own), n)
        )
        return _merged(hits, limit)

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        found = np.full((len(chunks), self._dimensions), np.nan, dtype=np.float32)
        for part, at, own in _split(chunks):
            if len(self._parts[part]):
                found[at] = self._parts[part].vectors(own)
        return found


class UnionLinkGraph:
    """LinkGraph over several; no link leads from one folder to another."""

    def __init__(self, parts: Sequence[LinkGraph]) -> None:
        self._parts = parts

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        part, own = _own(document)
        return tuple(_document(part, n) for n in self._parts[part].linked(own))

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        part, own = _own(document)
        return tuple(_document(part, n) for n in self._parts[part].linking(own))


class UnionDuplicates(Duplicates):
    """Duplicates over several: what one folder says again of another is found when it is asked for,
    not before.
    """

    def __init__(self, parts: Sequence[Duplicates], catalogs: Sequence[Catalog]) -> None:
        self._parts, self._catalogs = parts, catalogs

    def repeated(self) -> Selection | None:
        found = [part.repeated() for part in self._parts]
        return _joined(found, [partial(each.only, ()) for each in self._catalogs])

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        found = np.zeros(len(chunks))
        for part, at, own in _split(chunks):
            found[at] = self._parts[part].salience(own)
        return found

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        part = chunk >> CHUNK_BITS
        return tuple(
            _chunk(part, other) for other in self._parts[part].copies(ChunkId(chunk & _CHUNK))
        )

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        found = list(_split([first, second]))
        return self._parts[found[0][0]].verdict(*found[0][2]) if len(found) == 1 else None
