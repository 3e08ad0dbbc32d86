"""What each setting does: the configuration with one thing changed, over the same open indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from thumbindex.config import Key, Setting, settings
from thumbindex.errors import ThumbindexError
from thumbindex.model import Progress
from thumbindex.settings import QuerySettings
from thumbindex.study.bootstrap import Difference, compare
from thumbindex.study.evaluate import RANKED_PASSAGES, Evaluation, Show, Source, evaluate_all
from thumbindex.study.measures import MAIN

_RETRIEVER = "search_"
"""What the names of the stages that look something up begin with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration with one thing changed, and what it takes for that: settings below `query`, as `fuse.method`."""

    name: str
    changes: Mapping[str, Any]

    def applied(self, query: QuerySettings) -> QuerySettings:
        """Return the settings with the changes made."""
        for key, value in self.changes.items():
            table, _, name = key.partition(".")
            query = replace(query, **{table: replace(getattr(query, table), **{name: value})})
        return query


@dataclass(frozen=True, slots=True)
class Effect:
    """What a variant does, against the configuration as it is; where it cannot be asked, why not."""

    variant: Variant
    evaluations: tuple[Evaluation, ...] = ()
    difference: Difference | None = None
    refusal: str = ""


def variants(query: QuerySettings) -> tuple[Variant, ...]:
    """Return every stage switched, every retriever alone, and every alternative of a setting that has choices, as the settings declare them."""
    known = {Key(key.removeprefix("query.")): each for key, each in settings().items() if key.startswith("query.") and key.count(".") == 2}
    switched = [_switched(key, query) for key in known if key.endswith(".enabled")]
    retrievers = [key.partition(".")[0] for key in known if key.startswith(_RETRIEVER) and key.endswith(".enabled")]
    alone = [Variant(f"{one} alone", {f"{each}.enabled": each == one for each in retrievers}) for one in retrievers]
    chosen = chain.from_iterable(_alternatives(key, each, query) for key, each in known.items() if each.choices)
    return (*switched, *alone, *chosen)


def ablate(
    sources: Sequence[Source], evaluations: Sequence[Evaluation], chosen: Sequence[Variant], limit: int = RANKED_PASSAGES, show: Show = lambda _: None
) -> tuple[Effect, ...]:
    """Ask the queries again with each variant; `evaluations` are those of the configuration as it is."""
    effects = []
    for number, variant in enumerate(chosen):
        show(Progress("configurations", "ablation", number, len(chosen)))
        effects.append(_effect(variant, sources, evaluations, limit))
    show(Progress("configurations", "ablation", len(chosen), len(chosen)))
    return tuple(effects)


def _switched(key: str, query: QuerySettings) -> Variant:
    table = key.partition(".")[0]
    on = getattr(query, table).enabled
    return Variant(f"{'without' if on else 'with'} {table}", {key: not on})


def _alternatives(key: str, setting: Setting, query: QuerySettings) -> list[Variant]:
    """Return a variant a choice that is not the present one; a stage that is off is switched on for it."""
    table, _, name = key.partition(".")
    now = getattr(query, table)
    others = [choice for choice in setting.choices if choice != getattr(now, name)]
    if now.enabled:
        return [Variant(f"{key}={choice}", {key: choice}) for choice in others]
    return [Variant(f"with {table}, {name}={choice}", {f"{table}.enabled": True, key: choice}) for choice in others]


def _effect(variant: Variant, sources: Sequence[Source], before: Sequence[Evaluation], limit: int) -> Effect:
    try:
        after = evaluate_all([_varied(each, variant) for each in sources], limit)
    except ThumbindexError as error:
        return Effect(variant, refusal=str(error))
    return Effect(variant, after, compare("ALL", main_values(before), main_values(after)))


def _varied(source: Source, variant: Variant) -> Source:
    return replace(source, library=source.library.answering_with(variant.applied(source.library.config.query)))


def main_values(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return each query's main measure, set after set."""
    return [each.measured[query.id][MAIN] for each in evaluations for query in each.queries]
