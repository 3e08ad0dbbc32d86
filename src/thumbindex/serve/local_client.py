# ruff: noqa: PTH100, PTH109, PTH111, PTH112, PTH116, PTH120, PTH123, PTH208 - pathlib takes
# longer to import than all that is done here
"""Ask a running server of the same user for the answer to a command, before heavy imports."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client
from typing import Any

from thumbindex.process import environment

COMMANDS = ("query", "list", "read", "outline", "related", "why")
"""Commands that only read and show no progress."""

ALONE = ("-h", "--help", "--explain", "--wait", "--wait-fresh", "--engine")
"""Options with which a command runs by itself: it prints help or times, waits, or asks a
database.
"""

SURROUNDINGS = (
    "HOME",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
)
"""Variables that decide which files are read, or which day it is: the server's must be the same."""

TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
"""Variables that decide how a terminal is written to."""

TAKE_SECONDS = 0.2
"""A server says within this time that it takes a command, or the command runs by itself."""

ANSWER_SECONDS = 10.0
"""Opening the index instead takes one to three seconds."""

LONGEST_REQUEST = 256 * 1024
"""Bytes of a request."""

LONGEST_ANSWER = 1 << 28
"""Bytes of an answer."""

FAILURE = 3
"""The exit code of a command that failed, as in `serve/opening.py`."""

TAKEN = b"taken"
"""A server's first message about a command that it works on."""


def ask_servers(arguments: Sequence[str]) -> int | None:
    """Print a server's answer to a command and return its exit code; None if none answers."""
    if not may_be_asked(arguments) or sys.stdout is None or sys.stderr is None:
        return None
    try:
        request = json.dumps(_request(arguments)).encode()
    except OSError:  # there is no current directory
        return None
    if len(request) > LONGEST_REQUEST:
        return None
    found = list(endpoints())
    this = program() if found else []
    answers = (_Question(each, request).answer() for each in found if each.get("program") == this)
    answer = next((each for each in answers if each), None)
    return None if answer is None else _print(answer)


def may_be_asked(arguments: Sequence[str]) -> bool:
    """Tell whether a server may answer a command."""
    return bool(
        arguments
        and arguments[0] in COMMANDS
        and not any(each.partition("=")[0] in ALONE for each in arguments)
    )


def endpoint_folder(around: Mapping[str, str]) -> str:
    """Return the directory in which the servers of this user state where they listen."""
    if sys.platform == "win32":
        return f"{around.get('LOCALAPPDATA', '')}/thumbindex/run"
    cache = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    of_system = f"/run/user/{os.geteuid()}"  # a client may start a server without the variable
    choices = (
        around.get("XDG_RUNTIME_DIR", ""),
        of_system if os.path.isdir(of_system) else "",
        around.get("XDG_CACHE_HOME", ""),
    )
    base = next((each for each in choices if each.startswith("/")), os.path.expanduser(cache))
    return f"{base}/thumbindex/run"


def is_private(folder: str) -> bool:
    """Tell whether a directory is this user's own, closed to others, and no symlink.

    On Windows the user's profile, in which it lies, is closed to others.
    """
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if sys.platform == "win32":
        return stat.S_ISDIR(found.st_mode)
    is_own = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return stat.S_ISDIR(found.st_mode) and is_own


def endpoints() -> Iterator[Mapping[str, Any]]:
    """Yield the address, key and program of each server of this user."""
    folder = endpoint_folder(environment())
    try:
        names = sorted(os.listdir(folder)) if is_private(folder) else []
    except OSError:
        names = []
    for name in names:
        if name.endswith(".json"):
            try:
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    yield json.load(file)
            except (OSError, ValueError):
                continue  # the server has just ended


def program() -> list[object]:
    """Return a fingerprint of the running code: interpreter, place, newest file, and packages
    installed beside it.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    newest = max(os.stat(each).st_mtime_ns for each in _files(root))
    return [sys.version, root, newest, os.stat(os.path.dirname(root)).st_mtime_ns]


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for each in entries:
            if not each.is_dir():
                yield each.path
            elif each.name != "__pycache__":
                yield from _files(each.path)


def connect(endpoint: Mapping[str, Any], key: bytes | None) -> Any:
    """Connect to a server; with a key, each end proves to the other that it knows it."""
    address, family = endpoint["address"], "AF_PIPE" if sys.platform == "win32" else "AF_UNIX"
    return Client(address, family, authkey=key)


class _Question:
    """A command put to a server by a thread, which a server that hangs may keep."""

    def __init__(self, endpoint: Mapping[str, Any], request: bytes) -> None:
        self._endpoint, self._request = endpoint, request
        self._taken, self._over = threading.Event(), threading.Event()
        self._answer: Mapping[str, Any] | None = None

    def answer(self) -> Mapping[str, Any] | None:
        """Return the answer; None if the server declines or is too slow."""
        threading.Thread(target=self._ask, daemon=True).start()
        if self._taken.wait(TAKE_SECONDS):
            self._over.wait(ANSWER_SECONDS)
        return self._answer

    def _ask(self) -> None:
        try:
            with connect(self._endpoint, bytes.fromhex(self._endpoint["key"])) as connection:
                connection.send_bytes(self._request)
                if connection.recv_bytes(len(TAKEN)) == TAKEN:
                    self._taken.set()
                    self._answer = json.loads(connection.recv_bytes(LONGEST_ANSWER))
        except Exception:  # whatever is wrong with a server, the command runs by itself
            self._answer = None
        self._over.set()
        self._taken.set()


def _request(arguments: Sequence[str]) -> Mapping[str, Any]:
    around, folder = environment(), os.getcwd()
    here = os.stat(folder)
    return {
        "arguments": list(arguments),
        "folder": folder,
        "place": [here.st_dev, here.st_ino],
        "surroundings": {name: around[name] for name in SURROUNDINGS if name in around},
        "terminal": {
            **_size(),
            **{name: around[name] for name in TERMINAL if name in around},
        },
        "streams": [[each.encoding, each.isatty()] for each in (sys.stdout, sys.stderr)],
    }


def _size() -> Mapping[str, str]:
    for stream in (0, 1, 2):
        try:
            columns, lines = os.get_terminal_size(stream)
            return {"COLUMNS": str(columns or 80), "LINES": str(lines or 25)}
        except OSError:
            continue
    return {"COLUMNS": "80", "LINES": "25"}


def _print(answer: Mapping[str, Any]) -> int:
    """Print an answer and return its exit code; a reader that leaves has had enough."""
    try:
        for number, text in answer["printed"]:
            stream = sys.stdout if number == 1 else sys.stderr
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            stream.write(text)
            stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"The answer cannot be written: {error.strerror}.\n")
        return FAILURE
    return int(answer["code"])
