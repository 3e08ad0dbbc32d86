"""Keep the child process that indexes: one server of all on a folder has one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Literal

from thumbindex import library
from thumbindex.errors import StorageError
from thumbindex.opening import OpenOptions
from thumbindex.text import one_line

if TYPE_CHECKING:
    from thumbindex.library import Folder

MessageKind = Literal["words", "folder", "watch", "empty", "vectors", "repaired"]
"""What a note of the child is about; "words" says why an index cannot be written."""

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


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence of the child for the user; an empty one takes back the last one of its kind."""

    folder: str
    kind: MessageKind
    sentence: str

    def line(self) -> str:
        """Return the line of JSON that the child writes."""
        return f"{json.dumps(asdict(self))}\n"


def read_message(line: str) -> Message | None:
    """Read what `Message.line` wrote; None for any other line."""
    try:
        return Message(**json.loads(line))
    except (ValueError, TypeError):
        return None


def postponed_message(folder: str, error: Exception) -> str:
    """Return the sentence of a note about words that cannot be written."""
    return f"{folder}: changes wait ({error})"


class IndexerProcess:
    """A child process that indexes; where it cannot be started, it says so in its notes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[str] = deque(maxlen=20)
        self._notes: dict[tuple[str, MessageKind], Message] = {}  # those that still hold, in order
        self._lock = threading.Lock()
        self._failure = ""
        self._process: subprocess.Popen[str] | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the server, which ends the child
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
        """Return whether it is at work or waits for some."""
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
        return tuple(
            note.sentence
            for note in self._current_messages()
            if only is None or note.folder in only
        )

    def write_failures(self, only: Collection[str]) -> tuple[str, ...]:
        """Return why the indexes of these folders cannot be written."""
        return tuple(
            note.sentence
            for note in self._current_messages()
            if note.kind == "words" and note.folder in only
        )

    def _current_messages(self) -> tuple[Message, ...]:
        with self._lock:
            return tuple(self._notes.values())

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
                if note := read_message(line):
                    with self._lock:
                        before = self._notes.pop((note.folder, note.kind), None)
                        if note.sentence:
                            self._notes[note.folder, note.kind] = note
                    said = note.sentence or f"no longer so: {before.sentence if before else ''}"
                    line = f"note: {one_line(said)}\n"
                if line.strip():
                    self._lines.append(line.strip())
                # who reads our messages may be gone; the child must not die of it
                with suppress(OSError, ValueError):
                    sys.stderr.write(line)


class IndexerSupervisor:
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
        self._locks = {
            folder.name: library.WatchLock(folder.index_paths.watch) for folder in folders
        }
        self._started_for: Mapping[str, int] | None = None  # locks by name
        self._lock_failures: Mapping[str, str] = {}  # why a folder's lock cannot be made
        self._child: IndexerProcess | None = None
        self._began, self._pause = 0.0, _RESTART_SECONDS
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Take the locks that are free, and keep trying until `stop`."""
        self._check()
        threading.Thread(target=self._keep, name="indexer", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return True if this server has a child that indexes."""
        return self._child is not None and self._child.is_running

    @property
    def has_failed(self) -> bool:
        """Return True if the child has ended, or no lock can be made."""
        return not self.is_running and (self._child is not None or bool(self._lock_failures))

    def notes(self, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Return what is wrong in words; with `only`, what concerns these folders and names no
        other.
        """
        of_child = self._child.notes(only) if self._child else ()
        return (*self._lock_failures_of(only), *of_child)

    def write_failures(self, only: Collection[str]) -> tuple[str, ...]:
        """Return why the indexes of these folders cannot be written."""
        of_child = self._child.write_failures(only) if self._child else ()
        return (*self._lock_failures_of(only), *of_child)

    def _lock_failures_of(self, only: Collection[str] | None) -> tuple[str, ...]:
        return tuple(
            sentence
            for name, sentence in self._lock_failures.items()
            if only is None or name in only
        )

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
            self._check()

    def _check(self) -> None:
        """Start a child if other locks are held than before, or the last child died."""
        with self._lock:
            if self._stopping.is_set():
                return
            held, now = self._try_lock_all(), time.monotonic()
            if held != self._started_for:
                self._started_for = held
                self._start()
            elif self._child and self._child.has_failed and now >= self._began + self._pause:
                lived = now - self._began > 2 * _LONGEST_RESTART_SECONDS
                longer = min(2 * self._pause, _LONGEST_RESTART_SECONDS)
                self._pause = _RESTART_SECONDS if lived else longer
                self._start()

    def _try_lock_all(self) -> Mapping[str, int]:
        held, refused = dict[str, int](), dict[str, str]()
        for name, lock in self._locks.items():
            try:
                if taken := lock.try_lock():
                    held[name] = taken
            except StorageError as error:
                refused[name] = postponed_message(name, error)
        self._lock_failures = refused
        return held

    def _start(self) -> None:
        if self._child is not None:
            self._child.stop()
        is_due = bool(self._started_for) or not self._locks
        self._child = (
            IndexerProcess(self._command(list(self._started_for or ()))) if is_due else None
        )
        self._began = time.monotonic()


def indexer_command(opening: OpenOptions, names: Sequence[str]) -> list[str]:
    """Return how to start the child that indexes these folders of what an opening describes; all
    if none is named.
    """
    # -P: the server's working directory is often a vault, whose files must never be imported.
    return [
        sys.executable,
        "-P",
        "-m",
        "thumbindex.background.indexer",
        *opening.arguments(),
        "--",
        *names,
    ]
