"""The child process of a server: it watches folders and keeps their indexes up to date."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from thumbindex import process
from thumbindex.errors import (
    IndexDamagedError,
    ModelError,
    ThumbindexError,
    UnknownFolderError,
)
from thumbindex.library import Folder, Library, Sizes
from thumbindex.model import IndexReport, Pause
from thumbindex.process import (
    collect_as_usual,
    collect_rarely,
    compute_on_one_thread,
    take_short_turns,
)
from thumbindex.serve.indexer import Note, NoteKind, waits
from thumbindex.serve.opening import FOUND, Opening, open_library, outcome
from thumbindex.serve.watch import Watch

_PAUSE_SECONDS = 0.05
"""How soon a pause between vectors ends when words are due."""

_LOOK_SECONDS = 0.1
"""Between two looks for a request: a server asks for a repair by a file."""

SCRUB_SECONDS = 24 * 3600.0
"""How often an index is read whole, to find what a failing disk has changed: it costs a second of a
core for each 20,000 chunks.
"""

FIRST_SCRUB_SECONDS = 60.0
"""When it is read whole for the first time: a server that has just begun has other things to do."""

MERGE_SECONDS = 5.0
"""After an edit it must be quiet for so long before segments are merged: the next edit should not
wait behind that.
"""

_WORDS_SECONDS = 4.0
"""For so long words are taken in before newer ones come first: where each save cut short the run
before it, older texts would never come.
"""

_REST_SECONDS = 1.0
"""After a run that came to its end words rest for as long as it took, so long at most: a folder
that changes all the time leaves time to others, to its own vectors, and to the servers that open
what it commits.
"""

_VECTORS_SECONDS = 2.0
"""For so long vectors of one folder are made, or its duplicates looked for, before another one, cut
short before, goes on: beginning anew costs a look at all that is missing.
"""

_LARGE_SECONDS, _AFTER_LARGE_SECONDS = 30.0, 10.0
"""For so long words of large files are read while vectors of their folder wait, and then these are
made for so long where more large files wait: both at once hold each other up, and words of an edit
wait for vectors that take ten times as long.
"""

READ_SECONDS = 0.2
"""Between a text's words and its vectors: whoever asks opens the words meanwhile, and vectors would
take the processor from them.
"""

_LONG_AGO, _NEVER = float("-inf"), float("inf")


class Share:
    """Says how long to pause so that this process takes no more than its share of all cores; each
    batch is paid for after it.
    """

    def __init__(
        self,
        share: float,
        cores: int = 0,  # all that there are
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self._allowed = share * (cores or process.cores())
        self._is_bound = share < 1
        self._clock, self._used = clock, used
        self._began, self._before = clock(), used()

    def owed(self) -> float:
        """Return for how many seconds to pause now; 0.0 where less than the share was taken since
        `begin`.
        """
        if not self._is_bound:
            return 0.0
        return max(
            0.0, (self._used() - self._before) / self._allowed - (self._clock() - self._began)
        )

    def begin(self) -> None:
        """Count from now on: what was not taken is not saved up."""
        self._began, self._before = self._clock(), self._used()


class Turn:
    """Asked between two batches: pauses where more than a share of the processor was taken, tells
    when to stop, and remembers that it did.

    Where asked so, a run goes on for as long as its beginning took, `most` seconds at most: a huge
    folder that is left for each note which is saved in another one would do nothing but begin. What
    is urgent does not wait for that.
    """

    def __init__(
        self,
        is_due: Callable[[], bool],
        share: Share | None = None,
        *,
        most: float = 0.0,
        is_urgent: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.was_cut_short = False
        self._is_due, self._share, self._most, self._is_urgent, self._clock = (
            is_due,
            share,
            most,
            is_urgent,
            clock,
        )
        self._began, self._not_before = clock(), 0.0

    def __call__(self) -> bool:
        """Tell whether to stop."""
        now = self._clock()
        self._not_before = self._not_before or now + min(now - self._began, self._most)
        while self._share and not self._is_due() and (owed := self._share.owed()):
            time.sleep(min(owed, _PAUSE_SECONDS))
        if self._share:
            self._share.begin()
        self.was_cut_short = self._is_due() and (
            self._clock() >= self._not_before or self._is_urgent()
        )
        return self.was_cut_short


class WatchedFolder:
    """One folder, and what is due in it and when (on the monotonic clock)."""

    def __init__(self, folder: Folder, watch: Watch, now: float) -> None:
        self.folder, self.watch = folder, watch
        self.look_at = 0.0
        self.reconcile_at = self.vectors_at = now
        self.scrub_at = now + FIRST_SCRUB_SECONDS
        self.rests_until = _LONG_AGO  # words that were saved meanwhile wait
        self.merge_at = self.duplicates_at = _NEVER
        # the last run was cut short, and goes on in its turn
        self.words_left = self.rest_left = False
        self.is_quiet = False  # the last comparison found nothing to do
        self.notes: dict[NoteKind, str] = {}
        # a run over large files, which tells whether it was cut short
        self.large: Future[bool] | None = None
        # there are large files to read, or other texts of theirs since the run began
        self.more_large = False
        self.large_at = _LONG_AGO  # when the last such run ended
        # the search for texts that are there twice, which is left for all else that is due
        self.duplicates: Generator[None] | None = None
        self._searched = 0  # the edition of the index in which it was begun

    def leave_duplicates(self) -> None:
        """Leave the search for duplicates where it is; the next one looks again at what is not
        kept.
        """
        if self.duplicates is not None:
            self.duplicates.close()
            self.duplicates = None

    def leave_old_edition(self) -> None:
        """Leave a search for duplicates in an index that was built anew meanwhile, with the files
        that it has open.
        """
        edition = self.folder.places.present
        if edition != self._searched:
            self.leave_duplicates()
            self._searched = edition

    def close(self) -> None:
        """Stop watching."""
        self.leave_duplicates()
        self.watch.close()

    def words_at(self) -> float:
        """Return when the folder is to be compared with the disk; never while it is gone."""
        if not self.watch.is_there:
            return _NEVER
        due = self.watch.quiet.due()
        if due is None:
            return self.reconcile_at
        return min(self.reconcile_at, max(due, self.rests_until))

    def rest_due(self) -> float:
        """Return when vectors are to be made, or duplicates to be looked for; never while large
        files are read.
        """
        return min(self.vectors_at, self.duplicates_at) if self.large is None else _NEVER

    def next_at(self, large_at: float) -> float:
        """Return when there is something to do again, where large files may be read from a time
        on.
        """
        others = (
            (large_at, self.rest_due(), self.merge_at, self.scrub_at) if self.watch.is_there else ()
        )
        return min(self.look_at, self.words_at(), *others)

    def is_settled(self) -> bool:
        """Tell whether nothing is due or under way but the next comparison."""
        is_done = (
            self.large is None
            and not self.more_large
            and self.vectors_at == self.duplicates_at == _NEVER
        )
        return is_done and self.watch.quiet.due() is None


class IndexingLoop:
    """Keeps the indexes of folders up to the disk until it is stopped.

    Words come at once, those of large files on a thread of their own, vectors when no words are
    due, and then what is there twice. A folder with much to do is left after its present batch when
    another one has just become due, and those that were left take turns.
    """

    def __init__(
        self,
        library: Library,
        say: Callable[[Note], object],
        make_watch: Callable[..., Watch] = Watch,
        *,
        clock: Callable[[], float] = time.monotonic,
        only: Collection[str] = (),
    ) -> None:
        self._library, self._say, self._clock = library, say, clock
        self._settings = library.config.serve.watch
        self._wake = threading.Event()
        self._stopped = False
        self._working = True
        self._large_files = ThreadPoolExecutor(1, "large files")
        self._folders = list[WatchedFolder]()
        for each in library.opened:
            if only and each.name not in only:
                continue
            watch = make_watch(
                each.root, each.places.folder, self._settings, each.config.corpus, self._wake.set
            )
            self._folders.append(WatchedFolder(each, watch, clock()))

    def run(self) -> None:
        """Tend the folders until `stop`."""
        try:
            while not self._stopped:
                pause = self.step()
                self._working = pause == 0.0
                self._wake.wait(min(pause, _LOOK_SECONDS))
                self._wake.clear()
                self._working = True
        finally:
            self._stopped = True
            self._large_files.shutdown()
            for each in self._folders:
                each.close()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stopped = True
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Tell whether all that was found on disk is indexed, with vectors and compared."""
        return not self._working and all(each.is_settled() for each in self._folders)

    def step(self) -> float:
        """Do the one thing that is due first; return for how many seconds there is nothing more to
        do.
        """
        for each in self._folders:
            if _is_repair_asked(each):
                self._repair(each)
        self._attend()
        now = self._clock()
        tended = [each for each in self._folders if each.watch.is_there]
        jobs: Sequence[tuple[Callable[[WatchedFolder], float], Callable[[WatchedFolder], None]]]
        jobs = (
            (WatchedFolder.words_at, self._keep_words),
            (self._large_due, self._begin_large),
            (WatchedFolder.rest_due, self._do_rest),
            (lambda each: each.merge_at, self._merge_at_rest),
            (lambda each: each.scrub_at, self._scrub),
        )
        for due_at, work in jobs:
            first = min(tended, key=due_at, default=None)
            if first is not None and due_at(first) <= now:
                work(first)
                return 0.0
        return max(
            0.0,
            min(
                (each.next_at(self._large_due(each)) for each in self._folders),
                default=now + _LOOK_SECONDS,
            )
            - now,
        )

    def _attend(self) -> None:
        """Do what is quick for each folder: look whether it is there, take in the end of a large
        file.
        """
        now = self._clock()
        for each in self._folders:
            if now >= each.look_at:
                self._look(each)
            self._finish_large(each)

    def _look(self, each: WatchedFolder) -> None:
        each.watch.look()
        each.look_at = self._clock() + self._settings.poll_seconds
        name, failure = each.folder.name, each.watch.failure
        gone = (
            f"The folder {each.folder.root} is gone: nothing is deleted, answers come from what "
            "was indexed. It is taken up again when it is back."
        )
        unwatched = (
            f"{name}: changes are looked for every {self._settings.poll_seconds:g} s, since the "
            f"folder cannot be watched ({failure}); "
            "where that is a limit of the system, raise it (Linux: sysctl "
            "fs.inotify.max_user_watches)."
        )
        self._note(each, "folder", "" if each.watch.is_there else gone)
        self._note(each, "watch", unwatched if failure else "")

    def _keep_words(self, each: WatchedFolder) -> None:
        reconciled = each.reconcile_at <= self._clock()
        if reconciled:
            # from now on: what is due already would cut this very run short
            each.reconcile_at = self._clock() + self._settings.reconcile_seconds
        each.watch.quiet.clear()
        began = self._clock()
        is_due = partial(self._are_words_due, each, began + _WORDS_SECONDS)
        turn = Turn(
            is_due,
            most=_WORDS_SECONDS,
            is_urgent=self._is_urgent,
            clock=self._clock,
        )
        each.words_left = False
        try:
            each.leave_old_edition()
            report = self._index(each, "small", turn)
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            each.rests_until = self._clock() + min(self._clock() - began, _REST_SECONDS)
            self._note(each, "words", "")
            self._note(each, "empty", "")
            self._tell_mended(each, report.mended)
            each.look_at = (
                self._clock() + self._settings.poll_seconds if each.watch.failure else each.look_at
            )
            each.words_left = bool(report.left) and turn.was_cut_short
            if each.words_left:
                each.reconcile_at = self._clock()
            elif report.left:
                each.more_large = True
            each.is_quiet = not (report.added or report.changed or report.removed)
            each.merge_at = self._clock() + MERGE_SECONDS
            if reconciled or (
                (report.added or report.changed or report.removed) and not each.notes.get("vectors")
            ):
                each.vectors_at = min(each.vectors_at, self._clock() + READ_SECONDS)

    def _keep_vectors(self, each: WatchedFolder) -> None:
        """Embed until all is done, or words are due somewhere, or vectors of another folder."""
        turn = Turn(
            partial(self._is_another_due, each, self._clock() + _VECTORS_SECONDS),
            Share(self._settings.share),
            clock=self._clock,
        )
        each.rest_left = False
        try:
            mended = self._library.embed([each.folder.name], interrupted=turn)
        except ModelError as error:
            self._note(each, "vectors", f"{error} Until then keywords alone are searched.")
            each.vectors_at = self._clock() + self._settings.reconcile_seconds
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
            each.vectors_at = each.reconcile_at
        else:
            self._note(each, "vectors", "")
            self._tell_mended(each, mended)
            each.rest_left = turn.was_cut_short
            each.vectors_at = self._clock() if turn.was_cut_short else _NEVER
            if not turn.was_cut_short:
                self._merge(each, "moment")
                each.duplicates_at = self._clock()

    def _do_rest(self, each: WatchedFolder) -> None:
        """Make vectors, or look for duplicates among the texts that have theirs."""
        (self._keep_vectors if each.vectors_at <= self._clock() else self._find_duplicates)(each)

    def _find_duplicates(self, each: WatchedFolder) -> None:
        """Find texts that are there twice, until anything else is due; what has come meanwhile is
        looked at when this search is done.
        """
        until = self._clock() + _VECTORS_SECONDS
        turn = Turn(
            lambda: self._is_another_due(each, until) or each.vectors_at <= self._clock(),
            Share(self._settings.share),
            clock=self._clock,
        )
        each.duplicates_at = _NEVER
        try:
            each.leave_old_edition()
            has_found = each.duplicates is not None
            each.duplicates = each.duplicates or self._library.find_duplicates([each.folder.name])
            for _ in each.duplicates:
                has_found = True
                if turn():
                    break
        except IndexDamagedError:
            self._scrub(each)
        except (ThumbindexError, OSError) as error:
            each.leave_duplicates()
            self._postpone(each, error)
            each.duplicates_at = each.reconcile_at
        else:
            if not turn.was_cut_short:
                each.leave_duplicates()
            each.rest_left = turn.was_cut_short
            each.duplicates_at = self._clock() if has_found else _NEVER

    def _merge_at_rest(self, each: WatchedFolder) -> None:
        each.merge_at = _NEVER
        self._merge(each, "leisure" if each.is_quiet else "while")

    def _merge(self, each: WatchedFolder, pause: Pause) -> None:
        """Merge the keyword index's segments, as many as the time allows."""
        try:
            self._library.merge([each.folder.name], pause=pause)
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)

    def _repair(self, each: WatchedFolder) -> None:
        """Repair what a reader has found damaged, and read its words anew at once."""
        self._scrub(each)
        with suppress(OSError):
            each.folder.places.repair.unlink(missing_ok=True)
        each.reconcile_at = self._clock()

    def _scrub(self, each: WatchedFolder) -> None:
        """Read the index whole, and repair it where that is due."""
        each.scrub_at = self._clock() + SCRUB_SECONDS
        each.leave_duplicates()
        try:
            mended = self._library.repair([each.folder.name])
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            self._tell_mended(each, mended)

    def _tell_mended(self, each: WatchedFolder, mended: Sequence[str]) -> None:
        if mended:
            each.leave_duplicates()
            self._note(each, "repaired", " ".join(mended))
            each.reconcile_at = self._clock()

    def _index(
        self, each: WatchedFolder, sizes: Sizes, interrupted: Callable[[], bool]
    ) -> IndexReport:
        """Take in the words of small files, or of large ones."""
        names = [each.folder.name]
        return self._library.index(
            words_only=True,
            folder=names,
            interrupted=interrupted,
            sizes=sizes,
        )

    def _large_due(self, each: WatchedFolder) -> float:
        """Return when large files of a folder are to be read: those of one folder at a time."""
        if not each.more_large or any(other.large is not None for other in self._folders):
            return _NEVER
        return each.large_at + (0.0 if each.vectors_at == _NEVER else _AFTER_LARGE_SECONDS)

    def _begin_large(self, each: WatchedFolder) -> None:
        each.more_large = False
        each.large = self._large_files.submit(self._keep_large, each)
        each.large.add_done_callback(lambda _: self._wake.set())

    def _keep_large(self, each: WatchedFolder) -> bool:
        """Take in the words of large files for a while; tell whether that was cut short."""
        until = self._clock() + _LARGE_SECONDS
        turn = Turn(lambda: self._stopped or self._clock() >= until, clock=self._clock)
        self._index(each, "large", turn)
        return turn.was_cut_short

    def _finish_large(self, each: WatchedFolder) -> None:
        if each.large is None or not each.large.done():
            return
        taken, each.large = each.large, None
        each.large_at = self._clock()
        try:
            each.more_large |= taken.result()
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            each.vectors_at = self._clock()

    def _postpone(self, each: WatchedFolder, error: ThumbindexError | OSError) -> None:
        """Try again in a while; a folder that went in the middle is noted by the next look."""
        each.look_at = self._clock()
        each.reconcile_at = self._clock() + self._settings.poll_seconds
        if not isinstance(error, UnknownFolderError):
            self._note(each, "words", waits(each.folder.name, error))
        elif each.folder.root.is_dir():
            self._note(each, "empty", str(error))

    def _are_words_due(self, of: WatchedFolder | None = None, not_before: float = 0.0) -> bool:
        """Tell whether to leave vectors, or older words, for later; asked between two batches, so
        that nothing quick waits for all of them.

        While words of a folder are taken in, newer ones of its own, and of others that were cut
        short as well, are not due before a time.
        """
        self._attend()
        now = self._clock()
        due = (each for each in self._folders if each.words_at() <= now)
        is_due = any(now >= not_before or (each is not of and not each.words_left) for each in due)
        return is_due or self._is_urgent()

    def _is_urgent(self) -> bool:
        return self._stopped or any(map(_is_repair_asked, self._folders))

    def _is_another_due(self, of: WatchedFolder, not_before: float) -> bool:
        """Tell whether to leave vectors of a folder, or its duplicates, for words, for large files
        of its own, or from a time on for another folder.

        For another one that was not cut short itself it is left at once.
        """
        if self._are_words_due():
            return True
        now = self._clock()
        if self._large_due(of) <= now:
            return True
        others = (
            each
            for each in self._folders
            if each is not of and each.watch.is_there and each.rest_due() <= now
        )
        return any(now >= not_before or not each.rest_left for each in others)

    def _note(self, each: WatchedFolder, kind: NoteKind, sentence: str) -> None:
        if sentence != each.notes.get(kind, ""):
            each.notes[kind] = sentence
            self._say(Note(each.folder.name, kind, sentence))


def _is_repair_asked(each: WatchedFolder) -> bool:
    return each.folder.places.repair.exists()


def index_for_server(arguments: Sequence[str]) -> int:
    """Index what `child_command` wrote, as `work_for_server` does; return the exit code.

    No user's command: no parser of options is imported.
    """
    collect_rarely()
    compute_on_one_thread()
    if isinstance(sys.stderr, io.TextIOWrapper):
        # as the server reads it; Windows writes pipes in the encoding of its region
        sys.stderr.reconfigure(encoding="utf-8")

    names_at = arguments.index("--")
    opening, names = Opening.from_arguments(arguments[:names_at]), arguments[names_at + 1 :]

    def work() -> int:
        work_for_server(lambda: open_library(opening), names)
        return FOUND

    return outcome(work)


def work_for_server(open_it: Callable[[], Library], only: Collection[str] = ()) -> None:
    """Keep the indexes up to the disk until the server at the other end of standard input is gone;
    without `serve.watch` only once.
    """
    threading.Thread(target=_leave_with_server, name="server watch", daemon=True).start()
    # Opened only now: a server that is killed while that goes on must not leave its child behind.
    library = open_it()
    collect_as_usual()
    for number in (signal.SIGTERM, signal.SIGINT):
        # as for the end of the server: nothing has to be tidied up
        signal.signal(number, lambda number, _: os._exit(128 + number))
    take_short_turns()
    if library.config.serve.watch.enabled:
        IndexingLoop(library, _say, only=only).run()
    else:
        library.index(words_only=True)
        library.index()


def _say(note: Note) -> None:
    with suppress(OSError):  # the server is about to be gone
        sys.stderr.write(note.line())
        sys.stderr.flush()


def _leave_with_server() -> None:
    """End this process when the server at the other end of standard input is gone."""
    # Even a killed server closes its end. What is committed stays; a commit under way is rolled
    # back by SQLite.
    # Read by descriptor: the lock of a buffered reader would stop the interpreter's own way out.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    # Ctrl-C in a terminal reaches the server's child as well: the server ends it, by closing its
    # input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(index_for_server(sys.argv[1:]))
