"""Is what is on disk indexed? Compare, wait for it, and tell what changed since one looked last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from thumbindex.corpus.read import read_bytes, read_digest
from thumbindex.corpus.walk import NOT_KEPT, facts_of, find_changes, walk
from thumbindex.errors import IndexDamagedError, StorageError, UnknownFolderError, UsageError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.locks import Work, at_work, is_held, is_writing, work_in
from thumbindex.index.stamp import read_stamp
from thumbindex.index.store import Store
from thumbindex.index.writer import Withheld, read_withheld
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import Listing, count_unchanged, cutting, hold_back, is_private_now, keep_unlisted, refuse_empty, split_private
from thumbindex.library.reader import Reader
from thumbindex.model import Changes, FileState, Freshness, Problem, Progress

Tell = Callable[[Progress], None]

_POLL_OTHERS_SECONDS = 0.1


@contextmanager
def announced(folders: Sequence[Folder], tell: Tell) -> Iterator[Tell]:
    """Let other processes see a run over these folders; what this gives tells them how far it is, and whoever is to be told here, too."""
    with ExitStack() as runs:
        told = {folder.name: runs.enter_context(at_work(folder.places.folder)) for folder in folders}
        places = {folder.name: folder.places.folder for folder in folders}

        def tell_all(progress: Progress) -> None:
            if progress.phase == "waiting":
                work = work_in(places[progress.folder])
                progress = replace(progress, pid=work.pid if work and _is_anothers(work) else 0)
            else:
                told[progress.folder](progress.phase, progress.done, progress.total)
            tell(progress)

        yield tell_all


def await_others(folder: Folder, tell: Tell, interrupted: Callable[[], bool], *, words_only: bool) -> None:
    """Wait for the run that another process has going in a folder, as far as it does what is to be done here: nothing is done twice."""
    begun = work = work_in(folder.places.folder)
    while begun and work and _is_anothers(work) and work.run == begun.run and not interrupted():
        if words_only and work.phase == "vectors":
            return
        tell(Progress(folder.name, "waiting", work.done, work.total, work.pid))
        time.sleep(_POLL_OTHERS_SECONDS)
        work = work_in(folder.places.folder)


def progress_of(folder: Folder) -> Progress | None:
    """Return how far whoever indexes a folder is, in this process or another; None where nobody does."""
    work = work_in(folder.places.folder)
    return Progress(folder.name, work.phase, work.done, work.total, work.pid) if work else None


def is_tended(folder: Folder) -> bool:
    """Tell whether a process writes a folder's index, or watches the folder to do so."""
    return is_writing(folder.places.lock) or is_held(folder.places.watch) or work_in(folder.places.folder) is not None


def _is_anothers(work: Work) -> bool:
    return work.pid != os.getpid()


Known = Mapping[str, tuple[int, str]]
"""Each document's row id and digest by path; the digest is read where the row is another: none is used twice in a store."""


class News:
    """Tells what is new in some folders' indexes. Its own memory: queries, too, open what is new, and nothing of that may be missed here."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._watched = [Watched(reader) for reader in readers]

    def look(self) -> Mapping[str, Changes]:
        """Return by folder what came, went and changed since the last look; folders without news are left out.

        An index that is not there (forgotten, under repair) tells nothing until it is back.
        """
        found = {}
        for each in self._watched:
            try:
                found[each.name] = each.look()
            except StorageError:
                continue  # the next look tells of it: what one folder has come to hides nothing of the others
        return {name: changes for name, changes in found.items() if changes.added or changes.changed or changes.removed}


class Watched:
    """One folder's documents as they were when one looked last."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._seen: StoreCatalog | None = None
        self._known: Known = {}
        self._is_first = True

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        first, self._is_first = self._is_first, False
        if not self._reader.indexed or (catalog := self._reader.opened().catalog) is self._seen:
            return Changes()
        known = self._known if self._seen is not None and self._seen.store is catalog.store else {}  # a store built anew counts from the beginning
        before, self._known, self._seen = self._known, _known(catalog, known), catalog
        return Changes() if first else compare(before, self._known)


def _known(catalog: StoreCatalog, last: Known) -> Known:
    rows = dict(zip(catalog.paths, catalog.document_rows.tolist(), strict=True))
    kept = {path: last[path] for path, row in rows.items() if path in last and last[path][0] == row}
    read = catalog.store.manifest(rows.keys() - kept.keys())
    return kept | {path: (rows[path], state.digest) for path, state in read.items()}


def compare(before: Known, after: Known) -> Changes:
    """Return the paths that came, changed and went."""
    kept = before.keys() & after.keys()
    changed = tuple(sorted(path for path in kept if before[path][1] != after[path][1]))
    return Changes(tuple(sorted(after.keys() - kept)), changed, tuple(sorted(before.keys() - kept)), len(kept) - len(changed))


LONGEST_WAIT = 60.0
"""Seconds: clients give up on an answer after 30 to 60."""

_POLL_SECONDS = 0.05

UNTENDED_SECONDS = 3.0
"""So long nobody is seen to write before it is said that nobody does: where a server has ended, another one takes over within two."""

_LOOK_SECONDS = 1.0
"""While nothing is committed the disk is looked at again this often: a file that was put back as it was needs no commit."""

Differing = dict[str, FileState | None]
"""Each path that the index does not show as it is on disk, with its facts there; None where it is gone."""


def wait_until_fresh(
    readers: Sequence[Reader],
    seconds: float,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    attended: Callable[[], bool] = lambda: False,
) -> Freshness:
    """Wait until the words of all that is on disk now are indexed, the time is up or `interrupted` says so; tell what is missing then.

    What nobody writes is not waited for; `attended` says that somebody is about to, who cannot be seen yet.
    """
    until = time.monotonic() + seconds
    awaited = [Awaited(reader) for reader in readers]
    while waiting := [each for each in awaited if not each.is_shown()]:
        for each in waiting:
            tell(each.progress())
        if interrupted() or time.monotonic() >= until or not (attended() or any(each.is_tended() for each in waiting)):
            break
        time.sleep(_POLL_SECONDS)
    lacking = [each for each in awaited if each.missing or not each.is_shown()]
    return Freshness(
        tuple((each.name, path) for each in awaited for path in sorted(each.missing)),
        tuple(each.name for each in awaited if each.is_gone),
        tuple(each.name for each in lacking if not each.missing),
        tuple(each.name for each in lacking if not (attended() or each.is_tended())),
    )


def checked_wait(seconds: float) -> float:
    """Return how long to wait; raise UsageError for what is no such time."""
    if not 0 <= seconds <= LONGEST_WAIT:
        raise UsageError(f"wait_fresh is {seconds}: give seconds, from 0 to {LONGEST_WAIT:.0f}.")
    return float(seconds)


def count_words(reader: Reader) -> Progress:
    """Tell how many of a folder's files the index knows; a folder that is gone has as many as are known."""
    known = len(_manifest(reader))
    try:
        states = walk(reader.folder.root, reader.folder.config.corpus).files
        files = len(states) - len(_withheld(reader).of(states))
    except UnknownFolderError:
        files = known
    return Progress(reader.folder.name, "words", min(known, files), files)


class Awaited:
    """What differed between one folder and its index at one moment, and how much of it is indexed since."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self.is_gone = False
        self.missing: Differing = {}
        self._reader = reader
        self._store: Store | None = None  # the one that was looked at
        self._words: int | None = None  # the generation whose words are to be shown
        self._generation, self._looked_at, self._pause = -1, 0.0, 0.0
        self._tended_at, self._asked_at = time.monotonic(), 0.0
        self._begin()
        self._total = len(self.missing)

    def progress(self) -> Progress:
        """Tell how many of the paths are indexed; where all are, of how many chunks the words are known: a large file has many."""
        if not self.missing and self._store and (stamp := read_stamp(self._reader.folder.places.keyword)) and stamp.behind:
            with suppress(StorageError):  # it is just being put in the place of another
                chunks = self._store.count_chunks()
                return Progress(self.name, "chunks", chunks - stamp.behind, chunks)
        return Progress(self.name, "words", self._total - len(self.missing), self._total)

    def is_shown(self) -> bool:
        """Tell whether all of it can be searched; nothing is waited for in a folder that is gone."""
        try:
            if _store(self._reader) is not self._store:
                self._begin()  # the index was built anew: it counts from the beginning, and holds nothing of what the last one did
            elif self.missing and self._is_due():
                self._note(self._still_missing)
            return self.is_gone or (not self.missing and self._is_searchable())
        except IndexDamagedError:
            raise  # there is somebody to repair it
        except StorageError:
            return False  # it is just being put in the place of another

    def is_tended(self) -> bool:
        """Tell whether a process writes the index, or did so a moment ago: another one may be about to take over."""
        now = time.monotonic()
        if now - self._asked_at >= _LOOK_SECONDS:
            self._asked_at = now
            if is_tended(self._reader.folder):
                self._tended_at = now
        return now - self._tended_at < UNTENDED_SECONDS

    def _begin(self) -> None:
        self._store, self._words = _store(self._reader), None
        self._note(lambda: find_differing(self._reader))

    def _is_due(self) -> bool:
        # Looking may take long in a large folder: at most half of the time is spent on it.
        since = time.monotonic() - self._looked_at
        return since >= self._pause and (since >= _LOOK_SECONDS or self._generation != _generation(self._reader))

    def _note(self, look: Callable[[], Differing]) -> None:
        began, self._generation = time.monotonic(), _generation(self._reader)
        try:
            self.missing = look()
        except UnknownFolderError:
            self.is_gone, self.missing = True, {}
        self._looked_at = time.monotonic()
        self._pause = self._looked_at - began

    def _still_missing(self) -> Differing:
        """Return what is indexed neither as it was then nor as it is now."""
        known = _manifest(self._reader)
        missing = {path: state for path, state in self.missing.items() if not _shows(known.get(path), state)}
        return {path: missing[path] for path in missing.keys() & find_differing(self._reader).keys()} if missing else {}

    def _is_searchable(self) -> bool:
        if not self._reader.indexed:
            return True  # there is no file that could be indexed
        if self._words is None:
            self._words = int(self._reader.store.meta("words", "0"))
        stamp = read_stamp(self._reader.folder.places.keyword)
        return stamp is not None and stamp.generation >= self._words and not stamp.behind


def find_differing(reader: Reader) -> Differing:
    """Compare the folder with the index; what cannot be read is no difference. Raises UnknownFolderError where the folder is gone."""
    folder, settings = reader.folder, reader.folder.config.corpus
    if count_unchanged(folder, cutting(folder)) is not None:
        return {}
    now = time.time_ns()
    states, problems, _ = walk(folder.root, settings)
    known = _manifest(reader)
    private = _withheld(reader).of(states)
    comparison = find_changes({**known, **private}, states, lambda path: read_digest(folder.root, path, settings), now_ns=now)
    changes = hold_back(folder, keep_unlisted(split_private(comparison, private)[0], Listing(problems, {}))).changes
    if changes.removed:
        refuse_empty(folder.root, len(known))
    digests = {state.path: state.digest for state in comparison.states}
    facts = {state.path: replace(state, digest=digests[state.path]) for state in states}
    unreadable = {path for path in _reported(reader, known) & set(changes.added) if isinstance(read_bytes(folder.root, path, settings), Problem)}
    hidden = {path for path in (*changes.added, *changes.changed) if is_private_now(folder, path)}
    found: Differing = {path: facts[path] for path in (*changes.added, *changes.changed) if path not in unreadable | hidden}
    return found | dict.fromkeys((*changes.removed, *hidden.intersection(changes.changed)))


def _shows(recorded: FileState | None, wanted: FileState | None) -> bool:
    if recorded is None or wanted is None:
        return recorded is wanted
    kept = wanted if recorded.mtime_ns != NOT_KEPT else replace(wanted, mtime_ns=NOT_KEPT)  # written just before it was indexed
    return facts_of(recorded) == facts_of(kept) or (bool(wanted.digest) and wanted.digest == recorded.digest)


def _manifest(reader: Reader) -> Mapping[str, FileState]:
    return reader.store.manifest() if reader.indexed else {}


def _withheld(reader: Reader) -> Withheld:
    return read_withheld(reader.store) if reader.indexed else Withheld()


def _reported(reader: Reader, known: Mapping[str, FileState]) -> set[str]:
    """Return the paths of which the index says why they are not in it."""
    return {problem.path for problem in reader.store.problems()} - known.keys() if reader.indexed else set()


def _store(reader: Reader) -> Store | None:
    return reader.store if reader.indexed else None


def _generation(reader: Reader) -> int:
    return reader.store.generation if reader.indexed else -1
