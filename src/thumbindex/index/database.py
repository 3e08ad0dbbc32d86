"""The door to SQLite: one file opened to read or to write, transactions, facts about the index, and
foreign errors told in words.
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
    IndexGoneError,
    IndexTooNewError,
    StorageError,
)
from thumbindex.index.files import not_written

BUSY_SECONDS = 30.0
"""How long a reader or writer waits for a lock that another one holds: a lock is not damage."""

_POLL_SECONDS = 0.01
"""Between two attempts at a lock that SQLite refuses at once."""

KEYS_AT_ONCE = 500
"""Keys that one statement asks for."""

CLEANING_MS = 1000
"""How long readers are waited for that still need the log; what they delay comes with the next
run.
"""

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_NOT_WRITTEN = (
    *("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN", "SQLITE_FULL"),
    *("SQLITE_IOERR", "SQLITE_NOLFS"),
)
_DAMAGE = {
    "SQLITE_NOTADB": "it is no SQLite file",
    "SQLITE_CORRUPT": "its pages do not hold together",
    "SQLITE_SCHEMA": "its tables are not there",
}

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite may raise in a group of reads or writes: a flipped name of a table is in the error's
text, and cannot be read.
"""

FOREIGN = (*UNREADABLE, MemoryError)
"""What a statement alone may raise, too: a flipped length asks for more memory than there is.

In a group it may be that there is none.
"""

Row = tuple[Any, ...]


class Database:
    """One SQLite file of one schema. No two threads share a connection at once.

    A file that cannot be read raises IndexDamagedError.
    """

    schema: ClassVar[str]
    """The name of the file that creates the tables, in this package. It creates `meta`, too."""

    version: ClassVar[int]
    """Another version on disk means that the file is built anew."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self.path = path
        self._read_only = read_only
        self._busy_seconds = busy_seconds
        self._idle: list[sqlite3.Connection] = []  # nobody's at the moment
        self._is_closed = False
        self._here = threading.local()
        with self._connection():  # what is wrong with the file is raised at once
            pass

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Give a thread the connection of its group, or one of its own until this is left."""
        held: sqlite3.Connection | None = getattr(self._here, "db", None)
        if held is not None:
            yield held
            return
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._open()
        self._here.db = db
        try:
            yield db
        finally:
            self._here.db = None
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
            # a search may still hold a store that was replaced: the last one to let go of it
            # closes the file
            weakref.finalize(self, db.close).atexit = False
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        except FOREIGN as error:
            if self._read_only and not self.path.exists():
                raise _gone(self.path) from error
            raise translated(error, self.path) from error
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA foreign_keys = ON")
        if self._read_only:
            db.execute("PRAGMA query_only = ON")
        else:
            self._log_ahead(db)
            # what a note said is not left in free pages
            db.execute("PRAGMA secure_delete = ON")
            # a commit that a power cut took back would have its row ids used twice, and views could
            # not tell
            db.execute("PRAGMA synchronous = FULL")
        # one statement: both are of one moment, even if somebody makes the tables meanwhile
        version, tables = db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        is_empty = not tables
        if version == self.version:
            return
        if version == 0 and is_empty and not self._read_only:
            self._create(db)
        elif version == 0 and is_empty:
            raise _begun(self.path)
        # else it is the number itself that was flipped
        elif version > self.version and self._schema_fact(db) != self.version:
            raise IndexTooNewError(
                f"{self.path} was written by a later version of thumbindex (schema "
                f"{version}): upgrade thumbindex, or use another --index."
            )
        else:
            raise IndexDamagedError(damaged(self.path, f"it is of another schema, {version}"))

    def _log_ahead(self, db: sqlite3.Connection) -> None:
        """Have the file use a write-ahead log.

        SQLite does not wait where two processes ask for it of a new file at once, so we do.
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

    def _schema_fact(self, db: sqlite3.Connection) -> int:
        try:
            return int(db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])
        except (*FOREIGN, TypeError, ValueError):
            return 0

    def _create(self, db: sqlite3.Connection) -> None:
        """Create the tables; where another process does so at the same time, each finds what the
        other one made.
        """
        tables = (
            resources.files("thumbindex.index").joinpath(self.schema).read_text(encoding="utf-8")
        )
        facts = (
            f"INSERT OR IGNORE INTO meta VALUES ('schema', '{self.version}'), ('generation', '0')"
        )
        db.executescript(
            f"BEGIN IMMEDIATE; {tables} {facts}; PRAGMA user_version = {self.version}; COMMIT;"
        )

    def close(self) -> None:
        """Close the file; a thread that reads it at the moment closes it when it has."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group writes: all of them are kept, with a new generation, or none."""
        with self._connection() as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.set_meta("generation", str(self.generation + 1))
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:  # a full disk has rolled back by itself
                        db.execute("ROLLBACK")
                    raise
            except UNREADABLE as error:
                raise translated(error, self.path) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Group reads of this thread: all of them see one generation.

        Inside another group, or a transaction, they see that one's.
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
            except UNREADABLE as error:
                raise translated(error, self.path) from error

    def renew(self) -> bool:
        """Move this thread's group of reads to the present generation; return whether it is
        another.
        """
        with self._connection() as db:
            before = self.generation
            if db.in_transaction:
                db.execute("COMMIT")
                db.execute("BEGIN")
            return self.generation != before

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Call the file damaged where what is made of its rows meets nothing, or no number, where
        one was written: a zeroed row has neither.
        """
        try:
            yield
        except (TypeError, ValueError, LookupError) as error:
            raise IndexDamagedError(
                damaged(self.path, "its rows are not what was written")
            ) from error

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query."""
        with self._connection() as db:
            try:
                return db.execute(sql, parameters).fetchall()
            except FOREIGN as error:
                raise translated(error, self.path) from error

    def fetch_in(
        self, sql: str, keys: Iterable[int] | Iterable[str] | Iterable[bytes]
    ) -> list[Row]:
        """Return the rows of a query that asks for some keys, which `{}` stands for: one statement
        for each few hundred of them.
        """
        rows, asked = (
            list[Row](),
            [key if isinstance(key, (str, bytes)) else int(key) for key in keys],
        )
        for start in range(0, len(asked), KEYS_AT_ONCE):
            part = asked[start : start + KEYS_AT_ONCE]
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

    def clean_log(self) -> bool:
        """Write the log into the file and empty it; return whether no reader was in the way."""
        with self._connection() as db:
            try:
                db.execute(f"PRAGMA busy_timeout = {CLEANING_MS}")
                busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
            except FOREIGN as error:
                raise translated(error, self.path) from error
            return not busy

    # -------------------------------------------------------------- facts about the file

    def meta(self, key: str, default: str = "") -> str:
        """Return a fact."""
        rows = self.fetch("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else default

    def set_meta(self, key: str, value: str) -> None:
        """Write a fact, in a transaction."""
        self.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    @property
    def generation(self) -> int:
        """The number of transactions so far; views say which one they show."""
        return int(self.meta("generation", "0"))

    def verify_pages(self) -> None:
        """Have SQLite compare all of its trees; raise IndexDamagedError where they do not hold
        together.
        """
        found = self.fetch("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise IndexDamagedError(
                damaged(
                    self.path, "its pages do not hold together" if found else "it cannot be checked"
                )
            )


def _name_of(error: BaseException) -> str:
    """Return what SQLite calls an error; empty where it is none of its own."""
    return getattr(error, "sqlite_errorname", None) or ""


def damaged(path: Path, what: str) -> str:
    """Say in one sentence that a file is damaged, and what to do."""
    return (
        f"{path} is damaged ({what}): run `thumbindex index`, which builds it anew from the notes."
    )


def _begun(path: Path) -> IndexGoneError:
    return IndexGoneError(
        f"The index {path} is only just begun: ask again in a moment, or run `thumbindex index`."
    )


def _gone(path: Path) -> IndexGoneError:
    return IndexGoneError(f"There is no index at {path}: run `thumbindex index`, which makes one.")


def translated(error: sqlite3.Error | MemoryError | UnicodeDecodeError, path: Path) -> StorageError:
    """Return what an error of SQLite means for who uses the index."""
    text, name = str(error), _name_of(error)
    if isinstance(error, sqlite3.ProgrammingError):
        return StorageError(f"{path} was closed while it was read ({text}): ask again.")
    if name == "SQLITE_READONLY_ROLLBACK":  # its tables were being made, and only a writer goes on
        return _begun(path)
    if name.startswith(_BUSY):
        return IndexBusyError(f"{path} is busy: another process is writing; try again in a moment.")
    if name.startswith(_NOT_WRITTEN):
        return not_written(path, text)
    return IndexDamagedError(
        damaged(path, _DAMAGE.get(name, "its pages cannot be read as what they were written as"))
    )
