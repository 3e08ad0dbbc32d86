"""The adapter to SQLite: one file opened to read or to write, transactions, its `meta` table, and
translation of errors.
"""

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
"""How long to wait for a lock of another process: a lock is not damage."""

_POLL_SECONDS = 0.01
"""Pause between attempts at a lock that SQLite refuses without waiting."""

KEYS_PER_STATEMENT = 500
"""Maximum keys of one statement."""

CHECKPOINT_MS = 1000
"""How long to wait for readers of the log; the next run tries again."""

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_UNWRITABLE = (
    *("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN", "SQLITE_FULL"),
    *("SQLITE_IOERR", "SQLITE_NOLFS"),
)
_DAMAGE = {
    "SQLITE_NOTADB": "it is no SQLite file",
    "SQLITE_CORRUPT": "its pages do not hold together",
    "SQLITE_SCHEMA": "its tables are not there",
}

READ_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a group of reads or writes: the error's text may hold a damaged table name, which
cannot be decoded.
"""

STATEMENT_ERRORS = (*READ_ERRORS, MemoryError)
"""Errors of a single statement: a damaged length asks for more memory than there is. In a group,
memory may really be short.
"""

SqlRow = tuple[Any, ...]


class SqliteFile:
    """One SQLite file of one schema. Every thread has its own connection.

    A file that cannot be read raises IndexDamagedError.
    """

    schema: ClassVar[str]
    """The file of this package that creates the tables, among them `meta`."""

    version: ClassVar[int]
    """A file of another version is rebuilt."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self.path = path
        self._read_only = read_only
        self._busy_seconds = busy_seconds
        self._idle: list[sqlite3.Connection] = []  # not in use
        self._is_closed = False
        self._thread = threading.local()
        with self._connection():  # an error is raised at once
            pass

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Return the connection of this thread's transaction, or a free one for this block."""
        held: sqlite3.Connection | None = getattr(self._thread, "db", None)
        if held is not None:
            yield held
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
        # a reader never makes a file: if there is none, there is no index
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
            # a search may still hold a store that was replaced: the file closes with the last use
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
            # deleted text does not stay in free pages
            db.execute("PRAGMA secure_delete = ON")
            # a commit lost in a power cut would have its row ids used twice
            db.execute("PRAGMA synchronous = FULL")
        # one statement: another process may create the tables meanwhile
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
        # else the number itself is damaged
        elif version > self.version and self._schema_meta(db) != self.version:
            raise IndexTooNewError(
                f"{self.path} was written by a later version of thumbindex (schema "
                f"{version}): upgrade thumbindex, or use another --index."
            )
        else:
            raise IndexDamagedError(
                damage_message(self.path, f"it is of another schema, {version}")
            )

    def _enable_wal(self, db: sqlite3.Connection) -> None:
        """Have the file use a write-ahead log.

        If two processes do this to a new file at once SQLite does not wait, so we do.
        """
        until = time.monotonic() + self._busy_seconds
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _name_of(error).startswith(_BUSY) or time.monotonic() >= until:
                    raise
            time.sleep(_POLL_SECONDS)

    def _schema_meta(self, db: sqlite3.Connection) -> int:
        try:
            return int(db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])
        except (*STATEMENT_ERRORS, TypeError, ValueError):
            return 0

    def _create(self, db: sqlite3.Connection) -> None:
        """Create the tables; another process may do so at the same time."""
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
        """Close the file; a thread that is reading closes its connection afterwards."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of this block with a new generation, or none."""
        with self._connection() as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.set_meta("generation", str(self.generation + 1))
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:  # a full disk rolls back by itself
                        db.execute("ROLLBACK")
                    raise
            except READ_ERRORS as error:
                raise translate_error(error, self.path) from error

    def bump_generation(self) -> None:
        """Commit a new generation without a write, so that readers open a new snapshot."""
        with self.transaction():
            pass

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Have all reads of this thread in this block see one generation.

        Inside another transaction they see that one's.
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
        """Move this thread's reads to the newest generation; return whether it is another."""
        with self._connection() as db:
            before = self.generation
            if db.in_transaction:
                db.execute("COMMIT")
                db.execute("BEGIN")
            return self.generation != before

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Raise IndexDamagedError if rows cannot be decoded inside this block: a zeroed row has
        nulls in place of values.
        """
        try:
            yield
        except (TypeError, ValueError, LookupError) as error:
            raise IndexDamagedError(
                damage_message(self.path, "its rows are not what was written")
            ) from error

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
        """Return the rows of a query with `{}` in place of the keys, a few hundred a statement."""
        rows, asked = (
            list[SqlRow](),
            [key if isinstance(key, (str, bytes)) else int(key) for key in keys],
        )
        for start in range(0, len(asked), KEYS_PER_STATEMENT):
            part = asked[start : start + KEYS_PER_STATEMENT]
            rows += self.fetch(sql.format(",".join("?" * len(part))), part)
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Change rows in a transaction; return how many."""
        with self._connection() as db:
            return db.execute(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Change rows in a transaction, one statement for each of these parameters."""
        with self._connection() as db:
            db.executemany(sql, rows)

    def truncate_log(self) -> bool:
        """Write the log into the file and empty it; return whether no reader was in the way."""
        with self._connection() as db:
            try:
                db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
                busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
            except STATEMENT_ERRORS as error:
                raise translate_error(error, self.path) from error
            return not busy

    # -------------------------------------------------------------- the table meta

    def meta(self, key: str, default: str = "") -> str:
        """Return the value of a key."""
        rows = self.fetch("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else default

    def set_meta(self, key: str, value: str) -> None:
        """Set the value of a key, in a transaction."""
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
        found = self.fetch("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise IndexDamagedError(
                damage_message(
                    self.path, "its pages do not hold together" if found else "it cannot be checked"
                )
            )


def _name_of(error: BaseException) -> str:
    """Return SQLite's name of an error; empty for other errors."""
    return getattr(error, "sqlite_errorname", None) or ""


def damage_message(path: Path, what: str) -> str:
    """Return the sentence that a file is damaged, and what to do."""
    return (
        f"{path} is damaged ({what}): run `thumbindex index`, which builds it anew from the notes."
    )


def _unfinished(path: Path) -> IndexMissingError:
    return IndexMissingError(
        f"The index {path} is only just begun: ask again in a moment, or run `thumbindex index`."
    )


def _missing(path: Path) -> IndexMissingError:
    return IndexMissingError(
        f"There is no index at {path}: run `thumbindex index`, which makes one."
    )


def translate_error(
    error: sqlite3.Error | MemoryError | UnicodeDecodeError, path: Path
) -> StorageError:
    """Return the StorageError for an error of SQLite."""
    text, name = str(error), _name_of(error)
    if isinstance(error, sqlite3.ProgrammingError):
        return StorageError(f"{path} was closed while it was read ({text}): ask again.")
    if name == "SQLITE_READONLY_ROLLBACK":  # its tables were being made, and only a writer goes on
        return _unfinished(path)
    if name.startswith(_BUSY):
        return IndexBusyError(f"{path} is busy: another process is writing; try again in a moment.")
    if name.startswith(_UNWRITABLE):
        return write_error(path, text)
    return IndexDamagedError(
        damage_message(
            path, _DAMAGE.get(name, "its pages cannot be read as what they were written as")
        )
    )
