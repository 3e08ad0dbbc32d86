# ruff: noqa: PTH100, PTH108, PTH109, PTH111, PTH112, PTH116, PTH120, PTH123, PTH208 - importing
# pathlib would take longer than everything else in this module
"""Let a running server of the same user answer a command, to avoid the slow imports."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from thumbindex.process import environment

COMMANDS = ("query", "list", "read", "outline", "related", "why")
"""Commands that a server may answer: they change nothing and show no progress."""

NOT_SERVED_OPTIONS = (
    "-h",
    "--help",
    "--explain",
    "--engine",
    "--private",
)
"""Options that a server does not support: help, timings, databases and private notes."""

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
"""Environment variables that must have the same values for the client and the server."""

TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables that control terminal output."""

ACCEPT_SECONDS = 0.2
"""Maximum wait for a server to accept a command."""

ANSWER_SECONDS = 5.0
"""Maximum wait for the answer. Without a server, opening the index takes 1 to 3 seconds."""

ACCEPTED = b"taken"
"""First message of a server that has accepted a command."""


def ask_servers(arguments: Sequence[str]) -> int | None:
    """Print a server's answer and return its exit code, or None if no server answers."""
    streams = (sys.stdout, sys.stderr)
    if (
        sys.platform == "win32"
        or not can_be_served(arguments)
        or any(stream is None or stream.encoding != "utf-8" for stream in streams)
    ):
        return None
    variables = environment()
    try:
        servers = list(_servers())
        request = {
            "arguments": list(arguments),
            "folder": os.getcwd(),
            "terminal": {name: variables[name] for name in TERMINAL if name in variables}
            | {"COLUMNS": str(shutil.get_terminal_size().columns)},
            "are_terminals": [stream.isatty() for stream in streams],
        }
    except OSError:  # no server, or no current directory
        return None
    for stem, key in servers:
        if answer := _answer(stem, key, json.dumps(request).encode()):
            return _print(answer)
    return None


def can_be_served(arguments: Sequence[str]) -> bool:
    """Return whether a server may answer the command with these arguments."""
    return bool(
        arguments
        and arguments[0] in COMMANDS
        and not any(argument.partition("=")[0] in NOT_SERVED_OPTIONS for argument in arguments)
    )


def suggest_server(started: float) -> None:
    """Tell the user once how commands become instant, if this one took over a second.

    `started` is its start in `time.monotonic`.
    """
    seconds = time.monotonic() - started
    if sys.platform == "win32" or seconds < 1 or not (sys.stderr and sys.stderr.isatty()):
        return
    from platformdirs import user_state_path

    with suppress(OSError):  # the file exists: the user knows
        folder = user_state_path("thumbindex", appauthor=False, ensure_exists=True)
        open(folder / "server-suggested", "x").close()
        sys.stderr.write(
            f"That took {seconds:.1f} s. While a server runs, it takes 0.2 s: keep "
            "an MCP client open, or `thumbindex page`.\n"
        )


def socket_folder() -> str:
    """Return the directory with the sockets of this user's servers."""
    # a client may start a server without the variable
    runtime = environment().get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    base = runtime if os.path.isdir(runtime) else os.path.expanduser("~/.cache")
    return f"{base}/thumbindex/run"


def is_private_directory(folder: str) -> bool:
    """Return whether only this user can access a directory; False for a symlink."""
    info = os.lstat(folder)
    is_own = info.st_uid == os.geteuid() and not info.st_mode & 0o077
    return stat.S_ISDIR(info.st_mode) and is_own


def fingerprint() -> list[object]:
    """Return the Python version, package files and variables that client and server must share."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = [os.stat(path).st_mtime_ns for path in (package, os.path.dirname(package))]
    variables = environment()
    return [sys.version, package, installed, [variables.get(name) for name in SHARED_VARIABLES]]


def _servers() -> Iterator[tuple[str, bytes]]:
    """Yield the socket path (without suffix) and the key of each server with our `fingerprint`."""
    folder = socket_folder()
    for name in sorted(os.listdir(folder)) if is_private_directory(folder) else []:
        if name.endswith(".json"):
            # the server may be starting, ending, or of another version
            with suppress(Exception), open(f"{folder}/{name}", encoding="utf-8") as file:
                state = json.load(file)
                if state["fingerprint"] == fingerprint():
                    yield f"{folder}/{name.removesuffix('.json')}", bytes.fromhex(state["key"])


def _answer(stem: str, key: bytes, request: bytes) -> Mapping[str, Any] | None:
    """Return a server's answer, or None if it declines or is too slow."""
    messages = SimpleQueue[bytes]()
    # a thread, since a server may hang
    Thread(target=_ask, args=(stem, key, request, messages), daemon=True).start()
    try:
        if messages.get(timeout=ACCEPT_SECONDS) == ACCEPTED:
            answer: Mapping[str, Any] | None = json.loads(messages.get(timeout=ANSWER_SECONDS))
            return answer
    except (Empty, ValueError):
        pass
    return None


def _ask(stem: str, key: bytes, request: bytes, messages: SimpleQueue[bytes]) -> None:
    """Send a command to a server, and put the server's two messages into the queue.

    Afterwards, or after a failure, put an empty message into the queue.
    """
    with suppress(Exception):  # on any failure, the command runs in this process
        try:
            with Client(f"{stem}.sock", "AF_UNIX", authkey=key) as connection:
                connection.send_bytes(request)
                messages.put(connection.recv_bytes())
                messages.put(connection.recv_bytes())
        except (ConnectionRefusedError, FileNotFoundError):  # the server was killed
            os.unlink(f"{stem}.json")
            os.unlink(f"{stem}.sock")
    messages.put(b"")


def _print(answer: Mapping[str, Any]) -> int | None:
    """Print a server's answer and return the exit code in it, or None if printing fails."""
    try:
        for number, text in answer["printed"]:
            stream: Any = (sys.stdout, sys.stderr)[number]
            stream.reconfigure(errors="backslashreplace")
            stream.write(text)
            stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError:  # the command reports the error
        return None
    return int(answer["code"])
