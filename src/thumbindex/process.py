"""The current process: its environment, threads, memory and garbage collection."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO

from thumbindex.errors import UsageError


def is_offline() -> bool:
    """Return whether `HF_HUB_OFFLINE` forbids network access."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}


def environment() -> Mapping[str, str]:
    """Return a copy of the environment."""
    return dict(os.environ)


def names_are_utf8() -> bool:
    """Return whether Python reads file names as UTF-8, which depends on the locale."""
    return sys.getfilesystemencoding() == "utf-8"


def needs_utf8(path: str) -> str:
    """Return a sentence for a path that Python cannot read in this locale."""
    return (
        f"{path} needs UTF-8, but the locale is {sys.getfilesystemencoding()}: set PYTHONUTF8=1 or "
        "a UTF-8 locale (LC_ALL=C.UTF-8), and run it again."
    )


class RemoteCommand(NamedTuple):
    """A command that this process runs for a client process.

    The fields are the client's directory, terminal and output streams.
    """

    folder: str
    terminal: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO


REMOTE_COMMAND: ContextVar[RemoteCommand | None] = ContextVar("caller", default=None)
"""The remote command that is running in this context, or None."""


def remote_command() -> RemoteCommand | None:
    """Return the remote command that is running in this context, or None."""
    return REMOTE_COMMAND.get()


def console_streams(stderr: bool = False) -> dict[str, Any]:
    """Return the arguments of Console for stdout or stderr.

    If this process answers a remote command, they are the streams of that command.
    """
    command = remote_command()
    if command:
        return {"file": command.stderr if stderr else command.stdout, "_environ": command.terminal}
    return {"stderr": stderr}


def current_folder() -> str:
    """Return the current directory, or that of the remote command."""
    if command := remote_command():
        return command.folder
    try:
        return os.getcwd()  # noqa: PTH109 (the client of a server does not import pathlib)
    except OSError as error:  # the directory was deleted; $PWD still has its path
        path = os.environ.get("PWD", "")
        if not os.path.isabs(path) or os.path.lexists(path):  # noqa: PTH117
            raise UsageError("The current directory was deleted: change to another one.") from error
        return path


def disable_telemetry() -> None:
    """Disable the telemetry of third-party libraries, such as onnxruntime.

    Call this before importing the libraries.
    """
    for name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        os.environ[name] = "1"


def limit_numeric_threads() -> None:
    """Limit numerical libraries to one thread, or the number that the user has set.

    Call this before importing the libraries.
    """
    # searches are short, and idle threads would busy-wait on cores that indexing needs
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def lower_priority() -> None:
    """Lower the priority of this thread, or of the process if threads have no priorities."""
    if sys.platform != "win32":
        os.nice(10)


def raise_file_limit(files: int) -> int:
    """Raise the limit on open files to `files` if the system allows it, and return the limit."""
    if sys.platform == "win32":
        return files
    import resource  # imported here, since only an HTTP server needs it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has another, lower limit
        return soft
    return most


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_SWITCH_SECONDS = 0.001
"""Thread switch interval. At Python's default of 5 ms, a query waits that long after each read if
another thread is busy.
"""


def switch_threads_often() -> None:
    """Shorten the thread switch interval of this process."""
    sys.setswitchinterval(_SWITCH_SECONDS)


_STARTUP_THRESHOLD = 1_000_000
"""Number of new objects that triggers a garbage collection during startup."""

_DEFAULT_THRESHOLDS = gc.get_threshold()


def defer_garbage_collection() -> None:
    """Defer garbage collection during startup, when nearly all new objects survive."""
    gc.set_threshold(_STARTUP_THRESHOLD)


def resume_garbage_collection() -> None:
    """Resume deferred garbage collection, but exempt the existing objects.

    Visiting those objects would block all threads for up to 120 ms and free next to nothing.
    """
    if gc.get_threshold()[0] == _STARTUP_THRESHOLD:
        gc.freeze()
        gc.set_threshold(*_DEFAULT_THRESHOLDS)


_TRIM_BYTES = 1 << 20
"""Minimum size of a freed block, or of the heap's free end, that glibc returns to the system."""


def return_freed_memory() -> None:
    """Make glibc return freed memory to the system, in this process and its children.

    By default, glibc keeps freed memory in a pool per thread. Outside Linux, nothing is done.
    """
    if sys.platform != "linux":
        return
    # Imported here, since the first handshake does not need it.
    import ctypes

    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    for option, name, value in (
        (-8, "ARENA_MAX", 2),
        (-1, "TRIM_THRESHOLD_", _TRIM_BYTES),
        (-3, "MMAP_THRESHOLD_", _TRIM_BYTES),
    ):
        os.environ.setdefault(f"MALLOC_{name}", str(value))
        if tune is not None:
            tune(option, value)
