"""Evaluate: ask labeled queries, measure the rankings, and measure abstention."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from thumbindex.errors import UsageError
from thumbindex.model import IndexState, Passage, Progress
from thumbindex.study.from_links import unseen
from thumbindex.study.measures import Measured, RankedPassage, by_kind, measure_run, plain_path
from thumbindex.study.queries import (
    REWORDING,
    LabeledQuery,
    query_lines,
    read_rewording,
    rewording_of,
    row_of,
)

if TYPE_CHECKING:
    from thumbindex.library import Library


_KINDS = ("off-topic", "near-miss")
"""About something else altogether, or about the right subject, but nothing that the documents
say.
"""

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7)
"""Confidences for which it is counted what would be refused."""


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A query that has no answer in any of the corpora, or, as a near miss, in the one that it
    belongs to.
    """

    id: str
    query: str
    kind: str
    corpus: str = ""
    also: tuple[str, ...] = ()  # as in LabeledQuery
    passage: str = ""

    @property
    def rewording(self) -> dict[str, Any]:
        """What is given beside the text, by the names of `Library.query`."""
        return rewording_of(self.also, self.passage)

    @property
    def as_typed(self) -> Unanswerable:
        """The query by its text alone."""
        return replace(self, also=(), passage="")


@dataclass(frozen=True, slots=True)
class Threshold:
    """What would be refused if everything below a confidence were."""

    confidence: float
    lost: float  # share of the queries whose first passage is right
    refused: Mapping[str, float]  # share of those without an answer, by kind


@dataclass(frozen=True, slots=True)
class Bin:
    """The queries whose confidence is in a tenth of the scale."""

    least: float
    answerable: int
    right: int  # of these, first passages that are labeled
    unanswerable: int


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well confidence tells what can be answered from what cannot."""

    # by kind: how often an answerable query is surer than one without an answer; 0.5 is chance
    auc: Mapping[str, float]
    # queries by kind, `answerable` first, then `right`, those whose first passage is
    counts: Mapping[str, int]
    thresholds: tuple[Threshold, ...]
    reliability: tuple[Bin, ...]
    confidence: Mapping[str, float]  # by query


def load_unanswerable(path: Path, corpora: Sequence[str] = ()) -> tuple[Unanswerable, ...]:
    """Read queries without an answer, one JSON object a line; near misses only of the named
    corpora.

    Raises UsageError with path and line.
    """
    found = []
    for where, line in query_lines(path, "id, query and kind"):
        row = row_of(
            line,
            where,
            {"id": "text or a number", "query": "text", "kind": "text"},
            {"corpus": "text", **REWORDING},
        )
        if row["kind"] not in _KINDS:
            raise UsageError(
                f"{where}: the kind {row['kind']!r} is none of {' and '.join(_KINDS)}: change it."
            )
        found.append(
            Unanswerable(
                str(row["id"]),
                row["query"],
                row["kind"],
                row.get("corpus") or "",
                *read_rewording(row, where),
            )
        )
    return tuple(each for each in found if not each.corpus or each.corpus in corpora)


def measure_abstention(
    library: Library,
    answerable: Sequence[LabeledQuery],
    unanswerable: Sequence[Unanswerable],
    progress: Callable[[int, int], None] | None = None,
) -> Abstention:
    """Ask everything, refusing nothing, and compare the confidences; the library has its vectors
    and models ready.
    """
    settings = library.config.query
    willing = library.answering_with(
        replace(
            settings, confidence=replace(settings.confidence, abstain=0.0, minimum_relevance=0.0)
        )
    )
    everything: tuple[LabeledQuery | Unanswerable, ...] = (*answerable, *unanswerable)
    asked = {_as_asked(each): each for each in everything}
    confidence, first = {}, {}
    for number, (key, each) in enumerate(asked.items(), start=1):
        answer = willing.query(each.query, limit=1, **each.rewording)
        confidence[key] = answer.confidence
        first[key] = next((plain_path(found.path) for found in answer.passages), "")
        if progress:
            progress(number, len(asked))
    sure = [confidence[_as_asked(each)] for each in answerable]
    right = [
        confidence[_as_asked(each)]
        for each in answerable
        if first[_as_asked(each)] in {plain_path(label.path) for label in each.relevant}
    ]
    by_kind = {
        kind: [confidence[_as_asked(each)] for each in unanswerable if each.kind == kind]
        for kind in _KINDS
    }
    unsure = {kind: values for kind, values in by_kind.items() if values}
    counts = {kind: len(values) for kind, values in unsure.items()}
    thresholds = []
    for at in THRESHOLDS:
        refused = {kind: below(values, at) for kind, values in unsure.items()}
        thresholds.append(Threshold(at, below(right, at), refused))
    all_unsure = [value for values in unsure.values() for value in values]
    return Abstention(
        {kind: auc(sure, values) for kind, values in unsure.items()},
        {"answerable": len(sure), "right": len(right), **counts},
        tuple(thresholds),
        reliability(sure, right, all_unsure),
        {text: value for (text, *_), value in confidence.items()},
    )


def _as_asked(query: LabeledQuery | Unanswerable) -> tuple[str, tuple[str, ...], str]:
    return query.query, query.also, query.passage


BINS = 10
"""Parts of the scale for which it is counted how often the first passage is right."""


def reliability(
    sure: Sequence[float], right: Sequence[float], unsure: Sequence[float]
) -> tuple[Bin, ...]:
    """Count the confidences of answerable queries, of those with a right first passage, and of
    queries without an answer, by bin.
    """
    answerable, correct, unanswerable = (
        Counter(min(int(value * BINS), BINS - 1) for value in values)
        for values in (sure, right, unsure)
    )
    return tuple(
        Bin(at / BINS, answerable[at], correct[at], unanswerable[at])
        for at in range(BINS)
        if answerable[at] or unanswerable[at]
    )


def ask_off_topic(library: Library, answerable: Sequence[LabeledQuery], path: Path) -> Abstention:
    """Measure against the queries of a file; its near misses count where they belong to one of the
    library's folders.
    """
    folders = [name for name, _ in library.folders]
    return measure_abstention(library, answerable, load_unanswerable(path, folders))


def ask_off_topic_both_ways(
    library: Library, name: str, answerable: Sequence[LabeledQuery], path: Path
) -> dict[str, Abstention]:
    """Measure a set like `ask_off_topic`, and as typed too where some query, with an answer or
    without, has rewordings; by name.
    """
    unanswerable = load_unanswerable(path, [name for name, _ in library.folders])
    found = {name: measure_abstention(library, answerable, unanswerable)}
    if any(each.rewording for each in answerable) or any(each.rewording for each in unanswerable):
        found[typed_name(name)] = measure_abstention(
            library,
            [each.as_typed for each in answerable],
            [each.as_typed for each in unanswerable],
        )
    return found


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of the first values is above one of the second, ties as half (Mann &
    Whitney 1947).
    """
    ordered = sorted(lower)
    won = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher)
    return won / (2 * len(higher) * len(lower))


def below(values: Sequence[float], threshold: float) -> float:
    """Return the share of values below a threshold, 0 of none."""
    return sum(value < threshold for value in values) / len(values) if values else 0.0


LEAST_DOCUMENTS = 10
"""A run ranks at least so many documents where they exist: the measures look at the first ten."""

RANKED_PASSAGES = 50
"""Passages that a query is asked for where nobody says otherwise: ten documents have few more."""

_MOST_PASSAGES = 100
"""What one query may return at most (`query.limit`)."""

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
    typed: Evaluation | None = None  # the same queries as typed, where some of them have rewordings

    @property
    def run(self) -> dict[str, tuple[RankedPassage, ...]]:
        """The rankings, best passage first."""
        return {query: each.found for query, each in self.asked.items()}

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The mean of each measure by kind of query, `ALL` first."""
        return pooled([self])[0]

    @property
    def counts(self) -> dict[str, int]:
        """The number of queries by kind."""
        return pooled([self])[1]

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
    as_typed: bool = True,
) -> Evaluation:
    """Ask every query twice, as users do and for `limit` passages, and measure; the library has its
    vectors and models ready.

    The short question is timed and comes first, so that nothing is warm that a user would find
    cold. One that opens the index goes before and is not timed. Where some queries have rewordings,
    all are asked as typed too, unless `as_typed` is False; which way comes first takes turns.
    """
    long = to_the_end(library)
    index = library.query(queries[0].query).index
    ways = [queries]
    if as_typed and any(each.rewording for each in queries):
        ways.append([each.as_typed for each in queries])
    asked: list[dict[str, Response]] = [{} for _ in ways]
    spent = [0.0 for _ in ways]
    for number in range(len(queries)):
        for way in sorted(range(len(ways)), reverse=number % 2 == 0):
            began = perf_counter()
            query = ways[way][number]
            asked[way][query.id] = _ask(library, long, query, limit, own)
            spent[way] += perf_counter() - began
        show(Progress(name, "asking", number + 1, len(queries)))
    folders = tuple(name for name, _ in library.folders)
    found = []
    for labeled, answers, seconds in zip(ways, asked, spent, strict=True):
        measured = measure_run({query: one.found for query, one in answers.items()}, labeled)
        found.append(Evaluation(name, folders, index, tuple(labeled), answers, measured, seconds))
    if len(found) > 1:
        return replace(found[0], typed=replace(found[1], name=typed_name(name)))
    return found[0]


def typed_name(name: str) -> str:
    """Return what the queries of a set are called where they are asked without their rewordings."""
    return f"{name}, as typed"


def evaluate_all(
    sources: Sequence[QuerySource],
    limit: int = RANKED_PASSAGES,
    show: Show = lambda _: None,
    as_typed: bool = True,
) -> tuple[Evaluation, ...]:
    """Evaluate each source after the other."""
    return tuple(
        evaluate(each.library, each.queries, limit, show, each.name, each.own, as_typed)
        for each in sources
    )


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
    return library.answering_with(
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
    passages = list(
        long.query(query.query, limit=limit, without=without, **query.rewording).passages
    )
    documents = {each.path for each in passages}
    if len(passages) >= limit and len(documents) < LEAST_DOCUMENTS and limit < _MOST_PASSAGES:
        # the best passage of each document, while there are too few documents
        further: dict[str, Passage] = {}
        for each in long.query(
            query.query, limit=_MOST_PASSAGES, without=without, **query.rewording
        ).passages:
            if each.path not in documents:
                further.setdefault(each.path, each)
        passages += list(further.values())[: LEAST_DOCUMENTS - len(documents)]
    return Response(
        tuple(RankedPassage(each.path, each.heading_path) for each in passages), seconds, tokens
    )
