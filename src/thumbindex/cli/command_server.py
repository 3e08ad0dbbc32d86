"""Answer commands of the same user from a server's open library."""

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
"""Maximum bytes of a request."""

FRESH_SECONDS = 2.0
"""Maximum wait for the indexer after an edit. The command itself takes about as long."""


class CommandDeclined(BaseException):
    """Raised to make the client run the command itself.

    A BaseException, so that no command catches and prints it.
    """


class CommandServer:
    """Listens for commands until closed, and answers each command in its own thread."""

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
            raise PermissionError(f"other users can access {folder}")
        self.path = folder / f"{secrets.token_hex(4)}.json"
        address = self.path.with_suffix(".sock")
        self._listener = Listener(str(address), "AF_UNIX", backlog=4)
        address.chmod(0o600)
        state = json.dumps({"key": self._key.hex(), "fingerprint": fingerprint()})
        with os.fdopen(
            os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            file.write(state)
        for handler in (*logging.root.handlers, logging.lastResort):
            if handler:
                handler.addFilter(_decline_on_warning)
        Thread(target=self._listen, name="local socket", daemon=True).start()

    def close(self) -> None:
        """Stop accepting commands."""
        self.path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # the system may have emptied the directory
            self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # closed, or too many open files
            while True:
                connection = self._listener.accept()
                Thread(target=self._serve_client, args=(connection,), daemon=True).start()
        self.close()

    def _serve_client(self, connection: Connection) -> None:
        """Answer a client that knows the key. To decline, close the connection."""
        # no client may stop the server
        with connection, suppress(Exception):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            request = json.loads(connection.recv_bytes(LONGEST_REQUEST))
            if can_be_served(request["arguments"]):
                connection.send_bytes(ACCEPTED)
                connection.send_bytes(json.dumps(self._answer(request)).encode())

    def _answer(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Run a command, and return its output and exit code.

        Returns None if the client must run the command.
        """
        printed: list[tuple[int, str]] = []
        stdout, stderr = (
            cast("TextIO", _Stream(printed, number, is_terminal))
            for number, is_terminal in enumerate(request["are_terminals"])
        )
        REMOTE_COMMAND.set(RemoteCommand(request["folder"], request["terminal"], stdout, stderr))
        try:
            self._program.main(
                request["arguments"], "thumbindex", standalone_mode=False, obj=self._shared_library
            )
        except SystemExit as error:
            if isinstance(error.code, int) and error.code != FAILURE:
                return {"printed": printed, "code": error.code}
        except (CommandDeclined, Exception):  # the client runs the command and reports the error
            return None
        return None

    def _shared_library(self, opening: OpenOptions) -> AbstractContextManager[Library]:
        """Return the open library, or raise CommandDeclined if it cannot answer the command."""
        paths = [path for path in (opening.index, opening.config) if path is not None]
        if any(not path.expanduser().is_absolute() for path in paths):
            raise CommandDeclined
        try:
            requested = self._open(opening)
            library = self._library.only([path.name for path in requested.opened])
            is_same = library.opened == requested.opened and library.config == requested.config
            if not is_same or not library.await_fresh(FRESH_SECONDS):
                raise CommandDeclined
            library.warm_up()  # the server may be slightly behind
            # without vectors the command loads no model, and would answer differently
            if not library.has_vectors:
                raise CommandDeclined
        except ThumbindexError:
            raise CommandDeclined from None
        return nullcontext(library)


class _Stream(io.TextIOBase):
    """Records a command's output as pairs of a stream number (stdout 0, stderr 1) and a text."""

    encoding = "utf-8"

    def __init__(self, printed: list[tuple[int, str]], number: int, is_terminal: bool) -> None:
        self._printed, self._number, self._is_terminal = printed, number, is_terminal

    def isatty(self) -> bool:
        """Return whether the command writes to a terminal."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Record a piece of text."""
        self._printed.append((self._number, text))
        return len(text)


def listen(library: Library, program: Any) -> CommandServer | None:
    """Start a CommandServer, or return None on Windows or if its socket cannot be created."""
    try:
        return None if sys.platform == "win32" else CommandServer(library, program)
    except OSError:
        return None


def _decline_on_warning(record: logging.LogRecord) -> bool:
    """Decline a remote command that logs a warning."""
    # the client then runs the command, and shows the warning
    if remote_command() is not None:
        raise CommandDeclined
    return True
