"""Choosing settings so that noise does not win: greedily by the one-standard-error rule, judged on queries that had no say in it.

Queries about one document stand or fall together, so documents are what is dealt into folds and drawn in the bootstrap, not queries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.study.bootstrap import Interval
from thumbindex.study.grid import Choice, Values
from thumbindex.study.queries import LabeledQuery

Scores = npt.NDArray[np.float64]
"""Shape (queries,): nDCG@10 of each."""

Groups = npt.NDArray[np.int64]
"""Shape (queries,): which group of documents each query is about, from 0."""

Measure = Callable[[Values], Scores]
"""Asks all queries with some values of the grid."""

FOLDS = 5

DRAWS = 5000
"""Of the bootstrap: the ends of an interval move by less than a twentieth of its width from one seed to another."""


LEAST_GAIN = 0.005
"""Of nDCG@10: what gains less is not worth a setting of its own, however sure it is."""


def group_by_document(queries: Sequence[LabeledQuery]) -> Groups:
    """Number the queries so that two that share a relevant document, directly or through others, have one number."""
    leader: dict[str, str] = {}

    def find(path: str) -> str:
        while leader.setdefault(path, path) != path:
            path = leader[path]
        return path

    for query in queries:
        for label in query.relevant:
            leader[find(label.path)] = find(query.relevant[0].path)
    found = [find(query.relevant[0].path) for query in queries]
    numbers = {path: n for n, path in enumerate(sorted(set(found), key=_draw))}
    return np.array([numbers[path] for path in found], dtype=np.int64)


def deal(groups: Groups, folds: int = FOLDS) -> Groups:
    """Return the fold of each query, groups whole: large ones first, each into what is smallest so far."""
    counts = np.bincount(groups)
    fold_of, sizes = np.zeros(len(counts), dtype=np.int64), np.zeros(folds)
    for group in np.argsort(-counts, kind="stable"):
        fold_of[group] = int(np.argmin(sizes))
        sizes[fold_of[group]] += counts[group]
    return fold_of[groups]


def choose(axes: Sequence[Sequence[Choice]], measure: Measure, groups: Groups, rows: npt.NDArray[np.bool_]) -> tuple[Choice, ...]:
    """Take on each axis in turn the best choice, where its gain over what is taken so far is more than one standard error (Breiman et al. 1984)."""
    taken: tuple[Choice, ...] = ()
    for axis in axes:
        before = measure(together(taken))
        gains = {choice.name: (measure(together((*taken, choice))) - before)[rows] for choice in axis}
        best = max(axis, key=lambda choice: float(gains[choice.name].mean()), default=None)
        if best is not None and gains[best.name].mean() > max(standard_error(gains[best.name], groups[rows]), LEAST_GAIN):
            taken = (*taken, best)
    return taken


def cross_validate(axes: Sequence[Sequence[Choice]], measure: Measure, groups: Groups) -> Scores:
    """Return each query's gain over the defaults by what was chosen without it and all other queries about its documents."""
    folds, gains = deal(groups), np.zeros(len(groups))
    for fold in range(FOLDS):
        held_out = folds == fold
        taken = choose(axes, measure, groups, ~held_out)
        gains[held_out] = (measure(together(taken)) - measure({}))[held_out]
    return gains


def together(choices: Sequence[Choice]) -> Mapping[str, Any]:
    """Return the values of several choices, of different axes."""
    return {key: value for choice in choices for key, value in choice.values.items()}


def standard_error(differences: Scores, groups: Groups) -> float:
    """Return the standard error of a mean whose terms hang together in groups."""
    mean = differences.mean()
    sums = np.bincount(groups, weights=differences - mean)
    return float(np.sqrt((sums**2).sum()) / len(differences))


def interval(differences: Scores, groups: Groups, seed: int = 1) -> Interval:
    """Return the mean and its 95 % interval by a paired bootstrap over groups, the same each time."""
    _, own = np.unique(groups, return_inverse=True)
    sums, counts = np.bincount(own, weights=differences), np.bincount(own)
    drawn = np.random.default_rng(seed).integers(0, len(counts), (DRAWS, len(counts)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(differences.mean()), float(low), float(high))


def _draw(path: str) -> str:
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
