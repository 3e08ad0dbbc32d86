"""A run as a file, as the scorer of `shared/eval` reads it: one query a line, best passage first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.study.measures import Found
from thumbindex.study.queries import QuerySet


def write_run(path: Path, run: Mapping[str, Iterable[Found]]) -> None:
    """Write a run as JSONL. Raises UsageError where that cannot be."""
    rows = [{"id": name, "results": [{"path": each.path, "heading_path": list(each.heading_path)} for each in found]} for name, found in run.items()]
    write_rows(path, rows, "run", "--run")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], what: str, option: str) -> None:
    """Write JSON objects, one a line. Raises UsageError, which names the option, where that cannot be."""
    try:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: the {what} cannot be written ({error.strerror}): name another file with {option}.") from error


def check_ids(sets: Sequence[QuerySet]) -> None:
    """Raise UsageError where two sets have a query of one id: a run knows queries by their ids alone."""
    seen: dict[str, str] = {}
    for each in sets:
        for query in each.queries:
            if other := seen.get(query.id):
                raise UsageError(f"The id {query.id!r} is in {other} and in {each.name}: write the run of each set by itself with --run.")
            seen[query.id] = each.name
