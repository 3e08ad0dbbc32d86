"""Compare an evaluation with an earlier run, by the paired bootstrap over queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.study.evaluate import Evaluation, typed_name
from thumbindex.study.measures import MAIN
from thumbindex.study.queries import LabeledQuery, QuerySet, set_digest

RESAMPLES = 10_000
"""Draws: the bounds of two seeds differ by less than the third decimal that is shown."""

_SEED = 1
"""The same queries give the same interval, whenever it is asked for."""

_AT_ONCE = 500
"""Draws in memory at a time: a thousand queries take 4 MB."""

_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds between which it lies in 95 of 100 draws of the queries."""

    mean: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Tell whether 0 lies outside."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs over the same queries: both means, and the difference with its interval."""

    name: str
    before: float
    after: float
    interval: Interval
    better: int
    worse: int
    queries: int


def compare_runs(name: str, before: Sequence[float], after: Sequence[float]) -> Difference:
    """Compare two runs query by query: values in the same order of queries, at least one."""
    changes = [b - a for a, b in zip(before, after, strict=True)]
    means = (sum(before) / len(before), sum(after) / len(after))
    return Difference(
        name,
        *means,
        interval_of(changes),
        sum(c > 0 for c in changes),
        sum(c < 0 for c in changes),
        len(changes),
    )


def interval_of(values: Sequence[float]) -> Interval:
    """Return the mean of some values, at least one, and its 95 % percentile bootstrap interval
    (Efron 1979); seeded.
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
    return Interval(float(sample.mean()), float(low), float(high))


def main_values(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return each query's main measure, set after set."""
    return [each.measured[query.id][MAIN] for each in evaluations for query in each.queries]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The main measure of each query of an earlier run, by the set's name and digest: a set with
    rewordings was asked as typed, too.
    """

    path: Path
    values: Mapping[str, Mapping[str, Mapping[str, float]]]


def read_baseline(path: Path) -> Baseline:
    """Read what `eval --json` or `--report` wrote. Raises UsageError with what is wrong."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        values = {str(each["name"]): _values_by_digest(each) for each in told["sets"]}
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


def _values_by_digest(evaluation: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the value of each query, of a set's rewordings and of the same as typed."""
    ways = [way for way in (evaluation, evaluation.get("typed")) if way is not None]
    return {
        str(way["digest"]): {query: float(value) for query, value in way["by_query"].items()}
        for way in ways
    }


def check_baseline(baseline: Baseline, sets: Sequence[QuerySet]) -> None:
    """Raise UsageError where a set is not the one that the baseline was asked, neither with its
    rewordings nor as typed.
    """
    for each in sets:
        if each.name not in baseline.values:
            held = ", ".join(baseline.values) or "none"
            raise UsageError(
                f"{baseline.path}: the baseline holds no set {each.name}, only {held}: leave "
                "the set out, or make a baseline with it."
            )
        if not any(
            _values(baseline, each.name, way)
            for way in (each.queries, [query.as_typed for query in each.queries])
        ):
            raise UsageError(
                f"{baseline.path}: {each.name} held other queries or labels when the baseline "
                "was made: make the baseline anew."
            )


def compare_with(baseline: Baseline, evaluations: Sequence[Evaluation]) -> tuple[Difference, ...]:
    """Compare sets query by query with what the baseline holds, all of them together first where
    there are several; then those as typed.
    """
    compared: list[Difference] = []
    for all_sets, ways in (
        ("ALL", [(each.name, each) for each in evaluations]),
        (typed_name("ALL"), [(each.name, each.typed) for each in evaluations]),
    ):
        held = [
            (each, values)
            for name, each in ways
            if each and (values := _values(baseline, name, each.queries))
        ]
        before = [[values[query.id] for query in each.queries] for each, values in held]
        after = [main_values([each]) for each, _ in held]
        if len(held) > 1:
            compared.append(compare_runs(all_sets, [*chain(*before)], [*chain(*after)]))
        compared += [
            compare_runs(each.name, *pair)
            for (each, _), *pair in zip(held, before, after, strict=True)
        ]
    return tuple(compared)


def _values(baseline: Baseline, name: str, queries: Sequence[LabeledQuery]) -> Mapping[str, float]:
    """Return what the baseline holds of a set that is asked so, nothing where it does not hold all
    of it.
    """
    values = baseline.values[name].get(set_digest(queries), {})
    return values if values.keys() == {query.id for query in queries} else {}
