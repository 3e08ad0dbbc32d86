"""Compute ranking measures: nDCG, MRR, recall and success."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thumbindex.evaluation.queries import Label, LabeledQuery

MEASURES = ("nDCG@10", "MRR@10", "R@5", "R@10", "S@1", "sec@1", "sec@3", "sec@10")
"""All measures in display order."""

MAIN_MEASURE = MEASURES[0]
"""The measure by which configurations are compared."""

Measured = Mapping[str, float]
"""One query's measures by name. The `sec@` measures are included if a label names a heading."""


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """One passage in a ranking."""

    path: str
    heading_path: tuple[str, ...]


def measure_run(
    run: Mapping[str, Sequence[RankedPassage]], queries: Sequence[LabeledQuery]
) -> dict[str, Measured]:
    """Return the measures by query id. A query that is missing from the run scores 0."""
    with_sections = any(passage.heading_path for ranking in run.values() for passage in ranking)
    return {query.id: score_query(query, run.get(query.id, ()), with_sections) for query in queries}


def by_kind(
    measured: Sequence[tuple[str, Measured]],
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the mean of each measure and the number of queries, for `ALL` and for each kind."""
    groups: dict[str, list[Measured]] = {"ALL": []}
    for kind, measures in measured:
        groups["ALL"].append(measures)
        groups.setdefault(kind, []).append(measures)
    order = ["ALL", *sorted(set(groups) - {"ALL"})]
    return {kind: _means(groups[kind]) for kind in order}, {
        kind: len(groups[kind]) for kind in order
    }


def score_query(
    query: LabeledQuery, passages: Sequence[RankedPassage], with_sections: bool = True
) -> dict[str, float]:
    """Return the nDCG, MRR, recall and success of one ranking.

    The gain in nDCG is 2^grade - 1 (Järvelin & Kekäläinen 2002). With `with_sections`, also
    returns the success for sections if labels name headings.
    """
    grades: dict[str, int] = {}
    for label in query.relevant:
        path = plain_path(label.path)
        grades[path] = max(grades.get(path, 0), label.grade)
    ignored = {plain_path(path) for path in query.ignore} - grades.keys()
    scored = [(plain_path(passage.path), passage) for passage in passages]
    scored = [(path, passage) for path, passage in scored if path not in ignored]
    ranking = list(dict.fromkeys(path for path, _ in scored))
    measured = _document_measures(ranking, grades)
    if with_sections and any(label.heading for label in query.relevant):
        hits = [_is_section_hit(path, passage, query.relevant) for path, passage in scored[:10]]
        measured |= {f"sec@{depth}": float(any(hits[:depth])) for depth in (1, 3, 10)}
    return measured


def plain_path(path: str) -> str:
    """Normalize a path for comparison: composed Unicode, forward slashes, no leading `./`."""
    return unicodedata.normalize("NFC", path.replace("\\", "/")).removeprefix("./")


def plain_heading(heading: str) -> str:
    """Normalize a heading for comparison: the visible text without markup, anchors or case."""
    text = unicodedata.normalize("NFKC", heading)
    for pattern, replacement in _HEADING_MARKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).casefold()


_HEADING_MARKS = (
    (re.compile(r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]"), r"\1"),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\s*\{\s*[#.:%][^}]*\}\s*$"), ""),
    (re.compile(r"<[^>]+>"), ""),
    (re.compile(r"[`*_#\\]"), ""),
)


def _document_measures(ranking: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    first_ten = ranking[:10]
    gained = _discounted(grades.get(path, 0) for path in first_ten)
    ideal = _discounted(sorted(grades.values(), reverse=True)[:10])
    first = next((rank for rank, path in enumerate(first_ten, start=1) if path in grades), None)
    return {
        "nDCG@10": gained / ideal if ideal else 0.0,
        "MRR@10": 1 / first if first else 0.0,
        "R@5": len(grades.keys() & set(ranking[:5])) / len(grades),
        "R@10": len(grades.keys() & set(first_ten)) / len(grades),
        "S@1": float(first == 1),
    }


def _discounted(grades: Iterable[int]) -> float:
    return math.fsum(
        (2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1)
    )


def _is_section_hit(path: str, passage: RankedPassage, labels: Sequence[Label]) -> bool:
    headings = {plain_heading(heading) for heading in passage.heading_path}
    return any(
        path == plain_path(label.path)
        and (plain_heading(label.heading) in headings if label.heading else label.grade == 2)
        for label in labels
    )


def _means(measured: Sequence[Measured]) -> dict[str, float]:
    columns = {name: [row[name] for row in measured if name in row] for name in MEASURES}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
