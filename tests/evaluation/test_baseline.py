"""The paired bootstrap interval."""

import pytest

from baseline import compare_runs, interval_of


def test_interval_has_the_theoretical_width() -> None:
    # the standard error of the mean is 0.05; the interval is ±1.96 of it
    assert interval_of([0.0, 1.0] * 50) == (
        0.5,
        pytest.approx(0.402, abs=0.011),
        pytest.approx(0.598, abs=0.011),
    )


def test_runs_are_compared_query_by_query() -> None:
    easy_and_hard = [1.0, 0.0] * 20
    change = compare_runs("set", easy_and_hard, [max(0.0, value - 0.01) for value in easy_and_hard])
    assert (change.before, change.after, change.better, change.worse, change.queries) == (
        0.5,
        pytest.approx(0.495),
        0,
        20,
        40,
    )
    assert change.high < 0 < interval_of([1.0, -1.0, 1.0])[2]
    assert change.verdict == "worse"


def test_small_difference_is_within_the_noise() -> None:
    change = compare_runs("set", [0.5, 0.5, 0.5], [0.6, 0.4, 0.5])
    assert change.verdict == "within the noise"
