"""One folder's index, open for reading: its snapshot follows the generation, opened by one thread,
behind the answers where they must not wait.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from thumbindex.errors import IndexGoneError, StorageError
from thumbindex.index.files import Places
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.store import Store
from thumbindex.library.folders import Folder, with_present_privacy
from thumbindex.model import ChunkId
from thumbindex.ports import FolderCatalog, Snapshot

if TYPE_CHECKING:
    from thumbindex.library.engine import PublishedFolders

PATIENCE_SECONDS = 0.05
"""How long a server's query waits for a newer snapshot before it answers from the one there is.

An edit in a vault of a thousand notes is opened in less and so seen at once; of ten thousand files
that change at once, no query waits for all.
"""

COMMIT_SECONDS = 0.5
"""How long a newer snapshot is waited for where a commit has replaced the best texts that a search
found: an edit takes a tenth of it, a commit of a thousand notes and opening it not more.
"""

_POLL_SECONDS = 0.005

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

    @property
    def lost(self) -> frozenset[ChunkId]:
        """The chunks that were asked for and whose texts are nowhere any more."""


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """A snapshot that a thread is opening."""

    store: Store
    places: Places
    last: Opened | None  # what there is meanwhile
    opened: Future[Opened]


class Reader:
    """One folder's index, open for reading.

    A search that runs keeps the snapshot with which it began.

    Without `patience` (seconds) a snapshot is always the present one: who has just indexed finds
    it. With it, an older one is given where opening the present one takes longer.
    """

    is_published = False
    """Whether the folder lies in a database, where its notes' files are not to be had."""

    database: PublishedFolders | None = None
    """The database that the folder lies in."""

    def __init__(self, folder: Folder, patience: float | None = None) -> None:
        self._folder, self._look_at = folder, 0.0
        self._patience = patience
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._places, self._path = folder.places, folder.places.store  # of the edition that is open
        self._opened: Opened | None = None
        self._opening: PendingSnapshot | None = None
        # by `newer`: after which snapshot, and until when
        self._awaited: tuple[tuple[int, str], float] = ((-1, ""), 0.0)
        self._lock = threading.RLock()

    @property
    def folder(self) -> Folder:
        """The folder, with what its own file keeps private now."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._folder = with_present_privacy(self._folder)
        return self._folder

    @property
    def indexed(self) -> bool:
        """Whether there are words to search, damaged or not."""
        try:
            return self.store.meta("words") != ""
        except IndexGoneError:
            return False
        except StorageError:  # whoever asks it is told what is wrong
            return True

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed, and anew where the index was forgotten, or
        built anew beside it.
        """
        with self._lock:
            places = self.folder.places.at()
            if places != self._places:
                self._places, self._path = places, places.store
            try:
                found = self._path.stat()
                identity = (found.st_dev, found.st_ino)
            except OSError:
                identity = None
            if self._store is None or identity != self._identity:
                self._store, self._identity = Store(self._path, read_only=True), identity
            return self._store

    def snapshot(self) -> Snapshot:
        """Return the index as it is now, or as it was a moment ago where this reader has
        patience.
        """
        return self.opened().snapshot

    def opened(self) -> OpenedIndex:
        """Return the snapshot with what it is a snapshot of.

        Raises what opening it raised; the next call tries again.
        """
        return self.on_disk()

    def on_disk(self) -> Opened:
        """Return the same of a folder whose index lies on this machine."""
        return self._newest(self._patience)

    @property
    def is_answering(self) -> bool:
        """Tell whether there are words to search, as far as that is known without waiting."""
        return self.indexed

    @property
    def place(self) -> str:
        """Where the index lies, to be shown."""
        return str(self.folder.places.folder)

    def newer(self, opened: OpenedIndex) -> OpenedIndex:
        """Return a newer snapshot than one whose texts were replaced under a search; the same where
        none comes in a moment.

        The moment is one for all who ask: in a storm, those who come later wait no more.
        """
        which = (opened.snapshot.generation, opened.words if isinstance(opened, Opened) else "")
        with self._lock:
            if self._awaited[0] != which:
                self._awaited = (which, time.monotonic() + COMMIT_SECONDS)
            until = self._awaited[1]
        while (newest := self.opened()) is opened and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return newest

    def refresh(self) -> None:
        """Open the index as it is now, where there is one, however long it takes."""
        if self.indexed:
            self._newest(None)

    def close(self) -> None:
        """Close the files; a thread that is opening them ends when it has."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._opened = self._opening = None

    def _newest(self, patience: float | None) -> Opened:
        """Return the present snapshot, the one there is where that takes longer than `patience`."""
        until = None if patience is None else time.monotonic() + patience
        is_second = False
        while True:
            edition = self.folder.places.present
            try:
                found = self._present()
                if isinstance(found, Opened):
                    return found
                remaining = None
                if until is not None and found.last is not None:
                    remaining = max(until - time.monotonic(), 0.0)
                wait([found.opened], remaining)
                if found.last is not None and not found.opened.done():
                    return found.last
                newest = found.opened.result()
            except StorageError:
                if self.folder.places.present == edition:
                    raise
                # an edition that was built anew took the place of this one, which was deleted while
                # it was opened
                continue
            if is_second:
                return newest
            # the first opening may have been under way, and have missed what is there now
            is_second = True

    def _present(self) -> Opened | PendingSnapshot:
        """Return the snapshot there is, or what opens a newer one where there is one to open."""
        with self._lock:
            store, places = self.store, self._places
            opened = self._opened
            if opened is not None and opened.is_current(store):
                return opened
            if self._opening is None or self._opening.store is not store:
                self._opening = PendingSnapshot(store, places, opened, Future())
                try:
                    threading.Thread(
                        target=self._open, args=(self._opening,), name="snapshot", daemon=True
                    ).start()
                except RuntimeError:  # no thread is to be had just now
                    self._opening = None
                    raise
            return self._opening

    def _open(self, opening: PendingSnapshot) -> None:
        """Open the present snapshot, through a connection of its own: queries load texts
        meanwhile.
        """
        try:
            now = Store(opening.store.path, read_only=True)
            try:
                expand = self.folder.config.query.runs("expand")
                opened = open_snapshot(
                    opening.store,
                    opening.places,
                    self.folder.name,
                    expand=expand,
                    last=opening.last,
                    now=now,
                )
            finally:
                now.close()
        except BaseException as error:
            # whoever waits for it gets this error, and the next one to ask tries again
            self._finish(opening, None)
            opening.opened.set_exception(error)
            return
        self._finish(opening, opened)
        opening.opened.set_result(opened)

    def _finish(self, opening: PendingSnapshot, opened: Opened | None) -> None:
        with self._lock:
            if self._opening is opening:
                self._opening = None
            if opened is not None and opening.store is self._store:
                self._opened = opened
