"""What an answer takes as a client gets it, over stdio, by turns with `Library.query` in this
process.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.results import Row, quantile_rows
from bench.subject import Subject, draw_questions
from servers import ServerProcess, await_meaning
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.study.queries import load_set

QUESTIONS = 100
"""That are drawn from the notes where no set belongs to the folder."""

WARM = 10

MOST_RATIO, CLIENT = 1.35, (25.0, 45.0)
"""A client's answer against `Library.query`, the medians of one run; and milliseconds that its p50
and p95 are to come to.
"""

HAND_WRITTEN, REWORDED = "manual", "client"
"""Kinds of sets in their names (CORPUS.KIND.jsonl): as people type, and as a client's model asks
the same.
"""

Arguments = Mapping[str, Any]
"""Of the tool `query`, and of `Library.query` by the same names."""


def measure(subject: Subject) -> Iterator[Row]:
    """Ask each question in both ways, as often as there are rounds."""
    for name, note, questions in question_sets(subject):
        with subject.open() as library, ServerProcess(subject.arguments) as server:
            library.load_models()
            await_meaning(server.call, questions[0]["query"])
            ways = {
                "client": partial(_over_stdio, server),
                "library": partial(_in_process, library),
            }
            for asked in questions[:WARM]:
                for way in ways.values():
                    way(asked)
            sizes = [len(json.dumps(_over_stdio(server, asked))) for asked in questions]
            rounds = [_ask_all(ways, questions, seed) for seed in range(subject.given.rounds)]
        yield from quantile_rows(
            "answers",
            f"{name}, Library.query, {{}}",
            [each["library"] for each in rounds],
            note=note,
        )
        yield from quantile_rows(
            "answers", f"{name}, over stdio, {{}}", [each["client"] for each in rounds], CLIENT
        )
        medians = [float(np.median(each["client"]) / np.median(each["library"])) for each in rounds]
        yield Row(
            "answers",
            f"{name}, over stdio / Library.query, p50",
            "×",
            medians,
            MOST_RATIO,
            note=f"{np.mean(sizes) / 1000:.1f} KB an answer",
        )


def _over_stdio(server: ServerProcess, asked: Arguments) -> dict[str, Any]:
    return server.call("query", **asked)


def _in_process(library: Library, asked: Arguments) -> None:
    library.query(
        asked["query"], **{name: value for name, value in asked.items() if name != "query"}
    )


def question_sets(subject: Subject) -> Iterator[tuple[str, str, Sequence[Arguments]]]:
    """Yield what to ask under a name, with where it is from: sets of `--eval` that are named like
    the folder, else questions drawn from it.

    Raises UsageError where two are of one kind: neither would be the one that is meant.
    """
    found = (
        sorted(Path(subject.given.eval).rglob(f"{subject.folder.name}.*.jsonl"))
        if subject.given.eval
        else []
    )
    by_kind: dict[str, Path] = {}
    for path in found:
        if (other := by_kind.setdefault(path.name.split(".")[1], path)) != path:
            raise UsageError(
                f"Two sets belong to one folder and are of one kind, {other} and {path}: name "
                "a folder that has one of them by --eval."
            )
    for kind, name in ((HAND_WRITTEN, "as typed"), (REWORDED, "with rewordings")):
        if kind in by_kind:
            labeled = load_set(by_kind[kind]).queries
            yield (
                name,
                f"{len(labeled)} hand-written questions ({by_kind[kind].name})",
                [{"query": each.query} | each.rewording for each in labeled],
            )
    if not by_kind.keys() & {HAND_WRITTEN, REWORDED}:
        drawn = draw_questions(subject.chunks(), QUESTIONS)
        yield (
            "drawn",
            f"{len(drawn)} questions drawn from the notes: no hand-written set belongs to them",
            [{"query": each} for each in drawn],
        )


def _ask_all(
    ways: Mapping[str, Callable[[Arguments], object]], questions: Sequence[Arguments], seed: int
) -> dict[str, list[float]]:
    """Ask each question in both ways, in an order that changes; return milliseconds by way."""
    chance, found = random.Random(seed), {name: list[float]() for name in ways}
    for asked in questions:
        for name in chance.sample(sorted(ways), len(ways)):
            began = time.perf_counter()
            ways[name](asked)
            found[name].append(1000 * (time.perf_counter() - began))
    return found
