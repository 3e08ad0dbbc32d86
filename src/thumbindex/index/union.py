"""Several folders' snapshots seen as one: positions are shifted, hits merged by score, so that no folder drowns another by its size."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np

from thumbindex.model import Abbreviation, Chunk, ChunkId, Document, DocumentId, Filters, Hit, Place, RankedList, Section, Term, Verdict
from thumbindex.ports import (
    Calibration,
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

Record = TypeVar("Record")


def unite(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return one snapshot over all of them; one alone is returned as it is."""
    if len(snapshots) == 1:
        return snapshots[0]
    offsets = Offsets([len(s.catalog) for s in snapshots], [len(s.catalog.documents) for s in snapshots])
    measured = [s.calibration for s in snapshots if len(s.vector)] or [Calibration()]
    calibration = Calibration(max(c.noise_cosine for c in measured), max(c.signal_cosine for c in measured))
    return Snapshot(
        sum(s.generation for s in snapshots),
        UnionCatalog([s.catalog for s in snapshots], offsets),
        UnionKeywordIndex([s.keyword for s in snapshots], offsets),
        UnionVectorIndex([s.vector for s in snapshots], offsets),
        UnionLinkGraph([s.graph for s in snapshots], offsets),
        calibration,
        next((s.vocabulary for s in snapshots if s.vocabulary), None),
        UnionDuplicates([s.duplicates for s in snapshots], offsets),
    )


class Offsets:
    """Where each folder's positions begin in the union."""

    def __init__(self, chunks: Sequence[int], documents: Sequence[int]) -> None:
        self.chunks = (0, *accumulate(chunks))
        self.documents = (0, *accumulate(documents))

    def split(self, ids: Iterable[ChunkId]) -> dict[int, list[ChunkId]]:
        """Group chunk ids by folder, shifted to it."""
        parts: dict[int, list[ChunkId]] = {}
        for n in ids:
            part = bisect_right(self.chunks, n) - 1
            parts.setdefault(part, []).append(ChunkId(n - self.chunks[part]))
        return parts

    def mask(self, mask: Mask | None, part: int) -> Mask | None:
        """Return one folder's piece of a mask."""
        return None if mask is None else mask[self.chunks[part] : self.chunks[part + 1]]

    def shifted(self, hits: Iterable[Hit], part: int) -> list[Hit]:
        """Shift one folder's hits into the union."""
        chunks, documents = self.chunks[part], self.documents[part]
        return [replace(hit, chunk=ChunkId(hit.chunk + chunks), document=DocumentId(hit.document + documents)) for hit in hits]


def merged(hits: Iterable[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits of all folders, ranked anew; ties by position."""
    best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:limit]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(best, 1))


class UnionCatalog:
    """Catalog over several."""

    def __init__(self, parts: Sequence[Catalog], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets

    def __len__(self) -> int:
        """Count the chunks."""
        return self._offsets.chunks[-1]

    @cached_property
    def documents(self) -> Sequence[Document]:
        """All documents, by folder, then path."""
        return tuple(document for part in self._parts for document in part.documents)

    @cached_property
    def abbreviations(self) -> Mapping[Abbreviation, int]:
        """How many documents of all folders define each abbreviation."""
        return sum((Counter(part.abbreviations) for part in self._parts), Counter[Abbreviation]())

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""
        part = bisect_right(self._offsets.chunks, chunk) - 1
        return DocumentId(self._parts[part].document_of(ChunkId(chunk - self._offsets.chunks[part])) + self._offsets.documents[part])

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks."""
        part = bisect_right(self._offsets.documents, document) - 1
        ids = self._parts[part].chunk_ids(DocumentId(document - self._offsets.documents[part]))
        return range(ids.start + self._offsets.chunks[part], ids.stop + self._offsets.chunks[part])

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; those that are gone are missing."""
        found = {part: self._parts[part].chunks(own) for part, own in self._offsets.split(ids).items()}
        return self._joined(found)

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; those that are gone are missing."""
        found = {part: self._parts[part].sections(own) for part, own in self._offsets.split(ids).items()}
        return self._joined(found)

    def _joined(self, found: Mapping[int, Mapping[ChunkId, Record]]) -> dict[ChunkId, Record]:
        return {ChunkId(n + self._offsets.chunks[part]): record for part, own in found.items() for n, record in own.items()}

    def places(self, ids: Sequence[ChunkId]) -> Sequence[Place]:
        """Say where chunks stand."""
        return tuple(place for part, own in sorted(self._offsets.split(ids).items()) for place in self._parts[part].places(own))

    def select(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters let through."""
        masks = [part.select(filters) for part in self._parts]
        if all(mask is None for mask in masks):
            return None
        filled = [np.ones(len(part), dtype=np.bool_) if mask is None else mask for mask, part in zip(masks, self._parts, strict=True)]
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
        return RankedList(merged(hits, limit), documents)

    def holding(self, text: str, fields: Collection[str]) -> Mask:
        """Tell which chunks hold all words of a text in any of the fields."""
        return np.concatenate([part.holding(text, fields) for part in self._parts])

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
        return merged((hit for own in found for hit in own), limit)

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return stored vectors; NaN rows for chunks that have none."""
        rows: dict[int, Vector] = {}
        for n, own in self._offsets.split(chunks).items():
            found = self._parts[n].vectors(own) if len(self._parts[n]) else np.full((len(own), self._dimensions), np.nan, dtype=np.float32)
            rows.update(zip((chunk + self._offsets.chunks[n] for chunk in own), found, strict=True))
        return np.stack([rows[n] for n in chunks]) if len(chunks) else np.zeros((0, self._dimensions), dtype=np.float32)


class UnionLinkGraph:
    """LinkGraph over several; no link leads from one folder to another."""

    def __init__(self, parts: Sequence[LinkGraph], offsets: Offsets) -> None:
        self._parts, self._offsets = parts, offsets

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to."""
        part, own = self._own(document)
        return tuple(DocumentId(n + self._offsets.documents[part]) for n in self._parts[part].linked(own))

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one."""
        part, own = self._own(document)
        return tuple(DocumentId(n + self._offsets.documents[part]) for n in self._parts[part].linking(own))

    def _own(self, document: DocumentId) -> tuple[int, DocumentId]:
        part = bisect_right(self._offsets.documents, document) - 1
        return part, DocumentId(document - self._offsets.documents[part])


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
        of = np.searchsorted(self._offsets.chunks, np.array(chunks, dtype=np.int64), side="right") - 1
        for n, part in enumerate(self._parts):
            own = np.flatnonzero(of == n)
            if len(own):
                found[own] = part.salience([ChunkId(chunks[at] - self._offsets.chunks[n]) for at in own.tolist()])
        return found

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return the chunks of its folder that say what this one says."""
        ((n, (own,)),) = self._offsets.split([chunk]).items()
        return tuple(ChunkId(other + self._offsets.chunks[n]) for other in self._parts[n].copies(own))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return what the owner decided of two chunks of one folder."""
        parts = self._offsets.split([first, second])
        if len(parts) > 1:
            return None
        ((n, (a, b)),) = parts.items()
        return self._parts[n].verdict(a, b)
