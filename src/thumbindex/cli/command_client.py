# ruff: noqa: PTH100, PTH108, PTH109, PTH111, PTH112, PTH116, PTH120, PTH123, PTH208 - pathlib
# takes longer to import than all that is done here
"""Ask a running server of the same user for the answer to a command, before heavy imports."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from thumbindex.process import environment

COMMANDS = ("query", "list", "read", "outline", "related", "why")
"""Commands that only read and show no progress."""

NOT_SERVED_OPTIONS = ("-h", "--help", "--explain", "--wait", "--wait-fresh", "--engine")
"""Options with which a command runs by itself: it prints help or times, waits, or asks a
database.
"""

SHARED_VARIABLES = (
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

TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that decide how a terminal is written to."""

ACCEPT_SECONDS = 0.2
"""A server says within this time that it takes a command, or the command runs by itself."""

ANSWER_SECONDS = 5.0
"""Opening the index instead takes one to three seconds."""

ACCEPTED = b"taken"
"""A server's first message about a command that it works on."""


def ask_servers(arguments: Sequence[str]) -> int | None:
    """Print a server's answer to a command and return its exit code; None if none answers."""
    streams = (sys.stdout, sys.stderr)
    if (
        sys.platform == "win32"
        or not can_be_served(arguments)
        or any(stream is None or stream.encoding != "utf-8" for stream in streams)
    ):
        return None
    around = environment()
    try:
        servers = list(_servers())
        request = {
            "arguments": list(arguments),
            "folder": os.getcwd(),
            "terminal": {name: around[name] for name in TERMINAL if name in around}
            | {"COLUMNS": str(shutil.get_terminal_size().columns)},
            "are_terminals": [stream.isatty() for stream in streams],
        }
    except OSError:  # nobody listens, or there is no current directory
        return None
    for stem, key in servers:
        if answer := _answer(stem, key, json.dumps(request).encode()):
            return _print(answer)
    return None


def can_be_served(arguments: Sequence[str]) -> bool:
    """Return whether a server may answer a command."""
    return bool(
        arguments
        and arguments[0] in COMMANDS
        and not any(argument.partition("=")[0] in NOT_SERVED_OPTIONS for argument in arguments)
    )


def socket_folder() -> str:
    """Return the directory of the sockets of this user's servers."""
    # a client may start a server without the variable
    runtime = environment().get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    base = runtime if os.path.isdir(runtime) else os.path.expanduser("~/.cache")
    return f"{base}/thumbindex/run"


def is_private_directory(folder: str) -> bool:
    """Return whether a directory is this user's own, closed to others, and no symlink."""
    found = os.lstat(folder)
    is_own = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return stat.S_ISDIR(found.st_mode) and is_own


def fingerprint() -> list[object]:
    """Return what is the same in two processes that answer alike: interpreter, package, and the
    variables that decide what is read.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = [os.stat(each).st_mtime_ns for each in (package, os.path.dirname(package))]
    around = environment()
    return [sys.version, package, installed, [around.get(name) for name in SHARED_VARIABLES]]


def _servers() -> Iterator[tuple[str, bytes]]:
    """Yield the path of the socket, without its suffix, and the key of each server like this
    process.
    """
    folder = socket_folder()
    for name in sorted(os.listdir(folder)) if is_private_directory(folder) else []:
        if name.endswith(".json"):
            # the server has just ended, or begins, or runs another version
            with suppress(Exception), open(f"{folder}/{name}", encoding="utf-8") as file:
                stated = json.load(file)
                if stated["fingerprint"] == fingerprint():
                    yield f"{folder}/{name.removesuffix('.json')}", bytes.fromhex(stated["key"])


def _answer(stem: str, key: bytes, request: bytes) -> Mapping[str, Any] | None:
    """Return a server's answer; None if it declines or is too slow."""
    messages = SimpleQueue[bytes]()
    # a server that hangs may keep the thread
    Thread(target=_ask, args=(stem, key, request, messages), daemon=True).start()
    try:
        if messages.get(timeout=ACCEPT_SECONDS) == ACCEPTED:
            answer: Mapping[str, Any] | None = json.loads(messages.get(timeout=ANSWER_SECONDS))
            return answer
    except (Empty, ValueError):
        pass
    return None


def _ask(stem: str, key: bytes, request: bytes, messages: SimpleQueue[bytes]) -> None:
    """Pass on a server's two messages about a command; an empty one if there are no more."""
    with suppress(Exception):  # whatever is wrong with a server, the command runs by itself
        try:
            with Client(f"{stem}.sock", "AF_UNIX", authkey=key) as connection:
                connection.send_bytes(request)
                messages.put(connection.recv_bytes())
                messages.put(connection.recv_bytes())
        except (ConnectionRefusedError, FileNotFoundError):  # it was killed
            os.unlink(f"{stem}.json")
            os.unlink(f"{stem}.sock")
    messages.put(b"")


def _print(answer: Mapping[str, Any]) -> int | None:
    """Print an answer and return its exit code; a reader that leaves has had enough."""
    try:
        for number, text in answer["printed"]:
            stream: Any = (sys.stdout, sys.stderr)[number]
            stream.reconfigure(errors="backslashreplace")
            stream.write(text)
            stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError:  # the command says itself what is wrong
        return None
    return int(answer["code"])
