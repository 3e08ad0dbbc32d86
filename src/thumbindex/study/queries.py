"""A file of labeled queries: one JSON object a line, in the format of `shared/eval`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.settings import MOST_REWORDINGS

_SHOWN = 16
"""Hexadecimal digits of a set's digest: enough that no two sets share one by chance."""


_EXAMPLE = '{"id": "1", "query": "who decided?", …}'

_KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "a number": (int, float),
    "text or a number": (str, int),
    "a list": (list,),
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
    queries: dict[str, LabeledQuery] = {}
    for where, line in query_lines(path, "id, query and relevant"):
        query = _read_query(line, where)
        if query.id in queries:
            raise UsageError(
                f"{where}: the id {query.id!r} is there twice: give each query one of its own."
            )
        queries[query.id] = query
    return tuple(queries.values())


def query_lines(path: Path, keys: str) -> list[tuple[str, str]]:
    """Return the lines of a file of queries with where each stands.

    Raises UsageError, with the keys that are needed, where there are none.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(
            f"{path}: the queries cannot be read ({error.strerror}): give a JSONL file with {keys}."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: the queries cannot be read (byte {error.start} is no UTF-8): give a "
            f"JSONL file with {keys}."
        ) from error
    held = [
        (f"{path}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not held:
        raise UsageError(f"{path}: there is no query in it: give a JSONL file with {keys}.")
    return held


def set_digest(queries: Sequence[LabeledQuery]) -> str:
    """Return a digest of what is asked and of what counts as an answer, in any order: runs with
    equal digests can be compared.

    A query with rewordings is another than the same as typed, whose digest is that of a set without
    them.
    """
    told: list[tuple[Any, ...]] = []
    for query in queries:
        relevant = sorted((each.path, each.heading or "", each.grade) for each in query.relevant)
        rewording = ([*query.also], query.passage) if query.rewording else ()
        told.append((query.id, query.query, relevant, sorted(query.ignore), *rewording))
    told.sort()
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_SHOWN]


def row_of(
    line: str,
    where: str,
    wanted: Mapping[str, str],
    optional: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a line's object, whose keys hold what their names in words (of `_KINDS`) say.

    Raises UsageError.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where}:{error.colno}: not JSON ({error.msg}): write one object a line, such as "
            f"{_EXAMPLE}"
        ) from error
    except RecursionError as error:
        raise UsageError(
            f"{where}: nested too deep: write one object a line, such as {_EXAMPLE}"
        ) from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an object in braces: write one a line, such as {_EXAMPLE}")
    if missing := [key for key in wanted if key not in row]:
        raise UsageError(
            f"{where}: lacks {' and '.join(missing)}: each line needs {', '.join(wanted)}."
        )
    _check_kinds(
        row,
        where,
        {**wanted, **{key: kind for key, kind in optional.items() if row.get(key) is not None}},
    )
    return row


def _check_kinds(row: Mapping[str, Any], where: str, kinds: Mapping[str, str]) -> None:
    for key, kind in kinds.items():
        if not isinstance(row[key], _KINDS[kind]) or isinstance(row[key], bool):
            raise UsageError(
                f"{where}: {key} is {json.dumps(row[key], ensure_ascii=False)[:_QUOTED]}, and "
                f"has to be {kind}."
            )


def _read_query(line: str, where: str) -> LabeledQuery:
    row = row_of(
        line,
        where,
        {"id": "text or a number", "query": "text", "relevant": "a list"},
        {"kind": "text", "ignore": "a list", **REWORDING},
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
    ignored = tuple(map(str, row.get("ignore") or ()))
    return LabeledQuery(
        str(row["id"]),
        row["query"],
        row.get("kind") or "unknown",
        labels,
        ignored,
        *read_rewording(row, where),
    )


REWORDING: Mapping[str, str] = {"also": "a list", "passage": "text"}
"""What a line may hold beside its query, for `row_of`."""


def read_rewording(row: Mapping[str, Any], where: str) -> tuple[tuple[str, ...], str]:
    """Return `also` and `passage` of a line, empty where it has none. Raises UsageError."""
    also = row.get("also") or []
    if len(also) > MOST_REWORDINGS or not all(
        isinstance(each, str) and each.strip() for each in also
    ):
        given = json.dumps(also, ensure_ascii=False)[:_QUOTED]
        raise UsageError(
            f"{where}: also is {given}, and has to be a list of at most {MOST_REWORDINGS} texts."
        )
    return tuple(also), (row.get("passage") or "").strip()


def _read_label(label: Any, where: str) -> Label:
    if isinstance(label, str) and label.strip():
        return Label(label, None, 1)
    if not isinstance(label, dict) or "path" not in label:
        raise UsageError(
            f'{where}: not a place: write it as "plans.md" or {{"path": "plans.md"}}, with '
            "heading and grade (1 in part, 2 fully) where you like."
        )
    given = {"heading": "text"} if label.get("heading") is not None else {}
    grade = {"grade": "a number"} if "grade" in label else {}
    _check_kinds(label, where, {"path": "text", **given, **grade})
    return Label(label["path"], label.get("heading"), int(label.get("grade", 1)))
