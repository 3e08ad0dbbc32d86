"""The door to SQLite: one file opened to read or to write, transactions, facts about the index, and foreign errors told in words."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from thumbindex.errors import IndexBusyError, IndexDamagedError, IndexTooNewError, StorageError
from thumbindex.index.checksum import Census, row_sum
from thumbindex.index.locks import mark_of

SCHEMA_VERSION = 7

BUSY_SECONDS = 30.0
"""How long a reader or writer waits for a lock that another one holds: a lock is not damage."""

CLEANING_MS = 1000
"""How long readers are waited for that still need the log; what they delay comes with the next run."""

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_REFUSED = ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")
_DISK = ("SQLITE_IOERR", "SQLITE_NOLFS")
_DAMAGE = {"SQLITE_NOTADB": "it is no SQLite file", "SQLITE_CORRUPT": "its pages do not hold together", "SQLITE_SCHEMA": "its tables are not there"}

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite may raise in a group of reads or writes: a flipped name of a table is in the error's text, and cannot be read."""

FOREIGN = (*UNREADABLE, MemoryError)
"""What a statement alone may raise, too: a flipped length asks for more memory than there is. In a group it may be that there is none."""

Row = tuple[Any, ...]


class Database:
    """One SQLite file. Methods are safe to call from several threads; whatever was flipped on disk raises IndexDamagedError."""

    def __init__(self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._census: Census | None = None  # while a transaction runs
        self._frozen_at: tuple[int, int] | None = None  # size and time of a file that is read without its companions
        try:
            self._open(read_only)
        except FOREIGN as error:
            if not (read_only and _is_frozen(path, error)):
                raise translated(error, path) from error
            self._open_frozen()

    def _open(self, read_only: bool, options: str = "") -> None:
        # a reader never makes a file: where there is none, there is no index
        source, uri = (f"{self.path.absolute().as_uri()}?mode=ro{options}", True) if read_only else (str(self.path), False)
        self._db = sqlite3.connect(source, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, uri=uri)
        try:
            self._prepare(read_only)
        except (*FOREIGN, StorageError):
            self._db.close()
            raise

    def _open_frozen(self) -> None:
        """Open a file in a folder where nothing can be written: without a log beside it, it is all there is."""
        try:
            found = self.path.stat()
            self._frozen_at = (found.st_size, found.st_mtime_ns)
            self._open(True, "&immutable=1")
        except OSError as error:
            raise StorageError(f"There is no index at {self.path} any more: run `thumbindex index`.") from error
        except FOREIGN as error:
            raise translated(error, self.path) from error

    def _prepare(self, read_only: bool) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        if read_only:
            self._db.execute("PRAGMA query_only = ON")
        else:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA secure_delete = ON")  # what a note said is not left in free pages
            # a commit that a power cut took back would have its row ids used twice, and views could not tell
            self._db.execute("PRAGMA synchronous = FULL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == SCHEMA_VERSION:
            return
        is_empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and is_empty and not read_only:
            self._create()
        elif version == 0 and is_empty:
            raise StorageError(f"The index {self.path} is only just begun: ask again in a moment, or run `thumbindex index`.")
        else:
            self._refuse(version)

    def _refuse(self, version: int) -> None:
        if version == 0 or self._written_as() == SCHEMA_VERSION:
            raise IndexDamagedError(damaged(self.path, "its version is not the one that it was written as"))
        if version > SCHEMA_VERSION:
            raise IndexTooNewError(
                f"{self.path} was written by a later version of thumbindex (schema {version}): upgrade thumbindex, or use another --index."
            )
        raise IndexDamagedError(damaged(self.path, f"it is of an earlier schema, {version}"))

    def _written_as(self) -> int:
        """Return the version that the file was written as, where its checksum holds; 0 where it does not."""
        try:
            rows = self._db.execute("SELECT value, sum FROM meta WHERE key = 'schema'").fetchall()
        except FOREIGN:
            return 0
        return int(rows[0][0]) if rows and rows[0][1] == row_sum("schema", rows[0][0]) else 0

    def _create(self) -> None:
        schema = resources.files("thumbindex.index").joinpath("schema.sql").read_text(encoding="utf-8")
        census = Census({"meta": [3]})
        first = {"schema": str(SCHEMA_VERSION), "generation": "0", "census": json.dumps(census.counted)}
        facts = ", ".join(f"('{key}', '{value}', {row_sum(key, value)})" for key, value in first.items())
        self._db.executescript(f"BEGIN IMMEDIATE; {schema} INSERT INTO meta VALUES {facts}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group writes: all of them are kept, with a new generation, or none."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._census = self._stored_census()
                    yield
                    self.set_meta("generation", str(self.generation + 1))
                    self._keep_census(self._census)
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:  # a full disk has rolled back by itself
                        self._db.execute("ROLLBACK")
                    raise
                finally:
                    self._census = None
            except UNREADABLE as error:
                raise translated(error, self.path) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Group reads: all of them see one generation. Inside another group, or a transaction, they see that one's."""
        with self._lock:
            try:
                if self._db.in_transaction:
                    yield
                    return
                self._thaw()
                self._db.execute("BEGIN")
                try:
                    yield
                finally:
                    if self._db.in_transaction:
                        self._db.execute("COMMIT")
            except UNREADABLE as error:
                raise translated(error, self.path) from error

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._lock:
            try:
                if not self._db.in_transaction:
                    self._thaw()
                return self._db.execute(sql, parameters).fetchall()
            except FOREIGN as error:
                raise translated(error, self.path) from error

    def _in(self, sql: str, keys: Sequence[int] | Sequence[str], first: Row = ()) -> Iterator[list[Row]]:
        for start in range(0, len(keys), 500):
            part = [key if isinstance(key, str) else int(key) for key in keys[start : start + 500]]
            yield self._rows(sql.format(",".join("?" * len(part))), (*first, *part))

    def _write(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Change rows; return how many."""
        return self._db.execute(sql, parameters).rowcount

    def _write_all(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._db.executemany(sql, rows)

    def take_rows(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows that another store held, checksums and all, and count them; one that is there already stays."""
        for row in rows:
            if self._write(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row):
                self._counting.shift(table, [1])

    def clean_log(self) -> bool:
        """Write the log into the file and empty it; tell whether no reader was in the way."""
        with self._lock:
            try:
                self._db.execute(f"PRAGMA busy_timeout = {CLEANING_MS}")
                busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                self._db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
            except FOREIGN as error:
                raise translated(error, self.path) from error
            return not busy

    def _thaw(self) -> None:
        """Open a file anew that was read as one that nobody writes, and that somebody wrote."""
        if self._frozen_at is not None:
            found = self.path.stat() if self.path.exists() else None
            if found is None or self._frozen_at != (found.st_size, found.st_mtime_ns):
                self._db.close()
                self._open_frozen()

    # -------------------------------------------------------------- what must be there

    @property
    def _counting(self) -> Census:
        if self._census is None:
            raise sqlite3.ProgrammingError("rows are written in a transaction")
        return self._census

    def _known_census(self) -> Census:
        return self._stored_census() if self._census is None else self._census

    def _stored_census(self) -> Census:
        rows = self._rows("SELECT value, sum FROM meta WHERE key = 'census'")
        if not rows or rows[0][1] != row_sum("census", rows[0][0]):
            raise IndexDamagedError(damaged(self.path, "the count of its rows is lost"))
        return Census(json.loads(rows[0][0]))

    def _keep_census(self, census: Census) -> None:
        self.set_meta("census", json.dumps(census.counted))

    def _verify(self, ok: bool, what: str) -> None:
        if not ok:
            raise IndexDamagedError(damaged(self.path, what))

    # -------------------------------------------------------------- facts about the index

    def meta(self, key: str, default: str = "") -> str:
        """Return a fact about the index."""
        rows = self._rows("SELECT value, sum FROM meta WHERE key = ?", (key,))
        if rows:
            self._verify(rows[0][1] == row_sum(key, rows[0][0]), f"the fact {key!r} does not match its checksum")
            return str(rows[0][0])
        with self.reading():
            if not self._rows("SELECT 1 FROM meta WHERE key = ?", (key,)):
                self.verify_meta()
        return default

    def verify_meta(self) -> dict[str, str]:
        """Return all facts; raise IndexDamagedError where one is not what was written, or is missing."""
        with self.reading():
            rows = self._rows("SELECT key, value, sum FROM meta")
            self._verify(all(check == row_sum(key, value) for key, value, check in rows), "a fact does not match its checksum")
            self._verify(self._known_census().agrees("meta", [len(rows)]), "a fact about the index is missing")
        return {key: value for key, value, _ in rows}

    def set_meta(self, key: str, value: str) -> None:
        """Write a fact about the index."""
        check = row_sum(key, value)
        if not self._write("UPDATE meta SET value = ?, sum = ? WHERE key = ?", (value, check, key)):
            self._write("INSERT INTO meta VALUES (?, ?, ?)", (key, value, check))
            self._counting.shift("meta", [1])

    @property
    def generation(self) -> int:
        """The number of transactions so far; views say which one they show."""
        return int(self.meta("generation", "0"))

    def verify_pages(self) -> None:
        """Have SQLite compare all of its trees; raise IndexDamagedError where they do not hold together."""
        found = self._rows("PRAGMA integrity_check(1)")
        self._verify(found == [("ok",)], "its pages do not hold together" if found else "it cannot be checked")


def _is_frozen(path: Path, error: BaseException) -> bool:
    """Tell whether a file could not be opened because nothing can be written beside it, and is whole all the same."""
    log = path.with_name(f"{path.name}-wal")
    cannot = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
    is_written = mark_of(path.with_name("writer.lock")).exists() or (log.exists() and log.stat().st_size > 0)
    return cannot and os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK) and not is_written


def damaged(path: Path, what: str) -> str:
    """Say in one sentence that a file is damaged, and what to do."""
    return f"{path} is damaged ({what}): run `thumbindex index`, which keeps it aside and rebuilds it from the notes."


def translated(error: sqlite3.Error | MemoryError | UnicodeDecodeError, path: Path) -> StorageError:
    """Return what an error of SQLite means for who uses the index."""
    text, name = str(error), getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, sqlite3.ProgrammingError):
        return StorageError(f"{path} was closed while it was read ({text}): ask again.")
    if name.startswith("SQLITE_CANTOPEN"):
        return StorageError(f"There is no index at {path}, or it may not be opened: run `thumbindex index`, or check the permissions.")
    if name.startswith(_BUSY):
        return IndexBusyError(f"{path} is busy: another process is writing; try again in a moment.")
    if name == "SQLITE_FULL":
        return StorageError(f"The disk of {path} is full: free some space and run it again; what was indexed is as it was.")
    if name.startswith(_REFUSED):
        return StorageError(f"{path} may not be written ({text}): check the permissions of its folder, or choose another one with --index.")
    if name.startswith(_DISK):
        return StorageError(f"The disk of {path} failed ({text}): check it and its free space, then run it again; what was indexed is as it was.")
    return IndexDamagedError(damaged(path, _DAMAGE.get(name, "its pages cannot be read as what they were written as")))
