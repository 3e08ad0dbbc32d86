"""How much of a difference is noise: the paired bootstrap over queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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


def compare(name: str, before: Sequence[float], after: Sequence[float]) -> Difference:
    """Compare two runs query by query: values in the same order of queries, at least one."""
    changes = [b - a for a, b in zip(before, after, strict=True)]
    means = (sum(before) / len(before), sum(after) / len(after))
    return Difference(name, *means, interval_of(changes), sum(c > 0 for c in changes), sum(c < 0 for c in changes), len(changes))


def interval_of(values: Sequence[float], resamples: int = RESAMPLES) -> Interval:
    """Return the mean of some values, at least one, and its 95 % percentile bootstrap interval (Efron 1979); seeded."""
    sample = np.asarray(values, dtype=np.float64)
    chance = np.random.default_rng(_SEED)
    sizes = [min(_AT_ONCE, resamples - done) for done in range(0, resamples, _AT_ONCE)]
    means = np.concatenate([sample[chance.integers(0, len(sample), (size, len(sample)))].mean(axis=1) for size in sizes])
    low, high = np.percentile(means, _PERCENTILES)
    return Interval(float(sample.mean()), float(low), float(high))
