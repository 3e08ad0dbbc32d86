"""Answer commands of the same user over the library that a server has open."""

from __future__ import annotations

import io
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from threading import Thread
from typing import Any, TextIO, cast

from thumbindex.cli.command_client import (
    ACCEPTED,
    can_be_served,
    fingerprint,
    is_private_directory,
    socket_folder,
)
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.opening import OpenOptions, open_library
from thumbindex.present.exit_codes import FAILURE
from thumbindex.process import REMOTE_COMMAND, RemoteCommand, remote_command

LONGEST_REQUEST = 256 * 1024
"""Bytes of a request."""


class CommandDeclined(BaseException):
    """The command runs by itself. No error: no command may catch it and print it."""


class CommandServer:
    """Listens for commands until it is closed, and answers each in a thread."""

    def __init__(
        self,
        library: Library,
        program: Any,
        open_it: Callable[[OpenOptions], Library] = open_library,
    ) -> None:
        self._library, self._program, self._open = library, program, open_it
        self._key = secrets.token_bytes(32)
        folder = Path(socket_folder())
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if not is_private_directory(str(folder)):
            raise PermissionError(f"{folder} is open to others")
        self.path = folder / f"{secrets.token_hex(4)}.json"
        address = self.path.with_suffix(".sock")
        self._listener = Listener(str(address), "AF_UNIX", backlog=4)
        address.chmod(0o600)
        stated = json.dumps({"key": self._key.hex(), "fingerprint": fingerprint()})
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as to:
            to.write(stated)
        for handler in (*logging.root.handlers, logging.lastResort):
            if handler:
                handler.addFilter(_decline_on_warning)
        Thread(target=self._listen, name="local socket", daemon=True).start()

    def close(self) -> None:
        """Take no commands any more."""
        self.path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # the system has emptied the directory
            self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # closed, or no more files may be opened
            while True:
                connection = self._listener.accept()
                Thread(target=self._take, args=(connection,), daemon=True).start()
        self.close()

    def _take(self, connection: Connection) -> None:
        """Answer a client that knows the key; closing the connection declines."""
        # whatever a client sends, the next one is answered
        with connection, suppress(Exception):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            asked = json.loads(connection.recv_bytes(LONGEST_REQUEST))
            if can_be_served(asked["arguments"]):
                connection.send_bytes(ACCEPTED)
                connection.send_bytes(json.dumps(self._answer(asked)).encode())

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Run a command and return its text and exit code; None if it has to run by itself."""
        printed: list[tuple[int, str]] = []
        stdout, stderr = (
            cast("TextIO", _Stream(printed, number, is_terminal))
            for number, is_terminal in enumerate(asked["are_terminals"])
        )
        REMOTE_COMMAND.set(RemoteCommand(asked["folder"], asked["terminal"], stdout, stderr))
        try:
            self._program.main(
                asked["arguments"], "thumbindex", standalone_mode=False, obj=self._lend
            )
        except SystemExit as ended:
            if isinstance(ended.code, int) and ended.code != FAILURE:
                return {"printed": printed, "code": ended.code}
        except (CommandDeclined, Exception):  # the command says itself what is wrong
            return None
        return None

    def _lend(self, opening: OpenOptions) -> AbstractContextManager[Library]:
        """Return the open library if a command would open the same folders and settings, and would
        find nothing to index; leaving the context closes nothing.
        """
        named = [each for each in (opening.index, opening.config) if each is not None]
        if any(not each.expanduser().is_absolute() for each in named):
            raise CommandDeclined
        try:
            wanted = self._open(opening)
            lent = self._library.only([each.name for each in wanted.opened])
            is_same = lent.opened == wanted.opened and lent.config == wanted.config
            if not is_same or not lent.is_up_to_date():
                raise CommandDeclined
            lent.warm_up()  # the server may be a moment behind
            # without a vector the command would load no model
            if not any(state.vectors for state in lent.index_states().values()):
                raise CommandDeclined
        except ThumbindexError:
            raise CommandDeclined from None
        return nullcontext(lent)


class _Stream(io.TextIOBase):
    """A command's output; `printed` keeps the order of what it prints on both streams."""

    encoding = "utf-8"

    def __init__(self, printed: list[tuple[int, str]], number: int, is_terminal: bool) -> None:
        self._printed, self._number, self._is_terminal = printed, number, is_terminal

    def isatty(self) -> bool:
        """Return whether the command writes to a terminal."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Keep what is printed."""
        self._printed.append((self._number, text))
        return len(text)


def listen(library: Library, program: Any) -> CommandServer | None:
    """Listen for commands; None if there is no private directory, or no room for an address."""
    try:
        return None if sys.platform == "win32" else CommandServer(library, program)
    except OSError:
        return None


def _decline_on_warning(record: logging.LogRecord) -> bool:
    """Have a command that warns run by itself, so that its user reads the warning."""
    if remote_command() is not None:
        raise CommandDeclined
    return True
