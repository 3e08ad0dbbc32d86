"""Servers read from standbys and survive the crash of any database server; builders follow the
primary, and publish again after a failover.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from postgres.cluster import Cluster, Node, wait_until
from postgres.server import TestServer
from postgres.vault import (
    QUESTIONS,
    answers,
    comparable,
    in_database,
    on_disk,
    publishing,
    watching,
)
from thumbindex.errors import EngineConnectionError, EngineError
from thumbindex.library import Library
from thumbindex.postgres import Engine, PublishedFolders, PublishJob

SOME = QUESTIONS[::4]


# --------------------------------------------------------------- retries on one server


def test_query_with_a_lost_connection_is_retried_from_the_start(
    postgres: TestServer, database: str, served: Library
) -> None:
    calls = list[int]()

    def ask() -> Any:
        before = comparable(served.query("apples"))
        if not calls:
            assert postgres.end_connections(database)
        calls.append(1)
        return before, comparable(served.query("apples"))

    before, after = served.in_one_snapshot(ask)
    assert before == after == comparable(served.query("apples"))
    assert len(calls) == 2


def test_query_is_retried_once(postgres: TestServer, database: str, served: Library) -> None:
    """The query itself may crash the server."""
    calls = list[int]()

    def ask() -> Any:
        calls.append(1)
        postgres.end_connections(database)
        return served.outline()

    with pytest.raises(EngineConnectionError):
        served.in_one_snapshot(ask)
    assert len(calls) == 2
    assert served.query("apples").passages


def test_statement_that_timed_out_is_not_retried(postgres: TestServer, database: str) -> None:
    folders, calls = PublishedFolders(postgres.address(database)), list[int]()

    def ask() -> Any:
        calls.append(1)
        folders.session.execute("SET LOCAL statement_timeout = '50ms'")
        return folders.session.fetch("SELECT pg_sleep(5)")

    with closing(folders), pytest.raises(EngineError, match="statement timeout"):
        folders.in_one_snapshot(ask)
    assert len(calls) == 1


def test_write_with_a_lost_connection_is_not_retried(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    with engine.write_transaction() as session:
        session.execute("CREATE TABLE counted (n int)")
    attempts = 0
    # the connection must break between the two statements
    with pytest.raises(EngineConnectionError), engine.write_transaction() as session:  # noqa: PT012
        attempts += 1
        session.execute("INSERT INTO counted VALUES (1)")
        postgres.end_connections(database)
        session.execute("INSERT INTO counted VALUES (2)")
    postgres.end_connections(database)
    with engine.write_transaction() as session:  # on a connection that died while idle
        assert (session.fetch("SELECT count(*) FROM counted"), attempts) == ([(0,)], 1)


# ------------------------------------------------------------------ several servers


@dataclass
class Site:
    """A vault on disk, its builder, and the database cluster."""

    cluster: Cluster
    database: str
    disk: Library
    builder: PublishJob
    folder: Path
    edits: int = 0

    @property
    def news(self) -> Path:
        return self.folder / "garden" / "news.md"

    def url(self, *nodes: Node) -> str:
        return self.cluster.url(*nodes, database=self.database)

    def edit(self) -> None:
        """Change a note on disk, and index it."""
        self.edits += 1
        self.news.write_text(
            f"# News\n\nThe cellar got shelf number {self.edits}.\n", encoding="utf-8"
        )
        self.disk.index()


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path, garden: Path) -> Iterator[Site]:
    """Publish a vault to a cluster."""
    database = cluster.server.database(migrated=True)
    with on_disk(tmp_path, garden) as disk:
        disk.index()
        with publishing(disk, cluster.url(database=database)) as builder:
            builder.publish_changes()
            cluster.catch_up()
            yield Site(cluster, database, disk, builder, tmp_path)


class Asker:
    """Runs queries in a thread, and records their durations and errors."""

    def __init__(self, library: Library, expected: list[Any]) -> None:
        self._library, self._expected = library, expected
        self.errors = list[str]()
        self.seconds = list[float]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                if comparable(self._library.query("cellar")) not in self._expected:
                    self.errors.append("another answer")
            except EngineError as error:
                self.errors.append(str(error))
            self.seconds.append(time.monotonic() - started)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_answers(self, count: int = 20) -> None:
        """Wait for `count` more answers."""
        target = len(self.seconds) + count
        wait_until(lambda: len(self.seconds) >= target, "questions are answered", 60)


@pytest.mark.slow
def test_servers_prefer_the_standby_and_answer_like_the_primary(site: Site) -> None:
    first, second = site.cluster.nodes
    with (
        in_database(site.url(first, second), site.folder) as standby,
        in_database(site.url(first), site.folder) as primary,
    ):
        for library, node in ((standby, second), (primary, first)):
            with library.database.pinned():
                assert library.database.session.server == f"127.0.0.1:{node.port}"
        assert answers(standby, SOME) == answers(primary, SOME) == answers(site.disk, SOME)
        assert standby.outline() == primary.outline()
    with (
        closing(Engine(site.url(second), writes=True)) as engine,
        pytest.raises(EngineError, match="session is read-only"),
    ):
        engine.check()
    with (
        closing(Engine(site.url(second))) as engine,
        pytest.raises(EngineError, match="read-only transaction"),
        engine.write_transaction() as session,
    ):
        session.execute("DELETE FROM folders")


@pytest.mark.slow
def test_queries_survive_crashes_of_each_server_and_a_promotion(site: Site) -> None:
    first, second = site.cluster.nodes
    with in_database(site.url(), site.folder) as server:
        expected = [comparable(server.query("cellar"))]
        with Asker(server, expected) as asker:
            asker.wait_for_answers()
            second.kill()  # the standby in use
            asker.wait_for_answers()
            site.cluster.rejoin(second)
            first.stop()  # the primary
            asker.wait_for_answers()
            site.cluster.promote(second)
            asker.wait_for_answers()
            first.follow(second)
            first.start()
            asker.wait_for_answers()
            second.kill()
            asker.wait_for_answers()
        assert asker.errors == []
        assert max(asker.seconds) < 10, sorted(asker.seconds)[-5:]


@pytest.mark.slow
def test_builder_publishes_again_after_a_lossy_failover(site: Site) -> None:
    first, second = site.cluster.nodes
    site.edit()
    site.builder.publish_changes()
    site.cluster.catch_up()
    second.cut()
    site.edit()
    site.builder.publish_changes()
    site.news.unlink()  # this deletion is lost, too
    site.disk.index()
    site.builder.publish_changes()
    first.kill()
    site.cluster.promote(second)
    with in_database(site.url(), site.folder) as server:
        expected = answers(site.disk, SOME)
        assert answers(server, SOME) != expected
        started = time.monotonic()
        while answers(server, SOME) != expected:
            assert time.monotonic() - started < 30
            try:
                site.builder.publish_changes()
            except EngineConnectionError:
                time.sleep(0.1)
        site.edit()
        site.builder.publish_changes()
        assert answers(server, SOME) == answers(site.disk, SOME)


@pytest.mark.slow
def test_answer_of_a_lagging_standby_is_not_fresh(site: Site) -> None:
    with in_database(site.url(), site.folder) as server, watching(site.builder):
        site.cluster.standby.pause()
        site.edit()
        late = server.query("shelf number", wait_fresh=1)
        site.cluster.standby.resume()
        fresh = server.query("shelf number", wait_fresh=20)
    assert late.freshness is not None
    assert fresh.freshness is not None
    assert (late.freshness.fresh, fresh.freshness.fresh) == (False, True)
    shown = [[passage.path for passage in answer.passages[:1]] for answer in (late, fresh)]
    assert shown == [[], ["news.md"]]
