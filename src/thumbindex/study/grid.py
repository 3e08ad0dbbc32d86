"""The grid that tuning tries: a few alternatives an axis, each of which was the better one on some corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from thumbindex.config import with_tuned
from thumbindex.settings import Config, QuerySettings

Values = Mapping[str, Any]
"""Settings by key, as in `query.fuse.k`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An alternative to the defaults."""

    name: str
    values: Values


def _balance(vector: float) -> Choice:
    values = {"query.search_vector.weight": vector, "query.search_keyword.weight": round(1 - vector, 2)}
    return Choice(f"meaning {vector}, words {round(1 - vector, 2)}", values)


def _ranks(k: int) -> Choice:
    return Choice(f"reciprocal ranks, k {k}", {"query.fuse.method": "rrf", "query.fuse.k": k})


def _weight(name: str, stage: str, weight: float) -> Choice:
    return Choice(f"{name} {weight}", {f"query.{stage}.weight": weight})


def _reranked(weight: float) -> Choice:
    return Choice(f"reranked, {weight}", {"query.rerank.enabled": True, "query.rerank.weight": weight})


GRID: tuple[tuple[Choice, ...], ...] = (
    (_balance(0.5), _balance(0.8)),
    (_ranks(10), _ranks(30), _ranks(60)),
    (_weight("links", "search_graph", 0.0), _weight("links", "search_graph", 0.1)),
    (_weight("identifiers", "search_code", 0.0), _weight("identifiers", "search_code", 0.2)),
    (Choice("expanded", {"query.expand.enabled": True}),),
    (_reranked(0.1), _reranked(0.2)),
)
"""The axes in the order in which they are decided, the default of each left out: what is decided first is the ground for what comes after."""

_BESIDE_RANKING = ("confidence", "variants", "dedup_known", "dedup_hash", "deduplicate", "dedup_ngram", "dedup_semantic", "contradict", "parents")
"""Stages that take out what says the same and dress up what is left: two thirds of a query's time, and they never change the order of what stays."""


def open_axes(config: Config) -> tuple[tuple[Choice, ...], ...]:
    """Return the grid without what the configuration says itself: a key that anybody has written is not tuned."""
    axes = (tuple(choice for choice in axis if with_tuned(config, choice.values, "the grid") != config) for axis in GRID)
    return tuple(tuple(choice for choice in axis if not config.written & choice.values.keys()) for axis in axes)


def settings_of(config: Config, values: Values) -> QuerySettings:
    """Return the query settings with some values of the grid, ranking alone: as what is found is shown makes no difference to what is first."""
    query = with_tuned(config, values, "the grid").query
    return replace(query, **{name: replace(getattr(query, name), enabled=False) for name in _BESIDE_RANKING})
