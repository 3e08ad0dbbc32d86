"""The adapter to PostgreSQL: connections, transactions, schema, half-precision vectors, errors."""

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
        f"PostgreSQL support needs the extra `postgres`: {install_hint('postgres')}."
    ) from error

MAX_CONNECTIONS = 8
"""Maximum number of open connections in a pool."""

WAIT_SECONDS = 10
"""Seconds that `ConnectionPool.acquire` waits for a free connection before it raises an error."""

MAX_AGE_SECONDS = 300.0
"""Connections older than this are closed on release, not returned to the pool.

A new connection may go to another server, such as a standby that has recovered.
"""

DEFAULTS: Mapping[str, str | int] = {
    "application_name": "thumbindex",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Default connection parameters, which the address may override. With them, a dead server or
network is detected after about 15 s.
"""

VERSION = 11
"""Version of our database schema. Only `thumbindex engine migrate` replaces an earlier schema."""

TABLES = {
    "documents": {
        "id": "int8",
        "path": "text",
        "size": "int8",
        "file_digest": "text",
        "modified": "float8",
        "edited": "float8",
        "first_commit": "text",
        "last_commit": "text",
        "metadata": "text",
        "salience": "bytea",
        "flagged": "bool",
        "links": "text",
        "link_targets": "text[]",
        "row_digest": "text",
    },
    "sections": {
        "document": "int8",
        "ordinal": "int4",
        "start_line": "int4",
        "end_line": "int4",
        "text_digest": "text",
        "text": "bytea",
    },
    "chunks": {"id": "int8", "document": "int8", "section": "int4", "record": "text"},
    "parts": {"segment": "text", "name": "text", "data": "bytea"},
    "vectors": {"id": "int8", "vector": "halfvec", "provisional": "bool"},
}
"""The tables that are partitioned by folder, and the types of their columns."""

_EARLIER_TABLES = (
    *("abbreviations", "links", "problems", "segments", "postings", "words"),
    *("repeats", "clusters", "decided", "alike", "texts", "wanted"),
)
"""Tables of earlier schema versions. A migration drops them, since some contain note texts."""

STATEMENT_SECONDS = 30
"""Seconds after which the server cancels an SQL statement of a read transaction."""

LAG_QUERY = (
    "SELECT (CASE WHEN NOT pg_is_in_recovery() THEN 0"
    " WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM "
    "pg_stat_wal_receiver) THEN 0"
    " ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) "
    "END)::float8, pg_is_in_recovery()"
)
"""SQL query for the replication lag in seconds, and for whether the server is a standby.

A standby in sync has lag 0. Otherwise, the lag is the age of the last replayed transaction.
"""

LAG_CHECK_SECONDS = 5.0
"""A read transaction measures the replication lag if the last value is older than this."""

_LOCK_CLASS = 0x7468756D
"""First half of our advisory lock keys: "thum" in ASCII, unlikely to be used elsewhere."""

Connection = psycopg.Connection[Any]
ResultRow = tuple[Any, ...]


class HalfVector:
    """A half-precision vector as a query parameter or COPY value."""

    def __init__(self, numbers: npt.NDArray[np.float16]) -> None:
        self.numbers = numbers


class _HalfVectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: HalfVector) -> bytes:
        return struct.pack(">HH", len(obj.numbers), 0) + obj.numbers.astype(">f2").tobytes()


class DatabaseSession:
    """One transaction on a connection."""

    def __init__(self, connection: Connection, location: str) -> None:
        self._connection, self._location = connection, location
        self._connection_error: EngineConnectionError | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> str:
        """Name and port of the connected server, without user or password."""
        return _server_name(self._connection)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[ResultRow]:
        with self._statement():
            return self._connection.execute(sql.encode(), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement, and return the number of affected rows."""
        with self._statement():
            return self._connection.execute(sql.encode(), parameters).rowcount

    def copy(
        self,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> None:
        """Insert rows with COPY. `types` are the PostgreSQL types of `columns`."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
        with (
            self._lock,
            translating_errors(self._location),
            self._connection.cursor() as cursor,
            cursor.copy(sql.encode()) as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Let one thread at a time run a statement.

        Once the connection is lost, each further statement raises the same error.
        """
        with self._lock:
            if self._connection_error is not None:
                raise self._connection_error
            try:
                with translating_errors(self._location):
                    yield
            except EngineConnectionError as error:
                self._connection_error = error
                raise


# ------------------------------------------------------------------ connections


class ConnectionPool:
    """A thread-safe pool of at most `MAX_CONNECTIONS` connections.

    If the database address names several servers, libpq chooses one for each connection.
    """

    def __init__(self, url: str, prepare: Callable[[Connection], None], *, writes: bool) -> None:
        parameters: dict[str, Any] = conninfo_to_dict(url)
        if writes:
            session_type = "read-write"
        else:
            session_type = "prefer-standby" if len(list(_servers(parameters))) > 1 else "any"
        self._address = make_conninfo(
            "", **{**DEFAULTS, "target_session_attrs": session_type, **parameters}
        )
        self._prepare = prepare
        self._idle: list[Connection] = []
        self._opened_at: dict[Connection, float] = {}
        self._closed_at = 0.0
        self._slots = threading.Condition()
        self.used = 0
        self.waiting = 0

    @property
    def idle(self) -> int:
        return len(self._idle)

    def acquire(self) -> Connection:
        """Return a free or new connection. The caller must `release` the connection.

        Raises psycopg.Error, or EngineError after `WAIT_SECONDS` without a free connection.
        """
        with self._slots:
            self.waiting += 1
            try:
                if not self._slots.wait_for(lambda: self.used < MAX_CONNECTIONS, WAIT_SECONDS):
                    raise EngineError(
                        f"All {MAX_CONNECTIONS} database connections have been busy for "
                        f"{WAIT_SECONDS} s: try again in a moment."
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
        """Return a connection to the pool, or close an old or broken connection."""
        if connection.closed:
            self.close()  # the other connections probably go to the same server
        with self._slots:
            is_young = self._opened_at[connection] > time.monotonic() - MAX_AGE_SECONDS
            is_reusable = is_young and self._opened_at[connection] > self._closed_at
            if is_reusable:
                self._idle.append(connection)
            else:
                del self._opened_at[connection]
        self._free_slot()
        if not is_reusable:
            _close(connection)

    def close(self) -> None:
        """Close free connections now, and connections in use on release."""
        with self._slots:
            free, self._idle = self._idle, []
            self._closed_at = time.monotonic()
            for connection in free:
                del self._opened_at[connection]
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
            self._opened_at[connection] = time.monotonic()
        return connection

    def _free_slot(self) -> None:
        with self._slots:
            self.used -= 1
            self._slots.notify()


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()


# ------------------------------------------------------------------ public addresses


def _server_name(connection: Connection) -> str:
    info = connection.info
    return _format_server(info.host, "", str(info.port))


def _servers(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the host name, IP address and port of each server in the connection parameters."""
    hosts, addresses, ports = (
        str(parameters.get(key) or "").split(",") for key in ("host", "hostaddr", "port")
    )
    count = max(len(hosts), len(addresses))
    yield from zip_longest(
        hosts, addresses, ports if len(ports) > 1 else ports * count, fillvalue=""
    )


def _format_server(host: str, ip: str, port: str) -> str:
    name = "a local socket" if host.startswith("/") or not (host or ip) else host or ip
    return f"{name}:{port}" if port else name


def public_address(url: str) -> str:
    """Return the servers and the database name in `url`, without user and password.

    Raises EngineError if `url` is invalid. The error message does not quote `url`.
    """
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        parameters = {"host": "@"}
    host, port, database = (str(parameters.get(key) or "") for key in ("host", "port", "dbname"))
    # in an invalid address, these may be parts of a password
    if re.search(r"[@%\s]", host) or re.search(r"[^\d,]", port) or re.search("[@/]", database):
        raise EngineError(
            "The database address is invalid: write postgresql://user@host:5432/name. "
            "Percent-encode special characters in names and passwords, such as %40 for @ or %2F "
            "for /."
        )
    servers = _server_list(parameters)
    return f"{servers}/{database}" if database else servers


def _server_list(parameters: Mapping[str, Any]) -> str:
    if parameters.get("service") and not (parameters.get("host") or parameters.get("hostaddr")):
        return f"the service {parameters['service']}"
    return ",".join(_format_server(*server) for server in _servers(parameters))


# ------------------------------------------------------------------ the database


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's role and replication lag at the last check."""

    server: str = ""
    is_standby: bool = False
    lag: float = 0.0  # seconds behind the primary
    at: float = float("-inf")  # monotonic time


class Engine:
    """A database that holds published folders. Thread-safe, and connects on first use.

    With `writes`, connects to the primary server. Otherwise, prefers a standby.
    """

    def __init__(self, url: str, *, writes: bool = False) -> None:
        self.url = url
        self.location = public_address(url)
        self._connections = ConnectionPool(url, _register_vector_type, writes=writes)
        self._server_state = ServerState()

    def close(self) -> None:
        """Close the connections. The next query opens a new one."""
        self._connections.close()

    # -------------------------------------------------------------- sessions

    @contextmanager
    def read_transaction(self) -> Iterator[DatabaseSession]:
        """Open a read-only session on one snapshot of the database.

        Raises EngineError, or EngineConnectionError if a retry may succeed.
        """
        begin = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = "
            f"'{STATEMENT_SECONDS}s'"
        )
        with self._transaction(begin.encode()) as connection:
            session = DatabaseSession(connection, self.location)
            is_same_server = self._server_state.server == session.server
            if not is_same_server or time.monotonic() >= self._server_state.at + LAG_CHECK_SECONDS:
                self._check_lag(session)
            yield session

    @contextmanager
    def write_transaction(self, lock: int | None = None) -> Iterator[DatabaseSession]:
        """Open a session that commits all of its changes or none.

        Raises IndexBusyError if another session holds the advisory lock with the key `lock`.
        """
        with self._transaction(b"BEGIN") as connection:
            if lock is not None:
                (has_lock,) = connection.execute(
                    b"SELECT pg_try_advisory_xact_lock(%s, %s)", (_LOCK_CLASS, lock)
                ).fetchone() or (False,)
                if not has_lock:
                    raise IndexBusyError(
                        f"Another builder is publishing this folder to {self.location}: try again "
                        "later."
                    )
            yield DatabaseSession(connection, self.location)
            connection.execute(b"COMMIT")

    @contextmanager
    def _transaction(self, begin: bytes) -> Iterator[Connection]:
        """Yield a connection in a transaction. An uncommitted transaction is rolled back."""
        with translating_errors(self.location):
            connection = self._begin(begin)
            try:
                yield connection
            finally:
                if not connection.closed:
                    with suppress(psycopg.OperationalError):
                        connection.rollback()
                self._connections.release(connection)

    def _begin(self, begin: bytes) -> Connection:
        """Begin a transaction, and retry once if a pooled connection turns out to be dead."""
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
        """Record the connected server, its role and its replication lag."""
        ((lag, is_standby),) = session.fetch(LAG_QUERY)
        self._server_state = ServerState(session.server, is_standby, float(lag), time.monotonic())

    def lag(self, within: float) -> float:
        """Return the last measured replication lag in seconds.

        Returns 0 if the lag was measured more than `within` seconds ago.
        """
        return self._server_state.lag if time.monotonic() < self._server_state.at + within else 0.0

    def status(self, session: DatabaseSession | None = None) -> DatabaseStatus:
        """Return the state of the connection pool and, given a session, of the connected server."""
        server_state = None
        if session is not None:
            self._check_lag(session)
            server_state = self._server_state
        connections = self._connections
        return DatabaseStatus(
            self.location,
            server_state.server if server_state else "",
            server_state.is_standby if server_state else False,
            server_state.lag if server_state else None,
            connections.used,
            connections.idle,
            connections.waiting,
        )

    # -------------------------------------------------------------- schema

    def version(self) -> int:
        """Return the version of our schema in the database, or 0 if there is none."""
        with self.read_transaction() as session:
            if session.fetch("SELECT to_regclass('facts')::text") == [(None,)]:
                return 0
            rows = session.fetch("SELECT value FROM facts WHERE key = 'schema'")
            return int(rows[0][0]) if rows else 0

    def check(self) -> None:
        """Check the schema's version. Raises EngineError, or IndexTooNewError if it is too new."""
        version = self.version()
        if version == 0:
            raise EngineError(
                f"The database at {self.location} has no thumbindex tables: create them with "
                "`thumbindex engine migrate --engine URL`."
            )
        if version > VERSION:
            raise IndexTooNewError(
                f"A newer thumbindex created the index at {self.location} (schema {version}): "
                "upgrade thumbindex on this machine."
            )
        if version < VERSION:
            raise EngineError(
                f"An older thumbindex created the index at {self.location} (schema {version}): run "
                "`thumbindex engine migrate --engine URL`, then publish the folders again."
            )

    def migrate(self) -> int:
        """Create missing or outdated tables, and return the previous schema version, or 0.

        New tables are empty: builders must publish the folders again.
        """
        version = self.version()
        if version > VERSION:
            self.check()
        if version < VERSION:
            statements = _without_comments(
                resources.files("thumbindex.postgres")
                .joinpath("schema.sql")
                .read_text(encoding="utf-8")
            )
            if not version:
                self._refuse_foreign_tables(_tables(statements))
            with self.write_transaction(lock=0) as session:
                session.execute("CREATE EXTENSION IF NOT EXISTS vector")
                if version:
                    tables = ", ".join((*_tables(statements), *_EARLIER_TABLES))
                    session.execute(f"DROP TABLE IF EXISTS {tables} CASCADE")
                for statement in filter(str.strip, statements.split(";")):
                    session.execute(statement.replace("%", "%%"))
                session.execute("INSERT INTO facts VALUES ('schema', %s)", (str(VERSION),))
            self.close()  # a connection registers the vector type when it opens
        return version

    def _refuse_foreign_tables(self, names: list[str]) -> None:
        """Raise EngineError if another program has created a table in `names`."""
        with self.read_transaction() as session:
            rows = session.fetch(
                "SELECT n FROM unnest(%s::text[]) AS t (n) WHERE to_regclass(n) IS NOT NULL "
                "LIMIT 1",
                (names,),
            )
        if rows:
            raise EngineError(
                f"{self.location} already has a table {rows[0][0]!r}, which thumbindex did not "
                "create: create a separate database for thumbindex."
            )


def _tables(statements: str) -> list[str]:
    return re.findall(r"CREATE TABLE (\w+)", statements)


def _without_comments(sql: str) -> str:
    return "\n".join(line.partition("--")[0] for line in sql.split("\n"))


def _register_vector_type(connection: psycopg.Connection[Any]) -> None:
    info = TypeInfo.fetch(connection, "halfvec")
    if info is not None:
        info.register(connection)
        dumper = type("HalfDumper", (_HalfVectorDumper,), {"oid": info.oid})
        connection.adapters.register_dumper(HalfVector, dumper)


_RETRYABLE_STATES = ("57P01", "57P02", "57P03", "57P05", "40001", "40P01", "25P03")
"""SQLSTATEs after which a retry may succeed, such as 57P01 (the server was shut down)."""


def is_retryable(error: psycopg.Error) -> bool:
    """Return whether a retry may succeed on another connection."""
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state in _RETRYABLE_STATES or state.startswith("08")
    )


@contextmanager
def translating_errors(location: str) -> Iterator[None]:
    """Translate PostgreSQL errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_pg_error(error, location) from error


def translate_pg_error(error: psycopg.Error, location: str) -> StorageError:
    """Return our error for a PostgreSQL error, with advice for the user."""
    # the error's details are left out, since they may quote notes
    first_line = (error.diag.message_primary or str(error)).strip().partition("\n")[0]
    message = redact_passwords(" ".join(first_line.split()))
    if isinstance(error, pg.QueryCanceled):
        return EngineError(
            f"{location} took more than {STATEMENT_SECONDS} s for one step: narrow the query, or "
            "check whether the database is overloaded."
        )
    if isinstance(error, (pg.UndefinedFile, pg.FeatureNotSupported)) and "vector" in message:
        return EngineError(
            f"{location} has no pgvector: install version 0.8 or later on the database server."
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return EngineError(
            f"{location} accepts no changes ({message}): use the address of the primary server "
            "and a role that may write."
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return EngineError(
            f"Your role at {location} lacks a privilege ({message}): grant the privileges listed "
            "in docs/team.md, or use another role."
        )
    if isinstance(error, pg.DiskFull):
        return EngineError(
            f"The disk of {location} is full: free some space there. Folders that were published "
            "earlier are unchanged."
        )
    if isinstance(error, pg.LockNotAvailable):
        return IndexBusyError(
            f"{location} is busy, since other sessions are using the same tables: try again in a "
            "moment."
        )
    if isinstance(error, pg.ProgramLimitExceeded):
        return EngineError(
            f"{location} cannot store such a long value ({message}): use `corpus.exclude` to "
            "exclude the note that contains the value."
        )
    if isinstance(error, (pg.UndefinedTable, pg.UndefinedColumn)):
        return EngineError(
            f"The tables at {location} are missing or of another version of thumbindex "
            f"({message}): run `thumbindex doctor --engine URL`."
        )
    if error.sqlstate in ("40001", "40P01"):
        return EngineConnectionError(
            f"{location} canceled the query because of conflicting changes ({message}): try again. "
            "On a standby, the setting `hot_standby_feedback = on` prevents this."
        )
    if isinstance(error, psycopg.OperationalError):
        kind = EngineConnectionError if is_retryable(error) else EngineError
        cause = message.rpartition(" failed: ")[2]  # without the address, which `location` has
        return kind(
            f"Cannot connect to {location} ({cause}): check that PostgreSQL is running there, "
            "and check the address, role and password."
        )
    return EngineError(
        f"{location} reported an error ({message}): run `thumbindex doctor --engine URL`."
    )
