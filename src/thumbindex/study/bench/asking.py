"""What an answer takes: by words alone, by words and meaning, and with the reranker; each question is asked all three ways before the next."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from thumbindex.library import Library
from thumbindex.model import Progress
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import Subject, read_chunks

QUESTIONS = 100
"""A round: each of them is new, since an index remembers the words that it was asked for."""

WARM = 10
"""Questions that are asked before the first round: what is measured is a process that has been asked before."""

LARGE = 50_000
"""Chunks from which on the targets are those that hold for a hundred thousand."""

WORDS = (Target(most=5.0), Target(most=10.0))
HYBRID = (Target(most=25.0), Target(most=45.0))
HYBRID_LARGE = (Target(most=40.0), Target(most=80.0))
RERANK = Target(most=60.0)

Asked = dict[str, list[float]]
"""Milliseconds by way of asking, in the order of the questions."""


def measure_answers(subject: Subject) -> tuple[Row, ...]:
    """Ask questions drawn from the notes, in one process, its indexes and models open."""
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
        questions = draw_questions(chunks, QUESTIONS * subject.rounds + WARM)
    with _ways(subject) as ways:
        ask_all(ways, questions[:WARM])
        rounds = []
        for number in range(subject.rounds):
            start = WARM + number * QUESTIONS
            rounds.append(ask_all(ways, questions[start : start + QUESTIONS]))
            subject.tell(Progress("", "rounds of questions", number + 1, subject.rounds))
    words = quantile_rows("words only", [each["words"] for each in rounds], WORDS, f"{len(chunks):,} chunks, {QUESTIONS} questions a round")
    if "hybrid" not in rounds[0]:
        return words
    hybrid = HYBRID_LARGE if len(chunks) >= LARGE else HYBRID
    return (
        *words,
        *quantile_rows("hybrid", [each["hybrid"] for each in rounds], hybrid, f"{len(chunks):,} chunks"),
        *quantile_rows("with rerank", [each["rerank"] for each in rounds], (None, None)),
        Row("query", "rerank's part, p50", "ms", tuple(_part(each) for each in rounds), RERANK, "the median of each question's difference"),
    )


@contextmanager
def _ways(subject: Subject) -> Iterator[Mapping[str, Library]]:
    """Open the index once without a model, and once with, where it has vectors."""
    with subject.open(subject.where) as words, subject.open(subject.where) as full:
        if not words.status()[0].state.vectors:
            yield {"words": words}
            return
        full.load_models()
        settings = full.config.query
        with_rerank = full.answering_with(replace(settings, rerank=replace(settings.rerank, enabled=True)))
        without = full.answering_with(replace(settings, rerank=replace(settings.rerank, enabled=False)))
        yield {"words": words, "hybrid": without, "rerank": with_rerank}


def ask_all(ways: Mapping[str, Library], questions: Sequence[str], seed: int = 1) -> Asked:
    """Ask each question in every way, in an order that changes: what one way left in a cache, the next one finds."""
    chance, found = random.Random(seed), {name: list[float]() for name in ways}
    for question in questions:
        for name in chance.sample(sorted(ways), len(ways)):
            began = time.perf_counter()
            ways[name].query(question)
            found[name].append(1000 * (time.perf_counter() - began))
    return found


def quantile_rows(
    name: str, rounds: Sequence[Sequence[float]], targets: tuple[Target | None, Target | None], note: str = "", what: str = "query"
) -> tuple[Row, ...]:
    """Return p50 and p95 of some rounds' milliseconds."""
    p50, p95 = (tuple(float(np.percentile(each, q)) for each in rounds) for q in (50, 95))
    return Row(what, f"{name}, p50", "ms", p50, targets[0], note), Row(what, f"{name}, p95", "ms", p95, targets[1])


def _part(asked: Asked) -> float:
    return float(np.median(np.array(asked["rerank"]) - np.array(asked["hybrid"])))
