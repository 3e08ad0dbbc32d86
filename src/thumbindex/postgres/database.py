"""The adapter to PostgreSQL: connections, one snapshot a question, vectors in half precision, and
foreign errors told in words.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from itertools import zip_longest
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
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
except ImportError as error:
    raise EngineError(
        f"A database needs the extra `postgres`: {install_hint('postgres')}."
    ) from error

MAX_CONNECTIONS = 8
"""Connections of one process: a question takes one, and few are answered at once."""

WAIT_SECONDS = 10
"""How long a question waits for a free connection."""

MAX_AGE_SECONDS = 300.0
"""Age at which a connection is replaced, so that a standby that came back is used again."""

DEFAULTS: Mapping[str, str | int] = {
    "application_name": "thumbindex",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Parameters that the address may override. With these a server whose machine or network has
vanished is given up after some 15 s, not after hours.
"""

VERSION = 7
"""Of our schema. Another one is never changed without being asked: `thumbindex engine migrate`."""

TABLES = {
    "documents": {
        "id": "int8",
        "path": "text",
        "size": "int8",
        "digest": "text",
        "modified": "float8",
        "edited": "float8",
        "first_commit": "text",
        "last_commit": "text",
        "record": "text",
        "salience": "bytea",
        "flagged": "bool",
        "links": "text",
        "resolved": "text[]",
        "mark": "text",
    },
    "sections": {
        "document": "int8",
        "ordinal": "int4",
        "start_line": "int4",
        "end_line": "int4",
        "digest": "text",
        "text": "bytea",
    },
    "chunks": {"id": "int8", "document": "int8", "section": "int4", "record": "text"},
    "parts": {"segment": "text", "name": "text", "data": "bytea"},
    "vectors": {"id": "int8", "vector": "halfvec"},
}
"""The tables that have a partition for each folder, with the types of their columns."""

_EARLIER_TABLES = (
    *("abbreviations", "links", "problems", "segments", "postings", "words"),
    *("repeats", "clusters", "decided", "alike", "texts", "wanted"),
)
"""Tables of earlier versions; some hold texts of notes."""

STATEMENT_SECONDS = 30
"""The longest that one statement of a question may take."""

LAG_QUERY = (
    "SELECT (CASE WHEN NOT pg_is_in_recovery() THEN 0"
    " WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM "
    "pg_stat_wal_receiver) THEN 0"
    " ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) "
    "END)::float8, pg_is_in_recovery()"
)
"""How many seconds a server is behind its primary, at most, and whether it is a standby: one that
receives nothing cannot know whether it lacks anything.
"""

LAG_CHECK_SECONDS = 5.0
"""How often the server is asked how far it is behind, while it answers questions."""

_LOCK_CLASS = 0x7468756D
"""The first half of our advisory locks' keys ("thum"), so that they are nobody else's."""

Connection = psycopg.Connection[Any]
ResultRow = tuple[Any, ...]


class HalfVector:
    """A vector on its way into the database."""

    def __init__(self, numbers: npt.NDArray[np.float16]) -> None:
        self.numbers = numbers


class _HalfVectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: HalfVector) -> bytes:
        return struct.pack(">HH", len(obj.numbers), 0) + obj.numbers.astype(">f2").tobytes()


class DatabaseSession:
    """One transaction: all of its reads see one snapshot."""

    def __init__(self, connection: Connection, where: str) -> None:
        self._connection, self._where = connection, where
        self._lost: EngineConnectionError | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> str:
        """The server that answers, as it may be shown."""
        return _server_name(self._connection)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[ResultRow]:
        """Return the rows of a query; `%s` stands for a parameter."""
        with self._statement():
            return self._connection.execute(sql.encode(), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Change something; return how many rows."""
        with self._statement():
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
            translating_errors(self._where),
            self._connection.cursor() as cursor,
            cursor.copy(sql.encode()) as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Have one statement at a time; once the database was lost each later one says so, too."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            try:
                with translating_errors(self._where):
                    yield
            except EngineConnectionError as error:
                self._lost = error
                raise


# ------------------------------------------------------------------ connections


class ConnectionPool:
    """At most `MAX_CONNECTIONS` connections to the server that libpq chooses.

    Safe to use from several threads.
    """

    def __init__(self, url: str, prepare: Callable[[Connection], None], *, writes: bool) -> None:
        given: dict[str, Any] = conninfo_to_dict(url)
        if writes:
            wanted = "read-write"
        else:
            wanted = "prefer-standby" if len(list(_servers(given))) > 1 else "any"
        self._address = make_conninfo("", **{**DEFAULTS, "target_session_attrs": wanted, **given})
        self._prepare = prepare
        self._idle: list[Connection] = []
        self._made_at: dict[Connection, float] = {}
        self._closed_at = 0.0
        self._slots = threading.Condition()
        self.used = 0
        self.waiting = 0

    @property
    def idle(self) -> int:
        """How many connections are free."""
        return len(self._idle)

    def acquire(self) -> Connection:
        """Return a free connection, or a new one; `release` ends its use.

        Raises psycopg.Error, and EngineError if all stay in use.
        """
        with self._slots:
            self.waiting += 1
            try:
                if not self._slots.wait_for(lambda: self.used < MAX_CONNECTIONS, WAIT_SECONDS):
                    raise EngineError(
                        f"All {MAX_CONNECTIONS} connections to the database are in use for "
                        f"{WAIT_SECONDS} s: ask again in a moment."
                    )
            finally:
                self.waiting -= 1
            self.used += 1
            connection = self._idle.pop() if self._idle else None
        try:
            return connection or self._connect()
        except BaseException:
            self._free_slot()
            raise

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next question.

        If it broke, throw the others away as well: most likely they lead to the same server.
        """
        if connection.closed:
            self.close()
        with self._slots:
            is_young = self._made_at[connection] > time.monotonic() - MAX_AGE_SECONDS
            is_kept = is_young and self._made_at[connection] > self._closed_at
            if is_kept:
                self._idle.append(connection)
            else:
                del self._made_at[connection]
        self._free_slot()
        if not is_kept:
            _close(connection)

    def close(self) -> None:
        """Close the free connections now, and the others when they are given back."""
        with self._slots:
            free, self._idle = self._idle, []
            self._closed_at = time.monotonic()
            for connection in free:
                del self._made_at[connection]
        for connection in free:
            _close(connection)

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._address, autocommit=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        with self._slots:
            self._made_at[connection] = time.monotonic()
        return connection

    def _free_slot(self) -> None:
        with self._slots:
            self.used -= 1
            self._slots.notify()


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()


# ------------------------------------------------------------------ addresses as they are shown


def _server_name(connection: Connection) -> str:
    """Return the name and port of the server that a connection leads to."""
    info = connection.info
    return _shown(info.host, "", str(info.port))


def _servers(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, address and port of each server."""
    hosts, numbers, ports = (
        str(parts.get(key) or "").split(",") for key in ("host", "hostaddr", "port")
    )
    count = max(len(hosts), len(numbers))
    yield from zip_longest(hosts, numbers, ports if len(ports) > 1 else ports * count, fillvalue="")


def _shown(host: str, number: str, port: str) -> str:
    """Return how a server is shown: its name, or its address, and its port."""
    name = "a local socket" if host.startswith("/") or not (host or number) else host or number
    return f"{name}:{port}" if port else name


def public_address(url: str) -> str:
    """Return an address without user and password, to be shown.

    Raises EngineError where it is none; what was written is not repeated.
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {"host": "@"}
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    # a part of a password, perhaps
    if re.search(r"[@%\s]", host) or re.search(r"[^\d,]", port) or re.search("[@/]", name):
        raise EngineError(
            "The address of the database is none: write it as postgresql://user@host:5432/name; "
            "what is no letter or digit in a name or password is written as %40 for @, %2F for / "
            "and so on."
        )
    where = _server_list(parts)
    return f"{where}/{name}" if name else where


def _server_list(parts: Mapping[str, Any]) -> str:
    if parts.get("service") and not (parts.get("host") or parts.get("hostaddr")):
        return f"the service {parts['service']}"
    return ",".join(_shown(*server) for server in _servers(parts))


# ------------------------------------------------------------------ the database


@dataclass(frozen=True, slots=True)
class ServerState:
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
        self.where = public_address(url)
        self._connections = ConnectionPool(url, _register_vector_type, writes=writes)
        self._server_state = ServerState()

    def close(self) -> None:
        """Close the connections; the next question makes new ones."""
        self._connections.close()

    # -------------------------------------------------------------- sessions

    @contextmanager
    def read_transaction(self) -> Iterator[DatabaseSession]:
        """Open a read-only session over one snapshot.

        Raises EngineError; EngineConnectionError if the whole may be asked again.
        """
        begin = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = "
            f"'{STATEMENT_SECONDS}s'"
        )
        with self._transaction(begin.encode()) as connection:
            session = DatabaseSession(connection, self.where)
            is_known = self._server_state.server == session.server
            if not is_known or time.monotonic() >= self._server_state.at + LAG_CHECK_SECONDS:
                self._check_lag(session)
            yield session

    @contextmanager
    def write_transaction(self, lock: int | None = None) -> Iterator[DatabaseSession]:
        """Give a session whose changes are all kept, or none.

        With `lock` it is the only one that holds that lock. Raises IndexBusyError.
        """
        with self._transaction(b"BEGIN") as connection:
            if lock is not None:
                (is_ours,) = connection.execute(
                    b"SELECT pg_try_advisory_xact_lock(%s, %s)", (_LOCK_CLASS, lock)
                ).fetchone() or (False,)
                if not is_ours:
                    raise IndexBusyError(
                        f"Another builder is publishing this folder to {self.where}: try "
                        "again when it is done."
                    )
            yield DatabaseSession(connection, self.where)
            connection.execute(b"COMMIT")

    @contextmanager
    def _transaction(self, begin: bytes) -> Iterator[Connection]:
        """Give a connection with a transaction, which is rolled back unless it was committed."""
        with translating_errors(self.where):
            connection = self._begin(begin)
            try:
                yield connection
            finally:
                if not connection.closed:
                    with suppress(psycopg.OperationalError):
                        connection.rollback()
                self._connections.release(connection)

    def _begin(self, begin: bytes) -> Connection:
        """Take a connection and begin a transaction, on a new one if the first had died unused."""
        for is_last in (False, True):
            connection = self._connections.acquire()
            try:
                connection.execute(begin)
            except BaseException as error:
                self._connections.release(connection)
                is_retryable = isinstance(error, psycopg.OperationalError) and connection.closed
                if is_last or not is_retryable:
                    raise
            else:
                break
        return connection

    def _check_lag(self, session: DatabaseSession) -> None:
        """Note who answers, and how far it is behind."""
        ((lag, is_standby),) = session.fetch(LAG_QUERY)
        self._server_state = ServerState(session.server, is_standby, float(lag), time.monotonic())

    def lag(self, within: float) -> float:
        """Return how many seconds the server was behind that answered last; 0 if it was looked at
        longer ago than `within`. Nothing is asked.
        """
        return self._server_state.lag if time.monotonic() < self._server_state.at + within else 0.0

    def status(self, session: DatabaseSession | None = None) -> DatabaseStatus:
        """Return who answers, how far it is behind, and the connections in use. Without a session
        nothing is asked.
        """
        seen = None
        if session is not None:
            self._check_lag(session)
            seen = self._server_state
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
        with self.read_transaction() as session:
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
            statements = _without_comments(
                resources.files("thumbindex.postgres")
                .joinpath("schema.sql")
                .read_text(encoding="utf-8")
            )
            if not found:
                self._refuse_foreign_tables(_tables(statements))
            with self.write_transaction(lock=0) as session:
                session.execute("CREATE EXTENSION IF NOT EXISTS vector")
                if found:
                    tables = ", ".join((*_tables(statements), *_EARLIER_TABLES))
                    session.execute(f"DROP TABLE IF EXISTS {tables} CASCADE")
                for statement in filter(str.strip, statements.split(";")):
                    session.execute(statement.replace("%", "%%"))
                session.execute("INSERT INTO facts VALUES ('schema', %s)", (str(VERSION),))
            self.close()  # connections learn the type of vectors when they are made
        return found

    def _refuse_foreign_tables(self, names: list[str]) -> None:
        """Raise EngineError where somebody else's tables have our names."""
        with self.read_transaction() as session:
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


def _without_comments(sql: str) -> str:
    """Return SQL without what stands behind two dashes."""
    return "\n".join(line.partition("--")[0] for line in sql.split("\n"))


def _register_vector_type(connection: psycopg.Connection[Any]) -> None:
    """Teach a connection the type of vectors, where the database has it."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is not None:
        info.register(connection)
        dumper = type("HalfDumper", (_HalfVectorDumper,), {"oid": info.oid})
        connection.adapters.register_dumper(HalfVector, dumper)


_RETRYABLE_STATES = ("57P01", "57P02", "57P03", "57P05", "40001", "40P01", "25P03")
"""SQLSTATEs after which a query may run again: the server stops or starts, or a standby cannot
keep the snapshot.
"""


def is_retryable(error: psycopg.Error) -> bool:
    """Return whether the same statement may succeed on another connection."""
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state in _RETRYABLE_STATES or state.startswith("08")
    )


@contextmanager
def translating_errors(where: str) -> Iterator[None]:
    """Raise errors of PostgreSQL as ours, with a sentence for the user."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_pg_error(error, where) from error


def translate_pg_error(error: psycopg.Error, where: str) -> StorageError:
    """Return the sentence for an error: what happened, where, and what to do."""
    # without the details: they have values in them
    said = redact_passwords(" ".join((error.diag.message_primary or str(error)).split()))
    if isinstance(error, pg.QueryCanceled):
        return EngineError(
            f"{where} took more than {STATEMENT_SECONDS} s for one step: ask for less, or see "
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
            "rights in docs/postgresql.md, or use another role."
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
        kind = EngineConnectionError if is_retryable(error) else EngineError
        return kind(
            f"{where} cannot be reached ({said}): see that PostgreSQL runs there and that "
            "address, role and password are right."
        )
    return EngineError(
        f"{where} did not do what it was asked ({said}): see `thumbindex doctor --engine URL`."
    )
