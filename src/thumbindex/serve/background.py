"""What goes on behind a server's answers: the library opens, a child process indexes, models load; none of it keeps a client waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import IO, TYPE_CHECKING

from thumbindex.errors import ModelError, ThumbindexError
from thumbindex.serve.opening import Opening, open_library

if TYPE_CHECKING:
    from thumbindex.library import Library

WORDS_SECONDS = 20.0
"""The longest that a query waits for the first words: clients give up after 30 to 60 s."""

NOTED, OVER = "note: ", "over: "
"""How a line of the child begins that says what the user should know, and that it holds no longer."""

_POLL_SECONDS = 0.1

_MODEL_POLL_SECONDS = 1.0

_NICE = 5
"""The child gives way to what the user is doing."""


class Background:
    """Starts when first needed; everything heavy is imported, opened and loaded off the way of the protocol."""

    def __init__(self, opening: Opening, open_it: Callable[[Opening], Library] = open_library, command: Sequence[str] | None = None) -> None:
        self._opening = opening
        self._open = open_it
        self._command = child_command(opening) if command is None else list(command)
        self._library: Future[Library] = Future()
        self._child: subprocess.Popen[str] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._noted: dict[str, None] = {}  # what the child said that still holds, in order
        self._start_note = ""
        self._model_note = ""
        self._started = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin; a second call does nothing."""
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="background", daemon=True).start()

    def start_soon(self, seconds: float = 0.5) -> None:
        """Begin in a moment, so that the answer that is just being written leaves first."""
        timer = threading.Timer(seconds, self.start)
        timer.daemon = True
        timer.start()

    def library(self) -> Library:
        """Return the library, open; raises what opening it raised."""
        self.start()
        return self._library.result()

    def await_words(self, seconds: float = WORDS_SECONDS) -> None:
        """Wait until there are words to search, the child has ended, or the time is up."""
        library = self.library()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not library.indexed:
            if self._start_note or (self._child is not None and self._child.poll() is not None):
                return
            time.sleep(_POLL_SECONDS)

    def notes(self) -> tuple[str, ...]:
        """Return in words what went wrong behind the answers; empty while all is well."""
        failed = self._child is not None and self._child.poll() not in (None, 0)
        last = self._said[-1] if self._said else "it left no message"
        indexing = f"Indexing stopped ({last}); answers come from what is indexed so far. Run `thumbindex index` to try again." if failed else ""
        noted = () if indexing else tuple(self._noted)
        return tuple(note for note in (self._start_note, indexing, *noted, self._model_note) if note)

    def stop(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            if self._child.stdin:
                self._child.stdin.close()

    def _run(self) -> None:
        if self._command:
            self._start_child()
        try:
            library = self._open(self._opening)
        except BaseException as error:
            # Whoever asks for the library gets this error, each time.
            self._library.set_exception(error)
            return
        self._library.set_result(library)
        try:
            self._load_models(library)
        except ModelError as error:
            self._model_note = f"{error} Answers go on without it."
        except ThumbindexError as error:
            self._model_note = str(error)

    def _load_models(self, library: Library) -> None:
        """Load the models as soon as the index's writer has chosen them: choosing here could come to another choice."""
        library.load_models()
        while not library.models_ready and self._child is not None and self._child.poll() is None:
            time.sleep(_MODEL_POLL_SECONDS)
            library.load_models()

    def _start_child(self) -> None:
        try:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
            )
        except OSError as error:
            self._start_note = f"Indexing cannot be started ({error}); answers come from what is indexed so far. Run `thumbindex index`."
            return
        threading.Thread(target=self._listen, args=(self._child.stderr,), name="child's messages", daemon=True).start()

    def _listen(self, messages: IO[str]) -> None:
        with messages:
            for line in messages:
                if line.strip():
                    self._said.append(line.strip())
                if line.startswith(NOTED):
                    self._noted[line.removeprefix(NOTED).strip()] = None
                if line.startswith(OVER):
                    self._noted.pop(line.removeprefix(OVER).strip(), None)
                sys.stderr.write(line)


def child_command(opening: Opening) -> list[str]:
    """Return how to start the child that indexes what an opening describes."""
    # -P: the server's working directory is often a vault, whose files must never be imported.
    return [sys.executable, "-P", "-m", "thumbindex", "work", *opening.arguments()]


def work_for_server(library: Library) -> None:
    """Keep the indexes up to the disk until the server at the other end of standard input is gone; without `serve.watch` only once."""
    # Imported here: the server, which imports this module for its handshake, must not pay for watchdog.
    from thumbindex.serve.live import Live

    threading.Thread(target=_leave_with_server, name="server watch", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(_NICE)
    if library.config.serve.watch.enabled:
        Live(library, _say).run()
    else:
        library.index(words_only=True)
        library.index()


def _say(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _leave_with_server() -> None:
    # Even a killed server closes its end. What is committed stays; a commit under way is rolled back by SQLite.
    # Read by descriptor: the lock of a buffered reader would stop the interpreter's own way out.
    while os.read(0, 1):
        pass
    os._exit(0)
