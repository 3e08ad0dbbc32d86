"""Run the indexer as a child process. Only one of a folder's servers indexes the folder."""

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
"""Subject of a message from the indexer. "words" means that changes cannot be indexed."""

_STOPPED = (
    "Indexing stopped{}; answers come from the existing index. Indexing restarts automatically."
)
"""Message with an optional reason."""

_LOCK_SECONDS = 0.5
"""Interval between attempts to take a lock that another server holds."""

_RESTART_SECONDS, _LONGEST_RESTART_SECONDS = 1.0, 60.0
"""First and longest pause before restarting a child that died. The pause doubles each time."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message from the indexer to the user.

    An empty `sentence` withdraws the last message of the same folder and kind.
    """

    folder: str
    kind: MessageKind
    sentence: str

    def line(self) -> str:
        """Return the message as a line of JSON."""
        return f"{json.dumps(asdict(self))}\n"


def read_message(line: str) -> Message | None:
    """Parse the output of `Message.line`; return None for any other line."""
    try:
        return Message(**json.loads(line))
    except (ValueError, TypeError):
        return None


def postponed_message(folder: str, error: Exception) -> str:
    """Return the message that changes in a folder cannot be indexed."""
    return f"{folder}: cannot index changes ({error})"


class IndexerProcess:
    """The child process that indexes. If it cannot start, `notes` returns the reason."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[str] = deque(maxlen=20)
        self._notes: dict[tuple[str, MessageKind], Message] = {}  # current messages
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
                start_new_session=True,  # Ctrl-C is for the server, which stops the child
            )
        except OSError as error:
            self._failure = (
                f"Cannot start indexing ({error}); answers come from the existing index. To "
                "update the index, run `thumbindex index`."
            )
            return
        threading.Thread(
            target=self._listen, args=(self._process.stderr,), name="child's messages", daemon=True
        ).start()

    @property
    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Return whether the process died with an error."""
        return self._process is not None and self._process.poll() not in (None, 0)

    def notes(self, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Return why the process failed, or its current messages.

        If `only` is given, no other folder is mentioned.
        """
        status = self._process.poll() if self._process is not None else None
        # without a reason: it may name another folder
        if only is not None and (self._failure or status):
            return (_STOPPED.format(""),)
        if self._failure:
            return (self._failure,)
        if status:
            if status < 0:
                reason = f"ended by signal {-status}"
            else:
                reason = self._lines[-1] if self._lines else "no error message"
            return (_STOPPED.format(f" ({reason})"),)
        return tuple(
            note.sentence
            for note in self._current_messages()
            if only is None or note.folder in only
        )

    def write_failures(self, only: Collection[str]) -> tuple[str, ...]:
        """Return the reasons why the indexes of the folders in `only` cannot be written."""
        return tuple(
            note.sentence
            for note in self._current_messages()
            if note.kind == "words" and note.folder in only
        )

    def _current_messages(self) -> tuple[Message, ...]:
        with self._lock:
            return tuple(self._notes.values())

    def stop(self) -> None:
        """Kill the process. Committed changes are kept."""
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
                        last = self._notes.pop((note.folder, note.kind), None)
                        if note.sentence:
                            self._notes[note.folder, note.kind] = note
                    sentence = note.sentence or f"resolved: {last.sentence if last else ''}"
                    line = f"note: {one_line(sentence)}\n"
                if line.strip():
                    self._lines.append(line.strip())
                # a closed stderr must not stop this thread, or the child blocks
                with suppress(OSError, ValueError):
                    sys.stderr.write(line)


class IndexerSupervisor:
    """Runs one child process that indexes the folders whose locks this server holds.

    One of a folder's servers holds the lock. When that server ends, another server takes the lock
    and starts a child.
    """

    def __init__(
        self, command: Callable[[Sequence[str]], Sequence[str]], folders: Sequence[Folder]
    ) -> None:
        """Set up the supervisor.

        `command(names)` returns the command of a child that indexes the folders `names`. If
        `folders` is empty, `start` runs the command at once, without a lock.
        """
        self._command = command
        self._locks = {
            folder.name: library.WatchLock(folder.index_paths.watch) for folder in folders
        }
        self._started_for: Mapping[str, int] | None = None  # lock ids by folder, at the last start
        self._lock_failures: Mapping[str, str] = {}  # errors by folder
        self._child: IndexerProcess | None = None
        self._started_at, self._pause = 0.0, _RESTART_SECONDS
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Index the folders whose locks are free, and retry taken locks until `stop` is called."""
        self._check()
        threading.Thread(target=self._keep, name="indexer", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return whether this server has a running child."""
        return self._child is not None and self._child.is_running

    @property
    def has_failed(self) -> bool:
        """Return whether no child runs: the last child ended, or a lock file cannot be created."""
        return not self.is_running and (self._child is not None or bool(self._lock_failures))

    def notes(self, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Return messages about problems. If `only` is given, no other folder is mentioned."""
        child_notes = self._child.notes(only) if self._child else ()
        return (*self._lock_failures_of(only), *child_notes)

    def write_failures(self, only: Collection[str]) -> tuple[str, ...]:
        """Return the reasons why the indexes of the folders in `only` cannot be written."""
        child_failures = self._child.write_failures(only) if self._child else ()
        return (*self._lock_failures_of(only), *child_failures)

    def _lock_failures_of(self, only: Collection[str] | None) -> tuple[str, ...]:
        return tuple(
            sentence
            for name, sentence in self._lock_failures.items()
            if only is None or name in only
        )

    def stop(self) -> None:
        """Stop the child, then release the locks."""
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
        """Start or restart the child if the held locks changed or the child died."""
        with self._lock:
            if self._stopping.is_set():
                return
            locked, now = self._try_lock_all(), time.monotonic()
            if locked != self._started_for:
                self._started_for = locked
                self._start()
            elif self._child and self._child.has_failed and now >= self._started_at + self._pause:
                was_stable = now - self._started_at > 2 * _LONGEST_RESTART_SECONDS
                longer = min(2 * self._pause, _LONGEST_RESTART_SECONDS)
                self._pause = _RESTART_SECONDS if was_stable else longer
                self._start()

    def _try_lock_all(self) -> Mapping[str, int]:
        locked, failures = dict[str, int](), dict[str, str]()
        for name, lock in self._locks.items():
            try:
                if lock_id := lock.try_lock():
                    locked[name] = lock_id
            except StorageError as error:
                failures[name] = postponed_message(name, error)
        self._lock_failures = failures
        return locked

    def _start(self) -> None:
        if self._child is not None:
            self._child.stop()
        is_due = bool(self._started_for) or not self._locks
        self._child = (
            IndexerProcess(self._command(list(self._started_for or ()))) if is_due else None
        )
        self._started_at = time.monotonic()


def indexer_command(opening: OpenOptions, names: Sequence[str]) -> list[str]:
    """Return the command of a child that indexes the folders `names`, by default all folders."""
    # -P: the working directory is often a vault, whose files must never be imported.
    return [
        sys.executable,
        "-P",
        "-m",
        "thumbindex.background.indexer",
        *opening.arguments(),
        "--",
        *names,
    ]
