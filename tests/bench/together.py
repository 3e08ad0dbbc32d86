"""Several clients at once, with a server each or one for all, before and while a batch of notes
comes in: how many answers, how late the latest.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.results import Row, quantile_rows
from bench.subject import Subject, draw_questions
from notes import make_variants, write
from servers import Call, ServerProcess, await_start, http_client, http_server

CLIENTS = {"stdio": 4, "http": 16}
"""With a server each, and of one server."""

MOST_BYTES = 400_000
"""Of Markdown that lies there before."""

BATCH = 200
"""Notes that come in at once."""

QUESTIONS = 400

REST_SECONDS = 10.0

BATCH_SECONDS = 60.0
"""While the batch is looked at, unless all of it is found before."""

LATEST = 1000.0
"""Milliseconds that the latest answer is to come to."""


def measure(subject: Subject) -> Iterator[Row]:
    """Ask without pause from several clients, then add many notes at once; once, whatever the
    rounds.
    """
    for way, clients in CLIENTS.items():
        some = subject.at(subject.copy_some(MOST_BYTES), subject.empty("together"))
        with some.open() as library:
            chunks = library.index().chunks
        questions, notes = draw_questions(some.chunks(), QUESTIONS), some.texts()
        with ExitStack() as started:
            calls = _start(started, way, clients, some.arguments)
            await_start(calls[0], some.folder)
            rest, seconds, _ = ask_during(partial(time.sleep, REST_SECONDS), calls, questions)
            busy, taken, batch = ask_during(
                partial(_take_in, some.folder / "batch", calls[0], notes), calls, questions
            )
        yield from _rows(
            f"{way}, at rest",
            rest,
            seconds,
            f"{clients} clients that ask without pause, {chunks:,} chunks",
        )
        yield from _rows(
            f"{way}, {BATCH} notes come in",
            busy,
            taken,
            f"{batch:,} chunks with vectors in {taken:.0f} s",
        )


def _start(started: ExitStack, way: str, clients: int, options: Sequence[str]) -> list[Call]:
    if way == "stdio":
        return [started.enter_context(ServerProcess(options)).call for _ in range(clients)]
    url = started.enter_context(http_server(options))
    return [started.enter_context(http_client(url)) for _ in range(clients)]


def _rows(name: str, milliseconds: list[float], seconds: float, note: str) -> Iterator[Row]:
    yield Row("together", f"{name}: answers", "a second", [len(milliseconds) / seconds], note=note)
    yield from quantile_rows("together", f"{name}, {{}}", [milliseconds])
    yield Row("together", f"{name}, latest", "ms", [max(milliseconds)], LATEST)


def ask_during(
    work: Callable[[], Any], calls: Sequence[Call], questions: Sequence[str]
) -> tuple[list[float], float, Any]:
    """Ask from every client, one question after the other, while something is done; return
    milliseconds, seconds, and what it returned.
    """
    over = threading.Event()

    def ask(first: int) -> list[float]:
        found: list[float] = []
        while not over.is_set():
            began = time.perf_counter()
            calls[first](
                "query", query=questions[(len(found) * len(calls) + first) % len(questions)]
            )
            found.append(1000 * (time.perf_counter() - began))
        return found

    began = time.perf_counter()
    with ThreadPoolExecutor(len(calls)) as pool:
        asked = [pool.submit(ask, number) for number in range(len(calls))]
        try:
            done = work()
        finally:
            over.set()
        seconds = time.perf_counter() - began
        return [each for client in asked for each in client.result()], seconds, done


def _take_in(folder: Path, call: Call, notes: Sequence[tuple[str, str]]) -> int:
    """Write a batch of notes and wait until they have vectors; return how many more chunks have
    one.
    """
    before = status = call("status")["folders"][0]["index"]
    until = time.monotonic() + BATCH_SECONDS
    for _, (path, text) in zip(range(BATCH), make_variants(notes), strict=False):
        write(folder / path, text)
    while time.monotonic() < until and (status["chunks"] <= before["chunks"] or status["pending"]):
        time.sleep(1.0)
        status = call("status")["folders"][0]["index"]
    shutil.rmtree(folder)
    return int(status["vectors"] - before["vectors"])
