# ruff: noqa: PTH100, PTH109, PTH111, PTH112, PTH116, PTH119, PTH120, PTH208 - pathlib takes longer
# to import than all that is done here
"""Ask a server of this user that has the index open: what a command does before it opens anything,
of the standard library alone.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence

from thumbindex.process import environment

COMMANDS = ("query", "list", "read", "outline", "related", "broken", "orphans", "why")
"""That only read. Each is asked both ways by `tests/serve/test_local.py`, from another directory
than the server's, and must print the same.
"""

ALONE = ("-h", "--help", "--explain", "--wait", "--wait-fresh", "--engine")
"""Options of commands that no server answers: they print help or times, wait, or ask a database."""

LONGEST_REQUEST = 256 * 1024
"""Bytes: some shells export environments of a hundred thousand."""

TAKE_SECONDS = 0.1
"""A server says within this time that it has taken a request; one that is busy is not waited
for.
"""

ASK_SECONDS = 0.3
"""For so long servers are looked for, where there are several."""

ANSWER_SECONDS = 10.0
"""An answer that was begun is waited for this long; opening the index instead takes one to three
seconds.
"""

LONGEST_PATH = 100
"""Bytes: a socket's address has 104 on macOS and 108 on Linux."""

WRITE_SECONDS = 0.01
"""Before another try to write to a reader that is full."""

FAILURE = 3
"""The exit code of a command that failed, as in `serve/opening.py`."""

END, STDOUT, STDERR, TAKEN = range(4)
"""What a frame of a reply is: the exit code, what a command prints, or the word that the request is
being worked on.
"""

_HEAD = struct.Struct(">BI")
"""Of a frame: what it is, and how many bytes follow."""


def ask_servers(arguments: Sequence[str]) -> int | None:
    """Print what a server answers to a command, and return its exit code; None where none does, and
    nothing was printed.
    """
    if (
        not may_be_asked(arguments)
        or not hasattr(socket, "AF_UNIX")
        or sys.stdout is None
        or sys.stderr is None
    ):
        return None
    around, request, until = environment(), b"", time.monotonic() + ASK_SECONDS
    for path in (path for folder in socket_folders(around) for path in sockets_in(folder)):
        try:
            request = request or write_request(arguments, around)
            with socket.socket(socket.AF_UNIX) as server:
                server.settimeout(TAKE_SECONDS)
                server.connect(path)
                frames = _ask(server, request)
        except (OSError, ValueError, EOFError):
            frames = []
        if frames:
            return _print(frames)
        if time.monotonic() > until:
            break
    return None


def may_be_asked(arguments: Sequence[str]) -> bool:
    """Tell whether a command is one that a server answers, as far as a glance tells."""
    return tuple(arguments[:1]) in {(each,) for each in COMMANDS} and not any(
        each.partition("=")[0] in ALONE for each in arguments
    )


# ------------------------------------------------------------------ where the sockets lie


def socket_folders(around: Mapping[str, str]) -> tuple[str, ...]:
    """Return where a server of this user may listen: below the runtime directory where there is
    one, else below the user's cache.
    """
    runtime, cache = (
        each if each.startswith("/") else ""
        for each in (around.get("XDG_RUNTIME_DIR", ""), around.get("XDG_CACHE_HOME", ""))
    )
    cache = cache or os.path.expanduser(
        "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    )
    return (*((f"{runtime}/thumbindex",) if runtime else ()), f"{cache}/thumbindex/run")


def is_private(folder: str) -> bool:
    """Tell whether a directory is this user's own, closed to all others, and no symlink: what lies
    in it was put there by this user.
    """
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not stat.S_IMODE(found.st_mode) & 0o077
    )


def sockets_in(folder: str) -> list[str]:
    """Return the sockets of servers in a directory that is this user's own."""
    try:
        names = sorted(os.listdir(folder)) if is_private(folder) else []
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if name.endswith(".sock")]


def peer(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end, as the system says; None where the system
    does not say.
    """
    if hasattr(socket, "SO_PEERCRED"):
        _, user, _ = struct.unpack(
            "3i",
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")),
        )
        return int(user)
    if sys.platform == "darwin":
        # SOL_LOCAL and LOCAL_PEERCRED, a `struct xucred`
        _, user = struct.unpack_from("2I", connection.getsockopt(0, 1, 128))
        return int(user)
    return None


def is_own(connection: socket.socket) -> bool:
    """Tell whether this user is at the other end; where the system does not say, the directory's
    rights have to do.
    """
    return peer(connection) in {None, os.geteuid()}


# ------------------------------------------------------------------ what is asked and answered


def write_request(arguments: Sequence[str], around: Mapping[str, str]) -> bytes:
    """Write a command with all that decides what it prints.

    Raises ValueError for one that no server answers, OSError without a current directory.
    """
    folder = os.getcwd()
    here = os.stat(folder)
    streams = [[each.encoding, each.isatty()] for each in (sys.stdout, sys.stderr)]
    if around.get("TERM", "").lower() in {"dumb", "unknown"} and any(
        is_terminal for _, is_terminal in streams
    ):
        raise ValueError("a terminal that says nothing about itself")
    asked = {
        "program": program(),
        "groups": sorted({os.getegid(), *os.getgroups()}),
        "arguments": list(arguments),
        "folder": folder,
        "place": [here.st_dev, here.st_ino],
        "environment": {**around, **_size(around)},
        "streams": streams,
    }
    request = json.dumps(asked).encode()
    if len(request) > LONGEST_REQUEST:
        raise ValueError("too long")
    return _HEAD.pack(TAKEN, len(request)) + request


def program() -> list[object]:
    """Return by what two processes are told apart that run other code: the interpreter, our own
    files, and what is installed beside them.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packages = [
        each for each in sys.path if os.path.basename(each) in {"site-packages", "dist-packages"}
    ]
    facts = [
        *_files(root),
        *sorted((each, os.stat(each).st_mtime_ns) for each in packages if os.path.isdir(each)),
    ]
    return [
        root,
        sys.version,
        sys.getfilesystemencoding(),
        zlib.crc32(repr(facts).encode("utf-8", "backslashreplace")),
    ]


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for each in sorted(entries, key=lambda each: each.name):
            if each.is_dir():
                yield from () if each.name == "__pycache__" else _files(each.path)
            else:
                yield each.path, each.stat().st_size, each.stat().st_mtime_ns


def _size(around: Mapping[str, str]) -> dict[str, str]:
    """Return the terminal's size as variables of the environment, as `rich` finds it: those that
    are set stay.
    """
    columns, lines = 0, 0
    for stream in (0, 1, 2):
        try:
            columns, lines = os.get_terminal_size(stream)
        except OSError:
            continue
        break
    found = {"COLUMNS": str(columns or 80), "LINES": str(lines or 25)}
    return {name: size for name, size in found.items() if not around.get(name, "").isdigit()}


def _ask(server: socket.socket, request: bytes) -> list[tuple[int, bytes]]:
    """Return the frames of an answer, the last one with the exit code.

    Raises EOFError where the server declines, OSError where it takes too long.
    """
    if not is_own(server):
        raise EOFError
    server.sendall(request)
    frames = [read_frame(server, time.monotonic() + TAKE_SECONDS)]
    until = time.monotonic() + ANSWER_SECONDS
    while frames[-1][0] != END:
        frames.append(read_frame(server, until))
    return frames


def frame(kind: int, body: bytes = b"") -> bytes:
    """Write a frame."""
    return _HEAD.pack(kind, len(body)) + body


def read_frame(
    connection: socket.socket, until: float, longest: int = 1 << 30
) -> tuple[int, bytes]:
    """Read a frame. Raises EOFError where the other end closes, TimeoutError when the time is up,
    ValueError for a frame that is too long.
    """
    kind, size = _HEAD.unpack(_read(connection, _HEAD.size, until))
    if size > longest:
        raise ValueError("too long")
    return kind, _read(connection, size, until)


def _read(connection: socket.socket, size: int, until: float) -> bytes:
    parts = []
    while size:
        if (left := until - time.monotonic()) <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _print(frames: Sequence[tuple[int, bytes]]) -> int:
    """Print an answer and return its exit code; a reader that leaves has had enough."""
    for kind, body in frames:
        while kind in (STDOUT, STDERR) and body:
            try:
                body = body[os.write(kind, body) :]
            except BlockingIOError:
                time.sleep(WRITE_SECONDS)
            except BrokenPipeError:
                return 0
            except OSError as error:
                sys.stderr.write(f"The answer cannot be written: {error.strerror}.\n")
                return FAILURE
    return frames[-1][1][0]
