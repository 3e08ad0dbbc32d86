"""Is what is on disk indexed? Wait for it, and tell what changed since the last time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.errors import StorageError, ThumbindexError, UsageError
from thumbindex.index.locks import current_run, is_held, publish_run
from thumbindex.index.refresh_requests import MAX_WAIT_SECONDS, complete_requests, request_refresh
from thumbindex.library.answering import folder_state
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import holds_nothing
from thumbindex.library.reader import Reader
from thumbindex.model import Changes, Freshness, Progress

if TYPE_CHECKING:
    from thumbindex.postgres.folders import PublishedFolders

Tell = Callable[[Progress], None]

_POLL_OTHERS_SECONDS = 0.1


@contextmanager
def announced(folders: Sequence[Folder], tell: Tell) -> Iterator[Tell]:
    """Let other processes see a run over these folders; what is reported to the function that this
    gives reaches them, and `tell`.
    """
    with ExitStack() as runs:
        announce = {
            folder.name: runs.enter_context(publish_run(folder.places.folder)) for folder in folders
        }

        def tell_all(progress: Progress) -> None:
            if progress.phase != "waiting":
                announce[progress.folder](progress.phase, progress.done, progress.total)
            tell(progress)

        yield tell_all


def await_others(
    folder: Folder, tell: Tell, interrupted: Callable[[], bool], *, words_only: bool
) -> None:
    """Wait for another process's run in a folder; with `words_only`, until it makes vectors."""
    begun = work = current_run(folder.places.folder)
    if work and work.pid == os.getpid():
        return
    while begun and work and work.run == begun.run and not interrupted():
        if words_only and work.phase == "vectors":
            return
        tell(Progress(folder.name, "waiting", work.done, work.total, work.pid))
        time.sleep(_POLL_OTHERS_SECONDS)
        work = current_run(folder.places.folder)


def progress_of(folder: Folder) -> Progress | None:
    """Return how far whoever indexes a folder is, in this process or another; None where nobody
    does.
    """
    work = current_run(folder.places.folder)
    if work is None:
        return None
    return Progress(folder.name, work.phase, work.done, work.total, work.pid)


def is_tended(folder: Folder) -> bool:
    """Tell whether a process writes a folder's index, or watches the folder to do so."""
    return (
        is_held(folder.places.lock)
        or is_held(folder.places.watch)
        or current_run(folder.places.folder) is not None
    )


class News:
    """Tells what is new in some folders' indexes.

    Its own memory: queries, too, open what is new, and nothing of that may be missed here.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._folders = [_FolderNews(each) for each in readers]

    def look(self, folder: Sequence[str] = ()) -> Mapping[str, Changes]:
        """Return by folder what came, went and changed since the last look at it; folders without
        news are left out.

        An index that is not there (forgotten, under repair) tells nothing until it is back.
        """
        found = {}
        for each in self._folders:
            # the next look tells of it: what one folder has come to hides nothing of the others
            with suppress(StorageError):
                if not folder or each.name in folder:
                    found[each.name] = each.look()
        return {
            name: changes
            for name, changes in found.items()
            if changes.added or changes.changed or changes.removed
        }


class _FolderNews:
    """One folder's notes as they were with the last look."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._mark: object = None  # differs after each commit
        self._digests: Mapping[str, str] = {}  # by path
        self._is_first = True

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        is_first, self._is_first = self._is_first, False
        with self._reader.moment():
            if not self._reader.indexed:
                return Changes()
            mark = self._reader.mark()
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

UNTENDED_SECONDS = 3.0
"""So long nobody is seen to write before it is said that nobody does: if a server has ended,
another one takes over within two.
"""

_LOOK_SECONDS = 1.0
"""Between two looks at whether somebody indexes."""


def wait_until_fresh(
    readers: Sequence[Reader],
    seconds: float,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    attended: Callable[[], bool],
    index: Callable[[str, Callable[[], bool]], object] | None,
) -> Freshness:
    """Wait until the words of all that is on disk now are indexed, the time is up or `interrupted`
    returns True.

    A folder that no server watches is indexed by `index`, which takes its name and when to stop,
    once the words of another process's run are done. Without `index`, a folder that nobody indexes
    is not waited for. `attended` returns True if somebody is about to index who cannot be seen yet.
    """
    until = time.monotonic() + seconds

    def is_over() -> bool:
        return interrupted() or time.monotonic() >= until

    with ExitStack() as asked:
        awaited = [
            AwaitedPublication(reader.folder.name, reader.database)
            if reader.database
            else asked.enter_context(closing(AwaitedWords(reader)))
            for reader in readers
        ]
        for reader in readers:
            if index and not (reader.database or is_held(reader.folder.places.watch)):
                _await_turn(reader.folder, tell, is_over)
                if not is_over():
                    with suppress(ThumbindexError):  # the answer says what is behind
                        index(reader.folder.name, is_over)
        while waiting := [each for each in awaited if not each.is_shown()]:
            for progress in filter(None, (each.progress() for each in waiting)):
                tell(progress)
            if is_over() or not (attended() or any(each.is_tended() for each in waiting)):
                break
            time.sleep(_POLL_SECONDS)
        behind = [each for each in awaited if not each.is_shown()]
    without_indexer = [each.name for each in behind if not (attended() or each.is_tended())]
    lags = (reader.database.lag() for reader in readers if reader.database and behind)
    return Freshness(
        tuple(each.name for each in behind),
        tuple(each.name for each in awaited if each.is_gone),
        tuple(without_indexer),
        max(lags, default=0.0),
    )


def _await_turn(folder: Folder, tell: Tell, is_over: Callable[[], bool]) -> None:
    """Wait until no other process indexes words, or holds the writer's lock."""
    await_others(folder, tell, is_over, words_only=True)
    while is_held(folder.places.lock) and not is_over():
        time.sleep(_POLL_SECONDS)


def checked_wait(seconds: float) -> float:
    """Return how long to wait; raise UsageError for what is no such time."""
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise UsageError(
            f"wait_fresh is {seconds}: give seconds, from 0 to {MAX_WAIT_SECONDS:.0f}."
        )
    return float(seconds)


SILENT_SECONDS = 20.0
"""After so long without a word of who publishes a folder, nobody is taken to do so."""


class AwaitedPublication:
    """A folder in a database, of which the word of its builder is awaited that all is published."""

    is_gone = False

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


class AwaitedWords:
    """A folder whose indexer is asked to take in what is on disk now."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._folder = reader.folder
        # so looks the place of a drive that is not mounted
        is_empty = holds_nothing(self._folder.root) and folder_state(reader).documents > 0
        self.is_gone = is_empty or not self._folder.root.is_dir()
        self._tended_at = self._looked_at = time.monotonic()
        self._ask: Path | None = None
        with suppress(StorageError):  # on a medium that cannot be written nobody indexes, either
            self._ask = None if self.is_gone else request_refresh(self._folder.places.folder)

    def progress(self) -> Progress | None:
        """Return how far whoever indexes the folder is with words; None if nobody is at it."""
        progress = progress_of(self._folder)
        return progress if progress and progress.phase == "words" else None

    def is_shown(self) -> bool:
        """Return True if all of it can be searched by its words, or it is gone."""
        self.is_gone = self.is_gone or not self._folder.root.is_dir()
        return self.is_gone or (self._ask is not None and not self._ask.exists())

    def is_tended(self) -> bool:
        """Return True if a process indexed the folder within the last seconds: another one may be
        about to take over.
        """
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            if is_tended(self._folder):
                self._tended_at = now
        return now - self._tended_at < UNTENDED_SECONDS

    def close(self) -> None:
        """Ask no more."""
        if self._ask is not None:
            complete_requests([self._ask])
