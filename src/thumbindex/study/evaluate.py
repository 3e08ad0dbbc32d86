"""Ask a file of labeled queries and score the answers: nDCG, MRR, recall, success and section success, by kind of query."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from thumbindex.errors import UsageError
from thumbindex.model import Answer, Passage

if TYPE_CHECKING:
    from thumbindex.library import Library

MEASURES = ("nDCG@10", "MRR@10", "R@5", "R@10", "S@1", "sec@1", "sec@3", "sec@10")
"""In the order in which they are shown."""

LEAST_DOCUMENTS = 10
"""A run ranks at least so many documents where they exist: the measures look at the first ten."""

_MOST_PASSAGES = 100
"""What one query may return at most (`query.limit`)."""


@dataclass(frozen=True, slots=True)
class Label:
    """A place that answers a query: 2 fully, 1 in part."""

    path: str
    heading: str | None
    grade: int


@dataclass(frozen=True, slots=True)
class LabeledQuery:
    """A query with the places that answer it."""

    id: str
    query: str
    kind: str
    relevant: tuple[Label, ...]
    ignore: tuple[str, ...] = ()  # paths that are taken out of the run before scoring


@dataclass(frozen=True, slots=True)
class Found:
    """One ranked passage of a run."""

    path: str
    heading_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The run and its scores: measures by kind of query, `ALL` first."""

    run: Mapping[str, tuple[Found, ...]]
    scores: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, int]
    unanswered: int
    seconds: float


def load_queries(path: Path) -> tuple[LabeledQuery, ...]:
    """Read queries in the format of `shared/eval`: one JSON object a line. Raises UsageError with path and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the queries cannot be read ({error}): give a JSONL file with id, query, kind and relevant.") from error
    queries = tuple(_read_query(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip())
    if not queries:
        raise UsageError(f"{path}: there is no query in it: give a JSONL file with id, query, kind and relevant.")
    return queries


def evaluate(
    library: Library,
    queries: Sequence[LabeledQuery],
    limit: int = 50,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ask every query for `limit` passages and score the answers; the library has its vectors and models ready."""
    run: dict[str, tuple[Found, ...]] = {}
    started = perf_counter()
    for number, query in enumerate(queries, start=1):
        run[query.id] = tuple(Found(each.path, each.heading_path) for each in _ask(library, query.query, limit))
        if progress:
            progress(number, len(queries))
    seconds = perf_counter() - started
    scores, counts = score_run(run, queries)
    return Evaluation(run, scores, counts, sum(not found for found in run.values()), seconds)


def write_run(path: Path, run: Mapping[str, Iterable[Found]]) -> None:
    """Write a run as JSONL, one query a line, best passage first."""
    rows = [{"id": name, "results": [{"path": each.path, "heading_path": list(each.heading_path)} for each in found]} for name, found in run.items()]
    try:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: the run cannot be written ({error.strerror}): name another file with --run.") from error


def score_run(run: Mapping[str, Sequence[Found]], queries: Sequence[LabeledQuery]) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return the mean of each measure and the number of queries, for `ALL` and by kind; a query that is missing in the run counts as 0."""
    with_sections = any(each.heading_path for found in run.values() for each in found)
    groups: dict[str, list[dict[str, float]]] = {"ALL": []}
    for query in queries:
        measured = score_query(query, run.get(query.id, ()), with_sections)
        groups["ALL"].append(measured)
        groups.setdefault(query.kind, []).append(measured)
    order = ["ALL", *sorted(set(groups) - {"ALL"})]
    return {kind: _means(groups[kind]) for kind in order}, {kind: len(groups[kind]) for kind in order}


def score_query(query: LabeledQuery, found: Sequence[Found], with_sections: bool = True) -> dict[str, float]:
    """Measure one ranking: nDCG with gain 2^grade - 1 (Järvelin & Kekäläinen 2002), MRR, recall, success; sections where labels name headings."""
    grades: dict[str, int] = {}
    for label in query.relevant:
        path = plain_path(label.path)
        grades[path] = max(grades.get(path, 0), label.grade)
    ignored = {plain_path(path) for path in query.ignore} - grades.keys()
    kept = [(plain_path(each.path), each) for each in found if plain_path(each.path) not in ignored]
    ranking = list(dict.fromkeys(path for path, _ in kept))
    measured = _document_measures(ranking, grades)
    if with_sections and any(label.heading for label in query.relevant):
        hits = [_is_section_hit(path, each, query.relevant) for path, each in kept[:10]]
        measured |= {f"sec@{depth}": float(any(hits[:depth])) for depth in (1, 3, 10)}
    return measured


def plain_path(path: str) -> str:
    """Return a path as it is compared: composed Unicode, forward slashes, no leading `./`."""
    return unicodedata.normalize("NFC", path.replace("\\", "/")).removeprefix("./")


def plain_heading(heading: str) -> str:
    """Return a heading as it is compared: what a reader sees, without marks, anchors or case."""
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


def _ask(library: Library, text: str, limit: int) -> list[Passage]:
    """Return up to `limit` passages, and the best one of each further document while there are too few documents."""
    answer: Answer = library.query(text, limit=min(limit, _MOST_PASSAGES))
    passages = list(answer.passages)
    if len(passages) < limit or len({each.path for each in passages}) >= LEAST_DOCUMENTS or limit >= _MOST_PASSAGES:
        return passages
    seen = {each.path for each in passages}
    for each in library.query(text, limit=_MOST_PASSAGES).passages:
        if each.path not in seen and len(seen) < LEAST_DOCUMENTS:
            seen.add(each.path)
            passages.append(each)
    return passages


def _read_query(line: str, where: str) -> LabeledQuery:
    try:
        row: dict[str, Any] = json.loads(line)
        labels = tuple(Label(each["path"], each.get("heading"), int(each.get("grade", 1))) for each in row["relevant"])
        query = LabeledQuery(str(row["id"]), row["query"], row.get("kind", "unknown"), labels, tuple(row.get("ignore", ())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{where}: not a labeled query ({error!r}): each line needs id, query, kind and relevant.") from error
    if not labels:
        raise UsageError(f"{where}: the query has no relevant place: recall cannot be measured; leave it out.")
    return query


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
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def _is_section_hit(path: str, found: Found, labels: Sequence[Label]) -> bool:
    headings = {plain_heading(each) for each in found.heading_path}
    return any(
        path == plain_path(label.path) and (plain_heading(label.heading) in headings if label.heading else label.grade == 2) for label in labels
    )


def _means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    columns = {name: [each[name] for each in measured if name in each] for name in MEASURES}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
