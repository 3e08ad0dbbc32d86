"""From a question to an answer: the folders' snapshots, opened once a generation, and the pipeline over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thumbindex.errors import UsageError
from thumbindex.index.catalog import difference
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.stamp import stamp_text
from thumbindex.index.store import Store
from thumbindex.index.union import unite
from thumbindex.library.folders import Folder
from thumbindex.model import Answer, Changes, ChunkId, Filters, IndexState, Query
from thumbindex.ports import Embedder, Mask, Matrix, Reranker, Snapshot, Vector, VectorIndex
from thumbindex.query.pipeline import run
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings

LONGEST_QUERY = 10_000
"""Characters: longer texts are documents, not questions."""


class Reader:
    """One folder's index, open for reading; its snapshot follows the generation."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._opened: Opened | None = None
        self._lock = threading.RLock()

    @property
    def indexed(self) -> bool:
        """Tell whether there are words to search, or were before they were damaged."""
        return bool(stamp_text(self.folder.places.keyword))

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed, and anew where another file has come to its place (forgotten, rebuilt)."""
        with self._lock:
            found = self.folder.places.store.stat() if self.folder.places.store.exists() else None
            identity = (found.st_dev, found.st_ino) if found else None
            if self._store is None or identity != self._identity:
                self._store, self._identity, self._opened = Store(self.folder.places.store, read_only=True), identity, None
            return self._store

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; a search that runs keeps the snapshot with which it began."""
        with self._lock:
            store = self.store
            if self._opened is None or not self._opened.is_current(store, self.folder.places):
                expand = self.folder.config.query.expand.enabled
                self._opened = open_snapshot(store, self.folder.places, self.folder.name, expand=expand, last=self._opened)
            return self._opened.snapshot

    def refresh(self) -> Changes:
        """Open the index as it is now; return the documents that came, went and changed since it was opened last."""
        with self._lock:
            before = self._opened
            if not self.indexed:
                return Changes()
            self.snapshot()
            if before is None or self._opened is None or before is self._opened:
                return Changes()
            return difference(before.catalog, self._opened.catalog)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._opened = None


def answer(query: Query, readers: Sequence[Reader], settings: QuerySettings, embedder: Embedder | None, reranker: Reranker | None) -> Answer:
    """Ask the folders' snapshots as one and write down what the answer stood on."""
    readers = [reader for reader in readers if not query.filters.folder or reader.folder.name in query.filters.folder]
    state = index_state(readers, embedder)
    made_by = embedder.fingerprint if embedder else next((f for r in readers if r.indexed and (f := r.store.meta("fingerprint"))), "")
    snapshots = [usable(reader.snapshot(), reader.store.meta("fingerprint"), made_by) for reader in readers if reader.indexed]
    if not snapshots:
        return Answer(query.text, None, Search(query, query.text).kind, False, 0.0, "low", (), (), state)
    tools = Tools(unite(snapshots), settings, embedder, reranker)
    search, trace = run(_without_folder(query, len(snapshots)), tools, time.perf_counter)
    corrected = search.text if search.text != query.text else None
    passages = search.passages if search.answerable else ()
    return Answer(query.text, corrected, search.kind, bool(passages), search.confidence, search.confidence_level, passages, trace, state)


def checked(query: Query) -> Query:
    """Return a query that can be asked; raise UsageError for one that cannot."""
    if not query.text.strip():
        raise UsageError("The query is empty: say what to look for.")
    if len(query.text) > LONGEST_QUERY:
        raise UsageError(f"The query has {len(query.text):,} characters, more than 10,000 characters: ask for less.")
    if query.limit < 1:
        raise UsageError(f"limit is {query.limit}: ask for at least 1 passage.")
    globs = tuple(glob.removeprefix("./") for glob in query.filters.path)
    for glob in globs:
        if not glob.strip("/ ") or glob.startswith("!"):
            raise UsageError(f"path {glob!r} matches no document: give a glob such as guides/** or *.md.")
    return replace(query, filters=replace(query.filters, path=globs))


def index_state(readers: Sequence[Reader], embedder: Embedder | None = None) -> IndexState:
    """Add up what the folders' indexes hold; vectors that another model made do not count."""
    states = [folder_state(reader, embedder) for reader in readers]
    models = sorted({state.model for state in states if state.model})
    return IndexState(
        sum(s.documents for s in states),
        sum(s.chunks for s in states),
        sum(s.vectors for s in states),
        sum(s.pending for s in states),
        ", ".join(models),
        sum(s.generation for s in states),
    )


def folder_state(reader: Reader, embedder: Embedder | None = None) -> IndexState:
    """Count what one folder's index holds."""
    if not reader.indexed:
        return IndexState(0, 0, 0, 0, "", 0)
    store = reader.store
    fingerprint = embedder.fingerprint if embedder else store.meta("fingerprint")
    documents, chunks, vectors = store.counts(fingerprint)
    return IndexState(documents, chunks, vectors, chunks - vectors, store.meta("model"), store.generation)


def usable(snapshot: Snapshot, fingerprint: str, made_by: str) -> Snapshot:
    """Take the vectors out where another model made them than the one that is asked: cosines between models mean nothing."""
    return snapshot if fingerprint == made_by else replace(snapshot, vector=NoVectors(), vocabulary=None)


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
