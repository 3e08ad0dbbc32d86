"""Answer commands of the same user over a socket of a server's process: those that would open just
what this server has open.
"""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import typer

from thumbindex.config import real_folder
from thumbindex.errors import StorageError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.model import Answer, IndexReport
from thumbindex.process import Caller, answer_for, environment
from thumbindex.serve.background import Warnings
from thumbindex.serve.local_client import (
    END,
    LONGEST_PATH,
    LONGEST_REQUEST,
    STDERR,
    STDOUT,
    TAKEN,
    frame,
    is_own,
    is_private,
    may_be_asked,
    program,
    read_frame,
    socket_folders,
    sockets_in,
)
from thumbindex.serve.opening import FAILURE, Opening, open_library

REQUEST_SECONDS = 0.5
"""The longest that one client may take to send a request or to take an answer: the next one waits
meanwhile.
"""

_WAITING = 4
"""Clients that may wait; each of them waits for a tenth of a second only."""

DECIDING = (
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
"""Variables that decide which files are read, or which day it is; a server answers where they are
as its own.
"""


_OPENING = ("--folder", "--index", "--config", "--set")
"""The options that name what is opened."""


class Declined(BaseException):
    """This server would not answer as the command itself would.

    No error: no command may catch it and print it.
    """


class LentLibrary(Library):
    """A server's library as a command has it: it closes nothing, writes nothing, and loads no model
    that is not there.
    """

    def __init__(self, library: Library) -> None:
        vars(self).update(vars(library))  # its readers keep what they have open
        self._models = self._embedder, self._reranker
        if not self._given:
            self._embedder = None

    def index(self, *, words_only: bool = False, **how: Any) -> IndexReport:
        """Do nothing where nothing is to be done; what a command takes in, it takes in itself."""
        try:
            if not words_only or not self.up_to_date():
                raise Declined
        except (StorageError, UnknownFolderError):
            raise Declined from None
        self.refresh()
        return IndexReport(0, 0, 0, 0, (), 0, 0, 0, 0, 0, 0, 0.0, 0)

    def load_models(self) -> None:
        """Take the server's models where they are those that the command would load."""
        self._embedder, self._reranker = self._models
        if self._embedder is None or (self._reranker is None and self.config.query.runs("rerank")):
            raise Declined
        super().load_models()

    def open_model(self, known: str) -> Any:
        """Leave it to the command."""
        raise Declined

    def query(self, text: Any, **how: Any) -> Answer:
        """Answer what needs no waiting and shows no times."""
        if how.get("wait_fresh") or how.get("explain"):
            raise Declined
        return super().query(text, **how)

    def repair(self, *_: Any, **__: Any) -> tuple[str, ...]:
        """Leave it to the command."""
        raise Declined

    def close(self) -> None:
        """Keep everything open."""


class LocalSocket:
    """Listens until it is closed, in a thread of its own; one command after another is answered."""

    def __init__(
        self,
        library: Library,
        warnings: Warnings,
        open_it: Callable[[Opening], Library] = open_library,
        around: Mapping[str, str] | None = None,
    ) -> None:
        self._library, self._warnings, self._open = library, warnings, open_it
        self._around = dict(around if around is not None else environment())
        self._program = program()
        self._closed = False
        self.path, self._socket = _bind(self._around)
        threading.Thread(target=self._listen, name="local socket", daemon=True).start()

    def close(self) -> None:
        """Take nobody any longer."""
        self._closed = True
        with suppress(OSError):
            Path(self.path).unlink()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # else the thread would wait on
        self._socket.close()

    def _listen(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(REQUEST_SECONDS)  # closed, or there are too many open files
                continue
            # whatever a client sends, the next one is answered
            with connection, suppress(Exception):
                if is_own(connection):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        """Read a request and answer it; to decline is to close the connection without an exit
        code.
        """
        _, body = read_frame(connection, time.monotonic() + REQUEST_SECONDS, LONGEST_REQUEST)
        asked = json.loads(body)
        if not self._is_as_here(asked):
            return
        connection.settimeout(REQUEST_SECONDS)
        printed: list[tuple[int, bytearray]] = []
        stdout, stderr = (
            _Printed(printed, kind, *facts)
            for kind, facts in zip((STDOUT, STDERR), asked["streams"], strict=True)
        )
        asking = Caller(asked["folder"], asked["environment"], stdout, stderr)
        before = self._warnings.count, self._warnings.of_commands
        code = answer_for(
            asking,
            partial(
                self._run,
                list(map(str, asked["arguments"])),
                lambda: connection.sendall(frame(TAKEN)),
            ),
        )
        if code is not None and (self._warnings.count, self._warnings.of_commands) == before:
            connection.sendall(
                b"".join(
                    (
                        *(frame(kind, bytes(text)) for kind, text in printed),
                        frame(END, bytes([code])),
                    )
                )
            )

    def _is_as_here(self, asked: Mapping[str, Any]) -> bool:
        """Tell whether a command runs the same code in the same surroundings, with the same
        rights.
        """
        around, here = asked["environment"], Path(asked["folder"]).stat()
        return (
            may_be_asked(asked["arguments"])
            and asked["program"] == self._program
            and asked["groups"] == sorted({os.getegid(), *os.getgroups()})
            and asked["place"] == [here.st_dev, here.st_ino]
            and all(around.get(name, "") == self._around.get(name, "") for name in DECIDING)
            and not self._warnings.count
        )

    def _run(self, arguments: list[str], take: Callable[[], object]) -> int | None:
        """Run a command over the open library and return its exit code; None where the command is
        to open the index itself.
        """
        try:
            lent = self._lend_early(arguments)
            take()  # who serves other folders says so without the command line's modules

            def open_it(opening: Opening) -> Library:
                return lent[opening] if opening in lent else self._lend(opening)

            _commands().main(arguments, "thumbindex", standalone_mode=False, obj=open_it)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) and ended.code != FAILURE else None
        except (Declined, Exception):  # what is wrong the command says itself
            return None
        return None

    def _lend_early(self, arguments: Sequence[str]) -> Mapping[Opening, Library]:
        """Return the open library by what a command names, as far as a glance tells; decline where
        that is not here.
        """
        opening = _opening_in(arguments)
        if opening.folder:
            return {opening: self._lend(opening)}
        here = real_folder(".")
        if not self._library.config.folders and not any(
            here.is_relative_to(root) for _, root in self._library.folders
        ):
            raise Declined
        return {}

    def _lend(self, opening: Opening) -> Library:
        """Return the open library where a command would open the same: folders, index and
        settings.
        """
        if any(
            path and not path.expanduser().is_absolute() for path in (opening.index, opening.config)
        ):
            raise Declined
        wanted = self._open(opening)
        names = [each.name for each in wanted.opened]
        lent = LentLibrary(
            self._library if len(names) == len(self._library.opened) else self._library.only(names)
        )
        if lent.opened != wanted.opened or lent.config != wanted.config:
            raise Declined
        # a server may show the last snapshot for a moment; a command opens the present one
        lent.refresh()
        return lent


def _opening_in(arguments: Sequence[str]) -> Opening:
    """Read what a command names; where the command line's own parser comes to something else, that
    counts.
    """
    pairs = zip(arguments, (*arguments[1:], ""), strict=True)
    named = [
        each if "=" in each else f"{each}={value}"
        for each, value in pairs
        if each.partition("=")[0] in _OPENING
    ]
    # each of these commands asks a database where one is configured
    return replace(Opening.from_arguments(named), engine="")


@cache
def _commands() -> Any:
    """Return the program with all commands, made once."""
    # Imported here: a server that no command asks does without them.
    from thumbindex.serve.cli import app

    return typer.main.get_command(app)


class _Printed(io.TextIOWrapper):
    """One of a command's streams; `printed` holds what is printed on all of them, in its order."""

    def __init__(
        self, printed: list[tuple[int, bytearray]], kind: int, encoding: str, is_terminal: bool
    ) -> None:
        super().__init__(
            _Bytes(printed, kind, is_terminal), encoding, "backslashreplace", write_through=True
        )


class _Bytes(io.RawIOBase):
    name = "a command's stream"

    def __init__(self, printed: list[tuple[int, bytearray]], kind: int, is_terminal: bool) -> None:
        self._printed, self._kind, self._is_terminal = printed, kind, is_terminal

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, data: Any) -> int:
        if not self._printed or self._printed[-1][0] != self._kind:
            self._printed.append((self._kind, bytearray()))
        self._printed[-1][1].extend(data)
        return len(data)


def listen(library: Library, warnings: Warnings) -> LocalSocket | None:
    """Listen for commands; None where the platform has no such sockets, or no directory is the
    user's own.
    """
    try:
        return LocalSocket(library, warnings) if hasattr(socket, "AF_UNIX") else None
    except OSError:
        return None


def _bind(around: Mapping[str, str]) -> tuple[str, socket.socket]:
    """Return a socket that listens in the first directory that can be this user's own, and where;
    raise OSError where none can.
    """
    for folder in socket_folders(around):
        path = f"{folder}/{os.getpid()}.sock"
        if len(os.fsencode(path)) > LONGEST_PATH:
            continue
        with suppress(OSError):
            Path(folder).mkdir(0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            continue
        _remove_dead(folder)
        return path, _bind_at(path)
    raise OSError("no directory for a socket")


def _bind_at(path: str) -> socket.socket:
    """Listen under another name first: nobody finds a socket that does not listen yet."""
    made = socket.socket(socket.AF_UNIX)
    new = Path(path).with_suffix(".new")
    try:
        new.unlink(missing_ok=True)
        made.bind(str(new))
        new.chmod(0o600)
        made.listen(_WAITING)
        new.rename(path)
    except OSError:
        made.close()
        raise
    return made


def _remove_dead(folder: str) -> None:
    """Remove the sockets of servers that have ended: nobody listens there."""
    for path in sockets_in(folder):
        with socket.socket(socket.AF_UNIX) as tried, suppress(OSError):
            tried.settimeout(REQUEST_SECONDS)
            try:
                tried.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()
