"""Check whether an index is current, wait until it is, and report changes since the last poll."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.corpus.git import find_repository
from thumbindex.errors import StorageError, ThumbindexError, UsageError
from thumbindex.index.locks import current_run, is_held, publish_run
from thumbindex.index.refresh_requests import MAX_WAIT_SECONDS, complete_requests, request_refresh
from thumbindex.library.answering import folder_index_state
from thumbindex.library.commit_dates import commit_dates_state
from thumbindex.library.comparison import (
    compare_folder,
    current_parser_key,
    is_empty_folder,
    read_indexed_files,
)
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.reader import Reader
from thumbindex.model import Changes, Freshness, Progress

if TYPE_CHECKING:
    from thumbindex import postgres

ProgressCallback = Callable[[Progress], None]

_POLL_OTHERS_SECONDS = 0.1


def is_folder_up_to_date(folder: Folder) -> bool:
    """Return whether a folder's indexed words and dates are current. Writes nothing.

    Raises StorageError for an unreadable index, UnknownFolderError for a missing folder.
    """
    comparison = compare_folder(folder, partial(read_indexed_files, folder.index_paths))
    if comparison.indexed.parser_key != current_parser_key(folder) or not comparison.is_empty:
        return False
    is_known, undated, _ = commit_dates_state(folder, find_repository(folder.root))
    return is_known and not undated


@contextmanager
def publish_progress(
    folders: Sequence[Folder], on_progress: ProgressCallback
) -> Iterator[ProgressCallback]:
    """Tell other processes about an indexing run over these folders.

    Yields a callback that reports progress to those processes and to `on_progress`.
    """
    with ExitStack() as runs:
        writers = {
            folder.name: runs.enter_context(publish_run(folder.index_paths.folder))
            for folder in folders
        }

        def report(progress: Progress) -> None:
            if progress.phase != "waiting":
                writers[progress.folder](progress.phase, progress.done, progress.total)
            on_progress(progress)

        yield report


def wait_for_other_run(
    folder: Folder,
    on_progress: ProgressCallback,
    interrupted: Callable[[], bool],
    *,
    complete: bool,
) -> None:
    """Wait until another process's indexing run ends.

    Unless `complete`, wait only until that run begins to embed.
    """
    first_run = run = current_run(folder.index_paths.folder)
    if run and run.pid == os.getpid():
        return
    while first_run and run and run.run == first_run.run and not interrupted():
        if not complete and run.phase == "vectors":
            return
        on_progress(Progress(folder.name, "waiting", run.done, run.total, run.pid))
        time.sleep(_POLL_OTHERS_SECONDS)
        run = current_run(folder.index_paths.folder)


def current_progress(folder: Folder) -> Progress | None:
    """Return the progress of a folder's indexing run in any process; None if there is no run."""
    run = current_run(folder.index_paths.folder)
    if run is None:
        return None
    return Progress(folder.name, run.phase, run.done, run.total, run.pid)


def has_indexer(folder: Folder) -> bool:
    """Return whether a process writes the folder's index or watches the folder."""
    return (
        is_held(folder.index_paths.lock)
        or is_held(folder.index_paths.watch)
        or current_run(folder.index_paths.folder) is not None
    )


class ChangeTracker:
    """Reports the indexed notes that were added, changed or removed since the last poll."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._folders = [_TrackedFolder(reader) for reader in readers]

    def poll(self, folder: Sequence[str] = ()) -> Mapping[str, Changes]:
        """Return the changes since the last poll, for each changed folder.

        If an index is missing or unreadable, a later poll returns the folder's changes.
        """
        changes_by_folder = {}
        for tracked in self._folders:
            with suppress(StorageError):  # the next poll returns these changes
                if not folder or tracked.name in folder:
                    changes_by_folder[tracked.name] = tracked.poll()
        return {
            name: changes
            for name, changes in changes_by_folder.items()
            if changes.added or changes.changed or changes.removed
        }


class _TrackedFolder:
    """A folder, with the digests of the notes at the last poll."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._version: object = None  # changes with every commit
        self._digests: Mapping[str, str] = {}  # by path
        self._is_first = True

    def poll(self) -> Changes:
        """Return the changes since the last poll; the first poll returns none."""
        is_first, self._is_first = self._is_first, False
        with self._reader.pinned():
            if not self._reader.indexed:
                return Changes()
            version = self._reader.version()
            if version == self._version:
                return Changes()
            before = self._digests
            after = {path: state.digest for path, state in self._reader.store.manifest().items()}
        self._version, self._digests = version, after
        if is_first:
            return Changes()
        both = before.keys() & after.keys()
        changed = tuple(sorted(path for path in both if before[path] != after[path]))
        return Changes(
            tuple(sorted(after.keys() - both)),
            changed,
            tuple(sorted(before.keys() - both)),
            len(both) - len(changed),
        )


_POLL_SECONDS = 0.05

TAKEOVER_SECONDS = 3.0
"""Seconds without an indexer after which a query stops waiting for a server to take over."""


def wait_until_fresh(
    readers: Sequence[Reader],
    seconds: float,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    indexer_starting: Callable[[], bool],
    index: Callable[[str, Callable[[], bool]], object] | None,
) -> Freshness:
    """Wait until all current files are searchable, the time is up, or `interrupted` returns True.

    For each folder that no server watches, first waits for another process's run, then calls
    `index(folder, is_over)`. Gives up if nothing indexes the remaining folders and
    `indexer_starting` returns False.
    """
    until = time.monotonic() + seconds

    def is_over() -> bool:
        return interrupted() or time.monotonic() >= until

    with ExitStack() as stack:
        waits = [
            _PublicationWait(reader.folder.name, reader.database)
            if reader.database
            else stack.enter_context(closing(_WordsWait(reader)))
            for reader in readers
        ]
        for reader in readers:
            if index and not (reader.database or is_held(reader.folder.index_paths.watch)):
                _wait_for_writer(reader.folder, on_progress, is_over)
                if not is_over():
                    with suppress(ThumbindexError):  # the answer names the folders that are behind
                        index(reader.folder.name, is_over)
        while waiting := [wait for wait in waits if not wait.is_done()]:
            for progress in filter(None, (wait.progress() for wait in waiting)):
                on_progress(progress)
            if is_over() or not (indexer_starting() or any(wait.has_indexer() for wait in waiting)):
                break
            time.sleep(_POLL_SECONDS)
        behind = [wait for wait in waits if not wait.is_done()]
    without_indexer = [
        wait.name for wait in behind if not (indexer_starting() or wait.has_indexer())
    ]
    return Freshness(
        tuple(wait.name for wait in behind),
        tuple(wait.name for wait in waits if wait.is_missing),
        tuple(without_indexer),
    )


def _wait_for_writer(
    folder: Folder, on_progress: ProgressCallback, is_over: Callable[[], bool]
) -> None:
    """Wait until no other process indexes words or holds the folder's writer lock."""
    wait_for_other_run(folder, on_progress, is_over, complete=False)
    while is_held(folder.index_paths.lock) and not is_over():
        time.sleep(_POLL_SECONDS)


def validate_wait(seconds: float) -> float:
    """Return the value of `wait_fresh` as a float. Raises UsageError if it is out of range."""
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise UsageError(
            f"`wait_fresh` must be from 0 to {MAX_WAIT_SECONDS:.0f} seconds, not {seconds}."
        )
    return float(seconds)


PUBLISHER_TIMEOUT_SECONDS = 20.0
"""Seconds without a confirmation after which a publisher counts as gone."""


class _PublicationWait:
    """Waits until the publisher confirms that a folder in a database is current."""

    is_missing = False

    def __init__(self, name: str, database: postgres.PublishedFolders) -> None:
        self.name, self._database = name, database
        self._began_at, self._confirmed_at = database.confirmed(name)
        self._now, self._first_confirmation = self._began_at, self._confirmed_at

    def progress(self) -> Progress:
        return Progress(self.name, "words", int(self._is_confirmed), 1)

    def is_done(self) -> bool:
        """Return whether the publisher has confirmed the folder since the wait began."""
        if not self._is_confirmed:
            self._now, self._confirmed_at = self._database.confirmed(self.name)
        return self._is_confirmed

    @property
    def _is_confirmed(self) -> bool:
        # two checks: after a clock jump, an old confirmation may have a later time
        return (
            self._confirmed_at != self._first_confirmation and self._confirmed_at >= self._began_at
        )

    def has_indexer(self) -> bool:
        """Return whether the publisher has confirmed the folder lately."""
        return self._now - self._confirmed_at < PUBLISHER_TIMEOUT_SECONDS


class _WordsWait:
    """Waits until the words of a folder's current files are indexed."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._folder = reader.folder
        # an unmounted drive looks like an empty folder
        is_empty = is_empty_folder(self._folder.root) and folder_index_state(reader).documents > 0
        self.is_missing = is_empty or not self._folder.root.is_dir()
        self._seen_at = time.monotonic()
        self._request: Path | None = None
        with suppress(StorageError):  # an index on a read-only drive has no indexer
            self._request = (
                None if self.is_missing else request_refresh(self._folder.index_paths.folder)
            )

    def progress(self) -> Progress | None:
        """Return the progress of a run that indexes words, or None."""
        progress = current_progress(self._folder)
        return progress if progress and progress.phase == "words" else None

    def is_done(self) -> bool:
        """Return whether all files are searchable, or the folder is missing."""
        self.is_missing = self.is_missing or not self._folder.root.is_dir()
        return self.is_missing or (self._request is not None and not self._request.exists())

    def has_indexer(self) -> bool:
        """Return whether the folder had an indexer in the last `TAKEOVER_SECONDS`."""
        now = time.monotonic()
        self._seen_at = now if has_indexer(self._folder) else self._seen_at
        return now - self._seen_at < TAKEOVER_SECONDS

    def close(self) -> None:
        """Withdraw the request for a refresh."""
        if self._request is not None:
            complete_requests([self._request])
