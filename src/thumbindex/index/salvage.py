"""What can still be read of a store that is damaged: only what proves to be what was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from thumbindex.index.checksum import are_whole, row_sum
from thumbindex.index.database import FOREIGN, SCHEMA_VERSION, Row
from thumbindex.index.store import Store
from thumbindex.index.stored_vectors import STORED, model_id

KEPT_FACTS = ("model", "fingerprint", "dimensions", "model_setting", "calibration", "calibration_due", "root")
"""Facts that cannot be read from the notes, or that only a model can measure again."""

KEPT_TABLES = ("decisions",)
"""Tables that only the user can make again. Each has a column `sum`, the last, and its rows are taken over one by one."""

_LAST_ROW = 2**40
"""More rows than any table has: where the last one cannot be asked for, they are looked for up to here."""

_MOST_FAILURES = 20_000
"""Reads that may fail before the rest of a table is given up: each halves the range that it failed in."""

_VECTORS_AT_ONCE = 2_000


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
        if not _is_of_this_schema(old):
            return found
        found.facts = _facts(old)
        with store.transaction():
            for key, value in found.facts.items():
                store.set_meta(key, value)
            found.vectors = _take_vectors(old, store, found.facts, count)
            found.rows = sum(_take_rows(old, store, table) for table in tables)
    return found


def _is_of_this_schema(old: sqlite3.Connection) -> bool:
    """Tell whether the file says so in one of the two places: the other one may be what is damaged."""
    try:
        version = old.execute("PRAGMA user_version").fetchone()[0]
    except FOREIGN:
        return False
    return SCHEMA_VERSION in (version, int(_fact(old, "schema") or 0))


def _fact(old: sqlite3.Connection, key: str) -> str | None:
    """Return a fact as it was written; None where it is not there or damaged."""
    try:
        rows = old.execute("SELECT value, sum FROM meta WHERE key = ?", (key,)).fetchall()
    except FOREIGN:
        return None
    return next((value for value, check in rows if isinstance(value, str) and check == row_sum(key, value)), None)


def _facts(old: sqlite3.Connection) -> dict[str, str]:
    """Return the facts that are kept; all of the model's or none."""
    facts = {key: value for key in KEPT_FACTS if (value := _fact(old, key)) is not None}
    return facts if {"model", "fingerprint", "dimensions"} <= facts.keys() and facts["dimensions"].isdecimal() else {}


def _take_vectors(old: sqlite3.Connection, store: Store, facts: dict[str, str], count: Count) -> int:
    taken = seen = 0
    total = _number_of(old, "vectors")
    batch: dict[bytes, dict[bytes, bytes]] = {}
    count(0, total)
    for seen, row in enumerate(_readable(old, "vectors", "model, key, vector, sum"), 1):
        if _is_vector(row, facts):
            batch.setdefault(row[0], {})[row[1]] = row[2]
        if seen % _VECTORS_AT_ONCE == 0:
            taken += _keep(store, batch)
            batch = {}
            count(min(seen, total), total)
    taken += _keep(store, batch)
    count(total, total)
    return taken


def _number_of(old: sqlite3.Connection, table: str) -> int:
    """Count a table's rows; where that meets the damage, say none: how far it is stays unknown."""
    try:
        return int(old.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except (*FOREIGN, TypeError, ValueError, OverflowError):
        return 0


def _keep(store: Store, batch: Mapping[bytes, Mapping[bytes, bytes]]) -> int:
    for model, vectors in batch.items():
        for width in {len(vector) for vector in vectors.values()}:
            same = {key: np.frombuffer(vector, dtype=STORED) for key, vector in vectors.items() if len(vector) == width}
            store.take_vectors(model, list(same), np.stack(list(same.values())))
    return sum(map(len, batch.values()))


def _is_vector(row: Row, facts: dict[str, str]) -> bool:
    """Tell whether a row is a vector as it was written."""
    model, key, vector, check = row
    if not (isinstance(model, bytes) and isinstance(key, bytes) and isinstance(vector, bytes) and vector and isinstance(check, int)):
        return False
    if model == model_id(facts.get("fingerprint", "")) and len(vector) != STORED.itemsize * int(facts.get("dimensions", "0")):
        return False
    return are_whole(model.hex(), [key], [vector], [check])


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
