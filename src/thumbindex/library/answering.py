"""From a question to an answer: the folders' snapshots, opened once a generation, and the pipeline over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thumbindex.index.keyword import stamp
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.union import unite
from thumbindex.library.folders import Folder
from thumbindex.model import Answer, ChunkId, Filters, IndexState, Query
from thumbindex.ports import Embedder, Mask, Matrix, Reranker, Snapshot, Vector, VectorIndex
from thumbindex.query.pipeline import run
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings


class Reader:
    """One folder's index, open for reading; its snapshot follows the generation."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._store: Store | None = None
        self._opened: Opened | None = None
        self._lock = threading.Lock()

    @property
    def indexed(self) -> bool:
        """Tell whether there are words to search."""
        return bool(stamp(self.folder.places.keyword))

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed."""
        if self._store is None:
            self._store = Store(self.folder.places.store, read_only=True)
        return self._store

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; a search that runs keeps the snapshot with which it began."""
        with self._lock:
            if self._opened is None or not self._opened.is_current(self.store, self.folder.places):
                expand = self.folder.config.query.expand.enabled
                self._opened = open_snapshot(self.store, self.folder.places, self.folder.name, expand=expand, last=self._opened)
            return self._opened.snapshot

    def close(self) -> None:
        """Close the files."""
        if self._store is not None:
            self._store.close()
        self._store = self._opened = None


def answer(query: Query, readers: Sequence[Reader], settings: QuerySettings, embedder: Embedder | None, reranker: Reranker | None) -> Answer:
    """Ask the folders' snapshots as one and write down what the answer stood on."""
    readers = [reader for reader in readers if not query.filters.folder or reader.folder.name in query.filters.folder]
    snapshots = [_usable(reader.snapshot(), reader, embedder) for reader in readers if reader.indexed]
    state = index_state(readers)
    if not snapshots:
        return Answer(query.text, None, Search(query, query.text).kind, False, 0.0, "low", (), (), state)
    tools = Tools(unite(snapshots), settings, embedder, reranker)
    search, trace = run(_without_folder(query, len(snapshots)), tools, time.perf_counter)
    corrected = search.text if search.text != query.text else None
    passages = search.passages if search.answerable else ()
    return Answer(query.text, corrected, search.kind, bool(passages), search.confidence, search.confidence_level, passages, trace, state)


def index_state(readers: Sequence[Reader]) -> IndexState:
    """Add up what the folders' indexes hold."""
    states = [folder_state(reader) for reader in readers]
    models = sorted({state.model for state in states if state.model})
    return IndexState(
        sum(s.documents for s in states),
        sum(s.chunks for s in states),
        sum(s.vectors for s in states),
        sum(s.pending for s in states),
        ", ".join(models),
        sum(s.generation for s in states),
    )


def folder_state(reader: Reader) -> IndexState:
    """Count what one folder's index holds."""
    if not reader.indexed:
        return IndexState(0, 0, 0, 0, "", 0)
    store = reader.store
    documents, chunks, vectors = store.counts(store.meta("fingerprint"))
    return IndexState(documents, chunks, vectors, chunks - vectors, store.meta("model"), store.generation)


def _usable(snapshot: Snapshot, reader: Reader, embedder: Embedder | None) -> Snapshot:
    """Take the vectors out where another model made them: cosines between models mean nothing."""
    if embedder is None or embedder.fingerprint == reader.store.meta("fingerprint"):
        return snapshot
    return replace(snapshot, vector=NoVectors(), vocabulary=None)


def _without_folder(query: Query, folders: int) -> Query:
    """Drop the folder filter: the other folders were left out already."""
    filters = Filters((), query.filters.path, query.filters.tag, query.filters.since)
    return replace(query, filters=filters) if folders else query


class NoVectors(VectorIndex):
    """A VectorIndex without vectors."""

    def __len__(self) -> int:
        """Return 0."""
        return 0

    def search(self, query: Vector, limit: int, mask: Mask | None = None) -> tuple[()]:
        """Find nothing."""
        return ()

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return NaN rows."""
        return np.full((len(chunks), 1), np.nan, dtype=np.float32)
