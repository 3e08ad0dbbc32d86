"""Search several folders as one: concatenate their ids, merge hits, and compute a common idf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import or_
from typing import TypeVar

import numpy as np

from thumbindex.index.bm25f import idf
from thumbindex.index.catalog_layout import CatalogLayout
from thumbindex.index.filters import by_form, nearest
from thumbindex.model import (
    Abbreviation,
    Chunk,
    ChunkId,
    DocumentId,
    Filters,
    Hit,
    RankedList,
    Section,
    Term,
    TypedFilter,
    Verdict,
)
from thumbindex.ports import (
    PHRASE_FIELDS,
    Catalog,
    Duplicates,
    IntArray,
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
    """Combine snapshots into one. A single snapshot is returned unchanged."""
    if len(snapshots) == 1:
        return snapshots[0]
    catalog = UnionCatalog([s.catalog for s in snapshots])
    return Snapshot(
        sum(s.generation for s in snapshots),
        catalog,
        UnionKeywordIndex([s.keyword for s in snapshots], catalog),
        UnionVectorIndex([s.vector for s in snapshots], catalog),
        UnionLinkGraph([s.graph for s in snapshots], catalog),
        next((s.vocabulary for s in snapshots if s.vocabulary), None),
        UnionDuplicates([s.duplicates for s in snapshots], catalog),
    )


class UnionCatalog(CatalogLayout):
    """Catalog of several folders, which are identified by their positions in `parts`.

    Texts and names are loaded from the folders' catalogs. A local id is the id of a chunk or
    document in the catalog of its folder. The id in the union is the local id plus the folder's
    `chunks_before` or `documents_before`.
    """

    def __init__(self, parts: Sequence[Catalog]) -> None:
        sizes, days = (
            np.concatenate(columns)
            for columns in zip(*((part.sizes, part.ordinal_days) for part in parts), strict=True)
        )
        super().__init__(np.arange(len(sizes)), sizes, days)
        self.parts = parts
        self.chunks_before = (0, *accumulate(map(len, parts)))
        self.documents_before = (0, *accumulate(len(part.sizes) for part in parts))
        self.documents = [document for part in parts for document in part.documents]

    # -------------------------------------------------------------- local ids

    def chunk(self, part: int, local: int) -> ChunkId:
        """Convert the local id of a chunk to its id in the union."""
        return ChunkId(self.chunks_before[part] + local)

    def document(self, part: int, local: int) -> DocumentId:
        """Convert the local id of a document to its id in the union."""
        return DocumentId(self.documents_before[part] + local)

    def locate_document(self, document: DocumentId) -> tuple[int, DocumentId]:
        """Return a document's folder and local id."""
        part = int(np.searchsorted(self.documents_before, document, side="right")) - 1
        return part, DocumentId(document - self.documents_before[part])

    def split(self, ids: Sequence[ChunkId]) -> Iterator[tuple[int, IntArray, list[ChunkId]]]:
        """Group chunks by folder.

        Yields each folder, the positions of its chunks in `ids`, and their local ids.
        """
        numbers = np.array(ids, dtype=np.int64)
        of = np.searchsorted(self.chunks_before, numbers, side="right") - 1
        for part in np.unique(of).tolist():
            at = np.flatnonzero(of == part)
            local = numbers[at] - self.chunks_before[part]
            yield part, at, [ChunkId(n) for n in local.tolist()]

    def pieces(self, within: Selection | None) -> list[Selection | None]:
        """Split a selection by folder."""
        if within is None:
            return [None] * len(self.parts)
        mask, pieces = within.mask, list[Selection | None]()
        for part, first in enumerate(self.documents_before[:-1]):
            chunks = slice(*self.chunks_before[part : part + 2])
            pieces.append(Selection(mask[chunks], self.document_ids[chunks] - first))
        return pieces

    def joined(self, pieces: Iterable[Selection]) -> Selection:
        """Concatenate the folders' selections."""
        return self.selection(np.concatenate([piece.mask for piece in pieces]))

    def in_union(self, hits: Iterable[Hit], part: int) -> list[Hit]:
        """Replace the local ids of a folder's hits with ids in the union."""
        return [
            replace(
                hit, chunk=self.chunk(part, hit.chunk), document=self.document(part, hit.document)
            )
            for hit in hits
        ]

    # -------------------------------------------------------------- Catalog

    @property
    def languages(self) -> Mapping[str, int]:
        return sum((Counter(part.languages) for part in self.parts), Counter[str]())

    @cached_property
    def successors(self) -> Mapping[DocumentId, Mapping[DocumentId, bool]]:
        return {
            self.document(n, old): {self.document(n, new): said for new, said in newer.items()}
            for n, part in enumerate(self.parts)
            for old, newer in part.successors.items()
        }

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        return self._loaded(ids, lambda part: part.chunks)

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        return self._loaded(ids, lambda part: part.sections)

    def _loaded(
        self,
        ids: Sequence[ChunkId],
        load: Callable[[Catalog], Callable[[Sequence[ChunkId]], Mapping[ChunkId, _T]]],
    ) -> dict[ChunkId, _T]:
        loaded = ((part, load(self.parts[part])(local)) for part, _, local in self.split(ids))
        return {
            self.chunk(part, n): record for part, records in loaded for n, record in records.items()
        }

    def select(self, filters: Filters) -> Selection | None:
        selections = [part.select(filters) for part in self.parts]
        if all(selection is None for selection in selections):
            return None
        return self.joined(
            part.everything() if selection is None else selection
            for selection, part in zip(selections, self.parts, strict=True)
        )

    def chunks_matching(self, condition: TypedFilter) -> Selection:
        return self.joined(part.chunks_matching(condition) for part in self.parts)

    def has_match(self, condition: TypedFilter) -> bool:
        return any(part.has_match(condition) for part in self.parts)

    def similar_values(self, condition: TypedFilter) -> tuple[str, ...]:
        parts, shown = self.parts, condition.condition
        if condition.field == "property":
            with_key = [part for part in parts if part.has_match(condition.on_key())]
            shown = (condition if with_key else condition.on_key()).condition
            parts = with_key or parts
        names = [name for part in parts for name in part.similar_values(condition)]
        by_name = by_form(condition.field, names)
        return nearest(replace(condition, value=shown), by_name) if names else ()

    def documents_named(self, letters: str) -> Sequence[DocumentId]:
        return [
            self.document(number, n)
            for number, part in enumerate(self.parts)
            for n in part.documents_named(letters)
        ]

    def abbreviations_with(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        return sum(
            (Counter(part.abbreviations_with(forms)) for part in self.parts),
            Counter[Abbreviation](),
        )


class UnionKeywordIndex:
    """Keyword index over several folders."""

    def __init__(self, parts: Sequence[KeywordIndex], catalog: UnionCatalog) -> None:
        self._parts, self._catalog = parts, catalog
        self.languages = frozenset[str]().union(*(part.languages for part in parts))

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Search each folder, and merge the hits by score.

        The idf of a term is computed over the chunks of all folders. Lengths are normalized within
        each folder.
        """
        frequencies = [
            [len(self._containing_any(part, term, weights.fields)) for term in terms]
            for part in self._parts
        ]
        global_idfs = [
            idf(sum(counts), len(self._catalog)) for counts in zip(*frequencies, strict=True)
        ]
        hits, documents = list[Hit](), dict[DocumentId, float]()
        pieces = self._catalog.pieces(within)
        for n, (part, piece) in enumerate(zip(self._parts, pieces, strict=True)):
            # cancels the folder's own idf of chunks; document scores are scaled by the same factor
            weighted = [
                replace(term, weight=term.weight * rarity / idf(count, len(self._catalog.parts[n])))
                for term, rarity, count in zip(terms, global_idfs, frequencies[n], strict=True)
            ]
            results = part.search(weighted, weights, limit, piece)
            hits += self._catalog.in_union(results.hits, n)
            documents |= {
                self._catalog.document(n, d): score for d, score in results.documents.items()
            }
        return RankedList(_merged(hits, limit), documents)

    @staticmethod
    def _containing_any(part: KeywordIndex, term: Term, fields: Collection[str]) -> Selection:
        """Return the chunks of a folder that contain a term or any of its forms."""
        return reduce(
            or_, [part.chunks_with_all_words(form.text, fields) for form in (term, *term.forms)]
        )

    def chunks_with_all_words(self, text: str, fields: Collection[str]) -> Selection:
        return self._catalog.joined(
            part.chunks_with_all_words(text, fields) for part in self._parts
        )

    def chunks_with_phrase(self, text: str, fields: Collection[str] = PHRASE_FIELDS) -> Selection:
        return self._catalog.joined(part.chunks_with_phrase(text, fields) for part in self._parts)

    def chunk_frequency(self, word: str) -> int:
        return sum(part.chunk_frequency(word) for part in self._parts)

    def phrase_frequency(self, text: str) -> int:
        return sum(part.phrase_frequency(text) for part in self._parts)

    def lexicon(self, lengths: range) -> Collection[str]:
        return {word for part in self._parts for word in part.lexicon(lengths)}


def _merged(hits: Iterable[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits of all folders with new ranks. Ties are broken by chunk id."""
    best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:limit]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(best, 1))


class UnionVectorIndex(VectorIndex):
    """Vector index over several folders with the same model. A folder may have no vectors yet."""

    def __init__(self, parts: Sequence[VectorIndex], catalog: UnionCatalog) -> None:
        self._parts, self._catalog = parts, catalog
        self._dimensions = max(
            (part.vectors(()).shape[1] for part in parts if len(part)), default=1
        )

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        """Search each folder, and merge the hits by cosine."""
        hits, pieces = list[Hit](), self._catalog.pieces(within)
        for n, (part, piece) in enumerate(zip(self._parts, pieces, strict=True)):
            if len(part):
                hits += self._catalog.in_union(part.search(query, limit, piece), n)
        return _merged(hits, limit)

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        matrix = np.full((len(chunks), self._dimensions), np.nan, dtype=np.float32)
        for part, at, local in self._catalog.split(chunks):
            if len(self._parts[part]):
                matrix[at] = self._parts[part].vectors(local)
        return matrix

    @property
    def coverage(self) -> float:
        chunks = sum(len(part) / part.coverage for part in self._parts if len(part))
        return len(self) / chunks if chunks else 0.0

    def count_provisional(self) -> int:
        return sum(part.count_provisional() for part in self._parts)

    def is_provisional(self, chunks: Sequence[ChunkId]) -> Mask:
        mask = np.zeros(len(chunks), dtype=np.bool_)
        for part, at, local in self._catalog.split(chunks):
            mask[at] = self._parts[part].is_provisional(local)
        return mask


class UnionLinkGraph:
    """Link graph over several folders. No link connects two folders."""

    def __init__(self, parts: Sequence[LinkGraph], catalog: UnionCatalog) -> None:
        self._parts, self._catalog = parts, catalog

    def outgoing(self, document: DocumentId) -> tuple[DocumentId, ...]:
        part, local = self._catalog.locate_document(document)
        return tuple(self._catalog.document(part, n) for n in self._parts[part].outgoing(local))

    def incoming(self, document: DocumentId) -> tuple[DocumentId, ...]:
        part, local = self._catalog.locate_document(document)
        return tuple(self._catalog.document(part, n) for n in self._parts[part].incoming(local))


class UnionDuplicates(Duplicates):
    """Duplicates within several folders. Duplicates across folders are found at query time."""

    def __init__(self, parts: Sequence[Duplicates], catalog: UnionCatalog) -> None:
        self._parts, self._catalog = parts, catalog

    def repeats(self, within: Selection | None = None) -> Selection | None:
        pieces = zip(self._parts, self._catalog.pieces(within), strict=True)
        return self._joined([part.repeats(piece) for part, piece in pieces])

    def shared(self) -> Selection | None:
        return self._joined([part.shared() for part in self._parts])

    def _joined(self, selections: Sequence[Selection | None]) -> Selection | None:
        if all(selection is None for selection in selections):
            return None
        return self._catalog.joined(
            catalog.only(()) if selection is None else selection
            for selection, catalog in zip(selections, self._catalog.parts, strict=True)
        )

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        salience = np.zeros(len(chunks))
        for part, at, local in self._catalog.split(chunks):
            salience[at] = self._parts[part].salience(local)
        return salience

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        ((part, _, local),) = self._catalog.split([chunk])
        return tuple(self._catalog.chunk(part, n) for n in self._parts[part].copies(local[0]))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        groups = list(self._catalog.split([first, second]))
        return self._parts[groups[0][0]].verdict(*groups[0][2]) if len(groups) == 1 else None
