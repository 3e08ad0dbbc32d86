"""Intervals: as wide as theory says, the same twice, and paired."""

import pytest

from thumbindex.evaluation.baseline import compare_runs, interval_of
from thumbindex.evaluation.report import verdict_of


def test_an_interval_is_about_as_wide_as_theory_says() -> None:
    found = interval_of([0.0, 1.0] * 50)
    # the mean's standard error is 0.05; 1.96 of them on both sides
    assert found == (
        0.5,
        pytest.approx(0.402, abs=0.011),
        pytest.approx(0.598, abs=0.011),
    )


def test_runs_are_compared_query_by_query() -> None:
    easy_and_hard = [1.0, 0.0] * 20
    found = compare_runs("set", easy_and_hard, [max(0.0, value - 0.01) for value in easy_and_hard])
    assert (found.before, found.after, found.better, found.worse, found.queries) == (
        0.5,
        pytest.approx(0.495),
        0,
        20,
        40,
    )
    assert found.high < 0 < interval_of([1.0, -1.0, 1.0])[2]
    assert verdict_of(found) == "worse"


def test_a_difference_around_0_is_not_certain() -> None:
    found = compare_runs("set", [0.5, 0.5, 0.5], [0.6, 0.4, 0.5])
    assert verdict_of(found) == "within the noise"
