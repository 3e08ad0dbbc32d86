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
        """The folder, with what its own file keeps private now."""

    @property
    def indexed(self) -> bool:
        """Whether there are words to search, damaged or not."""

    @property
    def is_searchable(self) -> bool:
        """Whether there are words to search, without waiting for a database."""

    @property
    def location(self) -> str:
        """The location of the index, for display."""

    @property
    def store(self) -> Store | postgres.PublishedStore:
        """The rows of the index, read-only."""

    def pinned(self) -> AbstractContextManager[None]:
        """Pin the current generation for all reads of this thread."""

    def opened(self) -> FolderSnapshot:
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
        self._folder, self._check_at = folder, 0.0
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._places = folder.places  # of the build that is open
        self._opened: OpenIndex | None = None
        self._here = threading.local()  # the store that this thread has pinned
        self._lock = threading.RLock()

    @property
    def folder(self) -> Folder:
        """The folder, with what its own file keeps private now."""
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + PRIVACY_CHECK_SECONDS
            self._folder = with_current_privacy(self._folder)
        return self._folder

    @property
    def indexed(self) -> bool:
        """Whether there are words to search, damaged or not."""
        try:
            return self.store.meta("words") != ""
        except IndexMissingError:
            return False
        except StorageError:  # a query raises it
            return True

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Pin the current generation for all reads of this thread."""
        if self._pinned_store is not None:
            yield
            return
        try:
            store = self.store
        except StorageError:  # the next read raises it
            yield
            return
        with store.read_transaction():
            self._here.store = store
            try:
                yield
            finally:
                self._here.store = None

    @property
    def _pinned_store(self) -> Store | None:
        """The store that this thread has pinned."""
        held: Store | None = getattr(self._here, "store", None)
        return held

    @property
    def store(self) -> Store:
        """The store, opened at first use, and again if the index was deleted or rebuilt."""
        if (held := self._pinned_store) is not None:
            return held
        with self._lock:
            places = self.folder.places.at()
            try:
                found = places.store.stat()
                identity = (found.st_dev, found.st_ino)
            except OSError:
                identity = None
            if self._store is None or places != self._places or identity != self._identity:
                self._store = Store(places.store, read_only=True)
                self._places, self._identity = places, identity
            return self._store

    def opened(self) -> OpenIndex:
        """Return the current snapshot. Raises StorageError."""
        with self.pinned():
            while True:
                try:
                    return self._present()
                except StorageError:
                    if (held := self._pinned_store) is None:
                        raise
                    if held.path != self.folder.places.store:
                        self._here.store = None  # the index was rebuilt, and its files are gone
                    elif not held.refresh_read():
                        raise
                    # else a commit has deleted files of words before they were opened

    def _present(self) -> OpenIndex:
        store = self.store
        with store.read_transaction(), self._lock:  # one thread brings the snapshot up to the index
            if self._opened is None or not self._opened.is_current(store):
                self._opened = open_snapshot(
                    store,
                    self.folder.name,
                    expand=self.folder.config.query.runs("expand"),
                    last=self._opened,
                )
            return self._opened

    @property
    def is_searchable(self) -> bool:
        """Whether there are words to search."""
        return self.indexed

    @property
    def location(self) -> str:
        """Where the index lies, to be shown."""
        return str(self.folder.places.folder)

    def version(self) -> object:
        """Return the index's file and generation: each commit has its own."""
        store = self.store
        return store.path, store.generation

    def refresh(self) -> None:
        """Open the current snapshot, so that no query waits for it."""
        if self.indexed:
            self.opened()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._opened = None
