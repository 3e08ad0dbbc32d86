"""The adapter for watchdog.

It reports only that a folder has changed. The indexer then compares the folder with its index.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from thumbindex.settings import CorpusSettings, WatchSettings

# No events for opening and reading files: the indexer's own reads would cause them.
_EVENTS: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
]


class Debounce:
    """Delays indexing until changes pause or a maximum delay has passed. Uses constant memory."""

    def __init__(self, debounce: float, longest: float) -> None:
        self._quiet, self._longest = debounce, longest
        self._first: float | None = None
        self._last = 0.0
        self._lock = threading.Lock()

    def record(self, now: float) -> bool:
        """Record a change; return whether it is the first since `clear`."""
        with self._lock:
            first = self._first is None
            self._first = now if self._first is None else self._first
            self._last = now
            return first

    def due(self) -> float | None:
        """Return the time at which to index the changes, or None if there are none."""
        with self._lock:
            if self._first is None:
                return None
            return min(self._last + self._quiet, self._first + self._longest)

    def clear(self) -> None:
        """Forget the recorded changes.

        Call this before comparing the folder, so that changes during the comparison are recorded.
        """
        with self._lock:
            self._first = None


class Watch:
    """Watches one folder. If the folder cannot be watched, each `check` records a change."""

    def __init__(
        self,
        root: Path,
        probe: Path,
        settings: WatchSettings,
        corpus: CorpusSettings,
        wake: Callable[[], None],
        make_observer: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self.debounce = Debounce(
            settings.debounce_ms / 1000, max(settings.debounce_ms, settings.max_delay_ms) / 1000
        )
        self.folder_exists = True
        self.failure = ""  # why the folder is not watched
        self._root, self._probe, self._settings, self._corpus = root, probe, settings, corpus
        self._wake, self._make_observer = wake, make_observer
        self._observer: BaseObserver | None = None
        self._identity: tuple[int, int] | None = None
        self._lost_events_log = _LostEventsLog(self._on_lost_events)
        self._has_lost_events = False
        self._retry_at = 0.0  # after a failure

    def check(self) -> None:
        """Start the watch, or restart it if the folder is back or the watch has failed."""
        identity = _identity(self._root)
        is_same = self._identity is None or (
            self.folder_exists and self._identity == identity and self._is_listening()
        )
        # A mount point without its drive is empty: treat it as missing, to keep the index.
        self.folder_exists = identity is not None and (is_same or _is_not_empty(self._root))
        if not self.folder_exists:
            self.close()
            self.failure = ""
        elif self._identity != identity or self._has_lost_events or not self._is_healthy():
            self._identity = identity
            self._start()
            self._record_change()

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        logging.getLogger("watchdog").removeHandler(self._lost_events_log)
        if observer is not None:
            _stop(observer)

    def _start(self) -> None:
        if self.failure and time.monotonic() < self._retry_at:
            return
        self.close()
        self._has_lost_events = False
        logging.getLogger("watchdog").addHandler(self._lost_events_log)
        # A folder created while its parent is scanned is watched twice, which is harmless.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        try:
            self._observer = observer = self._make_observer()
            observer.schedule(
                _EventListener(self._on_event),
                str(self._root),
                recursive=True,
                event_filter=_EVENTS,
            )
            observer.start()
            self._check_watch_limit(observer)
        except OSError as error:
            self.failure = error.strerror or str(error)
            self._retry_at = time.monotonic() + self._settings.reconcile_seconds
            self.close()
        else:
            self.failure = ""

    def _is_listening(self) -> bool:
        """Return whether the watch's threads are alive; they end if the folder is deleted."""
        if self._observer is None:
            return True
        # On Linux, a private thread of watchdog reads the events.
        reader = getattr(self._observer, "_inotify_fd", self._observer)
        return all(
            thread.is_alive() for thread in (self._observer, reader, *self._observer.emitters)
        )

    def _is_healthy(self) -> bool:
        try:
            if self._observer is not None:
                self._check_watch_limit(self._observer)
        except OSError:
            return False
        return self._observer is not None and self._is_listening()

    def _check_watch_limit(self, observer: BaseObserver) -> None:
        """Raise OSError if the system's limit on watches is reached."""
        if sys.platform == "linux":
            # watchdog ignores failures to watch subfolders: try to add another watch
            observer.unschedule(
                observer.schedule(
                    FileSystemEventHandler(), str(self._probe), event_filter=[DirDeletedEvent]
                )
            )

    def _on_event(self, event: FileSystemEvent) -> None:
        if any(
            path and not self._is_hidden(os.fsdecode(path))
            for path in (event.src_path, event.dest_path)
        ):
            self._record_change()

    def _is_hidden(self, path: str) -> bool:
        """Return whether a path is in a directory that is never indexed, such as .git."""
        within, _, name = path[len(str(self._root)) :].rpartition(os.sep)
        below = within if name in self._corpus.ignore_files else f"{within}{os.sep}{name}"
        parts = Path(below).parts
        return ".git" in parts or (
            not self._corpus.hidden and any(part.startswith(".") for part in parts)
        )

    def _on_lost_events(self) -> None:
        self._has_lost_events = True
        self._record_change()

    def _record_change(self) -> None:
        if self.debounce.record(time.monotonic()):
            self._wake()


class _EventListener(FileSystemEventHandler):
    def __init__(self, on_event: Callable[[FileSystemEvent], None]) -> None:
        self._on_event = on_event

    def dispatch(self, event: FileSystemEvent) -> None:
        self._on_event(event)


class _LostEventsLog(logging.Handler):
    """Detects that the system dropped events. Watchdog reports this only in its log."""

    def __init__(self, on_lost_events: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_lost_events = on_lost_events

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.msg or "rebuild" in record.msg:
            self._on_lost_events()


def _identity(root: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder, or None if it does not exist."""
    try:
        status = root.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if root.is_dir() else None


def _is_not_empty(root: Path) -> bool:
    try:
        return any(root.iterdir())
    except OSError:
        return False


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    if observer.is_alive():
        observer.join()
