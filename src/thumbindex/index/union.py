"""Several folders' snapshots seen as one: positions are shifted, hits merged by score, so that no folder drowns another by its size."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np

from thumbindex.model import Abbreviation, Chunk, ChunkId, Document, DocumentId, Filters, Hit, Place, RankedList, Section, Term, Verdict
from thumbindex.ports import (
    Catalog,
    Duplicates,
    KeywordIndex,
    KeywordWeights,
    LinkGraph,
    Mask,
    Matrix,
    Salience,
    Snapshot,
    Vector,
    VectorIndex,
)

_T = TypeVar("_T")


def unite(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return one snapshot over all of them; one alone is returned as it is."""
    if len(snapshots) == 1:
        return snapshots[0]
    offsets = Offsets([s.catalog for s in snapshots])
    return Snapshot(
        sum(s.generation for s in snapshots),
        UnionCatalog([s.catalog for s in snapshots], offsets),
        UnionKeywordIndex([s.keyword for s in snapshots], offsets),
        UnionVectorIndex([s.vector for s in snapshots], offsets),
        UnionLinkGraph([s.graph for s in snapshots], offsets),
        next((s.vocabulary for s in snapshots if s.vocabulary), None),
        UnionDuplicates([s.duplicates for s in snapshots], offsets),
    )


class Offsets:
    """Where each folder's positions begin in the union."""

    def __init__(self, catalogs: Sequence[Catalog]) -> None:
        self.chunks = (0, *accumulate(map(len, catalogs)))
        self.documents = (0, *accumulate(len(catalog.documents) for catalog in catalogs))

    def split(self, ids: Sequence[ChunkId]) -> Iterator[tuple[int, list[int], list[ChunkId]]]:
        """Yield each folder that chunks are of: its number, where in `ids` its chunks stand, and their ids in it."""
        parts: dict[int, list[int]] = {}
        for at, n in enumerate(ids):
            parts.setdefault(bisect_right(self.chunks, n) - 1, []).append(at)
        for part, own in parts.items():
            yield part, own, [ChunkId(ids[n] - self.chunks[part]) for n in own]

    def document(self, document: DocumentId) -> tuple[int, DocumentId]:
        """Return the folder of a document, by number, and its id in it."""
        part = bisect_right(self.documents, document) - 1
        return part, DocumentId(document - self.documents[part])

    def mask(self, mask: Mask | None, part: int) -> Mask | None:
        """Return one folder's piece of a mask."""
        return None if mask is None else mask[self.chunks[part] : self.chunks[part + 1]]

    def shifted(self, hits: Iterable[Hit], part: int) -> list[Hit]:
        """Shift one folder's hits into the union."""
        chunks, documents = self.chunks[part], self.documents[part]
        return [replace(hit, chunk=ChunkId(hit.chunk + chunks), document=DocumentId(hit.document + documents)) for hit in hits]


def _merged(hits: Iterable[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits of all folders, ranked anew; ties by position."""
    best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:limit]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(best, 1))


class UnionCatalog:
    """Catalog over several."""

    def __init__(self, parts: Sequence[Catalog], offsets: Offsets) -> None:
        self.folders, self._offsets = parts, offsets

    def __len__(self) -> int:
        """Count the chunks."""
        return self._offsets.chunks[-1]

    @cached_property
    def documents(self) -> Sequence[Document]:
        """All documents, by folder, then path."""
        return tuple(document for part in self.folders for document in part.documents)

    @cached_property
    def abbreviations(self) -> Mapping[Abbreviation, int]:
        """How many documents of all folders define each abbreviation."""
        return sum((Counter(part.abbreviations) for part in self.folders), Counter[Abbreviation]())

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""
        part = bisect_right(self._offsets.chunks, chunk) - 1
        return DocumentId(self.folders[part].document_of(ChunkId(chunk - self._offsets.chunks[part])) + self._offsets.documents[part])

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks."""
        part, own = self._offsets.document(document)
        ids = self.folders[part].chunk_ids(own)
        return range(ids.start + self._offsets.chunks[part], ids.stop + self._offsets.chunks[part])

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; those that are gone are missing."""
        return self._loaded(ids, lambda part: part.chunks)

    def headings(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, tuple[str, ...]]:
        """Load the title and the headings above each chunk."""
        return self._loaded(ids, lambda part: part.headings)

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; those that are gone are missing."""
        return self._loaded(ids, lambda part: part.sections)

    def _loaded(self, ids: Sequence[ChunkId], load: Callable[[Catalog], Callable[[Sequence[ChunkId]], Mapping[ChunkId, _T]]]) -> dict[ChunkId, _T]:
        found = ((part, load(self.folders[part])(own)) for part, _, own in self._offsets.split(ids))
        return {ChunkId(n + self._offsets.chunks[part]): record for part, records in found for n, record in records.items()}

    def places(self, ids: Sequence[ChunkId]) -> Sequence[Place]:
        """Say where chunks stand."""
        return tuple(place for part, _, own in sorted(self._offsets.split(ids)) for place in self.folders[part].places(own))

    def select(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters let through."""
        masks = [part.select(filters) for part in self.folders]
        if all(mask is None for mask in masks):
            return None
        filled = [np.ones(len(part), dtype=np.bool_) if mask is None else mask for mask, part in zip(masks, self.folders, strict=True)]
        return np.concatenate(filled)


class UnionKeywordIndex:
    """KeywordIndex over several; each folder's own word statistics count in it."""

    def __init__(self, parts: Sequence[KeywordIndex], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets
        self.languages = frozenset[str]().union(*(part.languages for part in parts))

    def search(self, terms: Sequence[Term], weights: KeywordWeights, limit: int, mask: Mask | None = None) -> RankedList:
        """Search each folder and merge by score."""
        found = [part.search(terms, weights, limit, self._offsets.mask(mask, n)) for n, part in enumerate(self._parts)]
        hits = [hit for n, own in enumerate(found) for hit in self._offsets.shifted(own.hits, n)]
        documents = {DocumentId(d + self._offsets.documents[n]): score for n, own in enumerate(found) for d, score in own.documents.items()}
        return RankedList(_merged(hits, limit), documents)

    def holding(self, text: str, fields: Collection[str]) -> Mask:
        """Tell which chunks hold all words of a text in any of the fields."""
        return np.concatenate([part.holding(text, fields) for part in self._parts])

    def holding_phrase(self, text: str) -> Mask:
        """Tell which chunks hold a phrase."""
        return np.concatenate([part.holding_phrase(text) for part in self._parts])

    def frequency(self, word: str) -> int:
        """Count the chunks that hold the word."""
        return sum(part.frequency(word) for part in self._parts)

    def adjacent(self, text: str) -> int:
        """Count the chunks in whose text words stand one after the other."""
        return sum(part.adjacent(text) for part in self._parts)

    def words(self) -> Mapping[str, int]:
        """Return every word form with the number of chunks that hold it."""
        total: Counter[str] = Counter()
        for part in self._parts:
            total.update(part.words())
        return total


class UnionVectorIndex:
    """VectorIndex over several of one model, some of which may have no vectors yet."""

    def __init__(self, parts: Sequence[VectorIndex], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets
        self._dimensions = max((part.vectors([ChunkId(0)]).shape[1] for part in parts if len(part)), default=1)

    def __len__(self) -> int:
        """Count the chunks that have a vector."""
        return sum(len(part) for part in self._parts)

    def search(self, query: Vector, limit: int, mask: Mask | None = None) -> tuple[Hit, ...]:
        """Search each folder and merge by cosine."""
        found = [self._offsets.shifted(part.search(query, limit, self._offsets.mask(mask, n)), n) for n, part in enumerate(self._parts) if len(part)]
        return _merged((hit for own in found for hit in own), limit)

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return stored vectors; NaN rows for chunks that have none."""
        found = np.full((len(chunks), self._dimensions), np.nan, dtype=np.float32)
        for part, at, own in self._offsets.split(chunks):
            if len(self._parts[part]):
                found[at] = self._parts[part].vectors(own)
        return found


class UnionLinkGraph:
    """LinkGraph over several; no link leads from one folder to another."""

    def __init__(self, parts: Sequence[LinkGraph], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to."""
        part, own = self._offsets.document(document)
        return tuple(DocumentId(n + self._offsets.documents[part]) for n in self._parts[part].linked(own))

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one."""
        part, own = self._offsets.document(document)
        return tuple(DocumentId(n + self._offsets.documents[part]) for n in self._parts[part].linking(own))


class UnionDuplicates(Duplicates):
    """Duplicates over several: what one folder says again of another is found when it is asked for, not before."""

    def __init__(self, parts: Sequence[Duplicates], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets

    def repeated(self) -> Mask | None:
        """Return which chunks repeat another one of their document; None where there are none."""
        masks = [part.repeated() for part in self._parts]
        if all(mask is None for mask in masks):
            return None
        sizes = np.diff(self._offsets.chunks)
        return np.concatenate([np.zeros(size, dtype=np.bool_) if mask is None else mask for mask, size in zip(masks, sizes, strict=True)])

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return how much chunks matter in their documents."""
        found = np.zeros(len(chunks))
        for part, at, own in self._offsets.split(chunks):
            found[at] = self._parts[part].salience(own)
        return found

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return the chunks of its folder that say what this one says."""
        ((part, _, (own,)),) = self._offsets.split([chunk])
        return tuple(ChunkId(other + self._offsets.chunks[part]) for other in self._parts[part].copies(own))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return what the owner decided of two chunks of one folder."""
        found = list(self._offsets.split([first, second]))
        return self._parts[found[0][0]].verdict(*found[0][2]) if len(found) == 1 else None
