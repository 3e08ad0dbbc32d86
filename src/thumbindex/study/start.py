"""From a server's spawn to its first answers, beside what importing the protocol's package takes: by turns, so that both meet the same machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from thumbindex.errors import ThumbindexError
from thumbindex.model import Progress
from thumbindex.study.client import ServerProcess

REFERENCE = "import mcp.server"
"""What every server that is built on the protocol's own package begins with."""

GIVEN_UP_SECONDS = 60.0
"""The longest wait for an answer by meaning: loading a model takes seconds."""

PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds since the spawn, and those of the reference that was run just before."""

    reference: float
    initialized: float
    listed: float
    answered: float
    by_meaning: float


def measure_start(settings: Sequence[str], question: str, rounds: int, tell: Callable[[Progress], None]) -> tuple[Start, ...]:
    """Start a server with `settings` so many times and ask it a question at once; its index is on disk already. Raises ThumbindexError."""
    found = []
    for number in range(rounds):
        found.append(_start(settings, question))
        tell(Progress("", "starts", number + 1, rounds))
    return tuple(found)


def _start(settings: Sequence[str], question: str) -> Start:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", REFERENCE], check=True)
    reference, began = time.perf_counter() - began, time.perf_counter()

    def since() -> float:
        return time.perf_counter() - began

    server = ServerProcess(settings)
    try:
        server.initialize()
        initialized = since()
        server.list_tools()
        listed = since()
        server.call("query", query=question)
        answered = since()
        while not _is_by_meaning(server.call("query", query=question, explain=True)):
            if since() > GIVEN_UP_SECONDS:
                raise ThumbindexError(f"No answer came by meaning within {GIVEN_UP_SECONDS:g} s: has the index vectors (`thumbindex status`)?")
            time.sleep(PAUSE_SECONDS)
        return Start(reference, initialized, listed, answered, since())
    finally:
        server.end()


def _is_by_meaning(answer: dict[str, Any]) -> bool:
    return any(step["stage"] == "search_vector" and step["out"] for step in answer["trace"])
