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
"""Bootstrap resamples, enough for three stable decimals."""

_SEED = 1
"""Fixed seed, so that intervals are reproducible."""

_BATCH = 500
"""Resamples in memory at a time."""

_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """Two runs over the same queries: both means, and their difference with its 95 % interval."""

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
    """Compare two runs query by query; both hold the same queries in order, at least one."""
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
    """Return the mean and the bounds of its 95 % percentile bootstrap interval (Efron 1979).

    Needs at least one value. Deterministic.
    """
    # Imported here: a command's help does without numpy.
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    sizes = [min(_BATCH, RESAMPLES - start) for start in range(0, RESAMPLES, _BATCH)]
    means = np.concatenate(
        [
            sample[random.integers(0, len(sample), (size, len(sample)))].mean(axis=1)
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
    """The main measure of each query of an earlier run: digest and values by set name."""

    path: Path
    values: Mapping[str, tuple[str, Mapping[str, float]]]


def read_baseline(path: Path) -> Baseline:
    """Read the output of `eval --json`. Raises UsageError if it is invalid."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        values = {
            str(item["name"]): (
                str(item["digest"]),
                {query: float(value) for query, value in item["by_query"].items()},
            )
            for item in report["sets"]
        }
    except OSError as error:
        raise UsageError(
            f"Cannot read the baseline {path} ({error.strerror}): name the output of `thumbindex "
            "eval --json`."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: not a run of `thumbindex eval` ({error!r}): make one with `thumbindex "
            "eval … --json > RUN.json`."
        ) from error
    return Baseline(path, values)


def check_baseline(baseline: Baseline, sets: Sequence[QuerySet]) -> None:
    """Raise UsageError if the baseline lacks a set or has another version of it."""
    for query_set in sets:
        name, queries = query_set.name, query_set.queries
        if name not in baseline.values:
            available = ", ".join(baseline.values) or "none"
            raise UsageError(
                f"{baseline.path}: the baseline has no set {name}, only {available}: omit the "
                "set, or make a baseline with it."
            )
        digest, values = baseline.values[name]
        if digest != set_digest(queries) or {query.id for query in queries} - {*values}:
            raise UsageError(
                f"{baseline.path}: the queries or labels of {name} have changed since this "
                "baseline: make the baseline again."
            )


def compare_with(
    baseline: Baseline, evaluations: Sequence[Evaluation]
) -> tuple[MeasureDifference, ...]:
    """Compare sets with the baseline query by query; several sets are also compared as `ALL`."""
    return tuple(
        compare_runs(
            name,
            [
                baseline.values[evaluation.name][1][query.id]
                for evaluation in group
                for query in evaluation.queries
            ],
            main_values(group),
        )
        for name, group in group_by_set(evaluations)
    )
