"""The adapter to PostgreSQL: connections, transactions, schema, half-precision vectors, errors."""

from __future__ import annotations

import re
import struct
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.errors import (
    EngineConnectionError,
    EngineError,
    IndexBusyError,
    IndexTooNewError,
    install_hint,
)
from thumbindex.text import redact_passwords

try:
    import psycopg
    from psycopg.adapt import Dumper
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
except ImportError as error:
    raise EngineError(
        f"PostgreSQL support needs the extra `postgres`: {install_hint('postgres')}."
    ) from error

MAX_CONNECTIONS = 8
"""Maximum number of open connections of an `Engine`."""

WAIT_SECONDS = 10
"""Seconds that a query waits for a free connection."""

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

VERSION = 12
"""Version of our database schema. Only `thumbindex engine migrate` replaces an earlier schema."""

TABLES = ("documents", "sections", "chunks", "parts", "vectors")
"""The tables that are partitioned by folder."""

STATEMENT_SECONDS = 30
"""Seconds after which the server cancels an SQL statement of a read transaction."""

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

    @property
    def server(self) -> str:
        """Host and port of the connected server."""
        info = self._connection.info
        return f"{'a local socket' if info.host.startswith('/') else info.host}:{info.port}"

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[ResultRow]:
        with translating_errors(self._location):
            return self._connection.execute(sql.encode(), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> int:
        """Execute a statement, and return the number of affected rows.

        Without parameters, `sql` may have several statements.
        """
        with translating_errors(self._location):
            return self._connection.execute(sql.encode(), parameters).rowcount

    def copy(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows with COPY. A row has a value for each column of the table."""
        types = self.fetch(
            "SELECT atttypid::bigint FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0 ORDER BY attnum",
            (table,),
        )
        with (
            translating_errors(self._location),
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy,
        ):
            copy.set_types([oid for (oid,) in types])
            for row in rows:
                copy.write_row(row)


def public_address(url: str) -> str:
    """Return the hosts and the database name in `url`, without user and password.

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
    server = host or str(parameters.get("hostaddr") or parameters.get("service") or "")
    name = "a local socket" if not server or server.startswith("/") else server
    return "".join((name, f":{port}" if port.isdigit() else "", f"/{database}" if database else ""))


class Engine:
    """A database that holds published folders. Thread-safe, and connects on first use.

    If the address names several servers, libpq chooses one for each connection: with `writes`, the
    primary server, and otherwise a standby if there is one.
    """

    def __init__(self, url: str, *, writes: bool = False) -> None:
        self.url = url
        self.location = public_address(url)
        parameters: dict[str, Any] = conninfo_to_dict(url)
        hosts = f"{parameters.get('host')} {parameters.get('hostaddr')}"
        session_type = "prefer-standby" if "," in hosts else "any"
        if writes:
            session_type = "read-write"
        defaults = {**DEFAULTS, "target_session_attrs": session_type}
        self._address = make_conninfo("", **{**defaults, **parameters})
        self._idle: list[Connection] = []
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        # a thread may still return a connection after `close`
        weakref.finalize(self, _close_all, self._idle).atexit = False

    def close(self) -> None:
        """Close the free connections. The next query opens a new one."""
        _close_all(self._idle)

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
            yield DatabaseSession(connection, self.location)

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
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise EngineError(
                f"All {MAX_CONNECTIONS} database connections have been busy for {WAIT_SECONDS} s: "
                "try again in a moment."
            )
        try:
            with translating_errors(self.location):
                connection = self._begin(begin)
                try:
                    yield connection
                finally:
                    self._release(connection)
        finally:
            self._slots.release()

    def _begin(self, begin: bytes) -> Connection:
        """Begin a transaction on a free connection, or on a new one if it turns out to be dead."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._connect(begin)
        try:
            connection.execute(begin)
        except psycopg.OperationalError:
            self.close()  # the other connections probably go to the same server
            connection.close()
            return self._connect(begin)
        return connection

    def _connect(self, begin: bytes) -> Connection:
        connection = psycopg.connect(self._address, autocommit=True)
        try:
            _register_vector_type(connection)
            connection.execute(begin)
        except BaseException:
            connection.close()
            raise
        return connection

    def _release(self, connection: Connection) -> None:
        with suppress(psycopg.OperationalError):
            connection.rollback()
        if connection.closed:
            self.close()
        else:
            self._idle.append(connection)

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
        if version > VERSION:
            raise IndexTooNewError(
                f"A newer thumbindex created the index at {self.location} (schema {version}): "
                "upgrade thumbindex on this machine."
            )
        if version < VERSION:
            state = f"tables of an older thumbindex (schema {version})" if version else "no tables"
            raise EngineError(
                f"The database at {self.location} has {state}: run `thumbindex engine migrate "
                "--engine URL`, then publish the folders."
            )

    def migrate(self) -> int:
        """Create missing or outdated tables, and return the previous schema version, or 0.

        New tables are empty: builders must publish the folders again.
        """
        version = self.version()
        if version > VERSION:
            self.check()
        if version < VERSION:
            schema = resources.files("thumbindex.postgres").joinpath("schema.sql")
            with self.write_transaction(lock=0) as session:
                session.execute("CREATE EXTENSION IF NOT EXISTS vector")
                if version:
                    tables = ", ".join(("facts", "folders", *TABLES))
                    session.execute(f"DROP TABLE IF EXISTS {tables} CASCADE")
                session.execute(schema.read_text(encoding="utf-8"))
                session.execute("INSERT INTO facts VALUES ('schema', %s)", (str(VERSION),))
            self.close()  # a connection registers the vector type when it opens
        return version


def _close_all(connections: list[Connection]) -> None:
    with suppress(IndexError):
        while True:
            connections.pop().close()


def _register_vector_type(connection: Connection) -> None:
    info = TypeInfo.fetch(connection, "halfvec")
    if info is not None:
        info.register(connection)
        dumper = type("HalfDumper", (_HalfVectorDumper,), {"oid": info.oid})
        connection.adapters.register_dumper(HalfVector, dumper)


@contextmanager
def translating_errors(location: str) -> Iterator[None]:
    """Translate PostgreSQL errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _translate(error, location) from error


def _translate(error: psycopg.Error, location: str) -> EngineError:
    # the error's details are left out, since they may quote notes
    first_line = (error.diag.message_primary or str(error)).strip().partition("\n")[0]
    message, state = redact_passwords(" ".join(first_line.split())), error.sqlstate or "08"
    # 08: the connection was lost; 57P: the server shuts down or starts
    if isinstance(error, psycopg.OperationalError) and state.startswith(("08", "57P")):
        cause = message.rpartition(" failed: ")[2]  # without the address, which `location` has
        return EngineConnectionError(
            f"Cannot connect to {location} ({cause}): check that PostgreSQL is running there, "
            "and check the address, role and password."
        )
    # 40: the query conflicted with changes, such as those that a standby must replay
    kind = EngineConnectionError if state.startswith("40") else EngineError
    return kind(f"{location} reported an error ({message}): run `thumbindex doctor --engine URL`.")
