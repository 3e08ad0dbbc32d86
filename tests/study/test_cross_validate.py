"""Noise does not win: folds hold documents whole, a choice must beat its own uncertainty, and is
judged where it had no say.
"""

from __future__ import annotations

import numpy as np
import pytest

from thumbindex.study.queries import Label, LabeledQuery
from thumbindex.study.tune import (
    Choice,
    choose,
    cross_validate,
    deal,
    group_by_document,
    interval,
    standard_error,
)

GOOD, BETTER, ELSE = Choice("good", {"a": 1}), Choice("better", {"a": 2}), Choice("else", {"b": 1})
GROUPS = np.arange(100)
EVERYTHING = np.ones(100, dtype=np.bool_)


def measured(**gains: np.ndarray | float):
    """Return a measure in which each value adds its gain to 0.5."""
    names = {("a", 1): "good", ("a", 2): "better", ("b", 1): "other"}
    return lambda values: (
        0.5 + np.zeros(100) + sum(gains.get(names[item], 0.0) for item in values.items())
    )


def asked(*paths: str) -> LabeledQuery:
    return LabeledQuery("q", "text", "link", tuple(Label(path, None, 2) for path in paths))


def noise(seed: int, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 0.2, 100)


def test_queries_that_share_a_document_are_one_group_through_others_too() -> None:
    groups = group_by_document(
        [asked("a"), asked("b", "c"), asked("c", "d"), asked("a", "e"), asked("d")]
    ).tolist()
    assert (
        groups[0] == groups[3],
        groups[1] == groups[2] == groups[4],
        groups[0] == groups[1],
    ) == (True, True, False)
    assert sorted(set(groups)) == [0, 1]


def test_a_group_is_dealt_whole_and_folds_are_of_one_size() -> None:
    groups = np.repeat(np.arange(25), 4)
    folds = deal(groups)
    assert all(len(set(folds[groups == group].tolist())) == 1 for group in range(25))
    assert np.bincount(folds).tolist() == [20] * 5


def test_the_best_of_an_axis_is_taken_and_axes_add_up() -> None:
    axes = ((GOOD, BETTER), (ELSE,))
    measure = measured(good=noise(1, 0.1), better=noise(2, 0.2), other=noise(3, 0.1))
    assert [choice.name for choice in choose(axes, measure, GROUPS, EVERYTHING)] == [
        "better",
        "else",
    ]


def test_a_gain_within_its_standard_error_is_not_taken() -> None:
    gain = noise(1)
    gain += 0.9 * standard_error(gain, GROUPS) - gain.mean()
    assert choose(((GOOD,),), measured(good=gain), GROUPS, EVERYTHING) == ()
    assert choose(((GOOD,),), measured(good=gain + 0.01), GROUPS, EVERYTHING) == (GOOD,)


def test_a_gain_that_nobody_would_notice_is_not_taken_however_sure() -> None:
    assert choose(((GOOD,), (ELSE,)), measured(good=0.004, other=0.006), GROUPS, EVERYTHING) == (
        ELSE,
    )


def test_an_axis_without_a_choice_is_passed_over() -> None:
    assert choose(((), (ELSE,)), measured(other=0.1), GROUPS, EVERYTHING) == (ELSE,)


def test_cross_validation_finds_a_gain_that_holds_and_none_in_noise() -> None:
    held = interval(
        cross_validate(((GOOD, BETTER),), measured(good=noise(1, 0.1), better=noise(2)), GROUPS),
        GROUPS,
    )
    assert (held.low > 0, round(held.mean, 1)) == (True, 0.1)
    lows = [
        interval(
            cross_validate(
                ((GOOD, BETTER),), measured(good=noise(n), better=noise(n + 50)), GROUPS
            ),
            GROUPS,
        ).low
        for n in range(20)
    ]
    assert sum(low > 0 for low in lows) <= 1


def test_what_one_document_says_many_times_counts_as_one_thing() -> None:
    differences = np.repeat(noise(4)[:20], 5)
    alone, together = (
        interval(differences, groups) for groups in (GROUPS, np.repeat(np.arange(20), 5))
    )
    assert alone.mean == together.mean == pytest.approx(differences.mean())
    assert together.high - together.low > 1.8 * (alone.high - alone.low)


def test_an_interval_is_the_same_each_time() -> None:
    assert interval(noise(5), GROUPS) == interval(noise(5), GROUPS)
