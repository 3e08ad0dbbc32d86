"""A file of labeled queries: one JSON object a line, in the format of `shared/eval`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError

_SHOWN = 16
"""Hexadecimal digits of a set's digest: enough that no two sets share one by chance."""


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
class QuerySet:
    """The queries of one file, known by its name without the suffix."""

    name: str
    queries: tuple[LabeledQuery, ...]

    @property
    def folder(self) -> str:
        """The folder that the set belongs to, where one of that name is given: the name up to its first dot."""
        return self.name.partition(".")[0]


def load_set(path: Path) -> QuerySet:
    """Read a query set. Raises UsageError with path and line."""
    return QuerySet(path.name.removesuffix(".jsonl"), load_queries(path))


def load_queries(path: Path) -> tuple[LabeledQuery, ...]:
    """Read labeled queries. Raises UsageError with path and line."""
    queries: dict[str, LabeledQuery] = {}
    for where, line in lines_of(path, "id, query, kind and relevant"):
        query = _read_query(line, where)
        if query.id in queries:
            raise UsageError(f"{where}: the id {query.id!r} is there twice: give each query one of its own.")
        queries[query.id] = query
    return tuple(queries.values())


def lines_of(path: Path, keys: str) -> list[tuple[str, str]]:
    """Return the lines of a file of queries with where each stands. Raises UsageError, with the keys that are needed, where there are none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the queries cannot be read ({error}): give a JSONL file with {keys}.") from error
    held = [(f"{path}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not held:
        raise UsageError(f"{path}: there is no query in it: give a JSONL file with {keys}.")
    return held


def digest_of(queries: Sequence[LabeledQuery]) -> str:
    """Return a digest of what is asked and of what counts as an answer, in any order: runs with equal digests can be compared."""
    told = sorted((q.id, q.query, sorted((e.path, e.heading or "", e.grade) for e in q.relevant), sorted(q.ignore)) for q in queries)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_SHOWN]


def _read_query(line: str, where: str) -> LabeledQuery:
    try:
        row: dict[str, Any] = json.loads(line)
        labels = tuple(Label(each["path"], each.get("heading"), int(each.get("grade", 1))) for each in row["relevant"])
        query = LabeledQuery(str(row["id"]), row["query"], row.get("kind", "unknown"), labels, tuple(row.get("ignore", ())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{where}: not a labeled query ({error!r}): each line needs id, query, kind and relevant.") from error
    if not labels:
        raise UsageError(f"{where}: the query has no relevant place: recall cannot be measured; leave it out.")
    if not isinstance(query.query, str) or not query.query.strip():
        raise UsageError(f"{where}: the query has no text: say what is asked.")
    return query
