"""A server on a port of this machine, and clients that ask it over HTTP: what is measured here is what a team sees."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import httpx2

from thumbindex.errors import ThumbindexError
from thumbindex.study.client import ANSWER_SECONDS, END_SECONDS, SERVE

PROTOCOL = "2026-07-28"
"""The first version of MCP without sessions: each request says all."""

_META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "thumbindex bench", "version": "1"},
}

# A free port, and no limit of requests a second: it is the server that is measured, not its manners.
OPTIONS = ("--http", "--port", "0", "--set", "serve.http.rate=0")


class HttpServer:
    """`thumbindex serve --http` with some options, started; ended with the `with`."""

    def __init__(self, options: Sequence[str], program: Sequence[str] = (*SERVE, *OPTIONS)) -> None:
        self._process = subprocess.Popen([*program, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = ""

    def __enter__(self) -> Self:
        self.url = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not self.url:
            self._end()
            raise ThumbindexError("the server ended before it said where it listens")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        """End it as a signal does, and kill it where that is not enough."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


class HttpClient:
    """One client, with a connection of its own; ended with the `with`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False)  # no proxy stands between a machine and itself

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured answer. Raises ThumbindexError where the server refuses, or none comes."""
        about = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": PROTOCOL, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": _META}}
        try:
            told = self._http.post(self._url, headers=about, json=asked)
            answer = told.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise ThumbindexError(f"{tool}: no answer ({error})") from None
        result = answer.get("result", {})
        if told.status_code != 200 or "error" in answer or result.get("isError"):
            raise ThumbindexError(f"{tool}: {answer.get('error') or result['content'][0]['text']}")
        structured: dict[str, Any] = result["structuredContent"]
        return structured
