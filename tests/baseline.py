"""Compare two runs of `eval --json`, by a paired bootstrap over queries.

    python tests/baseline.py BEFORE.json AFTER.json

Prints the change of nDCG@10 by set, with its 95 % interval. Both runs need the same queries.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESAMPLES = 10_000
"""Number of bootstrap resamples: enough for three stable decimal places."""

_SEED = 1
"""Fixed seed, so that intervals are reproducible."""

_BATCH = 500
"""Number of resamples in memory at a time."""


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """The change of a measure between two runs, with a 95 % interval of the difference.

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

    @property
    def verdict(self) -> str:
        """The difference in words."""
        if self.low > 0 or self.high < 0:
            return "better" if self.difference > 0 else "worse"
        return "within the noise" if self.better or self.worse else "no change"


def compare_runs(name: str, before: Sequence[float], after: Sequence[float]) -> MeasureDifference:
    """Compare the values of a measure in two runs, query by query."""
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
    """Return the mean and the bounds of its 95 % interval (percentile bootstrap, Efron 1979)."""
    sample = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    sizes = [min(_BATCH, RESAMPLES - start) for start in range(0, RESAMPLES, _BATCH)]
    means = np.concatenate(
        [
            sample[random.integers(0, len(sample), (size, len(sample)))].mean(axis=1)
            for size in sizes
        ]
    )
    low, high = np.percentile(means, (2.5, 97.5))
    return float(sample.mean()), float(low), float(high)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[MeasureDifference]:
    """Yield the change of each set of the later report."""
    earlier = {query_set["name"]: query_set for query_set in before["sets"]}
    for query_set in after["sets"]:
        name, saved = query_set["name"], earlier.get(query_set["name"])
        if saved is None or saved["digest"] != query_set["digest"]:
            sys.exit(f"{name}: the earlier run has other queries or labels.")
        queries = query_set["by_query"]
        yield compare_runs(name, [saved["by_query"][id_] for id_ in queries], [*queries.values()])


def main() -> None:
    before, after = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:])
    for change in differences(before, after):
        sys.stdout.write(
            f"{change.name}: {change.before:.3f} -> {change.after:.3f}, {change.difference:+.3f} "
            f"[{change.low:+.3f}, {change.high:+.3f}], {change.verdict}; of {change.queries:,} "
            f"queries {change.better:,} better, {change.worse:,} worse\n"
        )


if __name__ == "__main__":
    main()
