"""The child process of a server: it watches folders and keeps their indexes up to date.

All there is to do is a list of jobs. The most urgent one that is due comes first; of several
folders that wait for the same job, the one that was served longest ago.
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
"""How long a job goes on while another folder waits for the same job."""

MERGE_SECONDS = 5.0
"""After an edit it must be quiet for so long before segments are merged: the next edit should not
wait behind that.
"""

FIRST_VERIFY_SECONDS, VERIFY_SECONDS = 60.0, 24 * 3600.0
"""When an index is first read whole, and how often, to find what a failing disk has changed: it
costs a second of a core for each 20,000 chunks.
"""

_REQUEST_POLL_SECONDS = 0.1
"""Seconds between checks for request files: asks and repairs."""

REFRESH_SECONDS = 0.5
"""Seconds between two comparisons for readers who ask."""

_LONG_AGO, _NEVER = float("-inf"), float("inf")


class Job(IntEnum):
    """What there is to do in a folder, the most urgent first."""

    REPAIR = 1  # a reader has met damage
    WORDS = 2
    VECTORS = 3
    DUPLICATES = 4
    MERGE = 5  # segments of the keyword index
    VERIFY = 6  # look for damage


_LOW_PRIORITY = (Job.VECTORS, Job.DUPLICATES, Job.MERGE, Job.VERIFY)
"""Done on a thread of low priority while the loop waits: on Linux words keep the normal one."""


class WatchedFolder:
    """A folder, and when its jobs are due (on the monotonic clock)."""

    def __init__(self, folder: Folder, watch: Watch, now: float) -> None:
        self.folder, self.watch, self.name = folder, watch, folder.name
        self.due = dict.fromkeys(Job, _NEVER)
        self.due |= dict.fromkeys((Job.REPAIR, Job.WORDS, Job.VECTORS), now)
        self.due[Job.VERIFY] = now + FIRST_VERIFY_SECONDS
        self.served_at = dict.fromkeys(Job, _LONG_AGO)
        self.check_at = now
        self.requests_at = _LONG_AGO  # when readers' requests are read again
        self.is_quiet = False  # the last comparison found nothing to do
        self.notes: dict[MessageKind, str] = {}

    def due_at(self, job: Job) -> float:
        """Return when a job is due; never while the folder is gone."""
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
    """Keeps the indexes of folders up to the disk until it is stopped."""

    def __init__(
        self,
        library: Library,
        say: Callable[[Message], object],
        make_watch: Callable[..., Watch] = Watch,
        *,
        clock: Callable[[], float] = time.monotonic,
        only: Collection[str] = (),
    ) -> None:
        self._library, self._send, self._clock = library, say, clock
        self._settings = library.config.serve.watch
        self._wake = threading.Event()
        self._stopped = False
        self._folders = list[WatchedFolder]()
        for each in library.opened:
            if only and each.name not in only:
                continue
            watch = make_watch(
                each.root,
                each.index_paths.folder,
                self._settings,
                each.config.corpus,
                self._wake.set,
            )
            self._folders.append(WatchedFolder(each, watch, clock()))
        self._work: dict[Job, Callable[[WatchedFolder], None]] = {
            Job.REPAIR: self._repair,
            Job.WORDS: self._index_words,
            Job.VECTORS: self._embed,
            Job.DUPLICATES: self._find_duplicates,
            Job.MERGE: self._merge,
            Job.VERIFY: self._verify,
        }
        self._leisurely = ThreadPoolExecutor(1, "leisurely", initializer=lower_priority)
        self._job: Job | None = None  # the present one
        self._slice_ends: float | None = None
        self._is_cut_short = False

    def run(self) -> None:
        """Do what is due until `stop`."""
        try:
            while not self._stopped:
                pause = self.step()
                self._wake.wait(min(pause, _REQUEST_POLL_SECONDS))
                self._wake.clear()
        finally:
            self._leisurely.shutdown()
            for folder in self._folders:
                folder.watch.close()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stopped = True
        self._wake.set()

    def step(self) -> float:
        """Do the most urgent job that is due; return for how many seconds none is."""
        self._check()
        for job in Job:
            if waiting := self._folders_due(job):
                self._run_job(job, min(waiting, key=lambda each: each.served_at[job]))
                return 0.0
        now = self._clock()
        due = [folder.due_at(job) for folder in self._folders for job in Job]
        return max(0.0, min(due, default=_NEVER) - now)

    def _folders_due(self, job: Job) -> list[WatchedFolder]:
        now = self._clock()
        return [folder for folder in self._folders if folder.due_at(job) <= now]

    def _run_job(self, job: Job, each: WatchedFolder) -> None:
        self._job, self._slice_ends, self._is_cut_short = job, None, False
        each.due[job], each.served_at[job] = _NEVER, self._clock()
        try:
            if job in _LOW_PRIORITY:
                self._leisurely.submit(self._work[job], each).result()
            else:
                self._work[job](each)
        except (ThumbindexError, OSError) as error:
            self._postpone(job, each, error)
        else:
            if self._is_cut_short:
                each.due[job] = self._clock()
        self._job = None

    def _interrupted(self) -> bool:
        """Return True if the present job is to stop for another one; asked between two batches."""
        assert self._job
        self._check()
        now = self._clock()
        self._slice_ends = self._slice_ends or now + SLICE_SECONDS
        # a search for duplicates that is cut short begins again: two folders would never get theirs
        is_whole = self._job is Job.DUPLICATES
        is_over = not is_whole and now >= self._slice_ends and bool(self._folders_due(self._job))
        is_urgent = any(self._folders_due(job) for job in Job if job < self._job)
        self._is_cut_short = self._stopped or is_over or is_urgent
        return self._is_cut_short

    def _postpone(self, job: Job, each: WatchedFolder, error: ThumbindexError | OSError) -> None:
        """Retry a job after `poll_seconds`, and say why unless the folder is gone."""
        each.check_at = self._clock()
        again_at = self._clock() + self._settings.poll_seconds
        each.due[job] = each.due[Job.WORDS] = each.requests_at = again_at
        if not isinstance(error, UnknownFolderError):
            self._note(each, "words", postponed_message(each.name, error))
        elif each.folder.root.is_dir():
            self._note(each, "empty", str(error))

    # -------------------------------------------------------------- jobs

    def _check(self) -> None:
        """Look now and then whether the folders are there and can be watched."""
        for folder in self._folders:
            if self._clock() < folder.check_at:
                continue
            folder.watch.check()
            seconds, failure = self._settings.poll_seconds, folder.watch.failure
            folder.check_at = self._clock() + seconds
            gone = (
                f"The folder {folder.folder.root} is gone: nothing is deleted, answers come from "
                "what was indexed. It is taken up again when it is back."
            )
            unwatched = (
                f"{folder.name}: changes are looked for every {seconds:g} s, since the folder "
                f"cannot be watched ({failure}); where that is a limit of the system, raise it "
                "(Linux: sysctl fs.inotify.max_user_watches)."
            )
            self._note(folder, "folder", "" if folder.watch.folder_exists else gone)
            self._note(folder, "watch", unwatched if failure else "")

    def _index_words(self, each: WatchedFolder) -> None:
        """Compare the folder with its index, and take in what differs, large files last."""
        each.watch.debounce.clear()
        # what is due already, and who asks meanwhile, would cut this comparison short
        each.due[Job.WORDS] = self._clock() + self._settings.reconcile_seconds
        each.requests_at = _NEVER
        report = self._library.index(
            words_only=True, folder=[each.name], finish=False, interrupted=self._interrupted
        )
        self._note(each, "words", "")
        self._note(each, "empty", "")
        self._report_repaired(each, report.repaired)
        # an ask of another user's may stay, which nobody else can delete
        each.requests_at = (
            self._clock() + REFRESH_SECONDS if each.folder.has_refresh_request else _LONG_AGO
        )
        each.is_quiet = not (report.added or report.changed or report.removed)
        each.due[Job.MERGE] = self._clock() + MERGE_SECONDS
        if not each.is_quiet and not each.notes.get("vectors"):
            each.due[Job.VECTORS] = self._clock()

    def _embed(self, each: WatchedFolder) -> None:
        """Make vectors; look again once in a while for commits' dates, and for a model."""
        try:
            repaired = self._library.embed([each.name], interrupted=self._interrupted)
        except ModelError as error:
            self._note(each, "vectors", f"{error} Until then keywords alone are searched.")
        else:
            self._note(each, "vectors", "")
            self._report_repaired(each, repaired)
            if not self._is_cut_short:
                each.due[Job.DUPLICATES] = self._clock()
        each.due[Job.VECTORS] = self._clock() + self._settings.reconcile_seconds

    def _find_duplicates(self, each: WatchedFolder) -> None:
        try:
            with closing(self._library.find_duplicates([each.name])) as steps:
                for _ in steps:
                    if self._interrupted():
                        break
        except IndexDamagedError:
            each.due[Job.VERIFY] = self._clock()

    def _merge(self, each: WatchedFolder) -> None:
        self._library.merge([each.name], idle="long" if each.is_quiet else "short")

    def _repair(self, each: WatchedFolder) -> None:
        try:
            self._verify(each)
        finally:
            with suppress(OSError):
                each.folder.index_paths.repair.unlink(missing_ok=True)
        each.due[Job.REPAIR] = self._clock() + self._settings.poll_seconds
        each.due[Job.WORDS] = self._clock()

    def _verify(self, each: WatchedFolder) -> None:
        """Read the index whole, and repair it if it is damaged."""
        each.due[Job.VERIFY] = self._clock() + VERIFY_SECONDS
        self._report_repaired(each, self._library.repair([each.name]))

    def _report_repaired(self, each: WatchedFolder, repaired: Sequence[str]) -> None:
        if repaired:
            self._note(each, "repaired", " ".join(repaired))
            each.due[Job.WORDS] = self._clock()

    def _note(self, each: WatchedFolder, kind: MessageKind, sentence: str) -> None:
        if sentence != each.notes.get(kind, ""):
            each.notes[kind] = sentence
            self._send(Message(each.name, kind, sentence))


# ------------------------------------------------------------------ the process


def run_indexer(arguments: Sequence[str]) -> int:
    """Index what `indexer_command` wrote, as `keep_up_to_date` does; return the exit code.

    No user's command: no parser of options is imported.
    """
    defer_garbage_collection()
    limit_numeric_threads()
    if isinstance(sys.stderr, io.TextIOWrapper):
        # as the server reads it; Windows writes pipes in the encoding of its region
        sys.stderr.reconfigure(encoding="utf-8")
    names_at = arguments.index("--")
    opening, names = OpenOptions.from_arguments(arguments[:names_at]), arguments[names_at + 1 :]

    def work() -> int:
        keep_up_to_date(lambda: open_library(opening), names)
        return FOUND

    return run_command(work)


def keep_up_to_date(open_it: Callable[[], Library], only: Collection[str] = ()) -> None:
    """Keep the indexes up to the disk until the server at the other end of standard input is gone;
    without `serve.watch` only once.
    """
    threading.Thread(target=_exit_with_server, name="server watch", daemon=True).start()
    # Opened only now: a server that is killed while that goes on must not leave its child behind.
    library = open_it()
    resume_garbage_collection()
    # as for the end of the server: nothing has to be tidied up
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    switch_threads_often()
    if library.config.serve.watch.enabled:
        IndexingLoop(library, _send, only=only).run()
    else:
        library.index(words_only=True)
        library.index()


def _send(note: Message) -> None:
    with suppress(OSError):  # the server is about to be gone
        sys.stderr.write(note.line())
        sys.stderr.flush()


def _exit_with_server() -> None:
    """End this process when the server at the other end of standard input is gone."""
    # Even a killed server closes its end. What is committed stays; a commit under way is rolled
    # back by SQLite.
    # Read by descriptor: the lock of a buffered reader would stop the interpreter's own way out.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    # on Windows Ctrl-C in a terminal reaches the server's child as well
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(run_indexer(sys.argv[1:]))
