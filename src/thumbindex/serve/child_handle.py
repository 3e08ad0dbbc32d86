"""The child process as the server sees it: its start, what it reports, and its end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import IO

from thumbindex.model import Progress

NOTED, OVER, PROGRESS = "note", "over", "progress: "
"""How a line of the child begins that says what the user should know, that it holds no longer, and how far it is (JSON of model.Progress)."""

Names = Collection[str]
"""Folders by name."""

REPAIR = "repair"
"""The line that asks the child to index again at once: somebody met damage."""

_STOPPED = "Indexing stopped; answers come from what is indexed so far. It is started again in a while."
"""For those who see some folders only: what it stopped of may name another one."""

_REPAIR_SECONDS = 2.0
"""Between two such lines: many queries may meet the same damage."""

_STALE_SECONDS = 30.0
"""After this long without a word about it, work is taken to be over: the last step of one that failed is never told."""


class Child:
    """A child process that indexes; where it cannot be started, it says so in its notes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._said: deque[str] = deque(maxlen=20)
        self._noted: dict[tuple[str, str], None] = {}  # what it said that still holds, in order: about which folder, and the sentence
        self._progress: dict[tuple[str, str], tuple[float, Progress]] = {}  # by folder and phase, with when it was told
        self._repair_asked = float("-inf")
        self._lock = threading.Lock()
        self._failure = ""
        self._process: subprocess.Popen[str] | None = None
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
            )
        except OSError as error:
            self._failure = f"Indexing cannot be started ({error}); answers come from what is indexed so far. Run `thumbindex index`."
            return
        threading.Thread(target=self._listen, args=(self._process.stderr,), name="child's messages", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Tell whether it is at work or waits for some."""
        return self._process is not None and self._process.poll() is None

    def notes(self, only: Names | None = None) -> tuple[str, ...]:
        """Return in words what is wrong with it, or what it said that still holds; with `only`, what concerns these folders and names no other."""
        if self._failure:
            return (self._failure,) if only is None else (_STOPPED,)
        if self._process is not None and self._process.poll() not in (None, 0):
            if only is not None:
                return (_STOPPED,)
            status = self._process.poll() or 0
            ended_by = f"ended by signal {-status}" if status < 0 else ""
            last = ended_by or (self._said[-1] if self._said else "it left no message")
            return (f"Indexing stopped ({last}); answers come from what is indexed so far. It is started again in a while.",)
        with self._lock:
            return tuple(sentence for folder, sentence in self._noted if only is None or folder in only)

    def progress(self) -> tuple[Progress, ...]:
        """Return how far it is with what it is at; empty where it is at nothing, or another process does the work."""
        if not self.is_running:
            return ()
        oldest = time.monotonic() - _STALE_SECONDS
        with self._lock:
            return tuple(each for told, each in self._progress.values() if each.done < each.total and told > oldest)

    def repair(self) -> None:
        """Ask it to index again at once."""
        with self._lock:
            if not self.is_running or time.monotonic() < self._repair_asked + _REPAIR_SECONDS:
                return
            self._repair_asked = time.monotonic()
            try:
                if self._process and self._process.stdin:
                    self._process.stdin.write(f"{REPAIR}\n")
                    self._process.stdin.flush()
            except (OSError, ValueError):
                return  # it has just ended: the notes say so

    def wait(self) -> int | None:
        """Wait for its end and return its exit status; None where it could not be started."""
        return None if self._process is None else self._process.wait()

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
                if line.startswith(PROGRESS):
                    self._take_progress(line.removeprefix(PROGRESS))
                    continue
                self._take(line)
                with suppress(OSError, ValueError):  # who reads our messages may be gone; the child must not die of it
                    sys.stderr.write(line)

    def _take(self, line: str) -> None:
        if line.strip():
            self._said.append(line.strip())
        with self._lock:
            if (said := _read_about(line, NOTED)) is not None:
                self._noted[said] = None
            if (said := _read_about(line, OVER)) is not None:
                self._noted.pop(said, None)

    def _take_progress(self, written: str) -> None:
        try:
            progress = Progress(**json.loads(written))
        except (ValueError, TypeError):
            return  # cut off by its end
        with self._lock:
            self._progress[progress.folder, progress.phase] = (time.monotonic(), progress)


def about(kind: str, folder: str, sentence: str) -> str:
    """Write a line of the child about a folder, as `note in "notes": It is away.`"""
    return f"{kind} in {json.dumps(folder)}: {sentence}\n"


def _read_about(line: str, kind: str) -> tuple[str, str] | None:
    """Read folder and sentence of such a line, or of `note: …`, which is about none; None for any other line."""
    if line.startswith(f"{kind}: "):
        return "", line.removeprefix(f"{kind}: ").strip()
    if not line.startswith(f"{kind} in "):
        return None
    try:
        folder, end = json.JSONDecoder().raw_decode(line, len(f"{kind} in "))
    except ValueError:
        return None
    return str(folder), line[end:].removeprefix(":").strip()
