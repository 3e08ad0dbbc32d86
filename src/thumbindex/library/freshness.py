"""Is what is on disk indexed?

Compare the two, wait for it, and tell what changed since the last time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from thumbindex.corpus.read import read_bytes, read_digest
from thumbindex.corpus.walk import NOT_KEPT, facts_of, find_changes, walk
from thumbindex.errors import IndexDamagedError, StorageError, UnknownFolderError, UsageError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.locks import Work, at_work, is_held, is_writing, work_in
from thumbindex.index.stamp import read_stamp
from thumbindex.index.store import Store
from thumbindex.index.writer import Withheld, read_withheld
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import (
    Listing,
    hold_back,
    is_private_now,
    keep_unlisted,
    refuse_empty,
    split_private,
)
from thumbindex.library.reader import Reader
from thumbindex.model import Changes, FileState, Freshness, Problem, Progress

if TYPE_CHECKING:
    from thumbindex.library.engine import PublishedFolders

Tell = Callable[[Progress], None]

_POLL_OTHERS_SECONDS = 0.1


@contextmanager
def announced(folders: Sequence[Folder], tell: Tell) -> Iterator[Tell]:
    """Let other processes see a run over these folders; what is reported to the function that this
    gives reaches them, and `tell`.
    """
    with ExitStack() as runs:
        announce = {
            folder.name: runs.enter_context(at_work(folder.places.folder)) for folder in folders
        }
        places = {folder.name: folder.places.folder for folder in folders}

        def tell_all(progress: Progress) -> None:
            if progress.phase == "waiting":
                progress = replace(progress, pid=indexed_by(places[progress.folder]))
            else:
                announce[progress.folder](progress.phase, progress.done, progress.total)
            tell(progress)

        yield tell_all


def await_others(
    folder: Folder, tell: Tell, interrupted: Callable[[], bool], *, words_only: bool
) -> None:
    """Wait for the run that another process has going in a folder, as far as it does what is to be
    done here: nothing is done twice.
    """
    begun = work = work_in(folder.places.folder)
    while begun and work and _is_anothers(work) and work.run == begun.run and not interrupted():
        if words_only and work.phase == "vectors":
            return
        tell(Progress(folder.name, "waiting", work.done, work.total, work.pid))
        time.sleep(_POLL_OTHERS_SECONDS)
        work = work_in(folder.places.folder)


def progress_of(folder: Folder) -> Progress | None:
    """Return how far whoever indexes a folder is, in this process or another; None where nobody
    does.
    """
    work = work_in(folder.places.folder)
    if work is None:
        return None
    return Progress(folder.name, work.phase, work.done, work.total, work.pid, work.seconds_left)


def indexed_by(place: Path) -> int:
    """Return the number of another process that makes the index in a place just now; 0 where none
    does.
    """
    work = work_in(place)
    return work.pid if work and _is_anothers(work) else 0


def is_tended(folder: Folder) -> bool:
    """Tell whether a process writes a folder's index, or watches the folder to do so."""
    return (
        is_writing(folder.places.lock)
        or is_held(folder.places.watch)
        or work_in(folder.places.folder) is not None
    )


def _is_anothers(work: Work) -> bool:
    return work.pid != os.getpid()


class News:
    """Tells what is new in some folders' indexes.

    Its own memory: queries, too, open what is new, and nothing of that may be missed here.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._folders = [
            _PublishedNews(reader, reader.database) if reader.database else _FolderNews(reader)
            for reader in readers
        ]

    def look(self, folder: Sequence[str] = ()) -> Mapping[str, Changes]:
        """Return by folder what came, went and changed since the last look at it; folders without
        news are left out.

        An index that is not there (forgotten, under repair) tells nothing until it is back.
        """
        found = {}
        for each in (
            self._folders if not folder else [each for each in self._folders if each.name in folder]
        ):
            # the next look tells of it: what one folder has come to hides nothing of the others
            with suppress(StorageError):
                found[each.name] = each.look()
        return {
            name: changes
            for name, changes in found.items()
            if changes.added or changes.changed or changes.removed
        }


class _FolderNews:
    """One folder's documents as they were with the last look."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._catalog: StoreCatalog | None = None
        self._documents: Mapping[str, tuple[int, str]] = {}  # row id and digest by path
        self._is_first = True

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        first, self._is_first = self._is_first, False
        if not self._reader.indexed or (catalog := self._reader.on_disk().catalog) is self._catalog:
            return Changes()
        before, rows = (
            self._documents,
            dict(zip(catalog.paths, catalog.document_rows.tolist(), strict=True)),
        )
        kept = {}
        # which uses no row id twice; one built anew counts from the beginning
        if self._catalog is not None and self._catalog.store is catalog.store:
            kept = {
                path: before[path]
                for path, row in rows.items()
                if path in before and before[path][0] == row
            }
        read = catalog.store.manifest(rows.keys() - kept.keys())
        after = kept | {path: (rows[path], state.digest) for path, state in read.items()}
        self._documents, self._catalog = after, catalog
        if first:
            return Changes()
        both = before.keys() & after.keys()
        changed = tuple(sorted(path for path in both if before[path][1] != after[path][1]))
        return Changes(
            tuple(sorted(after.keys() - both)),
            changed,
            tuple(sorted(before.keys() - both)),
            len(both) - len(changed),
        )


class _PublishedNews:
    """The same of a folder in a database."""

    def __init__(self, reader: Reader, database: PublishedFolders) -> None:
        self.name = reader.folder.name
        self._reader, self._database = reader, database
        self._mark: str | None = None
        self._digests: Mapping[str, str] = {}

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        with self._database.moment():
            if not self._reader.indexed or self._database.mark(self.name) == self._mark:
                return Changes()
            store = self._reader.store
            before, after = (
                self._digests,
                {path: state.digest for path, state in store.manifest().items()},
            )
            is_first, self._digests = self._mark is None, after
            self._mark = self._database.mark(self.name)
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


LONGEST_WAIT = 60.0
"""Seconds: clients give up on an answer after 30 to 60."""

_POLL_SECONDS = 0.05

UNTENDED_SECONDS = 3.0
"""So long nobody is seen to write before it is said that nobody does: where a server has ended,
another one takes over within two.
"""

_LOOK_SECONDS = 1.0
"""While nothing is committed the disk is looked at again this often: a file that was put back as it
was needs no commit.
"""

Differences = dict[str, FileState | None]
"""Each path that the index does not show as it is on disk, with its facts there; None where it is
gone.
"""


def wait_until_fresh(
    readers: Sequence[Reader],
    seconds: float,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    attended: Callable[[], bool] = lambda: False,
) -> Freshness:
    """Wait until the words of all that is on disk now are indexed, the time is up or `interrupted`
    says so; tell what is missing then.

    What nobody writes is not waited for; `attended` says that somebody is about to, who cannot be
    seen yet.
    """
    until = time.monotonic() + seconds
    awaited = [
        AwaitedPublication(reader.folder.name, reader.database)
        if reader.database
        else Awaited(reader)
        for reader in readers
    ]
    while waiting := [each for each in awaited if not each.is_shown()]:
        for each in waiting:
            tell(each.progress())
        if (
            interrupted()
            or time.monotonic() >= until
            or not (attended() or any(each.is_tended() for each in waiting))
        ):
            break
        time.sleep(_POLL_SECONDS)
    lacking = [each for each in awaited if each.missing or not each.is_shown()]
    unindexed = tuple((each.name, path) for each in awaited for path in sorted(each.missing))
    gone = tuple(each.name for each in awaited if each.is_gone)
    behind = tuple(each.name for each in lacking if not each.missing)
    untended = tuple(each.name for each in lacking if not (attended() or each.is_tended()))
    lags = (reader.database.lag() for reader in readers if reader.database and lacking)
    lag = max(lags, default=0.0)
    return Freshness(unindexed, gone, behind, untended, lag)


def checked_wait(seconds: float) -> float:
    """Return how long to wait; raise UsageError for what is no such time."""
    if not 0 <= seconds <= LONGEST_WAIT:
        raise UsageError(f"wait_fresh is {seconds}: give seconds, from 0 to {LONGEST_WAIT:.0f}.")
    return float(seconds)


def count_words(reader: Reader) -> Progress:
    """Count how many of a folder's files the index knows; a folder that is gone has as many as are
    indexed.
    """
    if reader.is_published:
        known = reader.opened().documents if reader.indexed else 0
        return Progress(reader.folder.name, "words", known, known)
    indexed = len(_manifest(reader))
    try:
        states = walk(reader.folder.root, reader.folder.config.corpus).files
        files = len(states) - len(_withheld(reader).of(state.path for state in states))
    except UnknownFolderError:
        files = indexed
    return Progress(reader.folder.name, "words", min(indexed, files), files)


SILENT_SECONDS = 20.0
"""After so long without a word of who publishes a folder, nobody is taken to do so."""


class AwaitedPublication:
    """A folder in a database, of which the word of its builder is awaited that all is published."""

    is_gone = False
    missing: Mapping[str, FileState | None] = MappingProxyType({})

    def __init__(self, name: str, database: PublishedFolders) -> None:
        self.name, self._database = name, database
        self._asked_at, self._confirmed_at = database.confirmed(name)
        self._now, self._before = self._asked_at, self._confirmed_at

    def progress(self) -> Progress:
        """Tell how far it is: there or not."""
        return Progress(self.name, "words", int(self._is_confirmed), 1)

    def is_shown(self) -> bool:
        """Tell whether the builder has said since that what is published is what there is."""
        if not self._is_confirmed:
            self._now, self._confirmed_at = self._database.confirmed(self.name)
        return self._is_confirmed

    @property
    def _is_confirmed(self) -> bool:
        """Tell whether the builder has said so since; what it said before is not of now, though a
        clock that jumped may have dated it later.
        """
        return self._confirmed_at != self._before and self._confirmed_at >= self._asked_at

    def is_tended(self) -> bool:
        """Tell whether a builder was heard of lately; a standby that is behind has not heard of it
        yet.
        """
        return self._now - self._confirmed_at < SILENT_SECONDS + self._database.lag()


class Awaited:
    """What differed between one folder and its index at one moment, and how much of it is indexed
    since.
    """

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self.is_gone = False
        self.missing: Differences = {}
        self._reader = reader
        self._store: Store | None = None  # the one that was compared
        self._words: int | None = None  # the generation whose words are to be shown
        self._generation, self._compared_at, self._pause = -1, 0.0, 0.0
        self._tended_at, self._asked_at = time.monotonic(), 0.0
        self._begin()
        self._total = len(self.missing)

    def progress(self) -> Progress:
        """Tell how many of the paths are indexed; where all are, of how many chunks the words are
        indexed: a large file has many.
        """
        if (
            not self.missing
            and self._store
            and (stamp := read_stamp(self._reader.folder.places.keyword))
            and stamp.behind
        ):
            with suppress(StorageError):  # it is just being put in the place of another
                chunks = self._store.count_chunks()
                return Progress(self.name, "chunks", chunks - stamp.behind, chunks)
        return Progress(self.name, "words", self._total - len(self.missing), self._total)

    def is_shown(self) -> bool:
        """Tell whether all of it can be searched; nothing is waited for in a folder that is
        gone.
        """
        try:
            if _store(self._reader) is not self._store:
                # the index was built anew: it counts from the beginning, and holds nothing of what
                # the last one did
                self._begin()
            elif self.missing and self._is_due():
                self._compare(self._still_missing)
            return self.is_gone or (not self.missing and self._is_searchable())
        except IndexDamagedError:
            raise  # there is somebody to repair it
        except StorageError:
            return False  # it is just being put in the place of another

    def is_tended(self) -> bool:
        """Tell whether a process writes the index, or did so a moment ago: another one may be about
        to take over.
        """
        now = time.monotonic()
        if now - self._asked_at >= _LOOK_SECONDS:
            self._asked_at = now
            if is_tended(self._reader.folder):
                self._tended_at = now
        return now - self._tended_at < UNTENDED_SECONDS

    def _begin(self) -> None:
        self._store, self._words = _store(self._reader), None
        self._compare(lambda: find_differences(self._reader))

    def _is_due(self) -> bool:
        # Comparing may take long in a large folder: at most half of the time is spent on it.
        since = time.monotonic() - self._compared_at
        return since >= self._pause and (
            since >= _LOOK_SECONDS or self._generation != _generation(self._reader)
        )

    def _compare(self, look: Callable[[], Differences]) -> None:
        began, self._generation = time.monotonic(), _generation(self._reader)
        try:
            self.missing = look()
        except UnknownFolderError:
            self.is_gone, self.missing = True, {}
        self._compared_at = time.monotonic()
        self._pause = self._compared_at - began

    def _still_missing(self) -> Differences:
        """Return what is indexed neither as it was then nor as it is now."""
        indexed = _manifest(self._reader)
        missing = {
            path: state
            for path, state in self.missing.items()
            if not _shows(indexed.get(path), state)
        }
        if not missing:
            return {}
        return {
            path: missing[path] for path in missing.keys() & find_differences(self._reader).keys()
        }

    def _is_searchable(self) -> bool:
        if not self._reader.indexed:
            return True  # there is no file that could be indexed
        if self._words is None:
            self._words = int(self._reader.store.meta("words", "0"))
        stamp = read_stamp(self._reader.folder.places.keyword)
        return stamp is not None and stamp.generation >= self._words and not stamp.behind


def find_differences(reader: Reader) -> Differences:
    """Compare the folder with the index; what cannot be read is no difference.

    Raises UnknownFolderError where the folder is gone.
    """
    folder, settings = reader.folder, reader.folder.config.corpus
    now = time.time_ns()
    states, problems = walk(folder.root, settings)
    indexed = _manifest(reader)
    private = _withheld(reader).of(state.path for state in states)
    comparison = find_changes(
        {**indexed, **private},
        states,
        lambda path: read_digest(folder.root, path, settings),
        now_ns=now,
    )
    listed = keep_unlisted(split_private(comparison, private)[0], Listing(problems, {}))
    changes = hold_back(folder, listed).changes
    if changes.removed:
        refuse_empty(folder.root, len(indexed))
    digests = {state.path: state.digest for state in comparison.states}
    facts = {state.path: replace(state, digest=digests[state.path]) for state in states}
    problems_before = reader.store.problems() if reader.indexed else ()
    reported = {problem.path for problem in problems_before} - indexed.keys()
    unreadable = {
        path
        for path in reported.intersection(changes.added)
        if isinstance(read_bytes(folder.root, path, settings), Problem)
    }
    hidden = {path for path in (*changes.added, *changes.changed) if is_private_now(folder, path)}
    found: Differences = {
        path: facts[path]
        for path in (*changes.added, *changes.changed)
        if path not in unreadable | hidden
    }
    return found | dict.fromkeys((*changes.removed, *hidden.intersection(changes.changed)))


def _shows(recorded: FileState | None, wanted: FileState | None) -> bool:
    if recorded is None or wanted is None:
        return recorded is wanted
    # written just before it was indexed
    kept = wanted if recorded.mtime_ns != NOT_KEPT else replace(wanted, mtime_ns=NOT_KEPT)
    return facts_of(recorded) == facts_of(kept) or (
        bool(wanted.digest) and wanted.digest == recorded.digest
    )


def _manifest(reader: Reader) -> Mapping[str, FileState]:
    return reader.store.manifest() if reader.indexed else {}


def _withheld(reader: Reader) -> Withheld:
    return read_withheld(reader.store) if reader.indexed else Withheld()


def _store(reader: Reader) -> Store | None:
    return reader.store if reader.indexed else None


def _generation(reader: Reader) -> int:
    return reader.store.generation if reader.indexed else -1
