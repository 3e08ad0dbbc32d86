"""Read one folder's index as a snapshot of its current generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from thumbindex.errors import IndexMissingError, StorageError
from thumbindex.index.snapshot import FolderSnapshot, OpenIndex, open_snapshot
from thumbindex.index.store import Store
from thumbindex.library.indexed_folders import Folder, with_current_privacy

if TYPE_CHECKING:
    from thumbindex import postgres

PRIVACY_CHECK_SECONDS = 0.1
"""Seconds between two checks of the settings file in a folder."""


class Reader(Protocol):
    """One folder's index, open for reading, on this machine or in a database."""

    @property
    def is_published(self) -> bool:
        """Whether the folder is published in a database, so that its files cannot be read."""

    @property
    def database(self) -> postgres.PublishedFolders | None:
        """The database of a published folder, or None."""

    @property
    def folder(self) -> Folder:
        """The folder, with the current privacy rules of the settings file in it."""

    @property
    def indexed(self) -> bool:
        """Whether the folder has an index, even a damaged one. May query the database."""

    @property
    def is_searchable(self) -> bool:
        """Like `indexed`, but without a database query: uses the last known state."""

    @property
    def location(self) -> str:
        """The index's location, for display."""

    @property
    def store(self) -> Store | postgres.PublishedStore:
        """The index's rows, read-only."""

    def pinned(self) -> AbstractContextManager[None]:
        """Pin the current generation for all reads by this thread."""

    def folder_snapshot(self) -> FolderSnapshot:
        """Return the current snapshot. Raises StorageError."""

    def version(self) -> object:
        """Return a value that changes with every commit."""

    def close(self) -> None:
        """Close files and connections."""


class DiskReader:
    """One folder's index on this machine."""

    is_published = False
    database = None

    def __init__(self, folder: Folder) -> None:
        self._folder, self._next_privacy_check = folder, 0.0
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._index_paths = folder.index_paths  # of the open build
        self._snapshot: OpenIndex | None = None
        self._thread = threading.local()  # the store that this thread has pinned
        self._lock = threading.RLock()

    @property
    def folder(self) -> Folder:
        """The folder. The settings file in it was checked for changes at most 0.1 seconds ago."""
        if time.monotonic() >= self._next_privacy_check:
            self._next_privacy_check = time.monotonic() + PRIVACY_CHECK_SECONDS
            self._folder = with_current_privacy(self._folder)
        return self._folder

    @property
    def indexed(self) -> bool:
        """Whether the folder has an index with words, or a damaged index."""
        try:
            return self.store.meta("words") != ""
        except IndexMissingError:
            return False
        except StorageError:  # the next query raises it
            return True

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Pin this thread's reads to one generation; a nested call does nothing."""
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
        store: Store | None = getattr(self._thread, "store", None)
        return store

    @property
    def store(self) -> Store:
        """This thread's pinned store, else the current store."""
        if (pinned_store := self._pinned_store) is not None:
            return pinned_store
        with self._lock:
            index_paths = self.folder.index_paths.of_build()
            try:
                stat = index_paths.store.stat()
                identity = (stat.st_dev, stat.st_ino)
            except OSError:
                identity = None
            if (  # also after another process has deleted or rebuilt the index
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
                    if (pinned_store := self._pinned_store) is None:
                        raise
                    if pinned_store.path != self.folder.index_paths.store:
                        self._thread.store = None  # a rebuild deleted the pinned files
                    elif not pinned_store.refresh_read():
                        raise
                    # else a commit deleted keyword files before they were opened: retry

    def _current_snapshot(self) -> OpenIndex:
        store = self.store
        with store.read_transaction(), self._lock:  # only one thread opens a new snapshot
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
        """The same as `indexed`."""
        return self.indexed

    @property
    def location(self) -> str:
        """The index folder's path."""
        return str(self.folder.index_paths.folder)

    def version(self) -> object:
        """Return the index's file and generation."""
        store = self.store
        return store.path, store.generation

    def warm_up(self) -> None:
        """Open the current snapshot ahead of the next query."""
        if self.indexed:
            self.folder_snapshot()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._snapshot = None
