"""Run labeled queries through a library and measure the rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.evaluation.from_links import without_sources
from thumbindex.evaluation.measures import Measured, RankedPassage, by_kind, measure_run, plain_path
from thumbindex.evaluation.queries import LabeledQuery
from thumbindex.model import MAX_PASSAGES, IndexState, Passage, Progress

if TYPE_CHECKING:
    from thumbindex.library import Library


_MIN_DOCUMENTS = 10
"""Documents that a ranking needs, since measures use the first ten.

If the limit of passages is reached with fewer documents, the query runs again with `MAX_PASSAGES`.
"""

RANKED_PASSAGES = 50
"""Default number of passages in a ranking, usually enough for ten documents."""

_ShowProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Labeled queries, and the library that answers them."""

    name: str
    library: Library
    queries: tuple[LabeledQuery, ...]
    from_notes: bool = False  # if so, a search excludes the notes that its query is from


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one query: a long ranking for the measures, and the cost of a normal answer."""

    ranking: tuple[RankedPassage, ...]
    seconds: float  # of the normal answer
    tokens: int  # of the normal answer's passage texts, by the library's token counter


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results and measures of a query set."""

    name: str
    folders: tuple[str, ...]
    index: IndexState
    queries: tuple[LabeledQuery, ...]
    results: Mapping[str, QueryResult]  # by query id
    measured: Mapping[str, Measured]
    seconds: float  # in total

    @property
    def unanswered(self) -> int:
        """The number of queries without results."""
        return sum(not result.ranking for result in self.results.values())


def evaluate(
    library: Library,
    queries: Sequence[LabeledQuery],
    limit: int = RANKED_PASSAGES,
    show: _ShowProgress = lambda _: None,
    name: str = "queries",
    from_notes: bool = False,
) -> Evaluation:
    """Run each query twice: with the normal limit, then with `limit` passages.

    The first answer measures the cost, with caches as cold as for a user. The second answer
    measures the quality. Opening the index is not timed.
    """
    index = library.query(queries[0].query).index
    results: dict[str, QueryResult] = {}
    started = perf_counter()
    for number, query in enumerate(queries, start=1):
        results[query.id] = _ask(library, query, limit, from_notes)
        show(Progress(name, "asking", number, len(queries)))
    seconds = perf_counter() - started
    folders = tuple(name for name, _ in library.folders)
    rankings = {query: result.ranking for query, result in results.items()}
    measured = measure_run(rankings, queries)
    return Evaluation(name, folders, index, tuple(queries), results, measured, seconds)


def evaluate_all(
    sources: Sequence[QuerySource],
    limit: int = RANKED_PASSAGES,
    show: _ShowProgress = lambda _: None,
) -> tuple[Evaluation, ...]:
    """Evaluate the sources one after another."""
    return tuple(
        evaluate(source.library, source.queries, limit, show, source.name, source.from_notes)
        for source in sources
    )


def group_by_set(evaluations: Sequence[Evaluation]) -> list[tuple[str, list[Evaluation]]]:
    """Return the evaluations by set name.

    If there are several sets, the first group is `ALL` and contains all evaluations.
    """
    groups = [(evaluation.name, [evaluation]) for evaluation in evaluations]
    return [("ALL", list(evaluations)), *groups] if len(groups) > 1 else groups


def pooled_means(
    evaluations: Sequence[Evaluation],
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return mean measures and numbers of queries over all sets, for `ALL` and for each kind."""
    return by_kind(
        [
            (query.kind, evaluation.measured[query.id])
            for evaluation in evaluations
            for query in evaluation.queries
        ]
    )


def check_labels(source: QuerySource) -> int:
    """Return the number of labeled paths that are not in the library's folders.

    Raises UsageError if no labeled path is in these folders.
    """
    indexed = {plain_path(entry.path) for entry in source.library.outline()}
    labeled = {plain_path(label.path) for query in source.queries for label in query.relevant}
    folders = ", ".join(name for name, _ in source.library.folders)
    if not labeled & indexed:
        prefix = source.name.partition(".")[0]
        raise UsageError(
            f"{source.name}: none of its {len(labeled):,} labeled paths is in {folders}: name the "
            f"set's folder with --folder. If you name several folders, a file {prefix}.KIND.jsonl "
            f"is used with the folder {prefix}."
        )
    return len(labeled - indexed)


def _ask(library: Library, query: LabeledQuery, limit: int, from_notes: bool) -> QueryResult:
    without: tuple[str, ...] = ()
    if from_notes:
        library, without = without_sources(library, query)
    started = perf_counter()
    answer = library.query(query.query, without=without, **query.rewording)
    seconds = perf_counter() - started
    tokens = sum(library.count_tokens(passage.text) for passage in answer.passages)

    def rank(limit: int) -> tuple[Passage, ...]:
        answer = library.query(query.query, limit=limit, without=without, **query.rewording)
        return answer.passages if answer.found else ()

    passages = rank(limit)
    if len(passages) >= limit and len({passage.path for passage in passages}) < _MIN_DOCUMENTS:
        passages = rank(MAX_PASSAGES)
    return QueryResult(
        tuple(RankedPassage(passage.path, passage.heading_path) for passage in passages),
        seconds,
        tokens,
    )
