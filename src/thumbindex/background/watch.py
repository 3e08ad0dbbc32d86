"""The adapter to watchdog: it reports that something below a folder has changed; a walk finds out
what.
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

# Neither opening nor reading: what we read ourselves must not wake us.
_EVENTS: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
]


class Debounce:
    """Decides when changes are taken in: once it is quiet, and not too late where it never is.

    Two times, whatever the storm.
    """

    def __init__(self, debounce: float, longest: float) -> None:
        self._quiet, self._longest = debounce, longest
        self._first: float | None = None
        self._last = 0.0
        self._lock = threading.Lock()

    def record(self, now: float) -> bool:
        """Record a change; return whether it is the first one since `clear`."""
        with self._lock:
            first = self._first is None
            self._first = now if self._first is None else self._first
            self._last = now
            return first

    def due(self) -> float | None:
        """Return when the changes so far are to be taken in; None where there are none."""
        with self._lock:
            if self._first is None:
                return None
            return min(self._last + self._quiet, self._first + self._longest)

    def clear(self) -> None:
        """Forget the changes; called before a walk, so that a change during it counts."""
        with self._lock:
            self._first = None


class Watch:
    """Watches one folder; where that cannot be done, every look counts as a change."""

    def __init__(
        self,
        root: Path,
        spare: Path,
        settings: WatchSettings,
        corpus: CorpusSettings,
        wake: Callable[[], None],
        make_observer: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self.debounce = Debounce(
            settings.debounce_ms / 1000, max(settings.debounce_ms, settings.max_delay_ms) / 1000
        )
        self.folder_exists = True
        self.failure = ""  # why the folder is not watched; empty where it is
        self._root, self._spare, self._settings, self._corpus = root, spare, settings, corpus
        self._wake, self._make = wake, make_observer
        self._observer: BaseObserver | None = None
        self._identity: tuple[int, int] | None = None
        self._lost = _LostEventsLog(self._on_lost_events)
        self._broken = False
        self._retry_at = 0.0  # when to try again after a failure

    def check(self) -> None:
        """Start the watch, or restart it if the folder came back or the watch broke; else cheap."""
        seen = _identity(self._root)
        same = self._identity is None or (
            self.folder_exists and self._identity == seen and self._is_listening()
        )
        # A mount point without its drive is an empty folder: that is no reason to forget what was
        # there.
        self.folder_exists = seen is not None and (same or _is_not_empty(self._root))
        if not self.folder_exists:
            self.close()
            self.failure = ""
        elif self._identity != seen or self._broken or not self._is_healthy():
            self._identity = seen
            self._begin()
            self._note()

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        logging.getLogger("watchdog").removeHandler(self._lost)
        if observer is not None:
            _stop(observer)

    def _begin(self) -> None:
        if self.failure and time.monotonic() < self._retry_at:
            return
        self.close()
        self._broken = False
        logging.getLogger("watchdog").addHandler(self._lost)
        # A folder that is reported while its parent is being walked through is watched twice, which
        # does no harm.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        try:
            self._observer = observer = self._make()
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
        """Return whether the threads of the watch live, where there is one: the end of the folder
        ends them.
        """
        if self._observer is None:
            return True
        # On Linux one more thread, which watchdog shows to nobody, reads what the system reports.
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
        """Raise OSError where the system has no watch left.

        On Linux each subfolder needs one, and watchdog passes over those that it gets none for:
        then there is none for another folder, either.
        """
        if sys.platform == "linux":
            observer.unschedule(
                observer.schedule(
                    FileSystemEventHandler(), str(self._spare), event_filter=[DirDeletedEvent]
                )
            )

    def _on_event(self, event: FileSystemEvent) -> None:
        if any(
            path and not self._is_hidden(os.fsdecode(path))
            for path in (event.src_path, event.dest_path)
        ):
            self._note()

    def _is_hidden(self, path: str) -> bool:
        """Return whether a path is in a folder without documents, such as .git."""
        within, _, name = path[len(str(self._root)) :].rpartition(os.sep)
        below = within if name in self._corpus.ignore_files else f"{within}{os.sep}{name}"
        parts = Path(below).parts
        return ".git" in parts or (
            not self._corpus.hidden and any(part.startswith(".") for part in parts)
        )

    def _on_lost_events(self) -> None:
        self._broken = True
        self._note()

    def _note(self) -> None:
        if self.debounce.record(time.monotonic()):
            self._wake()


class _EventListener(FileSystemEventHandler):
    """Takes watchdog's events."""

    def __init__(self, hear: Callable[[FileSystemEvent], None]) -> None:
        self._on_event = hear

    def dispatch(self, event: FileSystemEvent) -> None:
        """Pass an event on."""
        self._on_event(event)


class _LostEventsLog(logging.Handler):
    """Watchdog tells nobody but its log that the system dropped events."""

    def __init__(self, lose: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_lost_events = lose

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on that events were lost."""
        if "overflow" in record.msg or "rebuild" in record.msg:
            self._on_lost_events()


def _identity(root: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another one at its path; None where there is none."""
    try:
        facts = root.stat()
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if root.is_dir() else None


def _is_not_empty(root: Path) -> bool:
    try:
        return any(root.iterdir())
    except OSError:
        return False


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    if observer.is_alive():
        observer.join()
