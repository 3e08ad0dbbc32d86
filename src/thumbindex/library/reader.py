"""Read one folder's index: the snapshot of the current generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from thumbindex.errors import IndexMissingError, StorageError
from thumbindex.index.snapshot import OpenIndex, open_snapshot
from thumbindex.index.store import Store
from thumbindex.library.indexed_folders import Folder, with_current_privacy
from thumbindex.ports import FolderSnapshot

if TYPE_CHECKING:
    from thumbindex import postgres

PRIVACY_CHECK_SECONDS = 0.1
"""Interval between two checks of a folder's own settings file."""


class Reader(Protocol):
    """One folder's index, open for reading, on this machine or in a database."""

    @property
    def is_published(self) -> bool:
        """Whether the folder is in a database, without its notes' files."""

    @property
    def database(self) -> postgres.PublishedFolders | None:
        """The database of a published folder."""

    @property
    def folder(self) -> Folder:
        """The folder, with the current private rules of its own file."""

    @property
    def indexed(self) -> bool:
        """Whether the folder's words are indexed, even if damaged; a database is asked."""

    @property
    def is_searchable(self) -> bool:
        """Whether the folder's words were indexed when the database was asked last."""

    @property
    def location(self) -> str:
        """The location of the index, for display."""

    @property
    def store(self) -> Store | postgres.PublishedStore:
        """The rows of the index, read-only."""

    def pinned(self) -> AbstractContextManager[None]:
        """Pin the current generation for all reads of this thread."""

    def folder_snapshot(self) -> FolderSnapshot:
        """Return the current snapshot. Raises StorageError."""

    def version(self) -> object:
        """Return a value that differs after each commit."""

    def close(self) -> None:
        """Close the files, or the connections."""


class DiskReader:
    """One folder's index on this machine. A query reads one generation to its end (`pinned`)."""

    is_published = False
    database = None

    def __init__(self, folder: Folder) -> None:
        self._folder, self._next_privacy_check = folder, 0.0
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._index_paths = folder.index_paths  # of the build that is open
        self._snapshot: OpenIndex | None = None
        self._thread = threading.local()  # the store that this thread has pinned
        self._lock = threading.RLock()

    @property
    def folder(self) -> Folder:
        """The folder, with the private rules of its own file, checked ten times a second."""
        if time.monotonic() >= self._next_privacy_check:
            self._next_privacy_check = time.monotonic() + PRIVACY_CHECK_SECONDS
            self._folder = with_current_privacy(self._folder)
        return self._folder

    @property
    def indexed(self) -> bool:
        """Whether words were committed; True if the index is damaged."""
        try:
            return self.store.meta("words") != ""
        except IndexMissingError:
            return False
        except StorageError:  # a query raises it
            return True

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Hold a read transaction of this thread; a nested call does nothing."""
        if self._pinned_store is not None:
            yield
            return
        try:
            store = self.store
        except StorageError:  # the next read raises it
            yield
            return
        with store.read_transaction():
            self._thread.store = store
            try:
                yield
            finally:
                self._thread.store = None

    @property
    def _pinned_store(self) -> Store | None:
        """The store that this thread has pinned, or None."""
        held: Store | None = getattr(self._thread, "store", None)
        return held

    @property
    def store(self) -> Store:
        """The store, opened at first use, and again if the index was deleted or rebuilt."""
        if (held := self._pinned_store) is not None:
            return held
        with self._lock:
            index_paths = self.folder.index_paths.of_build()
            try:
                found = index_paths.store.stat()
                identity = (found.st_dev, found.st_ino)
            except OSError:
                identity = None
            if (
                self._store is None
                or index_paths != self._index_paths
                or identity != self._identity
            ):
                self._store = Store(index_paths.store, read_only=True)
                self._index_paths, self._identity = index_paths, identity
            return self._store

    def folder_snapshot(self) -> OpenIndex:
        """Return the snapshot of the pinned generation, or open the latest one."""
        with self.pinned():
            while True:
                try:
                    return self._current_snapshot()
                except StorageError:
                    if (held := self._pinned_store) is None:
                        raise
                    if held.path != self.folder.index_paths.store:
                        self._thread.store = None  # the index was rebuilt, and its files are gone
                    elif not held.refresh_read():
                        raise
                    # else a commit has deleted files of words before they were opened

    def _current_snapshot(self) -> OpenIndex:
        store = self.store
        with store.read_transaction(), self._lock:  # one thread opens a new snapshot
            if self._snapshot is None or not self._snapshot.is_current(store):
                self._snapshot = open_snapshot(
                    store,
                    self.folder.name,
                    expand=self.folder.config.query.runs("expand"),
                    previous=self._snapshot,
                )
            return self._snapshot

    @property
    def is_searchable(self) -> bool:
        """The same as `indexed`: no database is asked."""
        return self.indexed

    @property
    def location(self) -> str:
        """The index folder's path."""
        return str(self.folder.index_paths.folder)

    def version(self) -> object:
        """Return the index's file and generation: each commit has its own."""
        store = self.store
        return store.path, store.generation

    def warm_up(self) -> None:
        """Open the current snapshot, so that the next query need not."""
        if self.indexed:
            self.folder_snapshot()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._snapshot = None
