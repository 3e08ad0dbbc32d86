"""The catalog of a snapshot: all documents and chunks by id.

All parts of the snapshot use these ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from thumbindex.index.catalog_layout import CatalogLayout
from thumbindex.index.filters import FilterIndex
from thumbindex.index.names import documents_by_name
from thumbindex.index.row_codec import document_from_row
from thumbindex.model import (
    Abbreviation,
    Chunk,
    ChunkId,
    Document,
    DocumentId,
    DocumentTimes,
    Filters,
    LinkKind,
    Section,
    TypedFilter,
    day_of,
)
from thumbindex.ports import IntArray, Salience, Selection
from thumbindex.text import form_key

_Record = TypeVar("_Record")


class RowSource(Protocol):
    """The rows that a catalog reads: from a store on disk, or from a published index."""

    def documents(
        self, rows: Sequence[int] | None = None
    ) -> list[tuple[int, str, str, DocumentTimes, str]]:
        """Return row id, path, title, times and attributes of documents.

        `rows` are row ids. None returns all documents.
        """

    def document_times(self) -> dict[int, tuple[Any, ...]]:
        """Return the times of all documents, keyed by row id."""

    def chunk_columns(
        self, documents: Sequence[int] | None = None
    ) -> list[tuple[int, int, int, float]]:
        """Return row id, document's row id, ordinal and salience of the chunks in `documents`.

        `documents` are row ids. None returns all chunks.
        """

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id."""

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, keyed by the chunk's row id."""

    def succession(self) -> list[tuple[int, str, str]]:
        """Return document's row id, kind and target path of statements about versions of notes."""

    def linked_paths(self) -> dict[int, str]:
        """Return the target paths of each document's links as JSON, keyed by document row id."""


class StoreCatalog(CatalogLayout):
    """Catalog of one folder, read from the folder's store at one generation.

    Create the catalog and load texts in the same `Store.read_transaction`. Rows in `last` are not
    read again, except for their times.
    """

    def __init__(self, store: RowSource, folder: str, last: StoreCatalog | None = None) -> None:
        self.store = store
        self._folder = folder
        rows = _documents(folder, store, last)
        # sorted by path
        self.documents: Sequence[Document] = tuple(document for _, document in rows)
        document_rows: IntArray = np.array([row for row, _ in rows], dtype=np.int64)
        chunks, salience = _columns(store, last, document_rows)
        of = ids_of_rows(document_rows, chunks[:, 1])
        order = np.lexsort((chunks[:, 2], of))
        self._chunks = chunks[order]
        self.salience: Salience = salience[order]  # without boosts
        self.chunk_rows: IntArray = np.ascontiguousarray(self._chunks[:, 0])
        days = np.array(
            [day.toordinal() if day else 0 for day in map(day_of, self.documents)], dtype=np.int64
        )
        self.successors = self._successors(store.succession(), document_rows)
        sizes = np.bincount(of, minlength=len(rows)).astype(np.int64)
        super().__init__(document_rows, sizes, days)

    def _successors(
        self, statements: Sequence[tuple[int, str, str]], rows: IntArray
    ) -> Mapping[DocumentId, Mapping[DocumentId, bool]]:
        successors: dict[DocumentId, dict[DocumentId, bool]] = defaultdict(dict)
        sources = ids_of_rows(rows, np.array([row for row, _, _ in statements], dtype=np.int64))
        for at, (_, kind, path) in zip(sources.tolist(), statements, strict=True):
            note, other = DocumentId(at), self.document_at(path)
            if at < 0 or other is None:
                continue
            is_stated = kind == LinkKind.SUCCESSOR
            old, new = (note, other) if is_stated else (other, note)
            successors[old][new] = is_stated or successors[old].get(new, False)
        return dict(successors)

    @cached_property
    def paths(self) -> Sequence[str]:
        return tuple(document.path for document in self.documents)

    @cached_property
    def _by_row(self) -> IntArray:
        return np.argsort(self.chunk_rows, kind="stable")

    def document_at(self, path: str) -> DocumentId | None:
        at = bisect_left(self.paths, path)
        return DocumentId(at) if at < len(self.paths) and self.paths[at] == path else None

    def chunks_of_rows(self, rows: IntArray) -> IntArray:
        """Return the chunk id of each row id, or -1 if there is no such chunk."""
        return ids_of_rows(self.chunk_rows, rows, self._by_row)

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        return self._loaded(ids, self.store.chunks)

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        return self._loaded(ids, self.store.sections)

    def _loaded(
        self, ids: Sequence[ChunkId], load: Callable[[Sequence[int]], Mapping[int, _Record]]
    ) -> dict[ChunkId, _Record]:
        rows = {n: int(self.chunk_rows[n]) for n in ids}
        loaded = load(list(rows.values()))
        return {n: loaded[row] for n, row in rows.items() if row in loaded}

    # -------------------------------------------------------------- filters and names

    def select(self, filters: Filters) -> Selection | None:
        if filters == Filters():
            return None
        if filters.folder and self._folder not in filters.folder:
            return self.only([])
        return self.of_documents(self._filters.documents_passing(filters))

    @cached_property
    def _filters(self) -> FilterIndex:
        return FilterIndex(self.documents)

    def chunks_matching(self, condition: TypedFilter) -> Selection:
        return self.of_documents(self._filters.documents_matching(condition))

    def has_match(self, condition: TypedFilter) -> bool:
        return self._filters.has_match(condition)

    def similar_values(self, condition: TypedFilter) -> tuple[str, ...]:
        return self._filters.similar_values(condition)

    @cached_property
    def _names(self) -> Mapping[str, Sequence[DocumentId]]:
        return documents_by_name(self.documents)

    def documents_named(self, letters: str) -> Sequence[DocumentId]:
        return self._names.get(letters, ())

    @cached_property
    def _defined(self) -> Mapping[str, Mapping[Abbreviation, int]]:
        """Maps a form to its abbreviations and the number of documents that define each of them.

        The keys are short forms, and long forms as converted by `form_key`.
        """
        by_form: defaultdict[str, dict[Abbreviation, int]] = defaultdict(dict)
        for abbreviation, count in Counter(
            abbreviation for document in self.documents for abbreviation in document.abbreviations
        ).items():
            for form in (abbreviation.short, form_key(abbreviation.long)):
                by_form[form][abbreviation] = count
        return by_form

    def abbreviations_with(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        return {
            abbreviation: count
            for form in forms
            if form in self._defined
            for abbreviation, count in self._defined[form].items()
        }

    @cached_property
    def languages(self) -> Mapping[str, int]:
        return Counter(document.language for document in self.documents)


def _documents(
    folder: str, store: RowSource, last: StoreCatalog | None
) -> list[tuple[int, Document]]:
    """Return all documents with their row ids, sorted by path."""
    reused = []
    if last is None:
        new = store.documents()
    else:
        # only the times of a row can change, and no row id is assigned twice
        times, before = store.document_times(), last.document_rows.tolist()
        reused = [
            (row, _dated(document, times[row]))
            for row, document in zip(before, last.documents, strict=True)
            if row in times
        ]
        new = store.documents(sorted(times.keys() - set(before)))
    added = [
        (row, document_from_row(path, title, dates, attributes, folder))
        for row, path, title, dates, attributes in new
    ]
    return sorted(reused + added, key=lambda pair: pair[1].path)


def _dated(document: Document, times: tuple[Any, ...]) -> Document:
    before = (document.modified, document.edited, document.first_commit, document.last_commit)
    return document if times == before else replace(document, **DocumentTimes(*times)._asdict())


def _columns(
    store: RowSource, last: StoreCatalog | None, documents: IntArray
) -> tuple[IntArray, Salience]:
    """Return an array of shape (chunks, 3) and the salience of all chunks.

    The columns are row id, document's row id and ordinal. Reads only chunks that are not in `last`.
    """
    rows = store.chunk_columns(
        None if last is None else np.setdiff1d(documents, last.document_rows).tolist()
    )
    ids, of, ordinals, weights = zip(*rows, strict=True) if rows else ((),) * 4
    chunks = np.array([ids, of, ordinals], dtype=np.int64).T
    salience = np.array(weights, dtype=np.float64)
    if last is None:
        return chunks, salience
    kept = np.isin(last.document_rows, documents)[last.document_ids]
    return (
        np.concatenate([last._chunks[kept], chunks]),
        np.concatenate([last.salience[kept], salience]),
    )


def ids_of_rows(rows: IntArray, wanted: IntArray, order: IntArray | None = None) -> IntArray:
    """Return the position of each `wanted` row id in `rows`, or -1 for a missing row id.

    `order` may be a precomputed `np.argsort(rows)`.
    """
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(rows, kind="stable") if order is None else order
    at = np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)
    return np.where(rows[order[at]] == wanted, order[at], -1)
