"""Open an index for reading, as a snapshot of one generation."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.chunk_vectors import chunk_matrix, exact_parts, provisional_parts
from thumbindex.index.duplicate_clusters import StoreDuplicates, open_duplicates
from thumbindex.index.graph import NetworkxLinkGraph
from thumbindex.index.keyword_index import SegmentKeywordIndex
from thumbindex.index.segments import open_segments
from thumbindex.index.store import Store
from thumbindex.index.vectors import FaissVectorIndex, FaissVectors, Part
from thumbindex.ports import Matrix, Snapshot
from thumbindex.text import text_key


@dataclass(frozen=True, slots=True)
class FolderSnapshot:
    """The snapshot of one folder, and the parts that the next one can reuse."""

    snapshot: Snapshot
    catalog: StoreCatalog
    keyword: SegmentKeywordIndex
    graph: NetworkxLinkGraph
    duplicates: StoreDuplicates
    fingerprint: str  # of the embedding model; empty if there are no vectors
    model: str

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self.catalog.paths)


@dataclass(frozen=True, slots=True)
class OpenIndex(FolderSnapshot):
    """The snapshot of an index on disk."""

    vectors: FaissVectors
    words: str  # generation of the last change to documents or their words
    stored_vectors: int  # by all folders

    def is_current(self, store: Store) -> bool:
        """Return whether `store` is the opened store and has not changed.

        New vectors are ignored until they may replace a tenth of the provisional ones.
        """
        if self.catalog.store is not store or self.snapshot.generation != store.generation:
            return False
        provisional = self.snapshot.vector.count_provisional()
        return not provisional or 10 * (_count_vectors(store) - self.stored_vectors) < provisional


def open_snapshot(
    store: Store,
    folder: str,
    *,
    expand: bool = False,
    previous: OpenIndex | None = None,
) -> OpenIndex:
    """Open an index at its current generation. Texts are loaded on demand.

    Reuses the parts of `previous` that have not changed, and reads only newer rows.
    """
    previous = previous if previous is not None and previous.catalog.store is store else None
    with store.read_transaction(), store.decoding():
        return _open(store, folder, expand, previous)


def _open(store: Store, folder: str, expand: bool, last: OpenIndex | None) -> OpenIndex:
    words, fingerprint = store.meta("words"), store.meta("fingerprint")
    count = _count_vectors(store)  # before they are loaded, because queries add vectors
    if last is not None and last.words == words:
        catalog, keyword, graph = last.catalog, last.keyword, last.graph
    else:
        catalog = StoreCatalog(store, folder, None if last is None else last.catalog)
        segments = () if last is None else last.keyword.segments
        keyword = SegmentKeywordIndex(
            open_segments(store.segments_folder, store.segments(), segments), catalog
        )
        graph = build_link_graph(catalog, None if last is None else last.graph)
    vectors = _vectors(store, fingerprint, catalog, last)
    duplicates = open_duplicates(store, catalog, None if last is None else last.duplicates)
    snapshot = Snapshot(
        store.generation,
        catalog,
        keyword,
        FaissVectorIndex(vectors, catalog),
        graph,
        _vocabulary(store) if expand else None,
        duplicates,
    )
    model = store.meta("model")
    return OpenIndex(
        snapshot, catalog, keyword, graph, duplicates, fingerprint, model, vectors, words, count
    )


def _count_vectors(store: Store) -> int:
    return store.vectors.count() if store.vectors else 0


def build_link_graph(catalog: StoreCatalog, last: NetworkxLinkGraph | None) -> NetworkxLinkGraph:
    """Return the graph of a catalog's links. Reuses `last` if no link has changed."""
    paths = dict(zip(catalog.document_rows.tolist(), catalog.paths, strict=True))
    links = {paths[row]: targets for row, targets in catalog.store.linked_paths().items()}
    return NetworkxLinkGraph(catalog.paths, links, last)


def _vectors(
    store: Store, fingerprint: str, catalog: StoreCatalog, last: OpenIndex | None
) -> FaissVectors:
    """Return the vectors of `last`, or an updated copy if chunks have changed since.

    `last.vectors` is not modified, because running searches use it. If the model has changed, all
    vectors are loaded.
    """
    if last is None or not fingerprint or last.fingerprint != fingerprint:
        return _load_all_vectors(store, catalog)
    view = last.vectors
    rows = view.rows()
    missing = np.setdiff1d(catalog.chunk_rows, rows[~view.provisional])
    exact = Part(*chunk_matrix(store, missing.tolist()))
    removed = rows[np.isin(rows, exact.rows) | ~np.isin(rows, catalog.chunk_rows)]
    missing = np.setdiff1d(missing, np.union1d(rows, exact.rows)).astype(np.int64)
    new = [exact, *provisional_parts(store, missing)]
    count = sum(len(part.rows) for part in new)
    return view.with_changes(removed, new, count) if count or len(removed) else view


def load_vectors(store: Store) -> FaissVectors:
    """Load the exact vectors of all chunks."""
    with store.read_transaction():
        count, parts = exact_parts(store) if store.meta("fingerprint") else (0, iter(()))
        return FaissVectors(int(store.meta("dimensions", "1")), count, parts)


def _load_all_vectors(store: Store, catalog: StoreCatalog) -> FaissVectors:
    """Load the exact vector of each chunk, or else the provisional one."""
    view = load_vectors(store)
    missing = np.setdiff1d(catalog.chunk_rows, view.rows())
    if not len(missing):
        return view
    return view.with_changes(missing[:0], provisional_parts(store, missing), len(missing))


def _vocabulary(store: Store) -> tuple[tuple[str, ...], Matrix] | None:
    terms = json.loads(store.meta("vocabulary", "[]"))
    vectors = (
        store.vectors.get([text_key(term) for term in terms]) if terms and store.vectors else {}
    )
    embedded = tuple(term for term in terms if text_key(term) in vectors)
    if not embedded:
        return None
    return embedded, np.stack([vectors[text_key(term)] for term in embedded])
