"""Ask what an index cannot answer: how well does confidence tell it from what it can, and what does a threshold lose?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.study.queries import LabeledQuery, lines_of, row_of

if TYPE_CHECKING:
    from thumbindex.library import Library

KINDS = ("off-topic", "near-miss")
"""About something else altogether, or about the right subject, but nothing that the documents say."""

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7)
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
    lost: float  # share of answerable queries
    refused: Mapping[str, float]  # share of the others, by kind


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well confidence tells what can be answered from what cannot."""

    auc: Mapping[str, float]  # by kind: how often an answerable query is surer than one without an answer; 0.5 is chance
    counts: Mapping[str, int]  # queries by kind, `answerable` first
    thresholds: tuple[Threshold, ...]
    confidence: Mapping[str, float]  # by query


def load_unanswerable(path: Path, corpora: Sequence[str] = ()) -> tuple[Unanswerable, ...]:
    """Read queries without an answer, one JSON object a line; near misses only of the named corpora. Raises UsageError with path and line."""
    found = [_read(line, where) for where, line in lines_of(path, "id, query and kind")]
    return tuple(each for each in found if not each.corpus or each.corpus in corpora)


def measure_abstention(
    library: Library, answerable: Sequence[str], unanswerable: Sequence[Unanswerable], progress: Callable[[int, int], None] | None = None
) -> Abstention:
    """Ask everything and compare the confidences; the library has its vectors and models ready."""
    texts = [*dict.fromkeys((*answerable, *(each.query for each in unanswerable)))]
    confidence = {}
    for number, text in enumerate(texts, start=1):
        confidence[text] = library.query(text, limit=1).confidence
        if progress:
            progress(number, len(texts))
    sure = [confidence[text] for text in answerable]
    by_kind = {kind: [confidence[each.query] for each in unanswerable if each.kind == kind] for kind in KINDS}
    unsure = {kind: values for kind, values in by_kind.items() if values}
    return Abstention(
        {kind: auc(sure, values) for kind, values in unsure.items()},
        {"answerable": len(sure), **{kind: len(values) for kind, values in unsure.items()}},
        tuple(Threshold(at, below(sure, at), {kind: below(values, at) for kind, values in unsure.items()}) for at in THRESHOLDS),
        confidence,
    )


def ask_off_topic(library: Library, answerable: Sequence[LabeledQuery], path: Path) -> Abstention:
    """Measure against the queries of a file; its near misses count where they belong to one of the library's folders."""
    folders = [name for name, _ in library.folders]
    return measure_abstention(library, [each.query for each in answerable], load_unanswerable(path, folders))


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of the first values is above one of the second, ties as half (Mann & Whitney 1947)."""
    ordered = sorted(lower)
    won = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher)
    return won / (2 * len(higher) * len(lower))


def below(values: Sequence[float], threshold: float) -> float:
    """Return the share of values below a threshold."""
    return sum(value < threshold for value in values) / len(values)


def _read(line: str, where: str) -> Unanswerable:
    row = row_of(line, where, {"id": "text or a number", "query": "text", "kind": "text"}, {"corpus": "text"})
    query = Unanswerable(str(row["id"]), row["query"], row["kind"], row.get("corpus") or "")
    if query.kind not in KINDS:
        raise UsageError(f"{where}: the kind {query.kind!r} is none of {' and '.join(KINDS)}: change it.")
    return query
