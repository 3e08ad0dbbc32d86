"""Freshness: whether an index is current, waiting until it is, and changes since the last poll."""

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
    """Return whether the words and dates of a folder's index are current; nothing is written.

    Raises StorageError if the index cannot be read, UnknownFolderError if the folder is missing.
    """
    comparison = compare_folder(folder, partial(read_indexed_files, folder.index_paths))
    if comparison.indexed.parser_key != current_parser_key(folder) or not comparison.is_empty:
        return False
    is_known, undated, _ = commit_dates_state(folder, find_repository(folder.root))
    return is_known and not undated


@contextmanager
def publish_progress(
    folders: Sequence[Folder], tell: ProgressCallback
) -> Iterator[ProgressCallback]:
    """Show a run over these folders to other processes; yield a callback that reports its progress
    to them and to `tell`.
    """
    with ExitStack() as runs:
        writers = {
            folder.name: runs.enter_context(publish_run(folder.index_paths.folder))
            for folder in folders
        }

        def report(progress: Progress) -> None:
            if progress.phase != "waiting":
                writers[progress.folder](progress.phase, progress.done, progress.total)
            tell(progress)

        yield report


def wait_for_other_run(
    folder: Folder, tell: ProgressCallback, interrupted: Callable[[], bool], *, words_only: bool
) -> None:
    """Wait for the run of another process in a folder; with `words_only`, until it embeds."""
    begun = work = current_run(folder.index_paths.folder)
    if work and work.pid == os.getpid():
        return
    while begun and work and work.run == begun.run and not interrupted():
        if words_only and work.phase == "vectors":
            return
        tell(Progress(folder.name, "waiting", work.done, work.total, work.pid))
        time.sleep(_POLL_OTHERS_SECONDS)
        work = current_run(folder.index_paths.folder)


def current_progress(folder: Folder) -> Progress | None:
    """Return the progress of the run that indexes a folder, in any process; else None."""
    work = current_run(folder.index_paths.folder)
    if work is None:
        return None
    return Progress(folder.name, work.phase, work.done, work.total, work.pid)


def has_indexer(folder: Folder) -> bool:
    """Return whether a process writes a folder's index, or watches the folder."""
    return (
        is_held(folder.index_paths.lock)
        or is_held(folder.index_paths.watch)
        or current_run(folder.index_paths.folder) is not None
    )


class ChangeTracker:
    """Returns the notes that were added, changed or removed in indexes since the last poll."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._folders = [_FolderChanges(reader) for reader in readers]

    def poll(self, folder: Sequence[str] = ()) -> Mapping[str, Changes]:
        """Return the changes since the last poll, by folder.

        Folders without changes are left out, and so are missing indexes until they are back.
        """
        found = {}
        for each in self._folders:
            # the next poll of this folder catches up
            with suppress(StorageError):
                if not folder or each.name in folder:
                    found[each.name] = each.poll()
        return {
            name: changes
            for name, changes in found.items()
            if changes.added or changes.changed or changes.removed
        }


class _FolderChanges:
    """The digests of one folder's notes at the last poll."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._mark: object = None  # differs after each commit
        self._digests: Mapping[str, str] = {}  # by path
        self._is_first = True

    def poll(self) -> Changes:
        """Return the changes since the last poll; the first one returns none."""
        is_first, self._is_first = self._is_first, False
        with self._reader.pinned():
            if not self._reader.indexed:
                return Changes()
            mark = self._reader.version()
            if mark == self._mark:
                return Changes()
            before = self._digests
            after = {path: state.digest for path, state in self._reader.store.manifest().items()}
        self._mark, self._digests = mark, after
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
"""Time without an indexer after which no server is taking over."""

_INDEXER_CHECK_SECONDS = 1.0
"""Interval between two checks for an indexer."""


def wait_until_fresh(
    readers: Sequence[Reader],
    seconds: float,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    indexer_starting: Callable[[], bool],
    index: Callable[[str, Callable[[], bool]], object] | None,
) -> Freshness:
    """Wait until the words of all current files are indexed, the time is up or `interrupted`.

    A folder that no server watches is indexed by `index(folder, is_over)` after the run of another
    process. Without `index`, a folder without an indexer is not waited for, unless
    `indexer_starting` returns True.
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
                _wait_for_writer(reader.folder, tell, is_over)
                if not is_over():
                    with suppress(ThumbindexError):  # the answer says what is behind
                        index(reader.folder.name, is_over)
        while waiting := [wait for wait in waits if not wait.is_done()]:
            for progress in filter(None, (each.progress() for each in waiting)):
                tell(progress)
            if is_over() or not (indexer_starting() or any(each.has_indexer() for each in waiting)):
                break
            time.sleep(_POLL_SECONDS)
        behind = [wait for wait in waits if not wait.is_done()]
    without_indexer = [
        each.name for each in behind if not (indexer_starting() or each.has_indexer())
    ]
    lags = (reader.database.lag() for reader in readers if reader.database and behind)
    return Freshness(
        tuple(each.name for each in behind),
        tuple(wait.name for wait in waits if wait.is_missing),
        tuple(without_indexer),
        max(lags, default=0.0),
    )


def _wait_for_writer(folder: Folder, tell: ProgressCallback, is_over: Callable[[], bool]) -> None:
    """Wait until no other process indexes words or holds the writer's lock."""
    wait_for_other_run(folder, tell, is_over, words_only=True)
    while is_held(folder.index_paths.lock) and not is_over():
        time.sleep(_POLL_SECONDS)


def validate_wait(seconds: float) -> float:
    """Return the seconds to wait. Raises UsageError if they are out of range."""
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise UsageError(
            f"wait_fresh is {seconds}: give seconds, from 0 to {MAX_WAIT_SECONDS:.0f}."
        )
    return float(seconds)


PUBLISHER_TIMEOUT_SECONDS = 20.0
"""Time without a confirmation after which a folder has no publisher."""


class _PublicationWait:
    """Waits until the publisher of a folder in a database confirms that it is current."""

    is_missing = False

    def __init__(self, name: str, database: postgres.PublishedFolders) -> None:
        self.name, self._database = name, database
        self._asked_at, self._confirmed_at = database.confirmed(name)
        self._now, self._before = self._asked_at, self._confirmed_at

    def progress(self) -> Progress:
        """Return the progress: done or not."""
        return Progress(self.name, "words", int(self._is_confirmed), 1)

    def is_done(self) -> bool:
        """Return whether the publisher has confirmed since that the published index is current."""
        if not self._is_confirmed:
            self._now, self._confirmed_at = self._database.confirmed(self.name)
        return self._is_confirmed

    @property
    def _is_confirmed(self) -> bool:
        """Return whether there is a new confirmation; an old one may have a later time if the clock
        jumped.
        """
        return self._confirmed_at != self._before and self._confirmed_at >= self._asked_at

    def has_indexer(self) -> bool:
        """Return whether a publisher was active lately, allowing for the lag of a standby."""
        return self._now - self._confirmed_at < PUBLISHER_TIMEOUT_SECONDS + self._database.lag()


class _WordsWait:
    """Waits until the indexer of a folder has indexed the words of all current files."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._folder = reader.folder
        # so looks the place of a drive that is not mounted
        is_empty = is_empty_folder(self._folder.root) and folder_index_state(reader).documents > 0
        self.is_missing = is_empty or not self._folder.root.is_dir()
        self._seen_at = self._checked_at = time.monotonic()
        self._request: Path | None = None
        with suppress(StorageError):  # on a medium that cannot be written nobody indexes, either
            self._request = (
                None if self.is_missing else request_refresh(self._folder.index_paths.folder)
            )

    def progress(self) -> Progress | None:
        """Return the progress of indexing words; None without an indexer."""
        progress = current_progress(self._folder)
        return progress if progress and progress.phase == "words" else None

    def is_done(self) -> bool:
        """Return whether the words of all files can be searched, or the folder is missing."""
        self.is_missing = self.is_missing or not self._folder.root.is_dir()
        return self.is_missing or (self._request is not None and not self._request.exists())

    def has_indexer(self) -> bool:
        """Return whether the folder had an indexer within the last seconds."""
        now = time.monotonic()
        if now - self._checked_at >= _INDEXER_CHECK_SECONDS:
            self._checked_at = now
            if has_indexer(self._folder):
                self._seen_at = now
        return now - self._seen_at < TAKEOVER_SECONDS

    def close(self) -> None:
        """Withdraw the request."""
        if self._request is not None:
            complete_requests([self._request])
