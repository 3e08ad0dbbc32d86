"""The adapter to SQLite: connections, transactions, the `meta` table, and errors."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from thumbindex.errors import (
    IndexBusyError,
    IndexDamagedError,
    IndexMissingError,
    IndexTooNewError,
    StorageError,
)
from thumbindex.index.files import write_error

BUSY_SECONDS = 30.0
"""How long to wait for another process's lock."""

_POLL_SECONDS = 0.01
"""Pause between attempts if SQLite refuses a lock without waiting."""

KEYS_PER_STATEMENT = 500
"""Maximum number of keys that are passed to one statement."""

CHECKPOINT_MS = 1000
"""How many milliseconds `truncate_log` waits for readers of the log. If readers
remain, the next run retries.
"""

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_UNWRITABLE = (
    *("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN", "SQLITE_FULL"),
    *("SQLITE_IOERR", "SQLITE_NOLFS"),
)
_DAMAGE = {
    "SQLITE_NOTADB": "it is not an SQLite file",
    "SQLITE_CORRUPT": "its pages are corrupted",
    "SQLITE_SCHEMA": "its tables are missing",
}

READ_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors that `sqlite3` raises in a transaction. UnicodeDecodeError means that SQLite's message
contains a damaged table name.
"""

STATEMENT_ERRORS = (*READ_ERRORS, MemoryError)
"""Errors of a single statement. MemoryError means that a stored length is damaged."""

SqlRow = tuple[Any, ...]


class SqliteFile:
    """An SQLite file with a given schema. Each thread uses its own connection.

    Raises IndexDamagedError if the file is unreadable.
    """

    schema: ClassVar[str]
    """Name of the SQL file in this package that creates the tables, including `meta`."""

    version: ClassVar[int]
    """Version of the schema. A file with an older version is rebuilt."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self.path = path
        self._read_only = read_only
        self._busy_seconds = busy_seconds
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False
        self._thread = threading.local()
        with self._connection():  # raises errors early
            pass

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this thread's enclosing block.

        Outside of such a block, yield an idle or new connection.
        """
        current: sqlite3.Connection | None = getattr(self._thread, "db", None)
        if current is not None:
            yield current
            return
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._open()
        self._thread.db = db
        try:
            yield db
        finally:
            self._thread.db = None
            if self._is_closed:
                db.close()
            else:
                self._idle.append(db)

    def _open(self) -> sqlite3.Connection:
        # a reader never creates a file
        uri = self._read_only
        source = f"{self.path.absolute().as_uri()}?mode=ro" if uri else str(self.path)
        try:
            if self._is_closed:
                raise sqlite3.ProgrammingError("closed")
            db = sqlite3.connect(
                source,
                timeout=self._busy_seconds,
                isolation_level=None,
                check_same_thread=False,
                uri=uri,
            )
            # a search may still use a replaced store: its connections close after the last use
            weakref.finalize(self, db.close).atexit = False
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        except STATEMENT_ERRORS as error:
            if self._read_only and not self.path.exists():
                raise _missing(self.path) from error
            raise translate_error(error, self.path) from error
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA foreign_keys = ON")
        if self._read_only:
            db.execute("PRAGMA query_only = ON")
        else:
            self._enable_wal(db)
            # do not leave deleted text in free pages
            db.execute("PRAGMA secure_delete = ON")
            # if a power cut lost a commit, its row ids would be assigned again
            db.execute("PRAGMA synchronous = FULL")
        # one statement: another process may be creating the tables
        version, tables = db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        is_empty = not tables
        if version == self.version:
            return
        if version == 0 and is_empty and not self._read_only:
            self._create(db)
        elif version == 0 and is_empty:
            raise _unfinished(self.path)
        # if the meta table has this version, only `user_version` is damaged
        elif version > self.version and self._schema_meta(db) != self.version:
            raise IndexTooNewError(
                f"{self.path} was written by a later version of thumbindex (schema "
                f"{version}): upgrade thumbindex, or choose another index directory with --index."
            )
        else:
            raise IndexDamagedError(
                f"{self.path} is of an earlier version of thumbindex: run `thumbindex index` to "
                "rebuild it from the notes.",
                f"its schema is {version}, of an earlier version of thumbindex",
            )

    def _enable_wal(self, db: sqlite3.Connection) -> None:
        """Switch the file to a write-ahead log.

        If two processes do this to a new file at once, SQLite fails without waiting. Then this
        retries.
        """
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _name_of(error).startswith(_BUSY) or time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_SECONDS)

    def _schema_meta(self, db: sqlite3.Connection) -> int:
        try:
            return int(db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])
        except (*STATEMENT_ERRORS, TypeError, ValueError):
            return 0

    def _create(self, db: sqlite3.Connection) -> None:
        # another process may create the tables at the same time
        tables = (
            resources.files("thumbindex.index").joinpath(self.schema).read_text(encoding="utf-8")
        )
        meta = (
            f"INSERT OR IGNORE INTO meta VALUES ('schema', '{self.version}'), ('generation', '0')"
        )
        db.executescript(
            f"BEGIN IMMEDIATE; {tables} {meta}; PRAGMA user_version = {self.version}; COMMIT;"
        )

    def close(self) -> None:
        """Close the file. A thread that is still reading closes its connection afterwards."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes in this block as a new generation. On an exception, roll back."""
        with self._connection() as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.set_meta("generation", str(self.generation + 1))
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:  # SQLite already rolls back if the disk is full
                        db.execute("ROLLBACK")
                    raise
            except READ_ERRORS as error:
                raise translate_error(error, self.path) from error

    def bump_generation(self) -> None:
        """Commit a new generation without changes, so that readers open a new snapshot."""
        with self.transaction():
            pass

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Make all reads of this thread in this block see the same generation.

        A nested call sees the outer transaction's generation.
        """
        with self._connection() as db:
            if db.in_transaction:
                yield
                return
            try:
                db.execute("BEGIN")
                try:
                    yield
                finally:
                    if db.in_transaction:
                        db.execute("COMMIT")
            except READ_ERRORS as error:
                raise translate_error(error, self.path) from error

    def refresh_read(self) -> bool:
        """Move this thread's reads to the newest generation.

        Returns True if they used an older generation before.
        """
        with self._connection() as db:
            before = self.generation
            if db.in_transaction:
                db.execute("COMMIT")
                db.execute("BEGIN")
            return self.generation != before

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Raise IndexDamagedError if rows cannot be decoded in this block.

        For example, a row that was overwritten with zeros contains NULLs.
        """
        try:
            yield
        except (TypeError, ValueError, LookupError) as error:
            raise damage_error(self.path, "its rows cannot be decoded") from error

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[SqlRow]:
        """Return the rows of a query."""
        with self._connection() as db:
            try:
                return db.execute(sql, parameters).fetchall()
            except STATEMENT_ERRORS as error:
                raise translate_error(error, self.path) from error

    def fetch_in(
        self, sql: str, keys: Iterable[int] | Iterable[str] | Iterable[bytes]
    ) -> list[SqlRow]:
        """Run a query for batches of keys, and return the rows of all batches.

        The keys replace `{}` in the query.
        """
        rows = list[SqlRow]()
        values = [key if isinstance(key, (str, bytes)) else int(key) for key in keys]
        for start in range(0, len(values), KEYS_PER_STATEMENT):
            part = values[start : start + KEYS_PER_STATEMENT]
            rows += self.fetch(sql.format(",".join("?" * len(part))), part)
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement inside a transaction. Return the number of changed rows."""
        with self._connection() as db:
            return db.execute(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement inside a transaction, once for each row of parameters."""
        with self._connection() as db:
            db.executemany(sql, rows)

    def truncate_log(self) -> bool:
        """Move the content of the log to the main file. Return False if a reader prevents that."""
        with self._connection() as db:
            try:
                db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
                busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
            except STATEMENT_ERRORS as error:
                raise translate_error(error, self.path) from error
            return not busy

    # -------------------------------------------------------------- the meta table

    def meta(self, key: str, default: str = "") -> str:
        """Return the value of a meta key, or the default."""
        rows = self.fetch("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else default

    def set_meta(self, key: str, value: str) -> None:
        """Set the value of a meta key, inside a transaction."""
        self.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    @property
    def generation(self) -> int:
        """The number of committed transactions."""
        return int(self.meta("generation", "0"))

    def check_integrity(self) -> None:
        """Run SQLite's integrity check; raise IndexDamagedError if it fails."""
        result = self.fetch("PRAGMA integrity_check(1)")
        if result != [("ok",)]:
            reason = "its pages are corrupted" if result else "it cannot be checked"
            raise damage_error(self.path, reason)


def _name_of(error: BaseException) -> str:
    return getattr(error, "sqlite_errorname", None) or ""


def damage_error(path: Path, reason: str) -> IndexDamagedError:
    """Return the error for a damaged file."""
    return IndexDamagedError(
        f"{path} is damaged ({reason}): run `thumbindex index` to rebuild it from the notes.",
        reason,
    )


def _unfinished(path: Path) -> IndexMissingError:
    return IndexMissingError(
        f"The index {path} is being created: try again in a moment, or run `thumbindex index`."
    )


def _missing(path: Path) -> IndexMissingError:
    return IndexMissingError(f"There is no index at {path}: run `thumbindex index` to create it.")


def translate_error(
    error: sqlite3.Error | MemoryError | UnicodeDecodeError, path: Path
) -> StorageError:
    """Return the StorageError for an error from SQLite."""
    text, name = str(error), _name_of(error)
    if isinstance(error, sqlite3.ProgrammingError):
        return StorageError(f"{path} was closed while it was being read ({text}): try again.")
    if name == "SQLITE_READONLY_ROLLBACK":  # a writer was creating the tables
        return _unfinished(path)
    if name.startswith(_BUSY):
        return IndexBusyError(
            f"{path} is busy because another process is writing to it: try again in a moment."
        )
    if name.startswith(_UNWRITABLE):
        return write_error(path, text)
    return damage_error(path, _DAMAGE.get(name, "its content cannot be read"))
