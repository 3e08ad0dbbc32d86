"""Read files of labeled queries. Each line is a JSON object (see `docs/measure.md`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.settings import MAX_REWORDINGS

_DIGEST_DIGITS = 16

_EXAMPLE = '{"id": "1", "query": "who decided?", "relevant": ["plans.md"]}'

Kinds = Mapping[str, tuple[tuple[type, ...], str]]
"""For each key of an object, the types of its value and their name in error messages."""

_REQUIRED: Kinds = {
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

_MAX_QUOTED = 40
"""Maximum number of characters that an error message quotes from a wrong value."""


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
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(
            f"{position}: not JSON ({error}): write one object per line, such as {_EXAMPLE}"
        ) from error
    if not isinstance(row, dict):
        raise UsageError(f"{position}: not a JSON object: write one per line, such as {_EXAMPLE}")
    row = _checked(row, position, {**_REQUIRED, **_OPTIONAL})
    if missing := [key for key in _REQUIRED if key not in row]:
        raise UsageError(
            f"{position}: {' and '.join(missing)} missing: each line needs {', '.join(_REQUIRED)}."
        )
    labels = tuple(
        _read_label(label, f"{position}: relevant {number}")
        for number, label in enumerate(row["relevant"], start=1)
    )
    if not labels:
        raise UsageError(
            f"{position}: the list `relevant` is empty, so recall cannot be measured: add a "
            "relevant note, or remove the query."
        )
    if not row["query"].strip():
        raise UsageError(f"{position}: the query is empty: write its text.")
    also = row.get("also", [])
    if len(also) > MAX_REWORDINGS or not all(
        isinstance(text, str) and text.strip() for text in also
    ):
        raise UsageError(
            f"{position}: also is {_quoted(also)}, but must be a list of at most "
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


def _read_label(label: Any, position: str) -> Label:
    if isinstance(label, str) and label.strip():
        return Label(label, None, 1)
    if not isinstance(label, dict) or not label.get("path"):
        raise UsageError(
            f'{position}: not a path or label: write "plans.md" or {{"path": "plans.md"}}, with an '
            "optional heading and grade (1: answers in part, 2: answers fully)."
        )
    label = _checked(label, position, _LABEL)
    return Label(label["path"], label.get("heading"), int(label.get("grade", 1)))


def _checked(row: Mapping[str, Any], position: str, kinds: Kinds) -> dict[str, Any]:
    """Return the items of `row` whose keys are in `kinds`. Null values are left out.

    Raises UsageError if a value has the wrong type.
    """
    values = {key: row[key] for key in kinds if row.get(key) is not None}
    for key, value in values.items():
        types, name = kinds[key]
        if not isinstance(value, types) or isinstance(value, bool):
            raise UsageError(f"{position}: {key} is {_quoted(value)}, but must be {name}.")
    return values


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_MAX_QUOTED]
