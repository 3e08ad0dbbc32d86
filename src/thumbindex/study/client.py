"""A server in a process of its own, asked over its pipes: what is measured here is what a client sees."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self

from thumbindex.errors import ThumbindexError

PROTOCOL = "2025-06-18"
"""The version of MCP in which it asks: every era's server knows it."""

ANSWER_SECONDS = 60.0
"""The longest wait for an answer: as long as patient clients wait."""


class ServerProcess:
    """`thumbindex serve` with some options, started and initialized; ended with the `with`."""

    def __init__(self, options: Sequence[str]) -> None:
        # -P: the working directory may be a vault, whose files must never be imported.
        command = [sys.executable, "-P", "-m", "thumbindex", "serve", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, args=(self.process.stdout,), name="server's answers", daemon=True).start()

    def __enter__(self) -> Self:
        client = {"name": "thumbindex bench", "version": "1"}
        self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._write({"method": "notifications/initialized"})
        self.request("tools/list", {})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait(10)
        if self.process.stdout:
            self.process.stdout.close()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured answer. Raises ThumbindexError where the server refuses."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ThumbindexError(f"{tool}: {result['content'][0]['text']}")
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask and wait for the answer, one request at a time."""
        with self._lock:
            self._number += 1
            self._write({"id": self._number, "method": method, "params": params})
            while True:
                answer = self._next(method)
                if answer.get("id") == self._number:
                    break
        if "error" in answer:
            raise ThumbindexError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self, method: str) -> dict[str, Any]:
        try:
            return self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise ThumbindexError(f"{method}: no answer within {ANSWER_SECONDS:g} s") from None

    def _write(self, message: Mapping[str, Any]) -> None:
        if self.process.stdin is None:
            return
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _listen(self, lines: IO[bytes]) -> None:
        for line in lines:
            self._answers.put(json.loads(line))
        self._answers.put({"id": self._number, "error": {"message": "the server has ended"}})
