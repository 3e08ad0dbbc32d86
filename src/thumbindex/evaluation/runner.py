"""Run labeled queries through a library and measure the rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.evaluation.from_links import without_sources
from thumbindex.evaluation.measures import Measured, RankedPassage, by_kind, measure_run, plain_path
from thumbindex.evaluation.queries import LabeledQuery
from thumbindex.model import MAX_PASSAGES, IndexState, Progress

if TYPE_CHECKING:
    from thumbindex.library import Library


_LEAST_DOCUMENTS = 10
"""Minimum documents of a ranking, if they exist: measures look at the first ten."""

RANKED_PASSAGES = 50
"""Default passages of a ranking: ten documents rarely have more."""

_CUTOFF_SETTING = "query.confidence.minimum_relevance"
"""The cutoff for weak passages is off in an evaluation, unless the caller set this key."""

_ShowProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Labeled queries, and the library that answers them, with vectors and models."""

    name: str
    library: Library
    queries: tuple[LabeledQuery, ...]
    # queries from the notes themselves: their sources are excluded
    own: bool = False


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one query: a long ranking to measure, and the cost of a normal answer."""

    found: tuple[RankedPassage, ...]
    seconds: float
    tokens: int  # of its passages' texts, counted as a server's budget counts them


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answers to a set of queries, measured."""

    name: str
    folders: tuple[str, ...]
    index: IndexState
    queries: tuple[LabeledQuery, ...]
    results: Mapping[str, QueryResult]  # by query id
    measured: Mapping[str, Measured]
    seconds: float  # all in all

    @property
    def run(self) -> dict[str, tuple[RankedPassage, ...]]:
        """The rankings, best passage first."""
        return {query: each.found for query, each in self.results.items()}

    @property
    def unanswered(self) -> int:
        """The number of queries without results."""
        return sum(not each.found for each in self.results.values())


def evaluate(
    library: Library,
    queries: Sequence[LabeledQuery],
    limit: int = RANKED_PASSAGES,
    show: _ShowProgress = lambda _: None,
    name: str = "queries",
    own: bool = False,
) -> Evaluation:
    """Run every query twice, with the normal limit and with `limit` passages, and measure.

    The normal query is timed and comes first, so that caches are as cold as for a user. The index
    is opened before.
    """
    long = without_cutoff(library)
    index = library.query(queries[0].query).index
    results: dict[str, QueryResult] = {}
    began = perf_counter()
    for number, query in enumerate(queries, start=1):
        results[query.id] = _ask(library, long, query, limit, own)
        show(Progress(name, "asking", number, len(queries)))
    seconds = perf_counter() - began
    folders = tuple(name for name, _ in library.folders)
    measured = measure_run({query: one.found for query, one in results.items()}, queries)
    return Evaluation(name, folders, index, tuple(queries), results, measured, seconds)


def evaluate_all(
    sources: Sequence[QuerySource],
    limit: int = RANKED_PASSAGES,
    show: _ShowProgress = lambda _: None,
) -> tuple[Evaluation, ...]:
    """Evaluate each source after the other."""
    return tuple(
        evaluate(source.library, source.queries, limit, show, source.name, source.own)
        for source in sources
    )


def group_by_set(evaluations: Sequence[Evaluation]) -> list[tuple[str, list[Evaluation]]]:
    """Return the evaluations of each set by name, after `ALL` if there are several."""
    groups = [(evaluation.name, [evaluation]) for evaluation in evaluations]
    return [("ALL", list(evaluations)), *groups] if len(groups) > 1 else groups


def pooled_means(
    evaluations: Sequence[Evaluation],
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the means and numbers of queries over several sets, for `ALL` and by kind."""
    return by_kind(
        [
            (query.kind, evaluation.measured[query.id])
            for evaluation in evaluations
            for query in evaluation.queries
        ]
    )


def without_cutoff(library: Library) -> Library:
    """Return a library without the cutoff for weak passages, unless its configuration sets it."""
    settings = library.config.query
    if _CUTOFF_SETTING in library.config.pinned:
        return library
    return library.with_query_settings(
        replace(settings, confidence=replace(settings.confidence, minimum_relevance=0.0))
    )


def check_labels(source: QuerySource) -> int:
    """Return how many labeled paths the folders lack. Raises UsageError if they lack all."""
    known = {plain_path(entry.path) for entry in source.library.outline()}
    wanted = {plain_path(label.path) for query in source.queries for label in query.relevant}
    folders = ", ".join(name for name, _ in source.library.folders)
    if not wanted & known:
        raise UsageError(
            f"{source.name}: none of its {len(wanted):,} labeled paths is in {folders}: give the "
            "folder that the set belongs to with --folder;"
            f" of several, a set named {source.name.partition('.')[0]}.KIND.jsonl is asked of the "
            f"one named {source.name.partition('.')[0]}."
        )
    return len(wanted - known)


def _ask(
    library: Library, long: Library, query: LabeledQuery, limit: int, own: bool
) -> QueryResult:
    without: tuple[str, ...] = ()
    if own:
        (library, without), (long, _) = (
            without_sources(library, query),
            without_sources(long, query),
        )
    began = perf_counter()
    answer = library.query(query.query, without=without, **query.rewording)
    seconds = perf_counter() - began
    tokens = sum(library.count_tokens(passage.text) for passage in answer.passages)
    passages = long.query(query.query, limit=limit, without=without, **query.rewording).passages
    if len(passages) >= limit and len({passage.path for passage in passages}) < _LEAST_DOCUMENTS:
        passages = long.query(
            query.query, limit=MAX_PASSAGES, without=without, **query.rewording
        ).passages
    return QueryResult(
        tuple(RankedPassage(passage.path, passage.heading_path) for passage in passages),
        seconds,
        tokens,
    )
