"""Whether something that is measured again and again still grows: its slope, and how far chance
alone could have moved that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from judge import Verdict

PARTS = 18
"""Pieces of what is looked at, of which each counts by its median: outliers and the teeth of a saw
do not move a line through these.
"""

CERTAINTY = 0.99
"""Of the interval: of 30 things that stay as they are, each once in 200 runs seems to grow."""

SEEN_SHARE = 0.10
"""Where chance could hide a growth by more than this of the whole within the second half, the run
was too short or too noisy to say anything.
"""

LEAST_SAMPLES = 2 * PARTS


@dataclass(frozen=True, slots=True)
class Trend:
    """A slope and the interval around it that chance explains, in units a second, and what is
    measured (its median).
    """

    slope: float
    low: float
    high: float
    middle: float
    seconds: float  # that it was looked at for


def fit(seconds: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a line by least squares, and its interval by as many independent points as there are
    (Santer et al.

    2000).

    What was high a moment ago is still high: neighbors say the same thing twice, and so count for
    less.
    """
    pieces = np.array_split(np.arange(len(values)), PARTS)
    x = np.array([np.mean(np.asarray(seconds, float)[each]) for each in pieces])
    y = np.array([np.median(np.asarray(values, float)[each]) for each in pieces])
    x -= x.mean()
    slope = float((x * y).sum() / (x * x).sum())
    left = y - y.mean() - slope * x
    squares = float((left * left).sum())
    # so short a series shows less likeness of neighbors than there is: Marriott and Pope (1954) add
    # what is missing
    alike = float((left[1:] * left[:-1]).sum()) / squares if squares else 0.0
    alike = min(0.95, max(0.0, alike + (1 + 4 * alike) / PARTS))
    points = max(3.0, PARTS * (1 - alike) / (1 + alike))
    error = (squares / (points - 2) / float((x * x).sum())) ** 0.5
    half = _student(0.5 + CERTAINTY / 2, points - 2) * error
    return Trend(
        slope, slope - half, slope + half, float(np.median(y)), float(seconds[-1] - seconds[0])
    )


def _student(share: float, freedom: float) -> float:
    """Return a quantile of Student's t (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(share)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def judge_trend(
    whose: str,
    measure: str,
    seconds: Sequence[float],
    values: Sequence[float],
    hour: float = 3600.0,
) -> Verdict:
    """Judge the second half of a run: no slope that chance does not explain, and none hidden by it.

    `hour` is the seconds of one in the telling.
    """
    half = len(values) // 2
    what = f"{whose}: {measure} levels off"
    if len(values) - half < LEAST_SAMPLES:
        return Verdict(what, None, f"{len(values)} samples: too few for a slope")
    trend = fit(seconds[half:], values[half:])
    most = trend.high * trend.seconds
    seen = (
        f"{trend.middle:,.0f}; {trend.slope * hour:+,.0f} an hour [{trend.low * hour:+,.0f}, "
        f"{trend.high * hour:+,.0f}]"
    )
    if trend.low > 0:
        return Verdict(what, False, f"{seen}: it grows")
    if most > max(SEEN_SHARE * trend.middle, 1.0):
        return Verdict(what, None, f"{seen}: chance could hide a growth by {most:,.0f}")
    return Verdict(what, True, seen)
