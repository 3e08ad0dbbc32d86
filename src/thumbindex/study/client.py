"""A server in a process of its own, asked over its pipes: what is measured here is what a client sees."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Protocol, Self

from thumbindex.errors import ThumbindexError

PROTOCOL = "2025-06-18"
"""The version of MCP in which it asks: every era's server knows it."""

ANSWER_SECONDS = 60.0
"""The longest wait for an answer: as long as patient clients wait."""

END_SECONDS = 10.0
"""The longest wait for a server's end when its input has ended: five times what it promises."""

# -P: the working directory may be a vault, whose files must never be imported.
SERVE = (sys.executable, "-P", "-m", "thumbindex", "serve")


class Client(Protocol):
    """Asks a server, however it is reached."""

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured answer. Raises ThumbindexError where the server refuses."""


class ServerProcess:
    """`thumbindex serve` with some options, started and initialized; ended with the `with`. Any number of threads may ask at once."""

    def __init__(self, options: Sequence[str], program: Sequence[str] = SERVE) -> None:
        self.process = subprocess.Popen([*program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}  # by the number of the request
        self._number = 0
        self._ended = False
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, args=(self.process.stdout,), name="server's answers", daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        try:
            self.initialize()
            self.list_tools()
        except BaseException:
            # no `with` will end what it never entered
            self.process.kill()
            self.end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def initialize(self) -> None:
        """Shake hands."""
        client = {"name": "thumbindex bench", "version": "1"}
        self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._write({"method": "notifications/initialized"})

    def list_tools(self) -> None:
        """List the tools, as every client does before it calls one."""
        self.request("tools/list", {})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured answer. Raises ThumbindexError where the server refuses."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ThumbindexError(f"{tool}: {result['content'][0]['text']}")
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask and wait for the answer, whatever others ask meanwhile. Raises ThumbindexError where none comes, or it is an error."""
        number, coming = self._expect()
        try:
            self._write({"id": number, "method": method, "params": params})
            answer = coming.result(ANSWER_SECONDS)
        except TimeoutError:
            raise ThumbindexError(f"{method}: no answer within {ANSWER_SECONDS:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in answer:
            raise ThumbindexError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def _expect(self) -> tuple[int, Future[dict[str, Any]]]:
        """Return the next request's number and where its answer will be."""
        coming: Future[dict[str, Any]] = Future()
        with self._lock:
            self._number += 1
            self._waiting[self._number] = coming
            if self._ended:
                coming.set_result(_ENDED)
            return self._number, coming

    def _write(self, message: Mapping[str, Any]) -> None:
        written = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            with self._lock:
                if self.process.stdin is not None:
                    self.process.stdin.write(written)
                    self.process.stdin.flush()
        except (OSError, ValueError):
            raise ThumbindexError(f"{message['method']}: the server has ended") from None

    def _listen(self, lines: IO[bytes]) -> None:
        for line in lines:
            answer = json.loads(line)
            # a notification, or a request of the server's own, is no answer
            coming = None if "method" in answer else self._taken(answer.get("id"))
            if coming is not None:
                coming.set_result(answer)
        with self._lock:
            self._ended = True
            left, self._waiting = list(self._waiting.values()), {}
        for coming in left:
            coming.set_result(_ENDED)

    def _taken(self, number: int) -> Future[dict[str, Any]] | None:
        with self._lock:
            return self._waiting.pop(number, None)

    def end(self) -> None:
        """End its input and wait for its end; kill it where that does not come. Raises ThumbindexError then."""
        if self.process.stdin:
            with suppress(OSError):  # it has ended with something unread
                self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ThumbindexError(f"the server did not end within {END_SECONDS:g} s of its input") from None
        finally:
            self._listener.join(END_SECONDS)
            if self.process.stdout:
                self.process.stdout.close()


_ENDED: dict[str, Any] = {"error": {"message": "the server has ended"}}
