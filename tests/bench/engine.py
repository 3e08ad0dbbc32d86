"""What answers take from PostgreSQL, beside the index on the disk: the same questions by turns, in
words, by meaning and whole.

Before, what a first publication costs (`load`); behind, several clients at once, and agents over
two servers while notes change (`clients`).
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from bench.clients import agent_rows, process_rows
from bench.load import load_rows, processor_seconds, size_rows
from bench.results import Row, quantile_rows, ratios
from bench.subject import Subject, draw_questions, timed
from postgres.server import TestServer, running_server
from thumbindex.index.postgres.vectors import EXACT
from thumbindex.library import Library
from thumbindex.library.engine import PublishedFolders
from thumbindex.library.reader import Reader
from thumbindex.model import Hit

SETTINGS = {
    "shared_buffers": "4GB",
    "effective_cache_size": "12GB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
}
"""Of a machine with 16 GB and a solid-state disk, as docs/scale.md has them.

What is committed is on the disk.
"""

DRAWN_FROM = 20_000
"""Chunks that questions are drawn from: a million take gigabytes."""

WARM = 0.4
"""Questions before the first round, as a share of one: a server keeps the postings of frequent
words.
"""

EXACT_QUESTIONS = 20
"""A round, compared with each vector although there is an index of them: a second each among a
million.
"""

ALL = 1 << 60
"""Vectors up to which each is compared with a question, where all are to be."""

MOST = 2.0
"""By so many times the answer of the disk the database's is to be slower at most, in time and in
processor time.
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one question took, in milliseconds."""

    wall: float
    client: float  # of the processor, in this process
    server: float  # the same in those of PostgreSQL


Ways = Mapping[str, Callable[[str], object]]
"""What asks, by name: each way is asked the same questions."""

Rounds = list[list[Spent]]


def measure(subject: Subject) -> Iterator[Row]:
    """Publish the folder to a server of its own, or to that of THUMBINDEX_TEST_POSTGRES, and ask
    both; then let others ask.
    """
    a_round = subject.given.questions
    questions = draw_questions(
        subject.chunks(DRAWN_FROM), a_round * subject.given.rounds + int(WARM * a_round)
    )
    with running_server(SETTINGS) as server:
        name = server.database(migrated=True)
        yield from load_rows(subject, server, name)
        yield Row(
            "engine", "VACUUM ANALYZE", "s", [timed(lambda: server.run("VACUUM (ANALYZE)", name))]
        )
        yield from size_rows(server, name)
        warm = int(WARM * a_round)
        rounds = [
            questions[:warm],
            *(questions[start : start + a_round] for start in range(warm, len(questions), a_round)),
        ]
        yield from _question_rows(subject, server, server.address(name), rounds)
        yield from process_rows(subject, server, name, questions)
        yield from agent_rows(subject, server, name, questions)
        server.drop(name)


def _question_rows(
    subject: Subject, server: TestServer, url: str, rounds: Sequence[Sequence[str]]
) -> Iterator[Row]:
    with (
        subject.open() as disk,
        Library.open(
            config=disk.config, engine=url, embedder=subject.embedder, wait_for_models=False
        ) as served,
    ):
        if subject.embedder is None:  # one that is given is there from the start
            words = _ask({"words, disk": disk.query, "words, engine": served.query}, rounds, server)
            yield from _rows_of(words)
        disk.load_models()
        served.load_models()
        whole = _ask(
            {"question, disk": disk.query, "question, engine": served.query}, rounds, server
        )
        yield from _rows_of(whole)
        yield from _ratio_rows(*whole.values())
        yield from _meaning_rows(subject, disk, server, url, rounds)


def _meaning_rows(
    subject: Subject, disk: Library, server: TestServer, url: str, rounds: Sequence[Sequence[str]]
) -> Iterator[Row]:
    """Search by meaning alone: on disk, each vector in the database, and their index there; yield
    what that finds of the best, too.
    """
    model, limit = subject.model(), disk.config.query.search_vector.limit
    vectors = {
        question: model.embed_query(question) for questions in rounds for question in questions
    }
    found: dict[str, dict[str, set[int]]] = {}

    def way(name: str, search: Callable[[str], tuple[Hit, ...]]) -> Ways:
        def ask(question: str) -> None:
            found.setdefault(name, {})[question] = {hit.chunk for hit in search(question)}

        return {name: ask}

    def in_database(exact: int) -> Callable[[str], tuple[Hit, ...]]:
        folders = opened.enter_context(closing(PublishedFolders(url, exact)))

        def search(question: str) -> tuple[Hit, ...]:
            with folders.moment():
                return folders.open(disk.opened[0].name).snapshot.vector.search(
                    vectors[question], limit
                )

        return search

    with ExitStack() as opened:
        reader = opened.enter_context(closing(Reader(disk.opened[0])))
        is_large = len(reader.snapshot().vector) > EXACT
        yield from _rows_of(
            _ask(
                way(
                    "meaning, disk",
                    lambda question: reader.snapshot().vector.search(vectors[question], limit),
                ),
                rounds,
                server,
            )
        )
        exact = way("meaning, engine, exact", in_database(ALL))
        yield from _rows_of(
            _ask(exact, rounds, server, EXACT_QUESTIONS if is_large else sys.maxsize)
        )
        if is_large:
            yield from _rows_of(_ask(way("meaning, engine, HNSW", in_database(0)), rounds, server))
            best, near = found["meaning, engine, exact"], found["meaning, engine, HNSW"]
            shares = [
                len(best[each] & near[each]) / max(1, len(best[each]))
                for each in best.keys() & near.keys()
            ]
            yield Row(
                "engine", f"HNSW finds, of the best {limit}", "%", [100 * float(np.mean(shares))]
            )


def _ask(
    ways: Ways, rounds: Sequence[Sequence[str]], server: TestServer, most: int = sys.maxsize
) -> dict[str, Rounds]:
    """Ask the questions of each round, `most` of them, in every way before the next, in an order
    that changes; return what they took by way.

    The first round is there to warm up, and not counted.
    """
    chance, found = random.Random(1), {name: Rounds() for name in ways}
    for questions in rounds:
        spent: dict[str, list[Spent]] = {name: [] for name in ways}
        for question in questions[:most]:
            for name in chance.sample(sorted(ways), len(ways)):
                spent[name].append(_spent(ways[name], question, server))
        for name in ways:
            found[name].append(spent[name])
    return {name: spent[1:] for name, spent in found.items()}


def _spent(ask: Callable[[str], object], question: str, server: TestServer) -> Spent:
    there, here, began = processor_seconds(server.process), time.process_time(), time.perf_counter()
    ask(question)
    ended, spent = time.perf_counter(), time.process_time()
    return Spent(
        1000 * (ended - began),
        1000 * (spent - here),
        1000 * (processor_seconds(server.process) - there),
    )


def _rows_of(asked: Mapping[str, Rounds]) -> Iterator[Row]:
    for name, rounds in asked.items():
        yield from quantile_rows(
            "engine", f"{name}, {{}}", [[each.wall for each in spent] for spent in rounds]
        )
        yield from quantile_rows(
            "engine",
            f"{name}, processor time here, {{}}",
            [[each.client for each in spent] for spent in rounds],
        )
        if "engine" in name:
            yield from quantile_rows(
                "engine",
                f"{name}, processor time of PostgreSQL, {{}}",
                [[each.server for each in spent] for spent in rounds],
            )


def _ratio_rows(disk: Rounds, engine: Rounds) -> Iterator[Row]:
    """Yield by how much slower the database answers, and by how much more both sides work."""
    for quantile in (50, 95):
        walls = [
            [float(np.percentile([each.wall for each in spent], quantile)) for spent in rounds]
            for rounds in (engine, disk)
        ]
        yield Row("engine", f"engine / disk, p{quantile}", "times", ratios(*walls), MOST)
    worked = [
        [sum(each.client + each.server for each in spent) for spent in rounds]
        for rounds in (engine, disk)
    ]
    yield Row(
        "engine",
        "engine / disk, processor time",
        "times",
        ratios(*worked),
        MOST,
        note="of this process and PostgreSQL's together",
    )
