"""An index opened for reading: the store and its views at one generation, as the ports that the pipeline knows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.graph import NetworkxLinkGraph
from thumbindex.index.keyword import WhooshKeywordIndex
from thumbindex.index.stamp import refuse_lost, stamp_text
from thumbindex.index.store import Store, text_key
from thumbindex.index.vector import FaissVectorIndex, VectorView, view_file
from thumbindex.ports import Calibration, Matrix, Snapshot


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one folder's index."""

    folder: Path

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.folder / "index.sqlite3"

    @property
    def keyword(self) -> Path:
        """Whoosh's folder."""
        return self.folder / "keyword"

    @property
    def vector(self) -> Path:
        """The folder of FAISS files."""
        return self.folder / "vector"

    @property
    def lock(self) -> Path:
        """The writer's lock."""
        return self.folder / "writer.lock"


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot, and what it is a snapshot of."""

    snapshot: Snapshot
    catalog: StoreCatalog
    vectors: VectorView
    words: str  # stamp of the keyword view and generation of the store's last change of words
    fingerprint: str

    def is_current(self, store: Store, places: Places) -> bool:
        """Tell whether the index is still as it was opened."""
        return self.snapshot.generation == store.generation and self.words == _words(store, places)


def open_snapshot(store: Store, places: Places, folder: str, *, expand: bool = False, last: Opened | None = None) -> Opened:
    """Open the index at its present generation. Of the last one all is kept that is still true: while vectors fill in, words stay open."""
    with store.reading():
        words, fingerprint = _words(store, places), store.meta("fingerprint")
        vectors = _newer_vectors(store, fingerprint, last) or current_vectors(store, places)
        vocabulary = _vocabulary(store) if expand else None
        if last is not None and last.words == words:
            catalog, keyword, graph = last.catalog, last.snapshot.keyword, last.snapshot.graph
        else:
            catalog = StoreCatalog(store, folder)
            keyword, graph = WhooshKeywordIndex(places.keyword, catalog), _graph(store, catalog)
        vector = FaissVectorIndex(vectors, catalog)
        snapshot = Snapshot(store.generation, catalog, keyword, vector, graph, _calibration(store), vocabulary)
        return Opened(snapshot, catalog, vectors, words, fingerprint)


def _words(store: Store, places: Places) -> str:
    shown = stamp_text(places.keyword)  # before the store is looked at: the store is committed first
    refuse_lost(places.keyword, shown, store.generation)
    return f"{shown}; {store.meta('words')}"


def _graph(store: Store, catalog: StoreCatalog) -> NetworkxLinkGraph:
    at = catalog.positions
    # between two batches of one run a link may still name a document that went with the first
    edges = [(at[path], at[resolved]) for path, resolved in store.edges() if path in at and resolved in at]
    return NetworkxLinkGraph(len(catalog.documents), edges)


def _newer_vectors(store: Store, fingerprint: str, last: Opened | None) -> VectorView | None:
    """Bring a copy of the last snapshot's vectors up to the store; searches that run keep theirs."""
    if last is None or not fingerprint or last.fingerprint != fingerprint:
        return None
    view = last.vectors.copy()
    bring_up_to_date(view, store, fingerprint)
    return view


def current_vectors(store: Store, places: Places) -> VectorView:
    """Load the vectors' file and bring it up to the store: row ids are never used twice, so comparing them is enough."""
    fingerprint = store.meta("fingerprint")
    dimensions = int(store.meta("dimensions", "1"))
    view = VectorView.load(view_file(places.vector, fingerprint), dimensions)
    if fingerprint:
        bring_up_to_date(view, store, fingerprint)
    return view


def bring_up_to_date(view: VectorView, store: Store, fingerprint: str) -> int:
    """Remove rows that the store no longer has and add those that are new; return how many rows differed."""
    held, wanted = view.rows(), np.array(store.vector_rows(fingerprint), dtype=np.int64)
    gone, new = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
    view.remove(gone)
    view.add(store.chunk_vectors(fingerprint, new.tolist()))
    return len(gone) + len(new)


def _calibration(store: Store) -> Calibration:
    values = json.loads(store.meta("calibration", "{}"))
    return Calibration(**values)


def _vocabulary(store: Store) -> tuple[tuple[str, ...], Matrix] | None:
    terms = json.loads(store.meta("vocabulary", "[]"))
    vectors = store.vectors(store.meta("fingerprint"), [text_key(term) for term in terms])
    held = tuple(term for term in terms if text_key(term) in vectors)
    return (held, np.stack([vectors[text_key(term)] for term in held])) if held else None
