"""A run of the benchmark as a table, as JSON (`docs/schema/bench.json`), and beside an earlier one."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.process import cores
from thumbindex.study.bench.row import WORDS, Row
from thumbindex.study.report import ReportTable

BUSY = 0.5
"""Others' load a core from which on a table says that the machine was busy."""


def machine() -> dict[str, Any]:
    """Return where and when it was measured: what figures of two machines or moments must not be compared without."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    about = {"python": platform.python_version(), "system": platform.system(), "processor": platform.machine()}
    return {"version": version("thumbindex"), "made": _now(), **about, "cores": cores(), "load": load}


def bench_record(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `bench --json` writes."""
    return {**about, "rows": [_payload(row) for row in rows]}


def write_record(path: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write a run for `--compare`. Raises UsageError where that cannot be."""
    try:
        path.write_text(json.dumps(bench_record(rows, about), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: it cannot be written ({error.strerror}): name another file with --json.") from error


def read_record(path: Path) -> dict[tuple[str, str], tuple[float, ...]]:
    """Read the values of an earlier run by what and name. Raises UsageError where it is none."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return {(row["what"], row["name"]): tuple(map(float, row["values"])) for row in rows}
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror}): name a file that `thumbindex bench --json FILE` wrote.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: it is not what `thumbindex bench --json FILE` writes ({error}): name another one.") from error


def bench_tables(rows: Sequence[Row], about: Mapping[str, Any], earlier: Mapping[tuple[str, str], tuple[float, ...]]) -> tuple[ReportTable, ...]:
    """Return a table of all rows; beside an earlier run where there is one."""
    columns = ("what", "figure", "median", "from", "to", "unit", "target", "", *(("before", "change") if earlier else ()))
    cells = tuple((*_cells(row), *(_beside(row, earlier) if earlier else ())) for row in rows)
    met = sum(row.met is True for row in rows)
    notes = [f"{met} of {sum(row.target is not None for row in rows)} targets met; {about['cores']} cores, Python {about['python']}."]
    notes += [f"{row.what}: {row.name}: {row.note}" for row in rows if row.note]
    if about["load"] is not None and about["load"] / about["cores"] > BUSY:
        notes.append(f"The machine was busy before it began (load {about['load']:.1f}): trust ratios and counts, and measure times again.")
    return (ReportTable("Cost", columns, cells, tuple(notes)),)


def _cells(row: Row) -> tuple[str, ...]:
    spread = (figure(min(row.values)), figure(max(row.values))) if len(row.values) > 1 else ("", "")
    return (row.what, row.name, figure(row.median), *spread, row.unit, str(row.target or ""), WORDS[row.met] if row.target else "")


def _beside(row: Row, earlier: Mapping[tuple[str, str], tuple[float, ...]]) -> tuple[str, str]:
    before = earlier.get((row.what, row.name))
    if not before:
        return "", ""
    was = median(before)
    within = min(row.values) <= max(before) and min(before) <= max(row.values)
    change = f"{row.median / was - 1:+.0%}" if was else ""
    return figure(was), f"{change} (ranges overlap)" if within and len(row.values) > 1 else change


def figure(value: float) -> str:
    """Write a number with three digits that count."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"


def _payload(row: Row) -> dict[str, Any]:
    told = {**asdict(row), "median": row.median, "met": row.met, "target": asdict(row.target) if row.target else None}
    return {key: told[key] for key in ("what", "name", "unit", "values", "median", "target", "met", "note", "size")}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
