"""The child process that indexes for a server: elected for a folder, it keeps that folder's index up to date."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from thumbindex import process
from thumbindex.errors import ModelError, StorageError, ThumbindexError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.library.folders import Folder
from thumbindex.model import IndexReport, Pause, Progress
from thumbindex.process import collect_as_usual, collect_rarely, compute_on_one_thread, take_short_turns
from thumbindex.serve.child_handle import NOTED, OVER, PROGRESS, REPAIR
from thumbindex.serve.child_handle import about as line_about
from thumbindex.serve.opening import FOUND, Opening, open_library, outcome
from thumbindex.serve.watch import Watch

TOLD_SECONDS = 0.5
"""Between two lines about progress."""


class Told:
    """Says how far a run is, at most every half second, and its end where its middle was said."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._last = float("-inf")
        self._unfinished = ("", "")
        self._lock = threading.Lock()

    def __call__(self, progress: Progress) -> None:
        """Take note of how far it is."""
        with self._lock:
            now, phase, is_end = self._clock(), (progress.folder, progress.phase), progress.done == progress.total
            if now - self._last >= TOLD_SECONDS or (is_end and phase == self._unfinished):
                self._last, self._unfinished = now, ("", "") if is_end else phase
                facts = {name: value for name, value in asdict(progress).items() if name != "pid"}  # the server knows its child
                self._say(f"{PROGRESS}{json.dumps(facts, ensure_ascii=False)}\n")


_PAUSE_SECONDS = 0.05
"""How soon a pause between vectors ends when words are due."""


class Share:
    """Says how long to pause so that this process takes no more than its share of all cores; each batch is paid for after it."""

    def __init__(
        self,
        share: float,
        cores: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self._allowed = share * (cores or process.cores())
        self._is_bound = share < 1
        self._clock, self._used = clock, used
        self._began, self._before = clock(), used()

    def owed(self) -> float:
        """Return for how many seconds to pause now; 0.0 where less than the share was taken since `begin`."""
        if not self._is_bound:
            return 0.0
        return max(0.0, (self._used() - self._before) / self._allowed - (self._clock() - self._began))

    def begin(self) -> None:
        """Count from now on: what was not taken is not saved up."""
        self._began, self._before = self._clock(), self._used()


class Turn:
    """Asked between two batches: pauses where more than a share of the processor was taken, tells when to stop, and remembers that it did."""

    def __init__(self, is_due: Callable[[], bool], share: Share | None = None) -> None:
        self.was_cut_short = False
        self._is_due, self._share = is_due, share

    def __call__(self) -> bool:
        """Tell whether to stop."""
        while self._share and not self._is_due() and (owed := self._share.owed()):
            time.sleep(min(owed, _PAUSE_SECONDS))
        if self._share:
            self._share.begin()
        self.was_cut_short = self._is_due()
        return self.was_cut_short


_LOOK_SECONDS = 0.2
"""How long the lock is tried for: whoever looks whether it is held has it for a moment, and that must cost no election."""

ELECTION_SECONDS = 1.0
"""How often one that was not elected stands again: it takes over within two seconds of the end of the one that was."""

SCRUB_SECONDS = 24 * 3600.0
"""How often an index is read whole, to find what a failing disk has changed: it costs a second of a core for each 20,000 chunks."""

FIRST_SCRUB_SECONDS = 60.0
"""When it is read whole for the first time: a server that has just begun has other things to do."""

MERGE_SECONDS = 5.0
"""After an edit it must be quiet for so long before segments are merged: the next edit should not wait behind that."""

WORDS_SECONDS = 4.0
"""For so long words are taken in before newer ones come first: where each save cut short the run before it, older texts would never come."""

READ_SECONDS = 0.2
"""Between a text's words and its vectors: whoever asks opens the words meanwhile, and vectors would take the processor from them."""

_FAR = float("inf")


class Tended:
    """One folder, and what is due in it and when (on the monotonic clock)."""

    def __init__(self, folder: Folder, watch: Watch) -> None:
        self.folder, self.watch = folder, watch
        self.stand_at = self.look_at = self.reconcile_at = 0.0
        self.vectors_at = self.scrub_at = self.merge_at = _FAR
        self.is_quiet = False  # the last comparison found nothing to do
        self.notes: dict[str, str] = {}  # by what they are about
        self.large: Future[IndexReport] | None = None  # large files that are being taken in
        self.more_large = False  # others, or other texts of theirs, since
        self._lock = FileLock(self.folder.places.watch, thread_local=False)
        self._inode = 0

    @property
    def elected(self) -> bool:
        """Tell whether this process is the one that tends the folder."""
        return self._lock.is_locked

    def stand(self, now: float) -> None:
        """Stand for election; give the office up where its lock was deleted with the index: another one may have been elected since."""
        if self.elected and self._inode != _inode(self.folder.places.watch):
            self._lock.release()
        if not self.elected and now >= self.stand_at:
            self.stand_at = now + ELECTION_SECONDS
            if self._acquire():
                self.look_at, self.reconcile_at, self.vectors_at, self.scrub_at = 0.0, now, now, now + FIRST_SCRUB_SECONDS

    def resign(self) -> None:
        """Stop watching and let another one be elected."""
        self.watch.close()
        self._lock.release()

    def words_at(self) -> float:
        """Return when the folder is to be compared with the disk; never while it is gone."""
        if not self.watch.is_there:
            return _FAR
        due = self.watch.quiet.due()
        return self.reconcile_at if due is None else min(self.reconcile_at, due)

    def next_at(self) -> float:
        """Return when there is something to do again."""
        if not self.elected:
            return self.stand_at
        return min(self.look_at, self.words_at(), *((self.vectors_at, self.merge_at, self.scrub_at) if self.watch.is_there else ()))

    def is_settled(self) -> bool:
        """Tell whether nothing is due or under way but the next comparison."""
        return self.large is None and self.vectors_at == _FAR and self.watch.quiet.due() is None

    def _acquire(self) -> bool:
        try:
            self.folder.places.watch.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=_LOOK_SECONDS)
        except Timeout:
            return False
        except OSError as error:
            place = self.folder.places.watch.parent
            raise StorageError(f"The index folder {place} cannot be written ({error.strerror}): choose another one with --index.") from error
        self._inode = _inode(self.folder.places.watch)
        return True


class Live:
    """Tends folders until it is stopped: words at once, those of large files on a thread of their own, vectors when no words are due."""

    def __init__(self, library: Library, say: Callable[[str], object], make_watch: Callable[..., Watch] = Watch) -> None:
        self._library, self._say = library, say
        self._settings = library.config.serve.watch
        self._wake = threading.Event()
        self._stopped = self._again = False
        self._working = True
        self._told = Told(say)
        self._aside = ThreadPoolExecutor(1, "large files")
        self._folders = [Tended(each, self._make(each, make_watch)) for each in library.opened]

    def _make(self, folder: Folder, make_watch: Callable[..., Watch]) -> Watch:
        return make_watch(folder.root, folder.places.folder, self._settings, folder.config.corpus, self._wake.set)

    def run(self) -> None:
        """Tend the folders until `stop`."""
        try:
            while not self._stopped:
                pause = self.step()
                self._working = pause == 0.0
                self._wake.wait(pause)
                self._wake.clear()
                self._working = True
        finally:
            self._stopped = True
            self._aside.shutdown()
            for each in self._folders:
                each.resign()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stopped = True
        self._wake.set()

    def again(self) -> None:
        """Repair what is damaged, whoever is elected, and compare every folder with its index at once, from another thread."""
        self._again = True
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Tell whether all that was found on disk is indexed, vectors too."""
        return not self._working and all(each.elected and each.is_settled() for each in self._folders)

    def step(self) -> float:
        """Do the one thing that is due first; return for how many seconds there is nothing more to do."""
        if self._again:
            self._again = False
            self._mend()
        self._attend()
        now = time.monotonic()
        tended = [each for each in self._folders if each.elected and each.watch.is_there]
        words = min(tended, key=Tended.words_at, default=None)
        vectors = min(tended, key=lambda each: each.vectors_at, default=None)
        merge = min(tended, key=lambda each: each.merge_at, default=None)
        scrub = min(tended, key=lambda each: each.scrub_at, default=None)
        if words and words.words_at() <= now:
            self._keep_words(words)
        elif vectors and vectors.vectors_at <= now:
            self._keep_vectors(vectors)
        elif merge and merge.merge_at <= now:
            merge.merge_at = _FAR
            self._merge(merge, "leisure" if merge.is_quiet else "while")
        elif scrub and scrub.scrub_at <= now:
            self._scrub(scrub)
        else:
            return max(0.0, min((each.next_at() for each in self._folders), default=now + ELECTION_SECONDS) - now)
        return 0.0

    def _attend(self) -> None:
        """Do what is quick for each folder: stand for election, look whether it is there, take in the end of a large file."""
        now = time.monotonic()
        for each in self._folders:
            try:
                each.stand(now)
            except StorageError as error:
                self._note(each, "words", f"{each.folder.name}: changes wait ({error})")
            if each.elected and now >= each.look_at:
                self._look(each)
            self._finish_large(each)

    def _look(self, each: Tended) -> None:
        each.watch.look()
        each.look_at = time.monotonic() + self._settings.poll_seconds
        name, failure = each.folder.name, each.watch.failure
        gone = f"The folder {each.folder.root} is gone: nothing is deleted, answers come from what was indexed. It is taken up again when it is back."
        unwatched = (
            f"{name}: changes are looked for every {self._settings.poll_seconds:g} s, since the folder cannot be watched ({failure}); "
            "where that is a limit of the system, raise it (Linux: sysctl fs.inotify.max_user_watches)."
        )
        self._note(each, "folder", "" if each.watch.is_there else gone)
        self._note(each, "watch", unwatched if failure else "")

    def _keep_words(self, each: Tended) -> None:
        reconciled = each.reconcile_at <= time.monotonic()
        if reconciled:
            # from now on: what is due already would cut this very run short
            each.reconcile_at = time.monotonic() + self._settings.reconcile_seconds
        each.watch.quiet.clear()
        turn = Turn(partial(self._are_words_due, not_before=time.monotonic() + WORDS_SECONDS))
        try:
            report = self._index(each, turn)
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            self._note(each, "words", "")
            self._note(each, "empty", "")
            self._tell_mended(each, report.mended)
            each.look_at = time.monotonic() + self._settings.poll_seconds if each.watch.failure else each.look_at
            if report.left and turn.was_cut_short:
                each.reconcile_at = time.monotonic()
            elif report.left:
                self._take_large(each)
            each.is_quiet = not (report.added or report.changed or report.removed)
            each.merge_at = time.monotonic() + MERGE_SECONDS
            if reconciled or ((report.added or report.changed or report.removed) and not each.notes.get("vectors")):
                each.vectors_at = min(each.vectors_at, time.monotonic() + READ_SECONDS)

    def _keep_vectors(self, each: Tended) -> None:
        """Embed until all is done, or words are due somewhere."""
        turn = Turn(self._are_words_due, Share(self._settings.share))
        try:
            mended = self._library.embed([each.folder.name], interrupted=turn, progress=self._told)
        except ModelError as error:
            self._note(each, "vectors", f"{error} Until then keywords alone are searched.")
            each.vectors_at = time.monotonic() + self._settings.reconcile_seconds
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
            each.vectors_at = each.reconcile_at
        else:
            self._note(each, "vectors", "")
            self._tell_mended(each, mended)
            each.vectors_at = time.monotonic() if turn.was_cut_short else _FAR
            if not turn.was_cut_short:
                self._merge(each, "moment")

    def _merge(self, each: Tended, pause: Pause) -> None:
        """Merge the keyword index's segments, as many as the time allows."""
        try:
            self._library.merge([each.folder.name], pause=pause)
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)

    def _mend(self) -> None:
        """Repair what somebody has found damaged; its words are read anew at once, by this process where nobody else would soon."""
        for each in self._folders:
            self._scrub(each)
            each.reconcile_at = time.monotonic()
            if each.notes.get("mended") and not each.elected:
                self._keep_words(each)

    def _scrub(self, each: Tended) -> None:
        """Read the index whole, and repair it where that is due."""
        each.scrub_at = time.monotonic() + SCRUB_SECONDS
        try:
            mended = self._library.repair([each.folder.name], progress=self._told)
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            self._tell_mended(each, mended)

    def _tell_mended(self, each: Tended, mended: Sequence[str]) -> None:
        if mended:
            self._note(each, "mended", " ".join(mended))
            each.reconcile_at = time.monotonic()

    def _index(self, each: Tended, turn: Turn) -> IndexReport:
        """Take in the words of what is small."""
        return self._library.index(words_only=True, folder=[each.folder.name], interrupted=turn, sizes="small", progress=self._told)

    def _take_large(self, each: Tended) -> None:
        if each.large is not None:
            each.more_large = True
            return
        each.large = self._aside.submit(
            self._library.index, words_only=True, folder=[each.folder.name], interrupted=lambda: self._stopped, sizes="large", progress=self._told
        )
        each.large.add_done_callback(lambda _: self._wake.set())

    def _finish_large(self, each: Tended) -> None:
        if each.large is None or not each.large.done():
            return
        taken, each.large = each.large, None
        try:
            taken.result()
        except (ThumbindexError, OSError) as error:
            self._postpone(each, error)
        else:
            each.vectors_at = time.monotonic()
        if each.more_large:
            each.more_large = False
            self._take_large(each)

    def _postpone(self, each: Tended, error: ThumbindexError | OSError) -> None:
        """Try again in a while; a folder that went in the middle is noted by the next look."""
        each.look_at = time.monotonic()
        each.reconcile_at = time.monotonic() + self._settings.poll_seconds
        if not isinstance(error, UnknownFolderError):
            self._note(each, "words", f"{each.folder.name}: changes wait ({error})")
        elif each.folder.root.is_dir():
            self._note(each, "empty", str(error))

    def _are_words_due(self, not_before: float = 0.0) -> bool:
        """Tell whether to leave vectors, or older words, for later; asked between two batches, so that nothing quick waits for all of them."""
        self._attend()
        now = time.monotonic()
        due = now >= not_before and any(each.elected and each.words_at() <= now for each in self._folders)
        return self._stopped or self._again or due

    def _note(self, each: Tended, about: str, sentence: str) -> None:
        before = each.notes.get(about, "")
        if sentence != before:
            each.notes[about] = sentence
            if before:
                self._say(line_about(OVER, each.folder.name, before))
            if sentence:
                self._say(line_about(NOTED, each.folder.name, sentence))


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def main(arguments: Sequence[str]) -> int:
    """Index what `Opening.arguments` wrote, as `work_for_server` does; return the exit code. No user's command: no parser of options is imported."""
    collect_rarely()
    compute_on_one_thread()

    def work() -> int:
        work_for_server(lambda: open_library(Opening.from_arguments(arguments)))
        return FOUND

    return outcome(work)


def work_for_server(open_it: Callable[[], Library]) -> None:
    """Keep the indexes up to the disk until the server at the other end of standard input is gone; without `serve.watch` only once."""
    wished: list[Callable[[], None]] = []  # what a wish of the server calls, as soon as there is something to call
    threading.Thread(target=_leave_with_server, args=(wished,), name="server watch", daemon=True).start()
    # Imported and opened only now: a server that is killed while that goes on must not leave its child behind.

    library = open_it()
    collect_as_usual()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave_on_signal)
    take_short_turns()
    if library.config.serve.watch.enabled:
        live = Live(library, _say)
        wished.append(live.again)
        live.run()
    else:
        library.index(words_only=True)
        library.index()


def _say(line: str) -> None:
    with suppress(OSError):  # the server is about to be gone
        sys.stderr.write(line)
        sys.stderr.flush()


def _leave_with_server(wished: Sequence[Callable[[], None]]) -> None:
    """Do as the server says, a line a wish; leave when it is gone."""
    # Even a killed server closes its end. What is committed stays; a commit under way is rolled back by SQLite.
    # Read by descriptor: the lock of a buffered reader would stop the interpreter's own way out.
    rest = b""
    while received := os.read(0, 4096):
        *lines, rest = (rest + received).split(b"\n")
        if REPAIR.encode() in (line.strip() for line in lines):
            for wish in wished:
                wish()
    os._exit(0)


def _leave_on_signal(number: int, _: object) -> None:
    os._exit(128 + number)  # as for the end of the server: nothing has to be tidied up
