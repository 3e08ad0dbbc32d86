"""The door to PostgreSQL: connections, one snapshot a question, vectors in half precision, and foreign errors told in words."""

from __future__ import annotations

import logging
import re
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from thumbindex.errors import EngineError, IndexBusyError, IndexTooNewError, StorageError
from thumbindex.text import without_password

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.adapt import Buffer, Dumper, Loader
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as error:
    raise EngineError("A database needs the extra `postgres`: `pip install 'thumbindex[postgres]'`.") from error

VERSION = 1
"""Of our schema. Another one is never changed without being asked: `thumbindex engine migrate`."""

FOLDERS_A_SHARD = 1_000_000
"""Numbers that the folders of one shard are taken from, each once: shards are numbered from 0 to 999."""

MOST_CONNECTIONS = 8
"""Of one process: a question takes one, and few are answered at once."""

CONNECT_SECONDS = 10
"""How long a connection is waited for."""

AGAIN_SECONDS = 1.0
"""How long the next one is waited for where the last one did not come: whoever asks hears of it at once."""

QUESTION_SECONDS = 30
"""The longest that one statement of a question may take."""

LOCK_CLASS = 0x7468756D
"""The first half of our advisory locks' keys ("thum"), so that they are nobody else's."""

Halves = npt.NDArray[np.float16]
Row = tuple[Any, ...]


logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what it says of each try, an EngineError says once


class Half:
    """A vector on its way into the database."""

    def __init__(self, numbers: Halves) -> None:
        self.numbers = numbers


class _HalfDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Half) -> bytes:
        return struct.pack(">HH", len(obj.numbers), 0) + obj.numbers.astype(">f2").tobytes()


class _HalfLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Halves:
        return np.frombuffer(data, dtype=">f2", offset=4).astype(np.float16)


class Session:
    """One transaction: all of its reads see one moment."""

    def __init__(self, connection: psycopg.Connection[Any], where: str) -> None:
        self._connection, self._where = connection, where
        self._lock = threading.Lock()

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query; `%s` stands for a parameter."""
        with self._lock, translated(self._where):
            return self._connection.execute(sql.encode(), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Change something; return how many rows."""
        with self._lock, translated(self._where):
            return self._connection.execute(sql.encode(), parameters).rowcount

    def copy(self, table: str, columns: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Add rows by COPY, of these columns and their types; return how many."""
        count = 0
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
        with self._lock, translated(self._where), self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
                count += 1
        return count


class Engine:
    """A database that holds published folders. Cheap to make; connects when it is first asked. Safe to use from several threads."""

    schema: ClassVar[str] = "schema.sql"

    def __init__(self, url: str) -> None:
        self.url = url
        self.where = place_of(url)
        self._pool: ConnectionPool | None = None
        self._is_down = False  # the last connection that was asked for did not come
        self._guard = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        with self._guard:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    # -------------------------------------------------------------- sessions

    @contextmanager
    def question(self) -> Iterator[Session]:
        """Give a session that only reads, all of it at one moment. Raises EngineError."""
        with self._connection() as connection:
            connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '{QUESTION_SECONDS}s'".encode())
            try:
                yield Session(connection, self.where)
            finally:
                if not connection.closed:
                    connection.rollback()

    @contextmanager
    def change(self, lock: int | None = None) -> Iterator[Session]:
        """Give a session whose changes are all kept, or none. With `lock` it is the only one that holds that lock. Raises IndexBusyError."""
        with self._connection() as connection:
            connection.execute(b"BEGIN")
            try:
                if lock is not None:
                    (is_ours,) = connection.execute(b"SELECT pg_try_advisory_xact_lock(%s, %s)", (LOCK_CLASS, lock)).fetchone() or (False,)
                    if not is_ours:
                        raise IndexBusyError(f"Another builder is publishing this folder to {self.where}: try again when it is done.")
                yield Session(connection, self.where)
                connection.execute(b"COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        with translated(self.where):
            with self._guard:
                if self._pool is None:
                    self._pool = self._opened()
                pool = self._pool
            with self._taken(pool) as connection:
                yield connection

    @contextmanager
    def _taken(self, pool: ConnectionPool) -> Iterator[psycopg.Connection[Any]]:
        """Take a connection of the pool, and give it back."""
        try:
            connection = pool.getconn(timeout=AGAIN_SECONDS if self._is_down else CONNECT_SECONDS)
        except (psycopg.Error, PoolTimeout):
            self._is_down = True
            raise
        self._is_down = False
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool:
        # one connection first: the pool would only say that it waited, not for what
        psycopg.connect(self.url, connect_timeout=CONNECT_SECONDS, autocommit=True).close()
        return ConnectionPool(
            self.url,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS, "application_name": "thumbindex"},
            configure=_configured,
            check=ConnectionPool.check_connection,
            open=True,
        )

    # -------------------------------------------------------------- schema

    def version(self) -> int:
        """Return the version of our schema that is there; 0 where there is none."""
        with self._connection() as connection:
            if connection.execute(b"SELECT to_regclass('facts')").fetchone() == (None,):
                return 0
            row = connection.execute(b"SELECT value FROM facts WHERE key = 'schema'").fetchone()
            return int(row[0]) if row else 0

    def check(self) -> None:
        """Raise EngineError where our schema is not there, or another version of it; IndexTooNewError where that is a later one."""
        found = self.version()
        if found == 0:
            raise EngineError(f"The database at {self.where} holds no index of thumbindex: make one with `thumbindex engine migrate --engine URL`.")
        if found > VERSION:
            raise IndexTooNewError(f"The index at {self.where} is of a later version (schema {found}): upgrade thumbindex here.")
        if found < VERSION:
            raise EngineError(
                f"The index at {self.where} is of an earlier version (schema {found}): `thumbindex engine migrate --engine URL` changes it."
            )

    def migrate(self, shard: int = 0) -> int:
        """Make the tables, or bring those of an earlier version up to this one; return the version that was there before.

        `shard` numbers this database among those that one hub reads.
        """
        found = self.version()
        if found and self.shard() != shard and shard:
            raise EngineError(f"{self.where} is shard {self.shard()} already, and its folders are numbered so: give another database this number.")
        if found > VERSION:
            self.check()
        if found < VERSION:
            if not found:
                self._refuse_others()
            tables = resources.files("thumbindex.index.postgres").joinpath(self.schema).read_text(encoding="utf-8")
            with self.change(lock=0) as session:
                session.execute("CREATE EXTENSION IF NOT EXISTS vector")
                for statement in filter(str.strip, without_remarks(tables).split(";")):
                    session.execute(statement.replace("%", "%%"))
                session.execute(f"ALTER TABLE folders ALTER COLUMN folder RESTART WITH {shard * FOLDERS_A_SHARD + 1}")
                session.execute("INSERT INTO facts VALUES ('schema', %s), ('shard', %s)", (str(VERSION), str(shard)))
            self.close()  # connections learn the type of vectors when they are made
        return found

    def shard(self) -> int | None:
        """Return this database's number among shards; None of a hub, which has no folders of its own."""
        with self._connection() as connection:
            row = connection.execute(b"SELECT value FROM facts WHERE key = 'shard'").fetchone()
            return int(row[0]) if row else None

    def prepare_hub(self) -> None:
        """Have a database be a hub. Raises EngineError where it holds folders of its own."""
        if self.version():
            self.check()
            if self.shard() is not None:
                raise EngineError(f"{self.where} holds folders of its own: a hub is a database of its own, attach this one to it.")
            return
        self._refuse_others()
        with self.change(lock=0) as session:
            session.execute("CREATE EXTENSION IF NOT EXISTS vector")
            session.execute("CREATE TABLE facts (key text PRIMARY KEY, value text NOT NULL)")
            session.execute("INSERT INTO facts VALUES ('schema', %s)", (str(VERSION),))
        self.close()

    def _refuse_others(self) -> None:
        """Raise EngineError where somebody else's tables have our names."""
        with self._connection() as connection:
            names = ["documents", "chunks", "words", "links", "folders", "vectors", "segments", "postings", "texts", "wanted"]
            row = connection.execute(b"SELECT n FROM unnest(%s::text[]) AS t (n) WHERE to_regclass(n) IS NOT NULL LIMIT 1", (names,)).fetchone()
        if row:
            raise EngineError(f"{self.where} holds a table {row[0]!r} that is not thumbindex's: give it a database of its own.")


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
        connection.adapters.register_loader(info.oid, _HalfLoader)


def place_of(url: str) -> str:
    """Return an address without user and password, to be shown. Raises EngineError where it is none; what was written is not repeated."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {"host": "@"}
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    if re.search(r"[@%\s]", host) or re.search(r"[^\d,]", port) or re.search("[@/]", name):  # a part of a password, perhaps
        raise EngineError(
            "The address of the database is none: write it as postgresql://user@host:5432/name; "
            "what is no letter or digit in a name or password is written as %40 for @, %2F for / and so on."
        )
    where = host if host and not host.startswith("/") else "a local socket"
    if not host:
        where = str(parts.get("hostaddr") or (f"the service {parts['service']}" if parts.get("service") else where))
    return "".join((where, f":{port}" if port else "", f"/{name}" if name else ""))


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Tell in words what an error of PostgreSQL means for who uses the index."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translation(error, where) from error


def translation(error: Exception, where: str) -> StorageError:
    """Return the sentence for an error: what happened, where, and what to do."""
    said = without_password(" ".join(str(error).split()))
    if isinstance(error, pg.QueryCanceled):
        return EngineError(f"{where} took more than {QUESTION_SECONDS} s for one step: ask for less, or see whether the database is overloaded.")
    if isinstance(error, (pg.UndefinedFile, pg.FeatureNotSupported)) and "vector" in said:
        return EngineError(f"{where} has no pgvector: install version 0.8 or later on the database's machine.")
    if isinstance(error, (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction)):
        return EngineError(f"The role that {where} is asked with may not do this ({said}): give it the rights in docs/scale.md, or use another role.")
    if isinstance(error, pg.DiskFull):
        return EngineError(f"The disk of {where} is full: free some space there; what was published before is as it was.")
    if isinstance(error, pg.LockNotAvailable):
        return IndexBusyError(f"{where} is busy: others use what is to be changed; try again in a moment.")
    if isinstance(error, pg.ProgramLimitExceeded):
        return EngineError(f"{where} cannot hold something that long ({said}): leave the note out with corpus.exclude.")
    if isinstance(error, (pg.UndefinedTable, pg.UndefinedColumn)):
        return EngineError(f"{where} holds no index of thumbindex, or one of another version ({said}): see `thumbindex doctor --engine URL`.")
    if isinstance(error, (psycopg.OperationalError, PoolTimeout)):
        return EngineError(f"{where} cannot be reached ({said}): see that PostgreSQL runs there and that address, role and password are right.")
    return EngineError(f"{where} did not do what it was asked ({said}): see `thumbindex doctor --engine URL`.")
