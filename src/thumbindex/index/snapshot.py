"""An index opened for reading: the store and its views at one generation, as the ports that the
pipeline knows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.chunk_vectors import all_matrices, chunk_matrix
from thumbindex.index.duplicate_clusters import StoreDuplicates, open_duplicates
from thumbindex.index.graph import NetworkxLinkGraph
from thumbindex.index.keyword_index import SegmentKeywordIndex
from thumbindex.index.segments import open_segments
from thumbindex.index.store import Store
from thumbindex.index.vectors import FaissVectorIndex, FaissVectors
from thumbindex.ports import Matrix, Snapshot
from thumbindex.text import text_key


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """A snapshot, with the parts that it was made of."""

    snapshot: Snapshot
    catalog: StoreCatalog
    keyword: SegmentKeywordIndex
    graph: NetworkxLinkGraph
    vectors: FaissVectors
    duplicates: StoreDuplicates
    words: str  # generation of the last change of documents or their words
    fingerprint: str
    model: str

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.catalog.paths)

    def is_current(self, store: Store) -> bool:
        """Return whether the index is still as it was opened."""
        return self.catalog.store is store and self.snapshot.generation == store.generation


def open_snapshot(
    store: Store,
    folder: str,
    *,
    expand: bool = False,
    previous: OpenIndex | None = None,
) -> OpenIndex:
    """Open the index at its present generation. Texts are loaded when they are asked for.

    What is still true of the last snapshot is kept: only what came since is read, and words stay
    open while vectors are added.
    """
    previous = previous if previous is not None and previous.catalog.store is store else None
    with store.read_transaction(), store.decoding():
        return _open(store, folder, expand, previous)


def _open(store: Store, folder: str, expand: bool, last: OpenIndex | None) -> OpenIndex:
    words, fingerprint = store.meta("words"), store.meta("fingerprint")
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
        snapshot, catalog, keyword, graph, vectors, duplicates, words, fingerprint, model
    )


def build_link_graph(catalog: StoreCatalog, last: NetworkxLinkGraph | None) -> NetworkxLinkGraph:
    """Return the graph of a catalog's links; the last one is kept if none has changed."""
    links, paths = (
        catalog.store.linked_paths(),
        dict(zip(catalog.document_rows.tolist(), catalog.paths, strict=True)),
    )
    return NetworkxLinkGraph(
        catalog.paths,
        {paths[row]: linked for row, linked in links.items()},
        last,
    )


def _vectors(
    store: Store, fingerprint: str, catalog: StoreCatalog, last: OpenIndex | None
) -> FaissVectors:
    """Return the last snapshot's vectors, or a copy with what came since: searches that run keep
    theirs.
    """
    if last is None or not fingerprint or last.fingerprint != fingerprint:
        return load_vectors(store)
    view = last.vectors
    held = view.rows()
    at = catalog.chunks_of_rows(held)
    gone, lacking = held[at < 0], np.delete(catalog.chunk_rows, at[at >= 0])
    new, matrix = chunk_matrix(store, lacking.tolist())
    if not new and not len(gone):
        return view
    return view.with_changes(gone, new, matrix)


def load_vectors(store: Store) -> FaissVectors:
    """Load the vectors of all chunks that have one of the index's model."""
    with store.read_transaction():
        count, parts = all_matrices(store) if store.meta("fingerprint") else (0, iter(()))
        return FaissVectors(int(store.meta("dimensions", "1")), count, parts)


def _vocabulary(store: Store) -> tuple[tuple[str, ...], Matrix] | None:
    terms = json.loads(store.meta("vocabulary", "[]"))
    vectors = (
        store.vectors.get([text_key(term) for term in terms]) if terms and store.vectors else {}
    )
    held = tuple(term for term in terms if text_key(term) in vectors)
    return (held, np.stack([vectors[text_key(term)] for term in held])) if held else None
