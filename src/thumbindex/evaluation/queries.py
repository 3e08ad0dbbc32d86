"""Read files of labeled queries. Each line is a JSON object (see `docs/measure.md`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.settings import MAX_REWORDINGS

_DIGEST_DIGITS = 16

_EXAMPLE = '{"id": "1", "query": "who decided?", "relevant": ["plans.md"]}'


@dataclass(frozen=True, slots=True)
class Label:
    """A note or section that is relevant to a query.

    `grade` is 2 for a full answer and 1 for a partial answer.
    """

    path: str
    heading: str | None
    grade: int


@dataclass(frozen=True, slots=True)
class LabeledQuery:
    """A query, and labels for the notes or sections that are relevant to it."""

    id: str
    query: str
    kind: str
    relevant: tuple[Label, ...]
    ignore: tuple[str, ...] = ()  # paths removed from the run before scoring
    also: tuple[str, ...] = ()  # rewordings by a client's model
    passage: str = ""  # an invented answer by a client's model

    @property
    def rewording(self) -> dict[str, Any]:
        """The arguments `also` and `passage` of `Library.query`, without empty values."""
        arguments = {"also": self.also, "passage": self.passage}
        return {name: value for name, value in arguments.items() if value}

    @property
    def as_typed(self) -> LabeledQuery:
        """The query without `also` and `passage`."""
        return replace(self, also=(), passage="")


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries of one file. `name` is the file's name without its suffix."""

    name: str
    queries: tuple[LabeledQuery, ...]

    @property
    def folder(self) -> str:
        """The name of the folder that the set belongs to: the set's name up to the first dot."""
        return self.name.partition(".")[0]


def load_set(path: Path) -> QuerySet:
    """Read a query set from a file. Raises UsageError, which names the path and line."""
    return QuerySet(path.name.removesuffix(".jsonl"), load_queries(path))


def load_queries(path: Path) -> tuple[LabeledQuery, ...]:
    """Read labeled queries from a file. Raises UsageError, which names the path and line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"Cannot read the queries in {path} ({getattr(error, 'strerror', error)}): name a "
            f"UTF-8 file with lines such as {_EXAMPLE}"
        ) from error
    queries: dict[str, LabeledQuery] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        query = _read_query(line, position := f"{path}:{number}")
        if query.id in queries:
            raise UsageError(f"{position}: duplicate id {query.id!r}: give each query its own id.")
        queries[query.id] = query
    if not queries:
        raise UsageError(f"{path} contains no queries: write lines such as {_EXAMPLE}")
    return tuple(queries.values())


def set_digest(queries: Sequence[LabeledQuery]) -> str:
    """Return a digest of queries and labels, independent of their order.

    Rewordings are left out, so that runs with and without rewordings can be compared.
    """
    values: list[tuple[Any, ...]] = []
    for query in queries:
        relevant = sorted(
            (label.path, label.heading or "", label.grade) for label in query.relevant
        )
        values.append((query.id, query.query, relevant, sorted(query.ignore)))
    values.sort()
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:_DIGEST_DIGITS]


def _read_query(line: str, position: str) -> LabeledQuery:
    try:
        row = json.loads(line)
        query = LabeledQuery(
            str(row["id"]),
            row["query"].strip(),
            row.get("kind") or "unknown",
            tuple(map(_read_label, row["relevant"])),
            tuple(row.get("ignore") or ()),
            tuple(row.get("also") or ()),
            (row.get("passage") or "").strip(),
        )
        is_complete = query.query and query.relevant and all(map(str.strip, query.also))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{position}: not a labeled query ({error!r}): write lines such as {_EXAMPLE}"
        ) from error
    if not is_complete or len(query.also) > MAX_REWORDINGS:
        raise UsageError(
            f"{position}: a query needs a text, at least one relevant note, and in `also` at most "
            f"{MAX_REWORDINGS} texts."
        )
    return query


def _read_label(label: Any) -> Label:
    if isinstance(label, str):
        return Label(label, None, 1)
    return Label(label["path"], label.get("heading"), int(label.get("grade", 1)))
