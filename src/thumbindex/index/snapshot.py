"""An index opened for reading: the store and its views at one generation, as the ports that the
pipeline knows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.duplicates import StoreDuplicates, duplicates_of
from thumbindex.index.files import Places
from thumbindex.index.graph import NetworkxLinkGraph
from thumbindex.index.stamp import Stamp, read_stamp, refuse_lost, stamp_text
from thumbindex.index.store import Store
from thumbindex.index.vectors import FaissVectorIndex, VectorView
from thumbindex.index.words import WhooshKeywordIndex, open_segments
from thumbindex.model import ChunkId
from thumbindex.ports import Matrix, Snapshot
from thumbindex.text import text_key

_ATTEMPTS = 3
"""Commits may come while an index is opened; one is not waited for without end."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot, and what it is a snapshot of."""

    snapshot: Snapshot
    catalog: StoreCatalog
    keyword: WhooshKeywordIndex
    graph: NetworkxLinkGraph
    vectors: VectorView
    duplicates: StoreDuplicates
    words: str  # stamp of the keyword view and generation of the store's last change of words
    whole: bool  # not between a batch's two commits
    fingerprint: str
    model: str

    @property
    def lost(self) -> frozenset[ChunkId]:
        """The chunks that were asked for and whose texts are nowhere any more."""
        return self.catalog.lost

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.catalog.paths)

    def is_current(self, store: Store, places: Places) -> bool:
        """Tell whether the index is still as it was opened."""
        return (
            self.catalog.store is store
            and self.snapshot.generation == store.generation
            and self.words == _words(store, places, stamp_text(places.keyword))
        )


def shows_words(store: Store, places: Places) -> bool:
    """Tell whether the keyword view has come up to the store: between a batch's two commits it
    shows documents that are gone and lacks others.
    """
    stamp = read_stamp(places.keyword)
    return stamp is not None and _is_whole(store, stamp)


def _is_whole(store: Store, stamp: Stamp) -> bool:
    return stamp.generation >= int(store.meta("words", "0"))


def open_snapshot(
    store: Store,
    places: Places,
    folder: str,
    *,
    expand: bool = False,
    last: Opened | None = None,
    now: Store | None = None,
) -> Opened:
    """Open the index at its present generation, from `now` where that is given; texts are loaded
    from `store` when they are asked for.

    Of the last snapshot all is kept that is still true: only what came since is read, and while
    vectors fill in, words stay open. The store and the keyword view are committed one after the
    other. Between the two halves of a commit there is nothing to open, and the last snapshot is
    returned where there is one; a commit that comes while they are opened is for the next snapshot.
    """
    now = now or store
    last = last if last is not None and last.catalog.store is store else None
    for _ in range(_ATTEMPTS):
        if last is not None and not shows_words(now, places):
            return last
        opened = _open_once(store, now, places, folder, expand, last)
        if opened is not last:
            return opened
    return opened


def _open_once(
    store: Store, now: Store, places: Places, folder: str, expand: bool, last: Opened | None
) -> Opened:
    """Open it, and return the last one where a commit has come half since its words were opened."""
    # These are opened before the store is looked at, which is committed first: so they show nothing
    # that the store does not hold.
    segments = None if last is None else last.keyword.opened
    if segments is None or segments.stamp.text != stamp_text(places.keyword):
        segments = open_segments(places.keyword, () if last is None else last.keyword.segments)
    with now.reading(), now.as_written():
        words, fingerprint = _words(now, places, segments.stamp.text), now.meta("fingerprint")
        whole = _is_whole(now, segments.stamp)
        if last is not None and not whole:
            return last
        same = last is not None and last.words == words
        catalog = (
            last.catalog
            if last is not None and same
            else StoreCatalog(store, folder, None if last is None else last.catalog, now)
        )
        graph = last.graph if last is not None and same else _graph(now, catalog, last)
        vectors = _vectors(now, fingerprint, catalog, last)
        duplicates = duplicates_of(catalog, now, None if last is None else last.duplicates)
        vocabulary = _vocabulary(now) if expand else None
        generation, model = now.generation, now.meta("model")
    keyword = last.keyword if last is not None and same else WhooshKeywordIndex(segments, catalog)
    snapshot = Snapshot(
        generation,
        catalog,
        keyword,
        FaissVectorIndex(vectors, catalog),
        graph,
        vocabulary,
        duplicates,
    )
    return Opened(
        snapshot, catalog, keyword, graph, vectors, duplicates, words, whole, fingerprint, model
    )


def _words(store: Store, places: Places, shown: str) -> str:
    refuse_lost(places.keyword, shown, store.generation)
    return f"{shown}; {store.meta('words')}"


def _graph(store: Store, catalog: StoreCatalog, last: Opened | None) -> NetworkxLinkGraph:
    links, paths = (
        store.linked_paths(),
        dict(zip(catalog.document_rows.tolist(), catalog.paths, strict=True)),
    )
    return NetworkxLinkGraph(
        catalog.paths,
        {paths[row]: linked for row, linked in links.items()},
        None if last is None else last.graph,
    )


def _vectors(
    store: Store, fingerprint: str, catalog: StoreCatalog, last: Opened | None
) -> VectorView:
    """Return the last snapshot's vectors, or a copy with what came since: searches that run keep
    theirs.
    """
    if last is None or not fingerprint or last.fingerprint != fingerprint:
        return stored_vectors(store)
    view = last.vectors
    held = view.rows()
    at = catalog.chunk_positions(held)
    gone, lacking = held[at < 0], np.delete(catalog.chunk_rows, at[at >= 0])
    new, matrix = store.chunk_matrix(lacking.tolist())
    if not new and not len(gone):
        return view
    view = view.copy()
    view.remove(gone)
    view.add(new, matrix)
    return view


def stored_vectors(store: Store) -> VectorView:
    """Load the vectors of all chunks that have one of the index's model."""
    with store.reading():
        view = VectorView(int(store.meta("dimensions", "1")))
        if store.meta("fingerprint"):
            view.fill(*store.all_matrices())
    return view


def _vocabulary(store: Store) -> tuple[tuple[str, ...], Matrix] | None:
    terms = json.loads(store.meta("vocabulary", "[]"))
    vectors = (
        store.vectors.get([text_key(term) for term in terms]) if terms and store.vectors else {}
    )
    held = tuple(term for term in terms if text_key(term) in vectors)
    return (held, np.stack([vectors[text_key(term)] for term in held])) if held else None
