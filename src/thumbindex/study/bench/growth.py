"""What a question and the memory cost as a folder grows: notes made of its own, passages with random vectors, questions with real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.library.raw import open_model
from thumbindex.model import Chunk
from thumbindex.study.bench.asked import WARM, ask_apart
from thumbindex.study.bench.asking import HYBRID, HYBRID_LARGE, LARGE
from thumbindex.study.bench.asking import WORDS as QUICK
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import Subject, Where, read_chunks
from thumbindex.study.bench.synthetic import SyntheticEmbedder
from thumbindex.study.bench.variants import Variants

SIZES = (1_000, 10_000, 100_000)
"""Chunks, about: notes are added until they should have so many."""

QUESTIONS = 60

STEP, A_CHUNK = Target(most=4.0), Target(most=4.0)
"""Times from one size to the next, and kilobytes of memory."""

WITHOUT_LOOKING = ("index.duplicates.enabled=false", "index.ingest.enabled=false")
"""Paragraphs that are dealt again and again are copies by the thousand, as no real folder has them."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What one size came to."""

    chunks: int
    asked: dict[str, Any]


def measure_growth(subject: Subject) -> tuple[Row, ...]:
    """Grow a folder of variants from size to size and ask at each, in a process of its own."""
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
        notes = [(entry.path, (subject.where.folder / entry.path).read_text("utf-8", "replace")) for entry in library.outline()]
    found = list(_grow(subject, notes, chunks))
    return (*(row for each in found for row in rows_of(each)), *(row for pair in pairwise(found) for row in steps_of(*pair)))


def _grow(subject: Subject, notes: list[tuple[str, str]], chunks: tuple[tuple[str, Chunk], ...]) -> Iterator[Grown]:
    where = Where(subject.begin("grown"), subject.begin("grown's index"), WITHOUT_LOOKING)
    questions = draw_questions(chunks, QUESTIONS * subject.rounds + WARM)
    a_chunk = sum(len(text) for _, text in notes) / len(chunks)
    written, variants = 0.0, iter(Variants(notes))
    with subject.open(where) as library:
        embedder = SyntheticEmbedder(open_model(library.config))
    for size in (each for each in SIZES if each <= subject.most_chunks):
        while written < size * a_chunk:
            path, text = next(variants)
            _write(where.folder / path, text)
            written += len(text)
        with subject.open(where, embedder) as library:
            there = library.index(progress=subject.tell).chunks
        yield Grown(there, ask_apart(subject.arguments(where), questions))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows_of(grown: Grown) -> Iterator[Row]:
    """Yield the figures of one size."""
    large = grown.chunks >= LARGE
    targets = {"words": QUICK, "hybrid": HYBRID_LARGE if large else HYBRID}
    for way in ("words", "hybrid"):
        for quantile, target in zip((50, 95), targets[way], strict=True):
            value = float(np.percentile(grown.asked[way], quantile))
            aim = None if large and way == "words" else target
            yield Row("growth", f"{way}, p{quantile}, {grown.chunks:,} chunks", "ms", (value,), aim, size=grown.chunks)
    yield Row("growth", f"resident, {grown.chunks:,} chunks", "MB", (grown.asked["resident"] / 1e6,), size=grown.chunks)


def steps_of(small: Grown, large: Grown) -> Iterator[Row]:
    """Yield what became of them from one size to the next."""
    name = f"{small.chunks:,} to {large.chunks:,} chunks"
    for way in ("words", "hybrid"):
        times = float(np.median(large.asked[way]) / np.median(small.asked[way]))
        yield Row("growth", f"{way}, p50, {name}", "×", (times,), STEP)
    more = (large.asked["resident"] - small.asked["resident"]) / (large.chunks - small.chunks)
    yield Row("growth", f"memory a chunk, {name}", "KB", (more / 1e3,), A_CHUNK)
