"""What a question and the memory cost as a folder grows: notes made of its own, passages with random vectors, questions with real ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.library.raw import open_model
from thumbindex.model import Progress
from thumbindex.study.bench.asked import WARM, ask_apart
from thumbindex.study.bench.asking import HYBRID, HYBRID_LARGE, LARGE
from thumbindex.study.bench.asking import WORDS as QUICK
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target, ratios
from thumbindex.study.bench.subject import Subject, Where, read_chunks
from thumbindex.study.bench.synthetic import SyntheticEmbedder
from thumbindex.study.bench.variants import Variants

SIZES = (1_000, 10_000, 100_000)
"""Chunks, about: notes are added until they should have so many."""

QUESTIONS = 40
"""A round, at each size."""

STEP, A_CHUNK = Target(most=4.0), Target(most=4.0)
"""Times from one size to the next, and kilobytes of memory."""

WITHOUT_LOOKING = ("index.duplicates.enabled=false", "index.ingest.enabled=false")
"""Paragraphs that are dealt again and again are copies by the thousand, as no real folder has them."""


Asked = dict[str, Any]
"""What `ask_apart` tells of one index."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What one size came to, round by round."""

    chunks: int
    rounds: tuple[Asked, ...]

    def milliseconds(self, way: str, quantile: float) -> tuple[float, ...]:
        """Return a quantile of the answers of one way, a value a round."""
        return tuple(float(np.percentile(each[way], quantile)) for each in self.rounds)

    @property
    def resident(self) -> tuple[float, ...]:
        """Return the megabytes of the process that was asked."""
        return tuple(each["resident"] / 1e6 for each in self.rounds)


def measure_growth(subject: Subject) -> tuple[Row, ...]:
    """Grow a folder of variants from size to size; then ask all sizes by turns, each in a process of its own."""
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
        notes = [(entry.path, (subject.where.folder / entry.path).read_text("utf-8", "replace")) for entry in library.outline()]
    questions = draw_questions(chunks, (QUESTIONS + WARM) * subject.rounds)
    places = list(_grow(subject, notes, sum(len(text) for _, text in notes) / len(chunks)))
    asked: list[list[Asked]] = [[] for _ in places]
    for number in range(subject.rounds):
        of_round = questions[number * (QUESTIONS + WARM) :][: QUESTIONS + WARM]
        for where, found in zip(places, asked, strict=True):
            found.append(ask_apart(subject.arguments(where), of_round))
        subject.tell(Progress("", "rounds of all sizes", number + 1, subject.rounds))
    sizes = [Grown(rounds[0]["chunks"], tuple(rounds)) for rounds in asked]
    return (*(row for each in sizes for row in rows_of(each)), *(row for pair in pairwise(sizes) for row in steps_of(*pair)))


def _grow(subject: Subject, notes: list[tuple[str, str]], a_chunk: float) -> Iterator[Where]:
    """Write and index size after size; yield where an index of each stays."""
    where = Where(subject.begin("grown"), subject.begin("grown's index"), WITHOUT_LOOKING)
    written, variants = 0.0, iter(Variants(notes))
    with subject.open(where) as library:
        embedder = SyntheticEmbedder(open_model(library.config))
    for size in (each for each in SIZES if each <= subject.most_chunks):
        while written < size * a_chunk:
            path, text = next(variants)
            _write(where.folder / path, text)
            written += len(text)
        with subject.open(where, embedder) as library:
            library.index(progress=subject.tell)
        kept = subject.scratch / f"index of {size}"
        shutil.copytree(where.index or kept, kept)
        yield Where(where.folder, kept, where.overrides)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows_of(grown: Grown) -> Iterator[Row]:
    """Yield the figures of one size."""
    large = grown.chunks >= LARGE
    targets = {"words": (None, None) if large else QUICK, "hybrid": HYBRID_LARGE if large else HYBRID}
    for way, aims in targets.items():
        for quantile, target in zip((50, 95), aims, strict=True):
            name = f"{way}, p{quantile}, {grown.chunks:,} chunks"
            yield Row("growth", name, "ms", grown.milliseconds(way, quantile), target, size=grown.chunks)
    yield Row("growth", f"resident, {grown.chunks:,} chunks", "MB", grown.resident, size=grown.chunks)


def steps_of(small: Grown, large: Grown) -> Iterator[Row]:
    """Yield what became of them from one size to the next."""
    name = f"{small.chunks:,} to {large.chunks:,} chunks"
    for way in ("words", "hybrid"):
        yield Row("growth", f"{way}, p50, {name}", "×", ratios(large.milliseconds(way, 50), small.milliseconds(way, 50)), STEP)
    more = tuple(1e3 * (a - b) / (large.chunks - small.chunks) for a, b in zip(large.resident, small.resident, strict=True))
    yield Row("growth", f"memory a chunk, {name}", "KB", more, A_CHUNK)
