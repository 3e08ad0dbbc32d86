# ruff: noqa: PTH115, PTH118, PTH119, PTH120, PTH208 - what is faked is the os layer itself
"""What the os layer does on Windows and on macOS, put over that of Linux: for a test by its
`monkeypatch`, for a child by `site/sitecustomize.py`.

A fake shows that our code meets a refusal as it should. It does not show that the real system
refuses just that.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from unicodedata import normalize

Patch = Callable[[Any, str, Any], None]
"""As `setattr`."""

IN_USE = 32
"""Windows' number for a file that another program has open."""


def refusal(path: Any) -> PermissionError:
    """Return the error that Windows raises for a file that is open."""
    error = PermissionError(
        13,
        "The process cannot access the file because it is being used by another process",
        os.fspath(path),
    )
    error.winerror = IN_USE  # type: ignore[attr-defined]
    return error


def _at(path: Any, dir_fd: int | None) -> str:
    return os.path.join(f"/proc/self/fd/{dir_fd}" if dir_fd is not None else "", os.fsdecode(path))


def is_open(path: str) -> bool:
    """Tell whether a process of ours has a file open; a file that is mapped into memory counts, as
    Python keeps it open.
    """
    real = os.path.realpath(path)
    for process in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    if os.readlink(f"/proc/{process}/fd/{number}") == real:
                        return True
    return False


def refuse_open_files(patch: Patch) -> None:
    """Refuse to rename, replace or delete a file that is open."""
    unlink, replace = os.unlink, os.replace

    def careful_unlink(path: Any, *, dir_fd: int | None = None) -> None:
        if is_open(_at(path, dir_fd)):
            raise refusal(path)
        unlink(path, dir_fd=dir_fd)

    def careful_replace(
        source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        for path in (_at(source, src_dir_fd), _at(target, dst_dir_fd)):
            if is_open(path):
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
    """Refuse to open the files of a name for a moment, as while another process replaces them; the
    moment begins at the first refusal.
    """
    until: list[float] = []

    def refusing(open_it: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and os.path.basename(os.fspath(path)) == name:
                until.append(time.monotonic() + seconds)
                if time.monotonic() < until[0]:
                    error = PermissionError(13, "Permission denied", os.fspath(path))
                    error.winerror = None  # type: ignore[attr-defined]  # as `os.open` has it there
                    raise error
            return open_it(path, *arguments, **named)

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
    """Let our own modules see the flags and functions that Windows has, and no others; the standard
    library keeps what it needs.
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
    seen = {
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
            if name in seen and not fromlist:
                return seen[name]
        return import_it(name, namespace, local, fromlist, level)

    patch(builtins, "__import__", import_for_ours)


def _no_pipes(*_: Any) -> Any:
    raise OSError(10038, "An operation was attempted on something that is not a socket")


def refuse_pipes_in_loops(patch: Patch) -> None:
    """Let an event loop take neither signals nor pipes, as on Windows."""
    import asyncio

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    for name in ("add_signal_handler", "connect_read_pipe", "connect_write_pipe"):
        patch(asyncio.SelectorEventLoop, name, refuse)


# ------------------------------------------------------------------ macOS


def take_any_spelling(patch: Patch) -> None:
    """List names with letters and accents apart (HFS+), and find a file by any case and either form
    of its name.
    """
    scandir, listdir, lstat = os.scandir, os.listdir, os.lstat

    def folded(name: str) -> str:
        return normalize("NFC", name).casefold()

    def found(path: Any, dir_fd: int | None = None) -> Any:
        if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
            return path
        with suppress(OSError, ValueError):
            lstat(_at(path, dir_fd))
            return path
        at = (
            _at("", dir_fd)
            if dir_fd is not None
            else "/"
            if os.fspath(path).startswith("/")
            else "."
        )
        for name in filter(None, os.fspath(path).split("/")):
            try:
                names = [*listdir(at), ".", ".."]
            except OSError:
                return path
            same = (
                name
                if name in names
                else next((each for each in names if folded(each) == folded(name)), None)
            )
            if same is None:
                return path
            at = os.path.join(at, same)
        return at

    def at_any(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_it(path: Any, *arguments: Any, dir_fd: int | None = None, **named: Any) -> Any:
            real = found(path, dir_fd)
            if dir_fd is not None and real is path:
                named["dir_fd"] = dir_fd
            return call(real, *arguments, **named)

        return call_it

    class Entry:
        def __init__(self, real: os.DirEntry[str]) -> None:
            self._real, self.name = real, normalize("NFD", real.name)
            self.path = os.path.join(os.path.dirname(real.path), self.name)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def __fspath__(self) -> str:
            return self.path

    class Listing:
        def __init__(self, path: Any) -> None:
            self._real = scandir(found(path))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._real.close()

        def __iter__(self) -> Iterator[Entry]:
            return map(Entry, self._real)

        def __next__(self) -> Entry:
            return Entry(next(self._real))

        def close(self) -> None:
            self._real.close()

    for name in ("open", "stat", "lstat", "readlink", "access"):
        fake = at_any(getattr(os, name))
        patch(os, name, fake)
        patch(os, "supports_dir_fd", os.supports_dir_fd | {fake})
    patch(
        os, "scandir", lambda path=".": scandir(path) if isinstance(path, bytes) else Listing(path)
    )
    patch(
        os,
        "listdir",
        lambda path=".": [
            each if isinstance(each, bytes) else normalize("NFD", each)
            for each in listdir(found(path))
        ],
    )
    for module in (io, builtins):
        patch(module, "open", at_any(module.open))


SYSTEMS: dict[str, tuple[Callable[[Patch], None], ...]] = {
    "windows": (refuse_open_files, show_windows, refuse_pipes_in_loops),
    "macos": (take_any_spelling,),
}

SYSTEM = "THUMBINDEX_TESTS_SYSTEM"
"""The variable of the environment that says to a child which system it is to be on."""


def surroundings(system: str, **more: str) -> dict[str, str]:
    """Return the environment in which a child is on a system, as far as it can be faked."""
    return {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).with_name("site")),
        SYSTEM: system,
        **more,
    }
