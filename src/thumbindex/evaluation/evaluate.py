"""Evaluate: ask labeled queries, and measure the rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.evaluation.from_links import unseen
from thumbindex.evaluation.measures import Measured, RankedPassage, by_kind, measure_run, plain_path
from thumbindex.evaluation.queries import LabeledQuery
from thumbindex.model import MOST_PASSAGES, IndexState, Progress

if TYPE_CHECKING:
    from thumbindex.library import Library


LEAST_DOCUMENTS = 10
"""A run ranks at least so many documents where they exist: the measures look at the first ten."""

RANKED_PASSAGES = 50
"""Passages that a query is asked for where nobody says otherwise: ten documents have few more."""

_RANKED_TO_ITS_END = "query.confidence.minimum_relevance"
"""What users are spared for being weak is ranked here, unless the caller set this key."""

Show = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Labeled queries, and the library that is to answer them; its vectors and models are ready."""

    name: str
    library: Library
    queries: tuple[LabeledQuery, ...]
    # taken from the notes themselves: asked as if what holds them had not been written
    own: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """What one query brought: a long ranking to measure, and what an answer as users get it
    costs.
    """

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
    asked: Mapping[str, Response]  # by the query's id, like what follows
    measured: Mapping[str, Measured]
    seconds: float  # all in all

    @property
    def run(self) -> dict[str, tuple[RankedPassage, ...]]:
        """The rankings, best passage first."""
        return {query: each.found for query, each in self.asked.items()}

    @property
    def unanswered(self) -> int:
        """How many queries nothing was found for."""
        return sum(not each.found for each in self.asked.values())


def evaluate(
    library: Library,
    queries: Sequence[LabeledQuery],
    limit: int = RANKED_PASSAGES,
    show: Show = lambda _: None,
    name: str = "queries",
    own: bool = False,
) -> Evaluation:
    """Ask every query twice, as users do and for `limit` passages, and measure; the library has its
    vectors and models ready.

    The short question is timed and comes first, so that nothing is warm that a user would find
    cold. One that opens the index goes before and is not timed.
    """
    long = to_the_end(library)
    index = library.query(queries[0].query).index
    asked: dict[str, Response] = {}
    began = perf_counter()
    for number, query in enumerate(queries, start=1):
        asked[query.id] = _ask(library, long, query, limit, own)
        show(Progress(name, "asking", number, len(queries)))
    seconds = perf_counter() - began
    folders = tuple(name for name, _ in library.folders)
    measured = measure_run({query: one.found for query, one in asked.items()}, queries)
    return Evaluation(name, folders, index, tuple(queries), asked, measured, seconds)


def evaluate_all(
    sources: Sequence[QuerySource],
    limit: int = RANKED_PASSAGES,
    show: Show = lambda _: None,
) -> tuple[Evaluation, ...]:
    """Evaluate each source after the other."""
    return tuple(
        evaluate(each.library, each.queries, limit, show, each.name, each.own) for each in sources
    )


def grouped(evaluations: Sequence[Evaluation]) -> list[tuple[str, list[Evaluation]]]:
    """Return what is reported on by name: each set, after `ALL` of them if there are several."""
    groups = [(each.name, [each]) for each in evaluations]
    return [("ALL", list(evaluations)), *groups] if len(groups) > 1 else groups


def pooled(evaluations: Sequence[Evaluation]) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the mean of each measure and the number of queries over several sets, for `ALL` and by
    kind; each query counts once.
    """
    return by_kind(
        [(query.kind, each.measured[query.id]) for each in evaluations for query in each.queries]
    )


def to_the_end(library: Library) -> Library:
    """Return a library that leaves nothing out of a ranking for being weak, unless its
    configuration was told to.
    """
    settings = library.config.query
    if _RANKED_TO_ITS_END in library.config.pinned:
        return library
    return library.with_query_settings(
        replace(settings, confidence=replace(settings.confidence, minimum_relevance=0.0))
    )


def check_labels(source: QuerySource) -> int:
    """Return how many labeled paths the folders lack; raise UsageError where they lack all, since
    every score would be 0.
    """
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


def _ask(library: Library, long: Library, query: LabeledQuery, limit: int, own: bool) -> Response:
    without: tuple[str, ...] = ()
    if own:
        (library, without), (long, _) = unseen(library, query), unseen(long, query)
    began = perf_counter()
    answer = library.query(query.query, without=without, **query.rewording)
    seconds = perf_counter() - began
    tokens = sum(library.count_tokens(each.text) for each in answer.passages)
    passages = long.query(query.query, limit=limit, without=without, **query.rewording).passages
    if len(passages) >= limit and len({each.path for each in passages}) < LEAST_DOCUMENTS:
        passages = long.query(
            query.query, limit=MOST_PASSAGES, without=without, **query.rewording
        ).passages
    return Response(
        tuple(RankedPassage(each.path, each.heading_path) for each in passages), seconds, tokens
    )
