"""The process that this runs in: every read of its environment, and what is set there before a
library is loaded that looks.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple, TextIO

from thumbindex.errors import UsageError


def offline() -> bool:
    """Tell whether the network is forbidden (`HF_HUB_OFFLINE`)."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}


def environment() -> Mapping[str, str]:
    """Return the environment as it is."""
    return dict(os.environ)


class Caller(NamedTuple):
    """A command of another process that this one answers: its folder, the variables of its
    terminal, and its output.
    """

    folder: str
    terminal: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The command whose request is being answered; None outside a server's thread for one."""


def caller() -> Caller | None:
    """Return the command that this thread answers; None if it works for its own process."""
    return CALLER.get()


def current_folder() -> str:
    """Return the current directory, of the caller where there is one."""
    if asked := caller():
        return asked.folder
    try:
        return os.getcwd()  # noqa: PTH109 (the client of a server does without pathlib)
    except OSError as error:  # it was deleted; $PWD still names it, for the error message
        named = os.environ.get("PWD", "")
        if not os.path.isabs(named) or os.path.lexists(named):  # noqa: PTH117
            raise UsageError(
                "The current directory was deleted: change into another one."
            ) from error
        return named


def forbid_telemetry() -> None:
    """Tell libraries that report to their makers not to: to be called before they are imported.

    Everything stays on this machine.

    onnxruntime 1.29 and later (1.27 does not) make a device id and queue events unless its variable
    is set.
    """
    for name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        os.environ[name] = "1"


def compute_on_one_thread() -> None:
    """Have numerical libraries compute on the thread that calls them, in a process of our own: to
    be called before they are imported.

    A search computes for a millisecond or two; threads that wait for more of it spin for tens of
    them, on processors that indexing needs. A number that somebody has set stays.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def give_way() -> None:
    """Lower the priority of this thread; where the system has none a thread, of the process."""
    if sys.platform != "win32":
        os.nice(10)


def raise_file_limit(files: int) -> int:
    """Let this process open so many files if the system allows it; return how many it may."""
    if sys.platform == "win32":
        return files
    import resource  # only a server over HTTP needs it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has a lower limit of its own
        return soft
    return most


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SWITCH_SECONDS = 0.001
"""Between threads: at Python's own 5 ms a question waits as long after each of its reads, while
another thread opens a new generation, and an edit at each file that is looked at, while a large one
is parsed.
"""


def take_short_turns() -> None:
    """Have threads of this process take turns often."""
    sys.setswitchinterval(SWITCH_SECONDS)


_AT_START = 1_000_000
"""New objects before Python looks for cycles among them, while a program starts."""

_LATER = gc.get_threshold()


def collect_rarely() -> None:
    """Have Python look for cycles only once a start has made very many objects: nearly all of them
    stay, and each look goes through all.
    """
    gc.set_threshold(_AT_START)


def collect_as_usual() -> None:
    """End what `collect_rarely` began: look for cycles as ever, but not among what the start has
    made.

    Where it began nothing, do nothing.

    The start's own cycles stay with the rest: one look before freezing found 700 to 1,100 objects
    in 50 to 120 ms, during which no thread answers, and gave back 0.1 MB of 168 to 208 at most (a
    server of tldr-en, 12,273 chunks).
    """
    if gc.get_threshold()[0] == _AT_START:
        gc.freeze()
        gc.set_threshold(*_LATER)


FREED_BYTES = 1 << 20
"""More than this that is free at the end of the heap, or was one piece, goes back to the system at
once.
"""


def give_memory_back() -> None:
    """Have glibc return what was freed to the system, in this process and those that it starts;
    elsewhere, do nothing.

    Left to itself it keeps a pool a thread, and ever larger pieces in them: a server that was asked
    thirty questions held 60 MB more.
    """
    if sys.platform != "linux":
        return
    # Imported here: a handshake is answered before it is needed.
    import ctypes

    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    for option, name, value in (
        (-8, "ARENA_MAX", 2),
        (-1, "TRIM_THRESHOLD_", FREED_BYTES),
        (-3, "MMAP_THRESHOLD_", FREED_BYTES),
    ):
        os.environ.setdefault(f"MALLOC_{name}", str(value))
        if tune is not None:
            tune(option, value)
