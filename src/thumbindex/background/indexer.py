"""The indexer: a server's child process that keeps the indexes of watched folders up to date.

The most urgent due job runs first. Folders with the same due job take turns.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from enum import IntEnum

from thumbindex.background.supervisor import Message, MessageKind, postponed_message
from thumbindex.background.watch import Watch
from thumbindex.errors import IndexDamagedError, ModelError, ThumbindexError, UnknownFolderError
from thumbindex.library import Folder, Library
from thumbindex.opening import OpenOptions, open_library
from thumbindex.present.exit_codes import FOUND, run_command
from thumbindex.process import (
    defer_garbage_collection,
    limit_numeric_threads,
    lower_priority,
    resume_garbage_collection,
    switch_threads_often,
)

SLICE_SECONDS = 2.0
"""A job pauses after this time if another folder waits for the same job."""

MERGE_SECONDS = 5.0
"""Segments are merged after this time without edits. An edit would have to wait for a merge."""

_REQUEST_POLL_SECONDS = 0.1
"""Interval between checks for requests from readers."""

REFRESH_SECONDS = 0.5
"""Interval between comparisons of a folder with its index while a reader's request remains."""

_LONG_AGO, _NEVER = float("-inf"), float("inf")


class Job(IntEnum):
    """The jobs of a folder, most urgent first."""

    REPAIR = 1  # after a reader found damage
    WORDS = 2
    VECTORS = 3
    DUPLICATES = 4
    MERGE = 5  # segments of the keyword index


_LOW_PRIORITY = (Job.VECTORS, Job.DUPLICATES, Job.MERGE)
"""Jobs that run in a low-priority thread while the loop waits."""


class WatchedFolder:
    """A folder and when each of its jobs is due, on the monotonic clock."""

    def __init__(self, folder: Folder, watch: Watch, now: float) -> None:
        self.folder, self.watch, self.name = folder, watch, folder.name
        self.due = dict.fromkeys(Job, _NEVER)
        self.due |= dict.fromkeys((Job.REPAIR, Job.WORDS, Job.VECTORS), now)
        self.served_at = dict.fromkeys(Job, _LONG_AGO)
        self.check_at = now
        self.requests_at = _LONG_AGO  # when to check for readers' requests again
        self.is_quiet = False  # the last comparison found no changes
        self.notes: dict[MessageKind, str] = {}

    def due_at(self, job: Job) -> float:
        """Return when a job is due, or infinity if the folder is missing."""
        if not self.watch.folder_exists:
            return _NEVER
        if job is Job.REPAIR and not os.path.exists(self.folder.index_paths.repair):  # noqa: PTH110
            return _NEVER
        if job is Job.WORDS:
            requests_at = self.requests_at if self.folder.has_refresh_request else _NEVER
            saved_at = self.watch.debounce.due()
            return min(self.due[job], requests_at, _NEVER if saved_at is None else saved_at)
        return self.due[job]


class IndexingLoop:
    """Keeps indexes up to date until stopped."""

    def __init__(
        self,
        library: Library,
        send: Callable[[Message], object],
        make_watch: Callable[..., Watch] = Watch,
        *,
        clock: Callable[[], float] = time.monotonic,
        only: Collection[str] = (),
    ) -> None:
        self._library, self._send, self._clock = library, send, clock
        self._settings = library.config.serve.watch
        self._wake = threading.Event()
        self._stopped = False
        self._folders = list[WatchedFolder]()
        for folder in library.opened:
            if only and folder.name not in only:
                continue
            watch = make_watch(
                folder.root,
                folder.index_paths.folder,
                self._settings,
                folder.config.corpus,
                self._wake.set,
            )
            self._folders.append(WatchedFolder(folder, watch, clock()))
        self._work: dict[Job, Callable[[WatchedFolder], None]] = {
            Job.REPAIR: self._repair,
            Job.WORDS: self._index_words,
            Job.VECTORS: self._embed,
            Job.DUPLICATES: self._find_duplicates,
            Job.MERGE: self._merge,
        }
        self._low_priority = ThreadPoolExecutor(1, "low priority", initializer=lower_priority)
        self._job: Job | None = None  # the current one
        self._slice_ends: float | None = None
        self._is_cut_short = False

    def run(self) -> None:
        """Run due jobs until `stop` is called."""
        try:
            while not self._stopped:
                pause = self.step()
                self._wake.wait(min(pause, _REQUEST_POLL_SECONDS))
                self._wake.clear()
        finally:
            self._low_priority.shutdown()
            for folder in self._folders:
                folder.watch.close()

    def stop(self) -> None:
        """Make `run` return; called from another thread."""
        self._stopped = True
        self._wake.set()

    def step(self) -> float:
        """Run the most urgent due job; return the seconds until the next one."""
        self._check()
        for job in Job:
            if waiting := self._folders_due(job):
                self._run_job(job, min(waiting, key=lambda folder: folder.served_at[job]))
                return 0.0
        now = self._clock()
        due_times = [folder.due_at(job) for folder in self._folders for job in Job]
        return max(0.0, min(due_times, default=_NEVER) - now)

    def _folders_due(self, job: Job) -> list[WatchedFolder]:
        now = self._clock()
        return [folder for folder in self._folders if folder.due_at(job) <= now]

    def _run_job(self, job: Job, folder: WatchedFolder) -> None:
        self._job, self._slice_ends, self._is_cut_short = job, None, False
        folder.due[job], folder.served_at[job] = _NEVER, self._clock()
        try:
            if job in _LOW_PRIORITY:
                self._low_priority.submit(self._work[job], folder).result()
            else:
                self._work[job](folder)
        except (ThumbindexError, OSError) as error:
            self._postpone(job, folder, error)
        else:
            if self._is_cut_short:
                folder.due[job] = self._clock()
        self._job = None

    def _interrupted(self) -> bool:
        """Return whether the current job must stop now. Jobs call this between batches."""
        assert self._job
        self._check()
        now = self._clock()
        self._slice_ends = self._slice_ends or now + SLICE_SECONDS
        # A search for duplicates starts over if cut short: with slices, two searches would never
        # finish.
        has_slices = self._job is not Job.DUPLICATES
        is_over = has_slices and now >= self._slice_ends and bool(self._folders_due(self._job))
        is_urgent = any(self._folders_due(job) for job in Job if job < self._job)
        self._is_cut_short = self._stopped or is_over or is_urgent
        return self._is_cut_short

    def _postpone(self, job: Job, folder: WatchedFolder, error: ThumbindexError | OSError) -> None:
        """Retry a job after `poll_seconds`, and report the error."""
        folder.check_at = self._clock()
        again_at = self._clock() + self._settings.poll_seconds
        folder.due[job] = folder.due[Job.WORDS] = folder.requests_at = again_at
        if not isinstance(error, UnknownFolderError):
            self._note(folder, "words", postponed_message(folder.name, error))
        elif folder.folder.root.is_dir():
            self._note(folder, "empty", str(error))

    # -------------------------------------------------------------- jobs

    def _check(self) -> None:
        """Check at intervals whether the folders exist and can be watched."""
        for folder in self._folders:
            if self._clock() < folder.check_at:
                continue
            folder.watch.check()
            seconds, failure = self._settings.poll_seconds, folder.watch.failure
            folder.check_at = self._clock() + seconds
            gone = (
                f"The folder {folder.folder.root} is missing. Its index is kept and still "
                "answers queries. Indexing resumes when the folder is back."
            )
            unwatched = (
                f"{folder.name}: the folder cannot be watched ({failure}), so it is checked for "
                f"changes every {seconds:g} s. If a system limit is the cause, raise the limit "
                "(Linux: sysctl fs.inotify.max_user_watches)."
            )
            self._note(folder, "folder", "" if folder.watch.folder_exists else gone)
            self._note(folder, "watch", unwatched if failure else "")

    def _index_words(self, folder: WatchedFolder) -> None:
        """Compare the folder with its index and index the changes, large files last."""
        folder.watch.debounce.clear()
        # otherwise, due changes and new requests would cut this comparison short
        folder.due[Job.WORDS] = self._clock() + self._settings.reconcile_seconds
        folder.requests_at = _NEVER
        report = self._library.index(
            complete=False, folder=[folder.name], finish=False, interrupted=self._interrupted
        )
        self._note(folder, "words", "")
        self._note(folder, "empty", "")
        self._report_repaired(folder, report.repaired)
        # a request file may remain: another user's file cannot be deleted
        folder.requests_at = (
            self._clock() + REFRESH_SECONDS if folder.folder.has_refresh_request else _LONG_AGO
        )
        folder.is_quiet = not (report.added or report.changed or report.removed)
        folder.due[Job.MERGE] = self._clock() + MERGE_SECONDS
        if not folder.is_quiet and not folder.notes.get("vectors"):
            folder.due[Job.VECTORS] = self._clock()

    def _embed(self, folder: WatchedFolder) -> None:
        """Store missing vectors and commit dates.

        The job repeats at intervals, to find new commits and to retry if the model was missing.
        """
        try:
            repaired = self._library.embed([folder.name], interrupted=self._interrupted)
        except ModelError as error:
            self._note(folder, "vectors", f"{error} Until then, queries search keywords only.")
        else:
            self._note(folder, "vectors", "")
            self._report_repaired(folder, repaired)
            if not self._is_cut_short:
                folder.due[Job.DUPLICATES] = self._clock()
        folder.due[Job.VECTORS] = self._clock() + self._settings.reconcile_seconds

    def _find_duplicates(self, folder: WatchedFolder) -> None:
        try:
            with closing(self._library.find_duplicates([folder.name])) as steps:
                for _ in steps:
                    if self._interrupted():
                        break
        except IndexDamagedError:
            self._repair(folder)

    def _merge(self, folder: WatchedFolder) -> None:
        self._library.merge([folder.name], idle="long" if folder.is_quiet else "short")

    def _repair(self, folder: WatchedFolder) -> None:
        """Check the whole index, and repair damage."""
        try:
            self._report_repaired(folder, self._library.repair([folder.name]))
        finally:
            with suppress(OSError):
                folder.folder.index_paths.repair.unlink(missing_ok=True)
        folder.due[Job.REPAIR] = self._clock() + self._settings.poll_seconds
        folder.due[Job.WORDS] = self._clock()

    def _report_repaired(self, folder: WatchedFolder, repaired: Sequence[str]) -> None:
        if repaired:
            self._note(folder, "repaired", " ".join(repaired))
            folder.due[Job.WORDS] = self._clock()

    def _note(self, folder: WatchedFolder, kind: MessageKind, sentence: str) -> None:
        if sentence != folder.notes.get(kind, ""):
            folder.notes[kind] = sentence
            self._send(Message(folder.name, kind, sentence))


# ------------------------------------------------------------------ the process


def run_indexer(arguments: Sequence[str]) -> int:
    """Run the indexer with the arguments of `indexer_command`; return the exit code.

    Users never type this command, so it needs no option parser.
    """
    defer_garbage_collection()
    limit_numeric_threads()
    if isinstance(sys.stderr, io.TextIOWrapper):
        # The server reads UTF-8; Windows encodes pipes in its regional encoding.
        sys.stderr.reconfigure(encoding="utf-8")
    names_at = arguments.index("--")
    opening, names = OpenOptions.from_arguments(arguments[:names_at]), arguments[names_at + 1 :]

    def work() -> int:
        keep_up_to_date(lambda: open_library(opening), names)
        return FOUND

    return run_command(work)


def keep_up_to_date(open_it: Callable[[], Library], only: Collection[str] = ()) -> None:
    """Keep indexes up to date until standard input closes.

    If `serve.watch.enabled` is false, index once.
    """
    threading.Thread(target=_exit_with_server, name="server watch", daemon=True).start()
    # Open the library last, so that this process exits even if the server dies in the meantime.
    library = open_it()
    resume_garbage_collection()
    # exit at once: nothing needs to be cleaned up
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    switch_threads_often()
    if library.config.serve.watch.enabled:
        IndexingLoop(library, _send, only=only).run()
    else:
        library.index(complete=False)
        library.index()


def _send(note: Message) -> None:
    with suppress(OSError):  # the server has ended
        sys.stderr.write(note.line())
        sys.stderr.flush()


def _exit_with_server() -> None:
    """Exit when standard input closes, which happens even if the server is killed."""
    # SQLite rolls back an unfinished commit.
    # Use os.read: the lock of a buffered reader would block the interpreter's exit.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    # on Windows, Ctrl-C reaches the child as well
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(run_indexer(sys.argv[1:]))
