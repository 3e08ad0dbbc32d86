"""Compare an evaluation with an earlier run, by the paired bootstrap over queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.evaluation.measures import MAIN_MEASURE
from thumbindex.evaluation.queries import QuerySet, set_digest
from thumbindex.evaluation.runner import Evaluation, group_by_set

RESAMPLES = 10_000
"""Draws: the bounds of two seeds differ by less than the third decimal that is shown."""

_SEED = 1
"""The same queries give the same interval, whenever it is asked for."""

_AT_ONCE = 500
"""Draws in memory at a time: a thousand queries take 4 MB."""

_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """Two runs over the same queries: both means, and the difference with the bounds between which
    it lies in 95 of 100 draws of the queries.
    """

    name: str
    queries: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    better: int
    worse: int


def compare_runs(name: str, before: Sequence[float], after: Sequence[float]) -> MeasureDifference:
    """Compare two runs query by query: values in the same order of queries, at least one."""
    changes = [b - a for a, b in zip(before, after, strict=True)]
    return MeasureDifference(
        name,
        len(changes),
        sum(before) / len(before),
        sum(after) / len(after),
        *interval_of(changes),
        sum(c > 0 for c in changes),
        sum(c < 0 for c in changes),
    )


def interval_of(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of some values, at least one, and the low and the high bound of its 95 %
    percentile bootstrap interval (Efron 1979); seeded.
    """
    # Imported here: the command line is shown without numpy.
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    chance = np.random.default_rng(_SEED)
    sizes = [min(_AT_ONCE, RESAMPLES - done) for done in range(0, RESAMPLES, _AT_ONCE)]
    means = np.concatenate(
        [
            sample[chance.integers(0, len(sample), (size, len(sample)))].mean(axis=1)
            for size in sizes
        ]
    )
    low, high = np.percentile(means, _PERCENTILES)
    return float(sample.mean()), float(low), float(high)


def main_values(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return each query's main measure, set after set."""
    return [
        evaluation.measured[query.id][MAIN_MEASURE]
        for evaluation in evaluations
        for query in evaluation.queries
    ]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The main measure of each query of an earlier run, by the set's name and digest."""

    path: Path
    values: Mapping[str, tuple[str, Mapping[str, float]]]


def read_baseline(path: Path) -> Baseline:
    """Read what `eval --json` wrote. Raises UsageError with what is wrong."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        values = {
            str(each["name"]): (
                str(each["digest"]),
                {query: float(value) for query, value in each["by_query"].items()},
            )
            for each in told["sets"]
        }
    except OSError as error:
        raise UsageError(
            f"{path}: the baseline cannot be read ({error.strerror}): give a file that "
            "`thumbindex eval --json` wrote."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: not a run of `thumbindex eval` ({error!r}): make one with `thumbindex "
            "eval … --json > RUN.json`."
        ) from error
    return Baseline(path, values)


def check_baseline(baseline: Baseline, sets: Sequence[QuerySet]) -> None:
    """Raise UsageError where a set is not the one that the baseline was asked."""
    for each in sets:
        if each.name not in baseline.values:
            held = ", ".join(baseline.values) or "none"
            raise UsageError(
                f"{baseline.path}: the baseline holds no set {each.name}, only {held}: leave "
                "the set out, or make a baseline with it."
            )
        digest, values = baseline.values[each.name]
        if digest != set_digest(each.queries) or {query.id for query in each.queries} - {*values}:
            raise UsageError(
                f"{baseline.path}: {each.name} held other queries or labels when the baseline "
                "was made: make the baseline again."
            )


def compare_with(
    baseline: Baseline, evaluations: Sequence[Evaluation]
) -> tuple[MeasureDifference, ...]:
    """Compare sets query by query with what the baseline holds, all of them together first where
    there are several.
    """
    return tuple(
        compare_runs(
            name,
            [baseline.values[each.name][1][query.id] for each in group for query in each.queries],
            main_values(group),
        )
        for name, group in group_by_set(evaluations)
    )
