"""Several clients at once, with a server each or one for all, before and while a batch of notes comes in: how many answers, how late the latest."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from thumbindex.model import Progress
from thumbindex.study.bench.asking import quantile_rows
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import Subject, Where, copy_some, read_chunks
from thumbindex.study.bench.variants import Variants
from thumbindex.study.client import Client, ServerProcess
from thumbindex.study.freshness import await_start
from thumbindex.study.http_client import HttpClient, HttpServer

CLIENTS, TEAM = 4, 16
"""With a server each, and of one server."""

MOST_BYTES = 400_000
"""Of Markdown that lies there before."""

BATCH = 200
"""Notes that come in at once."""

QUESTIONS = 400

BEFORE_SECONDS = 10.0

BATCH_SECONDS = 60.0
"""While the batch is looked at, unless all of it is found before."""

LATEST = Target(most=1000.0)


Start = Callable[[Sequence[str], int], AbstractContextManager[Sequence[Client]]]
"""Starts so many clients by a server's options, with a server for each or one for all."""


@contextmanager
def over_pipes(options: Sequence[str], clients: int) -> Iterator[Sequence[Client]]:
    """Start a server for each client, asked over standard input and output."""
    with ExitStack() as opened:
        yield [opened.enter_context(ServerProcess(options)) for _ in range(clients)]


@contextmanager
def over_http(options: Sequence[str], clients: int) -> Iterator[Sequence[Client]]:
    """Start one server for all clients, asked on a port of this machine."""
    with ExitStack() as opened:
        server = opened.enter_context(HttpServer(options))
        yield [opened.enter_context(HttpClient(server.url)) for _ in range(clients)]


WAYS: Mapping[str, tuple[Start, int]] = {"stdio": (over_pipes, CLIENTS), "http": (over_http, TEAM)}
"""How clients reach a server, and how many of them there are."""


@dataclass(slots=True)
class Heard:
    """Milliseconds of each answer in a phase, and how long that was."""

    milliseconds: list[float] = field(default_factory=list)
    seconds: float = 0.0


def measure_together(subject: Subject) -> tuple[Row, ...]:
    """Ask without pause from several clients, then add many notes at once; once, whatever the rounds."""
    return tuple(row for name, (start, clients) in WAYS.items() for row in _measure(subject, name, start, clients))


def _measure(subject: Subject, name: str, start: Start, clients: int) -> Iterator[Row]:
    where = Where(copy_some(subject, MOST_BYTES), subject.begin("together"))
    with subject.open(where) as library:
        there = library.index(progress=subject.tell).chunks
        questions = draw_questions(read_chunks(library), QUESTIONS)
        notes = [(entry.path, (where.folder / entry.path).read_text("utf-8", "replace")) for entry in library.outline()]
    with start(subject.arguments(where), clients) as asking:
        await_start(asking[0], where.folder)
        quiet, busy, batch = Heard(), Heard(), 0
        with asked_without_pause(asking, questions, quiet):
            time.sleep(BEFORE_SECONDS)
        with asked_without_pause(asking, questions, busy):
            batch = _take_in(subject, asking[0], where.folder, notes)
    note = f"{clients} clients that ask without pause, {there:,} chunks"
    yield from _rows(f"{name}, at rest", quiet, note)
    yield from _rows(f"{name}, {BATCH} notes come in", busy, f"{batch:,} chunks with vectors in {busy.seconds:.0f} s")


def _rows(name: str, heard: Heard, note: str) -> Iterator[Row]:
    yield Row("together", f"{name}: answers", "a second", (len(heard.milliseconds) / heard.seconds,), note=note)
    yield from quantile_rows(name, [heard.milliseconds], (None, None), what="together")
    yield Row("together", f"{name}, latest", "ms", (max(heard.milliseconds),), LATEST)


@contextmanager
def asked_without_pause(clients: Sequence[Client], questions: Sequence[str], heard: Heard) -> Iterator[None]:
    """Ask from every client, one question after the other, until the end of the `with`. Raises what went wrong in one of them."""
    over = threading.Event()

    def ask(first: int) -> list[float]:
        found: list[float] = []
        while not over.is_set():
            began = time.perf_counter()
            clients[first].call("query", query=questions[(len(found) * len(clients) + first) % len(questions)])
            found.append(1000 * (time.perf_counter() - began))
        return found

    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        asked = [pool.submit(ask, number) for number in range(len(clients))]
        try:
            yield
        finally:
            over.set()
        heard.seconds = time.perf_counter() - began
        heard.milliseconds = [each for client in asked for each in client.result()]


def _take_in(subject: Subject, client: Client, folder: Path, notes: Sequence[tuple[str, str]]) -> int:
    """Write a batch of notes and wait until they have vectors; return how many more chunks have one."""
    status = client.call("status")["folders"][0]["index"]
    batch, before = folder / "batch", status["vectors"]
    for _, (path, text) in zip(range(BATCH), Variants(notes), strict=False):
        (batch / path).parent.mkdir(parents=True, exist_ok=True)
        (batch / path).write_text(text, encoding="utf-8")
    began, chunks = time.monotonic(), status["chunks"]
    while (passed := time.monotonic() - began) < BATCH_SECONDS:
        time.sleep(1.0)
        status = client.call("status")["folders"][0]["index"]
        subject.tell(Progress("", "seconds of a batch", int(passed), int(BATCH_SECONDS)))
        if status["chunks"] > chunks and not status["pending"]:
            break
    shutil.rmtree(batch)
    return int(status["vectors"] - before)
