"""The child process that indexes for a server: it does as it is told on standard input, and ends with the server."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from thumbindex.process import collect_as_usual, collect_rarely, compute_on_one_thread, take_short_turns
from thumbindex.serve.child import REPAIR
from thumbindex.serve.opening import Opening, open_library
from thumbindex.serve.outcome import FOUND, outcome

if TYPE_CHECKING:
    from thumbindex.library import Library


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
    from thumbindex.serve.live import Live

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
