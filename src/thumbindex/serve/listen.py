"""The door to uvicorn: listens at an address, has no patience with who sends nothing, and ends gently."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any, TextIO

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from thumbindex.errors import UsageError
from thumbindex.settings import HttpSettings


class Listening(uvicorn.Server):
    """A server that says where it listens and, told to end, lets requests that are under way go on for a while."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, begun: Callable[[str], object], drain: Callable[[], object]) -> None:
        super().__init__(_uvicorn_config(app, settings))
        self._settings, self._begun, self._drain = settings, begun, drain

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and say where. Raises UsageError where that cannot be."""
        try:
            await super().startup(sockets)
        except SystemExit as error:  # uvicorn has logged why
            host, port = self._settings.host, self._settings.port
            raise UsageError(f"The server cannot listen at {host}, port {port}: give another --host or --port, or end who listens there.") from error
        port = self.servers[0].sockets[0].getsockname()[1]
        self._begun(f"http://{f'[{self._settings.host}]' if ':' in self._settings.host else self._settings.host}:{port}/mcp")

    async def shutdown(self, sockets: Any = None) -> None:
        """Take nobody any longer, and wait for those who are there."""
        self._drain()
        await super().shutdown(sockets)


class ServerLog(logging.StreamHandler[TextIO]):
    """The log of a server for many: no line holds a value that a client has sent, and the same line is written once in a while.

    A message of ours is written as it is: it holds nothing of a request. Of one of another package, and of an exception, only kind and place are.
    """

    SECONDS = 60.0

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._written: dict[str, float] = {}  # by line, when it was written

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        is_ours = record.name.partition(".")[0] == "thumbindex"
        said = " ".join(record.getMessage().split()) if is_ours else f"{record.name}: {record.levelname.lower()} at {record.filename}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        return said if error is None else f"{said}: {_kind_and_place(error)}"

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless its line was written a while ago."""
        line, now = self.format(record), self._clock()
        self._written = {each: at for each, at in self._written.items() if now < at + self.SECONDS}
        if line not in self._written:
            self._written[line] = now
            super().emit(record)


def _kind_and_place(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in walk_tb(error.__traceback__)]
    return f"{type(error).__name__} at {', '.join(places[-_PLACES:])}"


_PLACES = 5
"""Of the places that an exception passed, the last ones say where it comes from."""


def end_by_signal() -> None:
    """Have a signal end the server, not the process: what follows the server's end is to be done, too."""
    # uvicorn raises a signal again when it is done: it meets these.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # Else every stream is cut off at once, answers that are under way among them: the gate ends what would never end.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]


def _uvicorn_config(app: ASGIApp, settings: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=_patient(settings.body_seconds),
        ws="none",
        lifespan="on",
        log_config=None,  # uvicorn's own would write to standard output
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]  # any number will do
    )


def _patient(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's own protocol, which closes a connection on which no request has come for so long: uvicorn alone would wait for ever."""

    class Patient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._last: object = None
            self._look = self.loop.call_later(seconds, self._close_idle)

        def connection_lost(self, exc: Exception | None) -> None:
            self._look.cancel()
            super().connection_lost(exc)

        def _close_idle(self) -> None:
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self._last is self.cycle:
                self.transport.close()
                return
            self._last = self.cycle
            self._look = self.loop.call_later(seconds, self._close_idle)

    return Patient
