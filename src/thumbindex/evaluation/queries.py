"""A file of labeled queries: one JSON object a line, in the format of `shared/eval`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.settings import MAX_REWORDINGS

_SHOWN = 16
"""Hexadecimal digits of a set's digest: enough that no two sets share one by chance."""

_EXAMPLE = '{"id": "1", "query": "who decided?", "relevant": ["plans.md"]}'

Kinds = Mapping[str, tuple[tuple[type, ...], str]]
"""What the keys of an object hold, and how an error calls that."""

_NEEDED: Kinds = {
    "id": ((str, int), "text or a number"),
    "query": ((str,), "text"),
    "relevant": ((list,), "a list"),
}
_OPTIONAL: Kinds = {
    "kind": ((str,), "text"),
    "ignore": ((list,), "a list"),
    "also": ((list,), "a list"),
    "passage": ((str,), "text"),
}
_LABEL: Kinds = {
    "path": ((str,), "text"),
    "heading": ((str,), "text"),
    "grade": ((int, float), "a number"),
}

_QUOTED = 40
"""Characters of a wrong value that an error quotes."""


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
    # rewordings, and how an answer might read: as a client's model gives them beside the query
    also: tuple[str, ...] = ()
    passage: str = ""

    @property
    def rewording(self) -> dict[str, Any]:
        """What is given beside the text, by the names of `Library.query`; nothing where it is asked
        as typed.
        """
        given = {"also": self.also, "passage": self.passage}
        return {name: value for name, value in given.items() if value}

    @property
    def as_typed(self) -> LabeledQuery:
        """The query by its text alone."""
        return replace(self, also=(), passage="")


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries of one file, known by its name without the suffix."""

    name: str
    queries: tuple[LabeledQuery, ...]

    @property
    def folder(self) -> str:
        """The folder that the set belongs to, where one of that name is given: the name up to its
        first dot.
        """
        return self.name.partition(".")[0]


def load_set(path: Path) -> QuerySet:
    """Read a query set. Raises UsageError with path and line."""
    return QuerySet(path.name.removesuffix(".jsonl"), load_queries(path))


def load_queries(path: Path) -> tuple[LabeledQuery, ...]:
    """Read labeled queries. Raises UsageError with path and line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: the queries cannot be read ({getattr(error, 'strerror', error)}): give a "
            f"file in UTF-8 of lines such as {_EXAMPLE}"
        ) from error
    queries: dict[str, LabeledQuery] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        query = _read_query(line, where := f"{path}:{number}")
        if query.id in queries:
            raise UsageError(
                f"{where}: the id {query.id!r} is there twice: give each query one of its own."
            )
        queries[query.id] = query
    if not queries:
        raise UsageError(f"{path}: there is no query in it: write lines such as {_EXAMPLE}")
    return tuple(queries.values())


def set_digest(queries: Sequence[LabeledQuery]) -> str:
    """Return a digest of what is asked and of what counts as an answer, in any order: runs with
    equal digests can be compared. Rewordings are left out: what they do is a difference.
    """
    told: list[tuple[Any, ...]] = []
    for query in queries:
        relevant = sorted((each.path, each.heading or "", each.grade) for each in query.relevant)
        told.append((query.id, query.query, relevant, sorted(query.ignore)))
    told.sort()
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_SHOWN]


def _read_query(line: str, where: str) -> LabeledQuery:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(
            f"{where}: not JSON ({error}): write one object a line, such as {_EXAMPLE}"
        ) from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an object in braces: write one a line, such as {_EXAMPLE}")
    row = _checked(row, where, {**_NEEDED, **_OPTIONAL})
    if missing := [key for key in _NEEDED if key not in row]:
        raise UsageError(
            f"{where}: lacks {' and '.join(missing)}: each line needs {', '.join(_NEEDED)}."
        )
    labels = tuple(
        _read_label(each, f"{where}: relevant {number}")
        for number, each in enumerate(row["relevant"], start=1)
    )
    if not labels:
        raise UsageError(
            f"{where}: the query has no relevant place: recall cannot be measured; leave it out."
        )
    if not row["query"].strip():
        raise UsageError(f"{where}: the query has no text: say what is asked.")
    also = row.get("also", [])
    if len(also) > MAX_REWORDINGS or not all(
        isinstance(text, str) and text.strip() for text in also
    ):
        raise UsageError(
            f"{where}: also is {_quoted(also)}, and has to be a list of at most "
            f"{MAX_REWORDINGS} texts."
        )
    return LabeledQuery(
        str(row["id"]),
        row["query"],
        row.get("kind") or "unknown",
        labels,
        tuple(map(str, row.get("ignore", ()))),
        tuple(also),
        row.get("passage", "").strip(),
    )


def _read_label(label: Any, where: str) -> Label:
    if isinstance(label, str) and label.strip():
        return Label(label, None, 1)
    if not isinstance(label, dict) or not label.get("path"):
        raise UsageError(
            f'{where}: not a place: write it as "plans.md" or {{"path": "plans.md"}}, with '
            "heading and grade (1 in part, 2 fully) where you like."
        )
    label = _checked(label, where, _LABEL)
    return Label(label["path"], label.get("heading"), int(label.get("grade", 1)))


def _checked(row: Mapping[str, Any], where: str, kinds: Kinds) -> dict[str, Any]:
    """Return what an object states of these keys. Raises UsageError for what is of another kind."""
    stated = {key: row[key] for key in kinds if row.get(key) is not None}
    for key, value in stated.items():
        types, name = kinds[key]
        if not isinstance(value, types) or isinstance(value, bool):
            raise UsageError(f"{where}: {key} is {_quoted(value)}, and has to be {name}.")
    return stated


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_QUOTED]
