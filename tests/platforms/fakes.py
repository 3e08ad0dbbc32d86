# ruff: noqa: PTH100, PTH115, PTH118, PTH119, PTH208 - the os layer itself is faked
"""Fakes of the os layer of Windows and macOS: for tests through `monkeypatch`, for child processes
through `site/sitecustomize.py`.

They show that our code handles a refusal, not that the real system refuses the same calls.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

Patch = Callable[[Any, str, Any], None]
"""Signature of `setattr`."""

IN_USE = 32
"""Windows' error number for a file that another program has open."""


def refusal(path: Any) -> PermissionError:
    """Return the error of Windows for an open file."""
    error = PermissionError(
        13,
        "The process cannot access the file because it is being used by another process",
        os.fspath(path),
    )
    error.winerror = IN_USE  # type: ignore[attr-defined]
    return error


def _at(path: Any, dir_fd: int | None) -> str:
    return os.path.join(f"/proc/self/fd/{dir_fd}" if dir_fd is not None else "", os.fsdecode(path))


def is_open(path: str, processes: Iterable[str]) -> bool:
    """Return whether a process has a file open or mapped (Python keeps mapped files open)."""
    real = os.path.realpath(path)
    for process in processes:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    if os.readlink(f"/proc/{process}/fd/{number}") == real:
                        return True
    return False


def of_this_process() -> Iterable[str]:
    return ("self",)


def of_all_processes() -> Iterable[str]:
    return filter(str.isdecimal, os.listdir("/proc"))


def refuse_open_files(
    patch: Patch, processes: Callable[[], Iterable[str]] = of_this_process
) -> None:
    """Refuse to rename, replace or delete open files."""
    unlink, replace = os.unlink, os.replace

    def careful_unlink(path: Any, *, dir_fd: int | None = None) -> None:
        if is_open(_at(path, dir_fd), processes()):
            raise refusal(path)
        unlink(path, dir_fd=dir_fd)

    def careful_replace(
        source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        for path in (_at(source, src_dir_fd), _at(target, dst_dir_fd)):
            if is_open(path, processes()):
                raise refusal(path)
        replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    for name, fake in (
        ("unlink", careful_unlink),
        ("remove", careful_unlink),
        ("replace", careful_replace),
        ("rename", careful_replace),
    ):
        patch(os, name, fake)
    patch(os, "supports_dir_fd", os.supports_dir_fd | {careful_unlink})


def refuse_opening(patch: Patch, name: str, seconds: float) -> None:
    """Refuse to open files of a name for some seconds after the first attempt, as while another
    process replaces them.
    """
    until: list[float] = []

    def refusing(open_it: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | os.PathLike) and os.path.basename(os.fspath(path)) == name:
                until.append(time.monotonic() + seconds)
                if time.monotonic() < until[0]:
                    error = PermissionError(13, "Permission denied", os.fspath(path))
                    error.winerror = None  # type: ignore[attr-defined]  # as `os.open` on Windows
                    raise error
            return open_it(path, *arguments, **options)

        return refuse

    for module in (os, io, builtins):
        patch(module, "open", refusing(module.open))


class Module(types.ModuleType):
    """A module with some names missing and others replaced."""

    def __init__(self, real: types.ModuleType, missing: frozenset[str], **instead: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(instead, _real=real, _missing=missing)

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)


def show_windows(patch: Patch) -> None:
    """Hide the flags and functions that Windows lacks from our modules, but not from the standard
    library.
    """
    import select
    import signal
    import socket

    flags = frozenset(
        {
            "O_NOFOLLOW",
            "O_NONBLOCK",
            "O_CLOEXEC",
            "O_DIRECTORY",
            "sched_getaffinity",
            "register_at_fork",
            "fork",
            "getuid",
            "sysconf",
        }
    )
    flags |= {"geteuid", "getegid", "getgroups"}
    modules = {
        "os": Module(os, flags, supports_dir_fd=set(), supports_fd=set()),
        "sys": Module(sys, frozenset(), platform="win32"),
        "select": Module(select, frozenset({"poll", "epoll", "kqueue"}), select=_no_pipes),
        "socket": Module(socket, frozenset({"AF_UNIX", "SO_PEERCRED"})),
        "signal": Module(
            signal, frozenset({"SIGHUP", "SIGKILL", "SIGUSR1", "SIGCHLD", "pthread_sigmask"})
        ),
    }
    import_it = builtins.__import__

    def import_for_ours(
        name: str, namespace: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if ((namespace or {}).get("__package__") or "").partition(".")[0] == "thumbindex":
            if name == "fcntl":
                raise ModuleNotFoundError("No module named 'fcntl'")
            if name in modules and not fromlist:
                return modules[name]
        return import_it(name, namespace, local, fromlist, level)

    patch(builtins, "__import__", import_for_ours)


def _no_pipes(*_: Any) -> Any:
    raise OSError(10038, "An operation was attempted on something that is not a socket")


def refuse_pipes_in_loops(patch: Patch) -> None:
    """Make event loops refuse signals and pipes, as on Windows."""
    import asyncio

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    for name in ("add_signal_handler", "connect_read_pipe", "connect_write_pipe"):
        patch(asyncio.SelectorEventLoop, name, refuse)


# ------------------------------------------------------------------ macOS


def take_any_case(patch: Patch) -> None:
    """Find files regardless of the case of their names."""
    lstat = os.lstat

    def find(path: Any) -> Any:
        with suppress(OSError, TypeError):  # a descriptor has no name
            lstat(path)
            return path
        parent, name = os.path.split(os.path.abspath(path))
        with suppress(OSError):
            parent = find(parent)
            matches = (entry for entry in os.listdir(parent) if entry.lower() == name.lower())
            return os.path.join(parent, next(matches, name))
        return path

    for name in ("stat", "lstat"):
        real = getattr(os, name)
        patch(os, name, lambda path, *args, real=real, **named: real(find(path), *args, **named))


SYSTEM = "THUMBINDEX_TESTS_SYSTEM"
"""Environment variable that selects the faked system of a child."""


def on_windows(**variables: str) -> dict[str, str]:
    """Return the environment of a child on faked Windows."""
    site = str(Path(__file__).with_name("site"))
    return {**os.environ, "PYTHONPATH": site, SYSTEM: "windows", **variables}
