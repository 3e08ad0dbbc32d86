"""Compare an evaluation with an earlier run, by a paired bootstrap over queries."""

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
"""Number of bootstrap resamples: enough for three stable decimal places."""

_SEED = 1
"""Fixed seed, so that intervals are reproducible."""

_BATCH = 500
"""Number of resamples in memory at a time."""

_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """The change of a measure between two runs: both means, and a 95% interval of the difference.

    `better` and `worse` are the numbers of queries whose value rose or fell.
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
    """Compare the values of a measure in two runs, query by query.

    Both runs have the same queries, at least one, in the same order.
    """
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
    """Return the mean of `values` and the bounds of its 95% interval.

    The interval is from a percentile bootstrap (Efron 1979). `values` must not be empty. The result
    is deterministic.
    """
    # Imported here, since a command's help does not need numpy.
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
    """Return the main measure of every query, in the order of the evaluations."""
    return [
        evaluation.measured[query.id][MAIN_MEASURE]
        for evaluation in evaluations
        for query in evaluation.queries
    ]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The main measure of each query in an earlier run.

    `values` maps a set's name to its digest and to the values by query id.
    """

    path: Path
    values: Mapping[str, tuple[str, Mapping[str, float]]]


def read_baseline(path: Path) -> Baseline:
    """Read a file with the output of `eval --json`. Raises UsageError if the file is invalid."""
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
            f"Cannot read the baseline {path} ({error.strerror}): name a file with the output of "
            "`thumbindex eval --json`."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not the output of `thumbindex eval --json` ({error!r}): create a baseline "
            "with `thumbindex eval … --json > RUN.json`."
        ) from error
    return Baseline(path, values)


def check_baseline(baseline: Baseline, sets: Sequence[QuerySet]) -> None:
    """Raise UsageError if the baseline lacks a set, or if a set has changed since."""
    for query_set in sets:
        name, queries = query_set.name, query_set.queries
        if name not in baseline.values:
            available = ", ".join(baseline.values) or "none"
            raise UsageError(
                f"The baseline {baseline.path} has no set {name}, only {available}: omit this "
                "set, or create a baseline that contains it."
            )
        digest, values = baseline.values[name]
        if digest != set_digest(queries) or {query.id for query in queries} - {*values}:
            raise UsageError(
                f"The queries or labels of {name} have changed since the baseline {baseline.path} "
                "was created: create it again."
            )


def compare_with(
    baseline: Baseline, evaluations: Sequence[Evaluation]
) -> tuple[MeasureDifference, ...]:
    """Compare each set with the baseline, query by query.

    If there are several sets, their queries are also compared together, as `ALL`.
    """
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
