"""Evaluate: ask labeled queries, measure the rankings, and measure abstention."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.model import IndexState, Passage, Progress
from thumbindex.study.from_links import unseen
from thumbindex.study.measures import Measured, RankedPassage, by_kind, measure_run, plain_path
from thumbindex.study.queries import LabeledQuery, query_lines, row_of

if TYPE_CHECKING:
    from thumbindex.library import Library


_KINDS = ("off-topic", "near-miss")
"""About something else altogether, or about the right subject, but nothing that the documents say."""

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7)
"""Confidences for which it is counted what would be refused."""


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A query that has no answer in any of the corpora, or, as a near miss, in the one that it belongs to."""

    id: str
    query: str
    kind: str
    corpus: str = ""


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

    auc: Mapping[str, float]  # by kind: how often an answerable query is surer than one without an answer; 0.5 is chance
    counts: Mapping[str, int]  # queries by kind, `answerable` first, then `right`, those whose first passage is
    thresholds: tuple[Threshold, ...]
    reliability: tuple[Bin, ...]
    confidence: Mapping[str, float]  # by query


def load_unanswerable(path: Path, corpora: Sequence[str] = ()) -> tuple[Unanswerable, ...]:
    """Read queries without an answer, one JSON object a line; near misses only of the named corpora. Raises UsageError with path and line."""
    found = []
    for where, line in query_lines(path, "id, query and kind"):
        row = row_of(line, where, {"id": "text or a number", "query": "text", "kind": "text"}, {"corpus": "text"})
        if row["kind"] not in _KINDS:
            raise UsageError(f"{where}: the kind {row['kind']!r} is none of {' and '.join(_KINDS)}: change it.")
        found.append(Unanswerable(str(row["id"]), row["query"], row["kind"], row.get("corpus") or ""))
    return tuple(each for each in found if not each.corpus or each.corpus in corpora)


def measure_abstention(
    library: Library, answerable: Sequence[LabeledQuery], unanswerable: Sequence[Unanswerable], progress: Callable[[int, int], None] | None = None
) -> Abstention:
    """Ask everything, refusing nothing, and compare the confidences; the library has its vectors and models ready."""
    settings = library.config.query
    willing = library.answering_with(replace(settings, confidence=replace(settings.confidence, abstain=0.0, minimum_relevance=0.0)))
    texts = [*dict.fromkeys((*(each.query for each in answerable), *(each.query for each in unanswerable)))]
    confidence, first = {}, {}
    for number, text in enumerate(texts, start=1):
        answer = willing.query(text, limit=1)
        confidence[text], first[text] = answer.confidence, next((plain_path(each.path) for each in answer.passages), "")
        if progress:
            progress(number, len(texts))
    sure = [confidence[each.query] for each in answerable]
    right = [confidence[each.query] for each in answerable if first[each.query] in {plain_path(label.path) for label in each.relevant}]
    by_kind = {kind: [confidence[each.query] for each in unanswerable if each.kind == kind] for kind in _KINDS}
    unsure = {kind: values for kind, values in by_kind.items() if values}
    return Abstention(
        {kind: auc(sure, values) for kind, values in unsure.items()},
        {"answerable": len(sure), "right": len(right), **{kind: len(values) for kind, values in unsure.items()}},
        tuple(Threshold(at, below(right, at), {kind: below(values, at) for kind, values in unsure.items()}) for at in THRESHOLDS),
        reliability(sure, right, [value for values in unsure.values() for value in values]),
        confidence,
    )


BINS = 10
"""Parts of the scale for which it is counted how often the first passage is right."""


def reliability(sure: Sequence[float], right: Sequence[float], unsure: Sequence[float]) -> tuple[Bin, ...]:
    """Count the confidences of answerable queries, of those with a right first passage, and of queries without an answer, by bin."""
    answerable, correct, unanswerable = (Counter(min(int(value * BINS), BINS - 1) for value in values) for values in (sure, right, unsure))
    return tuple(Bin(at / BINS, answerable[at], correct[at], unanswerable[at]) for at in range(BINS) if answerable[at] or unanswerable[at])


def ask_off_topic(library: Library, answerable: Sequence[LabeledQuery], path: Path) -> Abstention:
    """Measure against the queries of a file; its near misses count where they belong to one of the library's folders."""
    folders = [name for name, _ in library.folders]
    return measure_abstention(library, answerable, load_unanswerable(path, folders))


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of the first values is above one of the second, ties as half (Mann & Whitney 1947)."""
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
    own: bool = False  # taken from the notes themselves: asked as if what holds them had not been written


@dataclass(frozen=True, slots=True)
class Response:
    """What one query brought: a long ranking to measure, and what an answer as users get it costs."""

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
) -> Evaluation:
    """Ask every query twice, as users do and for `limit` passages, and measure; the library has its vectors and models ready.

    The short question is timed and comes first, so that nothing is warm that a user would find cold. One that opens the index goes before and is
    not timed.
    """
    long = to_the_end(library)
    index = library.query(queries[0].query).index
    asked: dict[str, Response] = {}
    started = perf_counter()
    for number, query in enumerate(queries, start=1):
        asked[query.id] = _ask(library, long, query, limit, own)
        show(Progress(name, "asking", number, len(queries)))
    seconds = perf_counter() - started
    measured = measure_run({query: each.found for query, each in asked.items()}, queries)
    return Evaluation(name, tuple(name for name, _ in library.folders), index, tuple(queries), asked, measured, seconds)


def evaluate_all(sources: Sequence[QuerySource], limit: int = RANKED_PASSAGES, show: Show = lambda _: None) -> tuple[Evaluation, ...]:
    """Evaluate each source after the other."""
    return tuple(evaluate(each.library, each.queries, limit, show, each.name, each.own) for each in sources)


def pooled(evaluations: Sequence[Evaluation]) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the mean of each measure and the number of queries over several sets, for `ALL` and by kind; each query counts once."""
    return by_kind([(query.kind, each.measured[query.id]) for each in evaluations for query in each.queries])


def to_the_end(library: Library) -> Library:
    """Return a library that leaves nothing out of a ranking for being weak, unless its configuration was told to."""
    settings = library.config.query
    if _RANKED_TO_ITS_END in library.config.pinned:
        return library
    return library.answering_with(replace(settings, confidence=replace(settings.confidence, minimum_relevance=0.0)))


def check_labels(source: QuerySource) -> int:
    """Return how many labeled paths the folders lack; raise UsageError where they lack all, since every score would be 0."""
    known = {plain_path(entry.path) for entry in source.library.outline()}
    wanted = {plain_path(label.path) for query in source.queries for label in query.relevant}
    folders = ", ".join(name for name, _ in source.library.folders)
    if not wanted & known:
        raise UsageError(
            f"{source.name}: none of its {len(wanted):,} labeled paths is in {folders}: give the folder that the set belongs to with --folder;"
            f" of several, a set named {source.name.partition('.')[0]}.KIND.jsonl is asked of the one named {source.name.partition('.')[0]}."
        )
    return len(wanted - known)


def _ask(library: Library, long: Library, query: LabeledQuery, limit: int, own: bool) -> Response:
    without: tuple[str, ...] = ()
    if own:
        (library, without), (long, _) = unseen(library, query), unseen(long, query)
    began = perf_counter()
    answer = library.query(query.query, without=without)
    seconds = perf_counter() - began
    tokens = sum(library.count_tokens(each.text) for each in answer.passages)
    passages = list(long.query(query.query, limit=limit, without=without).passages)
    documents = {each.path for each in passages}
    if len(passages) >= limit and len(documents) < LEAST_DOCUMENTS and limit < _MOST_PASSAGES:
        further: dict[str, Passage] = {}  # the best passage of each document, while there are too few documents
        for each in long.query(query.query, limit=_MOST_PASSAGES, without=without).passages:
            if each.path not in documents:
                further.setdefault(each.path, each)
        passages += list(further.values())[: LEAST_DOCUMENTS - len(documents)]
    return Response(tuple(RankedPassage(each.path, each.heading_path) for each in passages), seconds, tokens)
