"""A client's first requests are answered while the protocol's package is still being imported, which takes most of a server's start.

The package reads the same requests afterwards, and what it answers to them is not sent a second time: whatever it does on a request is done.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from queue import Queue
from typing import IO, Any

Answers = Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any] | None]]
"""What is answered to a method's parameters, the method named; None where that is left to the package."""

LINES_READ = 64
"""Messages that are read before somebody takes them: a client that sends more is kept waiting."""


class Ahead:
    """Standard input and output, a line a message, as the package is given them. Its writer is one thread's, its reader another one's."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[str], answers: Answers) -> None:
        self._incoming, self._outgoing, self._answers = incoming, outgoing, answers
        self._lines: Queue[str] = Queue(LINES_READ)
        self._is_ahead, self._is_greeted = True, False
        self._answered: set[str] = set()  # ids as they are written
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, name="client's messages", daemon=True)
        self._listener.start()

    def readline(self) -> str:
        """Return the next message, "" where there is none any more. From the first call on nothing is answered ahead."""
        self._is_ahead = False
        return self._lines.get()

    def write(self, line: str) -> int:
        """Send a message, but for an answer that was sent already."""
        with self._lock:
            if not (self._answered and self._is_answered(line)):
                self._outgoing.write(line)
        return len(line)

    def flush(self) -> None:
        """Send what was written."""
        with self._lock:
            self._outgoing.flush()

    def _listen(self) -> None:
        with self._incoming:
            for line in self._incoming:
                message = line.decode("utf-8", errors="replace")
                if self._is_ahead:
                    self._answer(message)
                self._lines.put(message)
        self._lines.put("")

    def _answer(self, line: str) -> None:
        """Answer a request where that can be; the first one that cannot ends it, so that answers come in the order of the requests."""
        number, method, asked = _read(line)
        if method and number is None:
            return  # a notification is the package's
        answer = self._answers[method](asked) if method in self._answers and (self._is_greeted or method == "initialize") else None
        if answer is None:
            self._is_ahead = False
            return
        self._is_greeted = True
        with self._lock:
            self._answered.add(json.dumps(number))
            self._outgoing.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": answer}, ensure_ascii=False) + "\n")
            self._outgoing.flush()

    def _is_answered(self, line: str) -> bool:
        message = json.loads(line)
        number = json.dumps(message.get("id"))
        if "method" in message or number not in self._answered:
            return False
        self._answered.remove(number)
        return True


def _read(line: str) -> tuple[int | str | None, str, Mapping[str, Any]]:
    """Return a message's id, method and parameters; no method where it is none that is answered here."""
    try:
        message = json.loads(line)
        number, method, asked = message.get("id"), message["method"], message.get("params") or {}
    except (ValueError, KeyError, AttributeError, RecursionError):
        return None, "", {}
    well_formed = isinstance(asked, dict) and isinstance(method, str) and ("id" not in message or isinstance(number, (int, str)))
    return (number, method, asked) if well_formed else (None, "", {})
