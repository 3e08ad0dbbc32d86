"""What tuning decides: the defaults, unless others are better beyond noise and for every kind of
query.
"""

from __future__ import annotations

import numpy as np

from thumbindex.settings import Config
from thumbindex.study.queries import Label, LabeledQuery
from thumbindex.study.tune import Measure, decide_tuning

NAMES = tuple(
    LabeledQuery(f"n{n}", "name", "title", (Label(f"{n}.md", None, 2),)) for n in range(20)
)
TELLING = tuple(
    LabeledQuery(str(n), "text", "link" if n % 2 else "description", (Label(f"{n}.md", None, 2),))
    for n in range(80)
)


def answers(queries: tuple[LabeledQuery, ...], **gains: float) -> Measure:
    """Return what a measure would say where k of reciprocal ranks gains so much for a kind of
    query.
    """

    def measure(values):
        gained = [
            gains.get(query.kind, 0.0) if values.get("query.fuse.k") == 30 else 0.0
            for query in queries
        ]
        return (
            0.5
            + np.array(gained)
            + np.random.default_rng(1).normal(0, 0.01, len(queries)) * len(values)
        )

    return measure


def decided(names: dict[str, float], **gains: float):
    return decide_tuning(
        answers(TELLING, **gains), answers(NAMES, **names), Config(), TELLING, NAMES
    )


def test_what_gains_on_all_kinds_is_taken_and_says_by_how_much() -> None:
    found = decided({}, link=0.05, description=0.05)
    assert found.settings == {"query.fuse.method": "rrf", "query.fuse.k": 30}
    assert found.reason.startswith(
        "Better for these notes: reciprocal ranks, k 30 (nDCG@10, a score from 0 to 1, "
        "changes by +0.049 [+0.045, +0.052], cross-validated on 80"
    )
    assert found.gain is not None
    assert found.gain.low > 0.04


def test_where_nothing_gains_the_defaults_stay() -> None:
    found = decided({})
    assert (found.settings, found.choices) == ({}, ())
    assert found.reason.startswith(
        "The defaults stay: of the settings tried, none is clearly better for these notes (nDCG@10"
    )
