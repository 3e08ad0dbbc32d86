"""What an answer takes from PostgreSQL, beside the index on the disk: the same questions by turns, and what a publication costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np
import psutil

from bench.results import Row, quantile_rows
from bench.subject import Subject, draw_questions
from postgres.server import TestServer, running_server
from thumbindex.library import Library
from thumbindex.library.engine import Publishing

QUESTIONS, WARM = 100, 40
"""A round, and before the first one: a server keeps the postings of frequent words."""

MOST = 2.0
"""By so many times the answer of the disk the database's is to be slower at most, in time and in processor time."""


def measure(subject: Subject) -> Iterator[Row]:
    """Publish the folder to a server of its own, or to that of THUMBINDEX_TEST_POSTGRES, and ask both."""
    chunks = subject.chunks()
    questions = draw_questions(chunks, QUESTIONS * subject.given.rounds + WARM)
    with running_server() as server, subject.open() as disk:
        name = server.database(migrated=True)
        url = server.address(name)
        with closing(Publishing(disk.opened, url)) as builder:
            published = _seconds(builder.look)
            tidied = _seconds(builder.tidy)
        server.run("ANALYZE", name)
        yield Row("engine", "published", "s", [published], note=f"{len(chunks):,} chunks")
        yield Row("engine", "HNSW", "s", [tidied], note="where there are more than 50,000 vectors")
        yield Row("engine", "database", "MB", [_size(server, name)])
        with Library.open(config=disk.config, engine=url, embedder=subject.embedder, wait_for_models=False) as served:
            ways = {"disk": disk, "engine": served}
            for library in ways.values():
                library.load_models()
            _ask(ways, questions[:WARM])
            rounds = [_ask(ways, questions[start : start + QUESTIONS]) for start in range(WARM, len(questions), QUESTIONS)]
        server.drop(name)
    for way in ways:
        yield from quantile_rows("engine", f"{way}, {{}}", [[1000 * wall for wall, _ in each[way]] for each in rounds])
        yield Row("engine", f"{way}, processor time", "ms", [float(np.mean([1000 * cpu for _, cpu in each[way]])) for each in rounds])
    for quantile in (50, 95):
        walls = [{way: float(np.percentile([wall for wall, _ in each[way]], quantile)) for way in ways} for each in rounds]
        yield Row("engine", f"engine / disk, p{quantile}", "times", [each["engine"] / each["disk"] for each in walls], MOST)
    spent = [sum(cpu for _, cpu in each["engine"]) / sum(cpu for _, cpu in each["disk"]) for each in rounds]
    yield Row("engine", "engine / disk, processor time", "times", spent, MOST, note="of this process and the server's together")


def _ask(ways: Mapping[str, Library], questions: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Ask each question in every way, each way first every other time; return seconds and processor seconds by way."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number, question in enumerate(questions):
        for name in sorted(ways, reverse=number % 2 == 1):
            began, spent = time.perf_counter(), _processor_seconds()
            ways[name].query(question)
            found[name].append((time.perf_counter() - began, _processor_seconds() - spent))
    return found


def _processor_seconds() -> float:
    """Return what this process and those of PostgreSQL have taken."""
    total = time.process_time()
    for process in psutil.process_iter(["name"]):
        if "postgres" in (process.info["name"] or ""):
            try:
                total += sum(process.cpu_times()[:2])
            except psutil.Error:
                continue
    return total


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _size(server: TestServer, name: str) -> float:
    ((size,),) = server.run("SELECT pg_database_size(current_database())::float8", name)
    return float(str(size)) / 1e6
