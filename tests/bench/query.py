"""What an answer takes: by words alone, by words and meaning, and with the reranker; each question
is asked all three ways before the next.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench.results import Row, quantile_rows
from bench.subject import Subject, draw_questions
from thumbindex.library import Library

QUESTIONS = 100
"""A round: each of them is new, since an index remembers the words that it was asked for."""

WARM = 10
"""Questions that are asked before the first round: what is measured is a process that has been
asked before.
"""

WORDS, HYBRID, RERANK = (5.0, 10.0), (25.0, 45.0), 60.0
"""Milliseconds that p50 and p95 are to come to."""

LARGE, HYBRID_LARGE = 50_000, (40.0, 80.0)
"""Chunks from which on the targets are those that hold for a hundred thousand."""


def measure(subject: Subject) -> Iterator[Row]:
    """Ask questions drawn from the notes, in one process, its indexes and models open."""
    chunks = subject.chunks()
    questions = draw_questions(chunks, QUESTIONS * subject.given.rounds + WARM)
    with subject.open() as words, subject.open() as full:
        ways = {"words": words}
        if words.status()[0].state.vectors:
            full.load_models()
            settings = full.config.query
            ways |= {
                "hybrid": full.answering_with(settings.without_stages("rerank")),
                "rerank": full.answering_with(settings.with_stages("rerank")),
            }
        ask_all(ways, questions[:WARM])
        rounds = [
            ask_all(ways, questions[start : start + QUESTIONS])
            for start in range(WARM, len(questions), QUESTIONS)
        ]
    note = f"{len(chunks):,} chunks, {QUESTIONS} questions a round"
    yield from quantile_rows(
        "query", "words only, {}", [each["words"] for each in rounds], WORDS, note=note
    )
    if "hybrid" in ways:
        targets = HYBRID_LARGE if len(chunks) >= LARGE else HYBRID
        yield from quantile_rows(
            "query", "hybrid, {}", [each["hybrid"] for each in rounds], targets, note=note
        )
        yield from quantile_rows("query", "with rerank, {}", [each["rerank"] for each in rounds])
        parts = [
            float(np.median(np.array(each["rerank"]) - np.array(each["hybrid"]))) for each in rounds
        ]
        yield Row(
            "query",
            "rerank's part, p50",
            "ms",
            parts,
            RERANK,
            note="the median of each question's difference",
        )


def ask_all(
    ways: Mapping[str, Library], questions: Sequence[str], seed: int = 1
) -> dict[str, list[float]]:
    """Ask each question in every way, in an order that changes: what one way left in a cache, the
    next one finds.

    Return milliseconds by way.
    """
    chance, found = random.Random(seed), {name: list[float]() for name in ways}
    for question in questions:
        for name in chance.sample(sorted(ways), len(ways)):
            began = time.perf_counter()
            ways[name].query(question)
            found[name].append(1000 * (time.perf_counter() - began))
    return found
