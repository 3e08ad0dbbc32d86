"""Keep the child process that indexes: one server of all on a folder has one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import IO

from thumbindex.errors import StorageError
from thumbindex.library import Folder, WatchLock
from thumbindex.model import Progress
from thumbindex.serve.opening import Opening
from thumbindex.text import one_line

NOTED, OVER = "note", "over"
"""How a line of the child begins that says what the user should know, and that it holds no longer.
"""

WAITS = "changes wait"
"""What a note of the child says of a folder whose index cannot be written."""

_PROGRESS = "progress: "

_STOPPED = (
    "Indexing stopped{}; answers come from what is indexed so far. It is started again in a while."
)
"""With the reason, but for those who see some folders only: the reason may name another one."""

_LOCK_SECONDS = 0.5
"""Between two attempts to take the lock that another server holds: one takes over within two
seconds of the other's end.
"""

_RESTART_SECONDS, _LONGEST_RESTART_SECONDS = 1.0, 60.0
"""First and longest pause between two starts of a child that dies: it doubles each time."""

_RATE_SECONDS = 1.0
"""Of work that are seen before it is said how long the rest takes."""

_STALE_SECONDS = 30.0
"""After this long without a word about it, work is taken to be over: the last step of one that
failed is never said.
"""


def note_line(kind: str, folder: str, sentence: str) -> str:
    """Write a line of the child about a folder, as `note in "notes": It is away.`"""
    return f"{kind} in {json.dumps(folder)}: {one_line(sentence)}\n"


def progress_line(progress: Progress) -> str:
    """Write a line of the child about how far it is."""
    # The server knows its child, and sees the rate itself.
    facts = {
        name: value
        for name, value in asdict(progress).items()
        if name not in {"pid", "seconds_left"}
    }
    return f"{_PROGRESS}{json.dumps(facts, ensure_ascii=False)}\n"


def read_progress(line: str) -> Progress | None:
    """Read what `progress_line` wrote; None for any other line."""
    if not line.startswith(_PROGRESS):
        return None
    try:
        return Progress(**json.loads(line.removeprefix(_PROGRESS)))
    except (ValueError, TypeError):
        return None  # cut off by the child's end


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Have a process that is started meanwhile hear of no Ctrl-C: it ignores it itself, and until
    it can it would print where it was.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Child:
    """A child process that indexes; where it cannot be started, it says so in its notes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[str] = deque(maxlen=20)
        # those that still hold, in order: folder and sentence
        self._notes: dict[tuple[str, str], None] = {}
        # by folder and phase, with when it was said
        self._progress: dict[tuple[str, str], tuple[float, Progress]] = {}
        # the same of the first word about the work that is at hand
        self._began: dict[tuple[str, str], tuple[float, Progress]] = {}
        self._lock = threading.Lock()
        self._failure = ""
        self._process: subprocess.Popen[str] | None = None
        try:
            with _uninterrupted():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                )
        except OSError as error:
            self._failure = (
                f"Indexing cannot be started ({error}); answers come from what is indexed so far. "
                "Run `thumbindex index`."
            )
            return
        threading.Thread(
            target=self._listen, args=(self._process.stderr,), name="child's messages", daemon=True
        ).start()

    @property
    def is_running(self) -> bool:
        """Tell whether it is at work or waits for some."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Return True if it died and may be started again."""
        return self._process is not None and self._process.poll() not in (None, 0)

    def notes(self, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Return in words what is wrong with it, or what it said that still holds; with `only`,
        what concerns these folders and names no other.
        """
        status = self._process.poll() if self._process is not None else None
        if only is not None and (self._failure or status):
            return (_STOPPED.format(""),)
        if self._failure:
            return (self._failure,)
        if status:
            if status < 0:
                last = f"ended by signal {-status}"
            else:
                last = self._lines[-1] if self._lines else "it left no message"
            return (_STOPPED.format(f" ({last})"),)
        with self._lock:
            return tuple(
                sentence for folder, sentence in self._notes if only is None or folder in only
            )

    def progress(self) -> tuple[Progress, ...]:
        """Return how far it is with what it is at; empty where it is at nothing, or another process
        does the work.
        """
        if not self.is_running:
            return ()
        oldest = time.monotonic() - _STALE_SECONDS
        with self._lock:
            return tuple(
                replace(each, seconds_left=_seconds_left(*self._began[key], said_at, each))
                for key, (said_at, each) in self._progress.items()
                if each.done < each.total and said_at > oldest
            )

    def stop(self) -> None:
        """End it: what it has committed stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()

    def _listen(self, messages: IO[str]) -> None:
        with messages:
            for line in messages:
                if line.startswith(_PROGRESS):
                    if progress := read_progress(line):
                        key, now = (progress.folder, progress.phase), time.monotonic()
                        with self._lock:
                            said_at, last = self._progress.get(key, (float("-inf"), progress))
                            if (
                                key not in self._began
                                or now > said_at + _STALE_SECONDS
                                or (last.total, last.done) > (progress.total, progress.done)
                            ):
                                self._began[key] = (now, progress)
                            self._progress[key] = (now, progress)
                    continue
                if line.strip():
                    self._lines.append(line.strip())
                with self._lock:
                    if (note := _read_note(line, NOTED)) is not None:
                        self._notes[note] = None
                    if (note := _read_note(line, OVER)) is not None:
                        self._notes.pop(note, None)
                        # to whoever reads the server's log
                        line = f"no longer so{line.removeprefix(OVER)}"
                # who reads our messages may be gone; the child must not die of it
                with suppress(OSError, ValueError):
                    sys.stderr.write(line)


def _seconds_left(began: float, first: Progress, said_at: float, last: Progress) -> int | None:
    """Return how long work takes from now on at the rate that was seen; None where little of it was
    seen.
    """
    done, seconds = last.done - first.done, said_at - began
    if done <= 0 or seconds < _RATE_SECONDS:
        return None
    return max(1, round((last.total - last.done) * seconds / done - (time.monotonic() - said_at)))


def _read_note(line: str, kind: str) -> tuple[str, str] | None:
    """Read folder and sentence of such a line, or of `note: …`, which is about none; None for any
    other line.
    """
    if line.startswith(f"{kind}: "):
        return "", line.removeprefix(f"{kind}: ").strip()
    if not line.startswith(f"{kind} in "):
        return None
    try:
        folder, end = json.JSONDecoder().raw_decode(line, len(f"{kind} in "))
    except ValueError:
        return None
    return str(folder), line[end:].removeprefix(":").strip()


class Indexer:
    """Runs one child that indexes the folders whose lock this server holds.

    Of several servers on a folder one holds its lock, and indexes. If that server ends, another
    one takes the lock and starts a child.
    """

    def __init__(
        self, command: Callable[[Sequence[str]], Sequence[str]], folders: Sequence[Folder]
    ) -> None:
        """Take the child's command by names of folders; without folders, there is no lock to wait
        for.
        """
        self._command = command
        self._locks = {each.name: WatchLock(each.places.watch) for each in folders}
        self._tended: Mapping[str, int] | None = None  # the locks that the child was started for
        self._refused: Mapping[str, str] = {}  # why a folder's lock cannot be made
        self._child: Child | None = None
        self._began, self._pause = 0.0, _RESTART_SECONDS
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Take the locks that are free, and keep trying until `stop`."""
        self._look()
        threading.Thread(target=self._keep, name="indexer", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return True if this server has a child that indexes."""
        return self._child is not None and self._child.is_running

    @property
    def is_stuck(self) -> bool:
        """Return True if the child has ended, or no lock can be made."""
        return not self.is_running and (self._child is not None or bool(self._refused))

    def notes(self, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Return what is wrong in words; with `only`, what concerns these folders and names no
        other.
        """
        refused = (note for name, note in self._refused.items() if only is None or name in only)
        return (*refused, *(self._child.notes(only) if self._child else ()))

    def unwritable(self, only: Collection[str]) -> tuple[str, ...]:
        """Return why the indexes of these folders cannot be written."""
        return tuple(each for each in self.notes(only) if WAITS in each)

    def progress(self) -> tuple[Progress, ...]:
        """Return how far the child is."""
        return self._child.progress() if self._child else ()

    def stop(self) -> None:
        """End the child, then let another server have the folders."""
        self._stopping.set()
        with self._lock:
            if self._child is not None:
                self._child.stop()
            for lock in self._locks.values():
                lock.release()

    def _keep(self) -> None:
        while not self._stopping.wait(_LOCK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Start a child if other locks are held than before, or the last child died."""
        with self._lock:
            if self._stopping.is_set():
                return
            held, now = self._try_locks(), time.monotonic()
            if held != self._tended:
                self._tended = held
                self._start()
            elif self._child and self._child.has_failed and now >= self._began + self._pause:
                lived = now - self._began > 2 * _LONGEST_RESTART_SECONDS
                longer = min(2 * self._pause, _LONGEST_RESTART_SECONDS)
                self._pause = _RESTART_SECONDS if lived else longer
                self._start()

    def _try_locks(self) -> Mapping[str, int]:
        held, refused = dict[str, int](), dict[str, str]()
        for name, lock in self._locks.items():
            try:
                if taken := lock.try_lock():
                    held[name] = taken
            except StorageError as error:
                refused[name] = f"{name}: {WAITS} ({error})"
        self._refused = refused
        return held

    def _start(self) -> None:
        if self._child is not None:
            self._child.stop()
        is_due = bool(self._tended) or not self._locks
        self._child = Child(self._command(list(self._tended or ()))) if is_due else None
        self._began = time.monotonic()


def child_command(opening: Opening, names: Sequence[str]) -> list[str]:
    """Return how to start the child that indexes these folders of what an opening describes; all
    if none is named.
    """
    # -P: the server's working directory is often a vault, whose files must never be imported.
    return [
        sys.executable,
        "-P",
        "-m",
        "thumbindex.serve.child",
        *opening.arguments(),
        "--",
        *names,
    ]
