"""The door to PostgreSQL: connections, one snapshot a question, vectors in half precision, and
foreign errors told in words.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.errors import (
    EngineConnectionError,
    EngineError,
    IndexBusyError,
    IndexTooNewError,
    StorageError,
    install_hint,
)
from thumbindex.model import DatabaseStatus
from thumbindex.text import redact_passwords

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.adapt import Dumper
    from psycopg.pq import Format
    from psycopg.types import TypeInfo

    from thumbindex.postgres.connections import (
        Connection,
        Connections,
        place_of,
        server_of,
    )
except ImportError as error:
    raise EngineError(
        f"A database needs the extra `postgres`: {install_hint('postgres')}."
    ) from error

VERSION = 7
"""Of our schema. Another one is never changed without being asked: `thumbindex engine migrate`."""

EARLIER_TABLES = (
    *("abbreviations", "links", "problems", "segments", "postings", "words"),
    *("repeats", "clusters", "decided", "alike", "texts", "wanted"),
)
"""Tables of earlier versions; some hold texts of notes."""

QUESTION_SECONDS = 30
"""The longest that one statement of a question may take."""

LAG = (
    "SELECT (CASE WHEN NOT pg_is_in_recovery() THEN 0"
    " WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM "
    "pg_stat_wal_receiver) THEN 0"
    " ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) "
    "END)::float8, pg_is_in_recovery()"
)
"""How many seconds a server is behind its primary, at most, and whether it is a standby: one that
receives nothing cannot know whether it lacks anything.
"""

LOOK_SECONDS = 5.0
"""How often the server is asked how far it is behind, while it answers questions."""

LOCK_CLASS = 0x7468756D
"""The first half of our advisory locks' keys ("thum"), so that they are nobody else's."""

Halves = npt.NDArray[np.float16]
Row = tuple[Any, ...]


class Half:
    """A vector on its way into the database."""

    def __init__(self, numbers: Halves) -> None:
        self.numbers = numbers


class _HalfDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Half) -> bytes:
        return struct.pack(">HH", len(obj.numbers), 0) + obj.numbers.astype(">f2").tobytes()


class Session:
    """One transaction: all of its reads see one moment."""

    def __init__(self, connection: Connection, where: str) -> None:
        self._connection, self._where = connection, where
        self._lost: EngineConnectionError | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> str:
        """The server that answers, as it may be shown."""
        return server_of(self._connection)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query; `%s` stands for a parameter."""
        with self._asking():
            return self._connection.execute(sql.encode(), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Change something; return how many rows."""
        with self._asking():
            return self._connection.execute(sql.encode(), parameters).rowcount

    def copy(
        self,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> None:
        """Add rows by COPY, of these columns and their types."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
        with (
            self._lock,
            translated(self._where),
            self._connection.cursor() as cursor,
            cursor.copy(sql.encode()) as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Have one statement at a time; once the database was lost each later one says so, too."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            try:
                with translated(self._where):
                    yield
            except EngineConnectionError as error:
                self._lost = error
                raise


@dataclass(frozen=True, slots=True)
class Seen:
    """The server that answered last, as it was looked at."""

    server: str = ""
    is_standby: bool = False
    lag: float = 0.0  # seconds behind its primary
    at: float = float("-inf")  # by the monotonic clock


class Engine:
    """A database that holds published folders.

    Cheap to make; connects when it is first asked. If the address names several servers, one that
    `writes` is led to the primary, others to a standby, or to the primary if no standby answers.
    Safe to use from several threads.
    """

    def __init__(self, url: str, *, writes: bool = False) -> None:
        self.url = url
        self.where = place_of(url)
        self._connections = Connections(url, _configured, writes=writes)
        self._seen = Seen()

    def close(self) -> None:
        """Close the connections; the next question makes new ones."""
        self._connections.close()

    # -------------------------------------------------------------- sessions

    @contextmanager
    def question(self) -> Iterator[Session]:
        """Give a session that only reads, all of it at one moment.

        Raises EngineError; EngineConnectionError if the whole may be asked again.
        """
        begin = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = "
            f"'{QUESTION_SECONDS}s'"
        )
        with self._begun(begin.encode()) as connection:
            session = Session(connection, self.where)
            is_known = self._seen.server == session.server
            if not is_known or time.monotonic() >= self._seen.at + LOOK_SECONDS:
                self._look(session)
            yield session

    @contextmanager
    def change(self, lock: int | None = None) -> Iterator[Session]:
        """Give a session whose changes are all kept, or none.

        With `lock` it is the only one that holds that lock. Raises IndexBusyError.
        """
        with self._begun(b"BEGIN") as connection:
            if lock is not None:
                (is_ours,) = connection.execute(
                    b"SELECT pg_try_advisory_xact_lock(%s, %s)", (LOCK_CLASS, lock)
                ).fetchone() or (False,)
                if not is_ours:
                    raise IndexBusyError(
                        f"Another builder is publishing this folder to {self.where}: try "
                        "again when it is done."
                    )
            yield Session(connection, self.where)
            connection.execute(b"COMMIT")

    @contextmanager
    def _begun(self, begin: bytes) -> Iterator[Connection]:
        """Give a connection with a transaction, which is rolled back unless it was committed."""
        with translated(self.where):
            connection = self._taken(begin)
            try:
                yield connection
            finally:
                if not connection.closed:
                    with suppress(psycopg.OperationalError):
                        connection.rollback()
                self._connections.give_back(connection)

    def _taken(self, begin: bytes) -> Connection:
        """Take a connection and begin a transaction, on a new one if the first had died unused."""
        for is_last in (False, True):
            connection = self._connections.take()
            try:
                connection.execute(begin)
            except BaseException as error:
                self._connections.give_back(connection)
                is_lost = isinstance(error, psycopg.OperationalError) and connection.closed
                if is_last or not is_lost:
                    raise
            else:
                break
        return connection

    def _look(self, session: Session) -> None:
        """Note who answers, and how far it is behind."""
        ((lag, is_standby),) = session.fetch(LAG)
        self._seen = Seen(session.server, is_standby, float(lag), time.monotonic())

    def lag(self, within: float) -> float:
        """Return how many seconds the server was behind that answered last; 0 if it was looked at
        longer ago than `within`. Nothing is asked.
        """
        return self._seen.lag if time.monotonic() < self._seen.at + within else 0.0

    def status(self, session: Session | None = None) -> DatabaseStatus:
        """Return who answers, how far it is behind, and the connections in use. Without a session
        nothing is asked.
        """
        seen = None
        if session is not None:
            self._look(session)
            seen = self._seen
        connections = self._connections
        return DatabaseStatus(
            self.where,
            seen.server if seen else "",
            seen.is_standby if seen else False,
            seen.lag if seen else None,
            connections.used,
            connections.idle,
            connections.waiting,
        )

    # -------------------------------------------------------------- schema

    def version(self) -> int:
        """Return the version of our schema that is there; 0 where there is none."""
        with self.question() as session:
            if session.fetch("SELECT to_regclass('facts')::text") == [(None,)]:
                return 0
            found = session.fetch("SELECT value FROM facts WHERE key = 'schema'")
            return int(found[0][0]) if found else 0

    def check(self) -> None:
        """Raise EngineError where our schema is not there, or another version of it;
        IndexTooNewError where that is a later one.
        """
        found = self.version()
        if found == 0:
            raise EngineError(
                f"The database at {self.where} holds no index of thumbindex: make one with "
                "`thumbindex engine migrate --engine URL`."
            )
        if found > VERSION:
            raise IndexTooNewError(
                f"The index at {self.where} is of a later version (schema {found}): upgrade "
                "thumbindex here."
            )
        if found < VERSION:
            raise EngineError(
                f"The index at {self.where} is of an earlier version (schema {found}): `thumbindex "
                "engine migrate --engine URL` makes it anew,"
                " and builders publish their folders again."
            )

    def migrate(self) -> int:
        """Make the tables, anew where those that are there are of an earlier version; return the
        version that was there before.

        What is there is a copy, so that none is converted: builders publish their folders again.
        """
        found = self.version()
        if found > VERSION:
            self.check()
        if found < VERSION:
            statements = without_remarks(
                resources.files("thumbindex.postgres")
                .joinpath("schema.sql")
                .read_text(encoding="utf-8")
            )
            if not found:
                self._refuse_others(_tables(statements))
            with self.change(lock=0) as session:
                session.execute("CREATE EXTENSION IF NOT EXISTS vector")
                if found:
                    tables = ", ".join((*_tables(statements), *EARLIER_TABLES))
                    session.execute(f"DROP TABLE IF EXISTS {tables} CASCADE")
                for statement in filter(str.strip, statements.split(";")):
                    session.execute(statement.replace("%", "%%"))
                session.execute("INSERT INTO facts VALUES ('schema', %s)", (str(VERSION),))
            self.close()  # connections learn the type of vectors when they are made
        return found

    def _refuse_others(self, names: list[str]) -> None:
        """Raise EngineError where somebody else's tables have our names."""
        with self.question() as session:
            found = session.fetch(
                "SELECT n FROM unnest(%s::text[]) AS t (n) WHERE to_regclass(n) IS NOT NULL "
                "LIMIT 1",
                (names,),
            )
        if found:
            raise EngineError(
                f"{self.where} holds a table {found[0][0]!r} that is not thumbindex's: give "
                "it a database of its own."
            )


def _tables(statements: str) -> list[str]:
    return re.findall(r"CREATE TABLE (\w+)", statements)


def without_remarks(sql: str) -> str:
    """Return SQL without what stands behind two dashes."""
    return "\n".join(line.partition("--")[0] for line in sql.split("\n"))


def _configured(connection: psycopg.Connection[Any]) -> None:
    """Teach a connection the type of vectors, where the database has it."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is not None:
        info.register(connection)
        dumper = type("HalfDumper", (_HalfDumper,), {"oid": info.oid})
        connection.adapters.register_dumper(Half, dumper)


LOST = ("57P01", "57P02", "57P03", "57P05", "40001", "40P01", "25P03")
"""SQLSTATE of what may be asked again: the server ends, was ended or is not ready, or a standby
cannot keep a moment any longer.
"""


def is_lost(error: psycopg.Error) -> bool:
    """Tell whether an error says nothing of what was asked: on another connection it may be
    answered.
    """
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state in LOST or state.startswith("08")
    )


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Tell in words what an error of PostgreSQL means for who uses the index."""
    try:
        yield
    except psycopg.Error as error:
        raise translation(error, where) from error


def translation(error: psycopg.Error, where: str) -> StorageError:
    """Return the sentence for an error: what happened, where, and what to do."""
    # without the details: they have values in them
    said = redact_passwords(" ".join((error.diag.message_primary or str(error)).split()))
    if isinstance(error, pg.QueryCanceled):
        return EngineError(
            f"{where} took more than {QUESTION_SECONDS} s for one step: ask for less, or see "
            "whether the database is overloaded."
        )
    if isinstance(error, (pg.UndefinedFile, pg.FeatureNotSupported)) and "vector" in said:
        return EngineError(
            f"{where} has no pgvector: install version 0.8 or later on the database's machine."
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return EngineError(
            f"The role that {where} is asked with may not do this ({said}): only the primary "
            "server takes changes, and no question does."
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return EngineError(
            f"The role that {where} is asked with may not do this ({said}): give it the "
            "rights in docs/scale.md, or use another role."
        )
    if isinstance(error, pg.DiskFull):
        return EngineError(
            f"The disk of {where} is full: free some space there; what was published before "
            "is as it was."
        )
    if isinstance(error, pg.LockNotAvailable):
        return IndexBusyError(
            f"{where} is busy: others use what is to be changed; try again in a moment."
        )
    if isinstance(error, pg.ProgramLimitExceeded):
        return EngineError(
            f"{where} cannot hold something that long ({said}): leave the note out with "
            "corpus.exclude."
        )
    if isinstance(error, (pg.UndefinedTable, pg.UndefinedColumn)):
        return EngineError(
            f"{where} holds no index of thumbindex, or one of another version ({said}): see "
            "`thumbindex doctor --engine URL`."
        )
    if error.sqlstate in ("40001", "40P01"):
        return EngineConnectionError(
            f"{where} ended a question to apply changes ({said}): ask again; "
            "`hot_standby_feedback = on` prevents it on a standby."
        )
    if isinstance(error, psycopg.OperationalError):
        kind = EngineConnectionError if is_lost(error) else EngineError
        return kind(
            f"{where} cannot be reached ({said}): see that PostgreSQL runs there and that "
            "address, role and password are right."
        )
    return EngineError(
        f"{where} did not do what it was asked ({said}): see `thumbindex doctor --engine URL`."
    )
