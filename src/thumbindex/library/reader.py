"""One folder's index, open for reading: its snapshot follows the generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from thumbindex.errors import IndexMissingError, StorageError
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.store import Store
from thumbindex.library.folders import Folder, with_current_privacy
from thumbindex.ports import FolderCatalog, Snapshot

if TYPE_CHECKING:
    from thumbindex.postgres.folders import PublishedFolders
    from thumbindex.postgres.published_store import PublishedStore

LOOK_SECONDS = 0.1
"""Between two looks at a folder's own file: an answer asks for the folder many times."""


class OpenedIndex(Protocol):
    """A folder's index as it was opened: a snapshot, and what is known of it."""

    @property
    def snapshot(self) -> Snapshot:
        """What the pipeline searches."""

    @property
    def catalog(self) -> FolderCatalog:
        """Its catalog."""

    @property
    def fingerprint(self) -> str:
        """What the model is known by that made the vectors; empty where there are none."""

    @property
    def model(self) -> str:
        """Its name."""

    @property
    def documents(self) -> int:
        """How many documents there are."""


class Reader(Protocol):
    """One folder's index, open for reading, on this machine or in a database."""

    @property
    def is_published(self) -> bool:
        """Whether the folder lies in a database, where its notes' files are not to be had."""

    @property
    def database(self) -> PublishedFolders | None:
        """The database that the folder lies in."""

    @property
    def folder(self) -> Folder:
        """The folder, with what its own file keeps private now."""

    @property
    def indexed(self) -> bool:
        """Whether there are words to search, damaged or not."""

    @property
    def is_answering(self) -> bool:
        """Whether there are words to search, as far as that is known without waiting."""

    @property
    def place(self) -> str:
        """Where the index lies, to be shown."""

    @property
    def store(self) -> Store | PublishedStore:
        """What those ask who only read."""

    def moment(self) -> AbstractContextManager[None]:
        """Have all that this thread reads of the index be of one generation."""

    def opened(self) -> OpenedIndex:
        """Return the snapshot with what it is a snapshot of. Raises StorageError."""

    def mark(self) -> object:
        """Return what differs after each commit."""

    def close(self) -> None:
        """Close the files, or the connections."""


class DiskReader:
    """One folder's index on this machine.

    Each question sees the present generation, and that one to its end (`moment`).
    """

    is_published = False
    database = None

    def __init__(self, folder: Folder) -> None:
        self._folder, self._look_at = folder, 0.0
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._places = folder.places  # of the build that is open
        self._opened: Opened | None = None
        self._here = threading.local()  # the store that this thread reads at one moment
        self._lock = threading.RLock()

    @property
    def folder(self) -> Folder:
        """The folder, with what its own file keeps private now."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._folder = with_current_privacy(self._folder)
        return self._folder

    @property
    def indexed(self) -> bool:
        """Whether there are words to search, damaged or not."""
        try:
            return self.store.meta("words") != ""
        except IndexMissingError:
            return False
        except StorageError:  # whoever asks it is told what is wrong
            return True

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Have all that this thread reads of the index be of one generation."""
        if self._held is not None:
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
    def _held(self) -> Store | None:
        """The store that this thread reads at one moment."""
        held: Store | None = getattr(self._here, "store", None)
        return held

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed, and again if the index was forgotten or
        rebuilt.
        """
        if (held := self._held) is not None:
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

    def opened(self) -> Opened:
        """Return the snapshot with what it is a snapshot of. Raises StorageError."""
        with self.moment():
            while True:
                try:
                    return self._present()
                except StorageError:
                    if (held := self._held) is None:
                        raise
                    if held.path != self.folder.places.store:
                        self._here.store = None  # the index was rebuilt, and its files are gone
                    elif not held.refresh_read():
                        raise
                    # else a commit has deleted files of words before they were opened

    def _present(self) -> Opened:
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
    def is_answering(self) -> bool:
        """Tell whether there are words to search, as far as that is known without waiting."""
        return self.indexed

    @property
    def place(self) -> str:
        """Where the index lies, to be shown."""
        return str(self.folder.places.folder)

    def mark(self) -> object:
        """Return the index's file and generation: each commit has its own."""
        store = self.store
        return store.path, store.generation

    def refresh(self) -> None:
        """Open the index as it is now, if there is one, so that no question waits for that."""
        if self.indexed:
            self.opened()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._opened = None
