"""What can be measured, by its name on the command line, in the order in which it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thumbindex.errors import UsageError
from thumbindex.study.bench.asking import measure_answers
from thumbindex.study.bench.counts import measure_counts
from thumbindex.study.bench.disk import measure_disk
from thumbindex.study.bench.growth import measure_growth
from thumbindex.study.bench.memory import measure_memory
from thumbindex.study.bench.row import Row
from thumbindex.study.bench.start import measure_starts
from thumbindex.study.bench.subject import Measure, Subject
from thumbindex.study.bench.together import measure_together
from thumbindex.study.bench.unchanged import measure_unchanged
from thumbindex.study.bench.vectors import measure_vectors
from thumbindex.study.bench.words import measure_words

MEASURES: Mapping[str, Measure] = {
    "start": measure_starts,
    "words": measure_words,
    "vectors": measure_vectors,
    "unchanged": measure_unchanged,
    "query": measure_answers,
    "memory": measure_memory,
    "disk": measure_disk,
    "growth": measure_growth,
    "together": measure_together,
    "counts": measure_counts,
}


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be measured, in its order: what is named, else all. Raises UsageError for a name that is none."""
    for name in names:
        if name not in MEASURES:
            raise UsageError(f"There is no {name!r} to measure: name any of {', '.join(MEASURES)}.")
    return tuple(name for name in MEASURES if not names or name in names)


def measure(names: Sequence[str], subject: Subject) -> tuple[Row, ...]:
    """Measure one thing after the other."""
    return tuple(row for name in names for row in MEASURES[name](subject))
