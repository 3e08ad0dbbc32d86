"""What can still be read of a store that is damaged or of an earlier version: only what proves to be what was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.index.checksum import are_whole, row_sum
from thumbindex.index.database import FOREIGN, Row
from thumbindex.index.store import Store
from thumbindex.index.stored_vectors import STORED, model_id

KEPT_FACTS = ("model", "fingerprint", "dimensions", "model_setting", "calibration", "calibration_due", "root")
"""Facts that cannot be read from the notes, or that only a model can measure again."""

KEPT_TABLES = ("decisions",)
"""Tables that only the user can make again. Each has a column `sum`, the last, and its rows are taken over one by one."""

_TABLES_SINCE, _MODELS_SINCE = 3, 6
"""The first schemas that had tables to keep, and that kept vectors under a model's id."""

_NUMBERS = {6: np.dtype("<f2")}
"""How schemas kept the numbers of a vector that did so neither as the first ones nor as today's does."""

_LAST_ROW = 2**40
"""More rows than any table has: where the last one cannot be asked for, they are looked for up to here."""

_MOST_FAILURES = 20_000
"""Reads that may fail before the rest of a table is given up: each halves the range that it failed in."""

_VECTORS_AT_ONCE = 2_000

_NORM_TOLERANCE = 1e-3


@dataclass(slots=True)
class Salvaged:
    """What was taken over, and how much there was."""

    facts: dict[str, str] = field(default_factory=dict)
    vectors: int = 0
    rows: int = 0


Count = Callable[[int, int], None]
"""Takes how many vectors were looked at, and of how many."""


def _count_for_nobody(done: int, total: int) -> None:
    pass


def salvage(path: Path, store: Store, tables: Sequence[str] = KEPT_TABLES, count: Count = _count_for_nobody) -> Salvaged:
    """Take over into a new store what can be read of the one at a path: vectors, what decides on the model, rows of kept tables."""
    found = Salvaged()
    try:
        old = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except FOREIGN:
        return found
    with closing(old):
        old.execute("PRAGMA cell_size_check = ON")
        try:
            version = old.execute("PRAGMA user_version").fetchone()[0]
        except FOREIGN:
            return found
        found.facts = _facts(old, version)
        with store.transaction():
            for key, value in found.facts.items():
                store.set_meta(key, value)
            found.vectors = _take_vectors(old, store, version, found.facts, count)
            found.rows = sum(_take_rows(old, store, table) for table in tables if version >= _TABLES_SINCE)
    return found


def _facts(old: sqlite3.Connection, version: int) -> dict[str, str]:
    """Return the facts that are kept; all of the model's or none."""
    facts = {}
    for key in KEPT_FACTS:
        try:
            rows = old.execute(f"SELECT value{'' if version == 1 else ', sum'} FROM meta WHERE key = ?", (key,)).fetchall()
        except FOREIGN:
            continue
        for value, *check in rows:
            if isinstance(value, str) and check in ([], [row_sum(key, value)]):
                facts[key] = value
    return facts if {"model", "fingerprint", "dimensions"} <= facts.keys() and facts["dimensions"].isdecimal() else {}


def _take_vectors(old: sqlite3.Connection, store: Store, version: int, facts: dict[str, str], count: Count) -> int:
    taken = seen = 0
    total = _number_of(old, "vectors")
    batch: dict[str | bytes, dict[bytes, bytes]] = {}
    numbers = _NUMBERS.get(version, np.dtype("<f4") if version < _MODELS_SINCE else STORED)
    columns = f"{'model' if version >= _MODELS_SINCE else 'fingerprint'}, key, vector{', sum' if version > 1 else ''}"
    count(0, total)
    for seen, row in enumerate(_readable(old, "vectors", columns), 1):
        if _is_vector(row, facts, numbers):
            batch.setdefault(row[0], {})[row[1]] = row[2]
        if seen % _VECTORS_AT_ONCE == 0:
            taken += _keep(store, batch, numbers)
            batch = {}
            count(min(seen, total), total)
    taken += _keep(store, batch, numbers)
    count(total, total)
    return taken


def _number_of(old: sqlite3.Connection, table: str) -> int:
    """Count a table's rows; where that meets the damage, say none: how far it is stays unknown."""
    try:
        return int(old.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except (*FOREIGN, TypeError, ValueError, OverflowError):
        return 0


def _keep(store: Store, batch: Mapping[str | bytes, Mapping[bytes, bytes]], numbers: np.dtype[Any]) -> int:
    for model, vectors in batch.items():
        for width in {len(vector) for vector in vectors.values()}:
            same = {key: np.frombuffer(vector, dtype=numbers) for key, vector in vectors.items() if len(vector) == width}
            store.take_vectors(model_id(model) if isinstance(model, str) else model, list(same), np.stack(list(same.values())))
    return sum(map(len, batch.values()))


def _is_vector(row: Row, facts: dict[str, str], numbers: np.dtype[Any]) -> bool:
    """Tell whether a row is a vector as it was written; before there were checksums, whether it has the length and the norm of one."""
    model, key, vector, *check = row
    if not (isinstance(model, (str, bytes)) and isinstance(key, bytes) and isinstance(vector, bytes) and vector):
        return False
    if len(vector) % numbers.itemsize or not np.isfinite(np.frombuffer(vector, dtype=numbers)).all():
        return False  # what earlier versions kept of a model's infinities is embedded again
    wanted = facts.get("fingerprint", "")
    if model in (wanted, model_id(wanted)) and len(vector) != numbers.itemsize * int(facts.get("dimensions", "0")):
        return False
    if check:
        return isinstance(check[0], int) and are_whole(model if isinstance(model, str) else model.hex(), [key], [vector], check)
    return bool(abs(float(np.linalg.norm(np.frombuffer(vector, dtype=numbers))) - 1.0) < _NORM_TOLERANCE)


def _take_rows(old: sqlite3.Connection, store: Store, table: str) -> int:
    whole = [row for row in _readable(old, table, "*") if row[-1] == row_sum(*row[:-1])]
    store.take_rows(table, whole)
    return len(whole)


def _readable(old: sqlite3.Connection, table: str, columns: str) -> Iterator[Row]:
    """Yield each row that can be read; a range that cannot is halved until the rows around the damage are out."""
    try:
        last = int(old.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0)
    except (*FOREIGN, TypeError, ValueError, OverflowError):
        last = _LAST_ROW
    sql = f"SELECT rowid, {columns} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"
    ranges = [(1, last)]
    failures = 0
    while ranges and failures < _MOST_FAILURES:
        low, high = ranges.pop()
        try:
            rows: list[Row] = old.execute(sql, (low, high, _VECTORS_AT_ONCE)).fetchall()
            following = max(low, int(rows[-1][0])) + 1 if len(rows) == _VECTORS_AT_ONCE else high + 1
        except (*FOREIGN, TypeError):
            failures += 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
            continue
        yield from (row[1:] for row in rows)
        if following <= high:
            ranges.append((following, high))
