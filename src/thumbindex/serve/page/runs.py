"""Runs of `eval` and `tune` in a process of their own, one at a time: slow, polite, and gone with
the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.process import end_with_parent

RunState = Literal["running", "done", "failed", "stopped"]

_LONGEST_SECONDS = 3600.0
"""After which a run is stopped."""

_MOST_BYTES = 50_000_000
"""Of a result that are read."""

_SAID = 400
"""Characters of the last line on standard error that are shown."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what it is, how far, and what came of it."""

    name: str  # `eval` or `tune`
    folder: str
    began: float  # seconds since the epoch
    state: RunState = "running"
    said: str = ""  # its last words
    seconds: float = 0.0
    result: Mapping[str, Any] | None = None


class Runs:
    """The runs of one server: the last one of each kind and folder is remembered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], Run] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._busy: tuple[str, str] | None = None

    def last(self, name: str, folder: str) -> Run | None:
        """Return the last run of a kind over a folder; None where there was none."""
        return self._last.get((name, folder))

    def busy(self) -> Run | None:
        """Return the run that is under way."""
        return self._last.get(self._busy) if self._busy else None

    def start(
        self,
        name: str,
        folder: str,
        arguments: Sequence[str],
        keep: Callable[[Run], None] = lambda run: None,
    ) -> Run:
        """Begin a run; `keep` is given it once it has ended well.

        Raises UsageError while another one is under way.
        """
        with self._lock:
            if self._busy:
                raise UsageError("Another run is under way: wait for its end, or stop it.")
            command = [sys.executable, "-P", "-m", "thumbindex.serve.page.runs", *arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            self._busy = (name, folder)
            self._last[name, folder] = run = Run(name, folder, time.time())
        threading.Thread(
            target=self._listen, args=(self._process, run, keep), name="a run", daemon=True
        ).start()
        threading.Thread(
            target=self._hear,
            args=(self._process.stderr, (name, folder)),
            name="a run's words",
            daemon=True,
        ).start()
        return run

    def stop(self) -> None:
        """Stop the run that is under way: nothing was changed by it."""
        with self._lock:
            if self._process is not None and self._busy:
                self._last[self._busy] = replace(self._last[self._busy], state="stopped")
                self._process.kill()

    def _listen(
        self, process: subprocess.Popen[bytes], run: Run, keep: Callable[[Run], None]
    ) -> None:
        timer = threading.Timer(_LONGEST_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        assert process.stdout is not None, "it was asked for"
        written = process.stdout.read(_MOST_BYTES)
        if process.stdout.read(1):
            process.kill()
        code = process.wait()
        timer.cancel()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                assert stream is not None, "it was asked for"
                stream.close()
        result = None
        with suppress(ValueError):
            result = json.loads(written)
        key = (run.name, run.folder)
        state: RunState = "done" if result is not None and code in {0, 1} else "failed"
        said = ""
        if state == "done":
            try:
                keep(replace(run, state="done", result=result))
            except ThumbindexError as error:
                state, said = "failed", str(error)
        with self._lock:
            now = self._last[key]
            state = "stopped" if now.state == "stopped" else state
            self._last[key] = replace(
                now,
                state=state,
                said=said or now.said,
                seconds=time.time() - run.began,
                result=result,
            )
            self._busy = self._process = None

    def _hear(self, words: IO[bytes] | None, key: tuple[str, str]) -> None:
        assert words is not None, "it was asked for"
        for line in words:
            if said := line.decode("utf-8", "replace").strip():
                with self._lock:
                    if key in self._last:
                        self._last[key] = replace(self._last[key], said=said[-_SAID:])
        words.close()


def main(arguments: Sequence[str]) -> None:
    """Run a command of ours for a server, at a low priority; it ends when the server does, however
    that ends.
    """
    with suppress(OSError, AttributeError):
        os.nice(10)

    end_with_parent()
    # Imported here: the server that imports this module does without the commands.
    from thumbindex.serve.cli import app

    app(list(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
