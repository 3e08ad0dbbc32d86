"""Answer commands of the same user over the library that a server has open."""

from __future__ import annotations

import io
import json
import logging
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import (
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from pathlib import Path
from typing import Any, TextIO, cast

import typer

from thumbindex.errors import StorageError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.model import Answer, IndexReport
from thumbindex.process import Caller, answering, caller, environment
from thumbindex.serve.local_client import (
    LONGEST_REQUEST,
    SURROUNDINGS,
    TAKE_SECONDS,
    TAKEN,
    connect,
    endpoint_folder,
    endpoints,
    is_private,
    may_be_asked,
    program,
)
from thumbindex.serve.opening import FAILURE, Opening, open_library


class Declined(BaseException):
    """The command runs by itself. No error: no command may catch it and print it."""


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
        """Do nothing if all is indexed; else the command does it."""
        try:
            if not words_only or not self.up_to_date():
                raise Declined
        except (StorageError, UnknownFolderError):
            raise Declined from None
        self.refresh()
        return IndexReport(0, 0, 0, 0, (), 0, 0, 0, 0, 0, 0, 0.0, 0)

    def load_models(self) -> None:
        """Take the server's models if they are those that the command would load."""
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
    """Listens for commands in a thread until it is closed, and answers one at a time."""

    def __init__(
        self, library: Library, open_it: Callable[[Opening], Library] = open_library
    ) -> None:
        self._library, self._open = library, open_it
        self._key, self._is_closed, self._busy = secrets.token_bytes(32), False, threading.Lock()
        around = environment()
        self._surroundings = {name: around[name] for name in SURROUNDINGS if name in around}
        folder = Path(endpoint_folder(around))
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if not is_private(str(folder)):
            raise PermissionError(f"{folder} is open to others")
        _remove_dead(folder)
        name = secrets.token_hex(4)
        is_pipe = sys.platform == "win32"
        address = rf"\\.\pipe\thumbindex-{name}" if is_pipe else str(folder / f"{name}.sock")
        self._endpoint = {"address": address, "key": self._key.hex(), "program": program()}
        self._listener = Listener(address, "AF_PIPE" if is_pipe else "AF_UNIX", backlog=4)
        if not is_pipe:
            Path(address).chmod(0o600)
        self.path = folder / f"{name}.json"
        _write_private(self.path, json.dumps(self._endpoint))
        if logging.lastResort:
            logging.lastResort.addFilter(_is_for_the_log)
        self._thread = threading.Thread(target=self._listen, name="local socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no commands any more."""
        self._is_closed = True
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            connect(self._endpoint, None).close()  # wakes the thread
        self._thread.join(1)
        self._listener.close()

    def _listen(self) -> None:
        while not self._is_closed:
            with suppress(OSError):  # a client that has just left
                connection = self._listener.accept()
                threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: Connection) -> None:
        """Answer a client that knows the key; closing the connection declines."""
        # whatever a client sends, the next one is answered
        with connection, suppress(Exception):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            asked = json.loads(connection.recv_bytes(LONGEST_REQUEST))
            if self._is_as_here(asked) and self._busy.acquire(timeout=TAKE_SECONDS / 2):
                try:
                    connection.send_bytes(TAKEN)
                    if answer := self._answer(asked):
                        connection.send_bytes(json.dumps(answer).encode())
                finally:
                    self._busy.release()

    def _is_as_here(self, asked: Mapping[str, Any]) -> bool:
        """Tell whether a command reads the same files as it would in this process."""
        here = Path(asked["folder"]).stat()
        return (
            may_be_asked(asked["arguments"])
            and asked["surroundings"] == self._surroundings
            and asked["place"] == [here.st_dev, here.st_ino]
        )

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Run a command and return its text and exit code; None if it has to run by itself."""
        printed: list[tuple[int, str]] = []
        stdout, stderr = (
            cast("TextIO", _Stream(printed, number, *facts))
            for number, facts in enumerate(asked["streams"], 1)
        )
        with answering(Caller(asked["folder"], asked["terminal"], stdout, stderr)):
            try:
                _program().main(
                    asked["arguments"], "thumbindex", standalone_mode=False, obj=self._lend
                )
            except SystemExit as ended:
                if isinstance(ended.code, int) and ended.code != FAILURE:
                    return {"printed": printed, "code": ended.code}
            except (Declined, Exception):  # the command says itself what is wrong
                return None
        return None

    def _lend(self, opening: Opening) -> Library:
        """Return the open library if a command would open the same folders and settings."""
        named = [each for each in (opening.index, opening.config) if each is not None]
        if any(not each.expanduser().is_absolute() for each in named):
            raise Declined
        wanted = self._open(opening)
        names = [each.name for each in wanted.opened]
        is_whole = len(names) == len(self._library.opened)
        lent = LentLibrary(self._library if is_whole else self._library.only(names))
        if lent.opened != wanted.opened or lent.config != wanted.config:
            raise Declined
        lent.refresh()  # a server may be a moment behind
        return lent


class _Stream(io.TextIOBase):
    """A command's output; `printed` keeps the order of what it prints on both streams."""

    def __init__(
        self, printed: list[tuple[int, str]], number: int, encoding: str, is_terminal: bool
    ) -> None:
        self._printed, self._number = printed, number
        self._encoding, self._is_terminal = encoding, is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the command's own stream."""
        return self._encoding

    def isatty(self) -> bool:
        """Tell whether the command writes to a terminal."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Keep what is printed."""
        self._printed.append((self._number, text))
        return len(text)


def listen(library: Library) -> LocalSocket | None:
    """Listen for commands; None if there is no private directory, or no room for an address."""
    try:
        return LocalSocket(library)
    except OSError:
        return None


@cache
def _program() -> Any:
    # Imported here: the command line imports what it serves with.
    from thumbindex.serve.cli import app

    return typer.main.get_command(app)


def _is_for_the_log(record: logging.LogRecord) -> bool:
    """Have a command that warns run by itself, so that its user reads the warning."""
    if caller() is not None:
        raise Declined
    return True


def _write_private(path: Path, text: str) -> None:
    """Write a file for this user alone, whole before anybody finds it."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.rename(path)


def _remove_dead(folder: Path) -> None:
    """Remove what servers left that were killed."""
    alive = set[str]()
    for each in endpoints():
        with suppress(ConnectionRefusedError, FileNotFoundError):
            connect(each, None).close()
            alive.add(Path(each["address"]).stem.removeprefix("thumbindex-"))
    for path in folder.iterdir():
        if path.suffix in {".json", ".sock"} and path.stem not in alive:
            path.unlink(missing_ok=True)
