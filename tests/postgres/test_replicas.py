"""Servers read from standbys and go on through the death of any server; builders follow the
primary, and publish what a failover has lost.
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
from postgres.vault import QUESTIONS, answers, in_database, on_disk, publishing, told, watching
from thumbindex.errors import EngineConnectionError, EngineError
from thumbindex.library import Library
from thumbindex.postgres import Engine, PublishedFolders, PublishJob

SOME = QUESTIONS[::4]


# --------------------------------------------------------------- what is asked again, on one server


def test_a_question_whose_connection_is_lost_is_asked_again_whole(
    postgres: TestServer, database: str, served: Library
) -> None:
    asked = list[int]()

    def ask() -> Any:
        before = told(served.query("apples"))
        if not asked:
            assert postgres.end_connections(database)
        asked.append(1)
        return before, told(served.query("apples"))

    before, after = served.in_one_snapshot(ask)
    assert (before == after == told(served.query("apples")), len(asked)) == (True, 2)


def test_what_is_lost_again_and_again_is_given_up(
    postgres: TestServer, database: str, served: Library
) -> None:
    """It may be the question itself that ends the server."""
    asked = list[int]()

    def ask() -> Any:
        asked.append(1)
        postgres.end_connections(database)
        return served.outline()

    with pytest.raises(EngineConnectionError):
        served.in_one_snapshot(ask)
    assert len(asked) == 2
    assert served.query("apples").passages


def test_a_statement_that_took_too_long_is_not_asked_again(
    postgres: TestServer, database: str
) -> None:
    folders, asked = PublishedFolders(postgres.address(database)), list[int]()

    def ask() -> Any:
        asked.append(1)
        folders.session.execute("SET LOCAL statement_timeout = '50ms'")
        return folders.session.fetch("SELECT pg_sleep(5)")

    with closing(folders), pytest.raises(EngineError, match="took more than 30 s"):
        folders.in_one_snapshot(ask)
    assert len(asked) == 1


def test_a_change_whose_connection_is_lost_is_not_made_twice(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    with engine.write_transaction() as session:
        session.execute("CREATE TABLE counted (n int)")
    asked = 0
    # what happens between two changes
    with pytest.raises(EngineConnectionError), engine.write_transaction() as session:  # noqa: PT012
        asked += 1
        session.execute("INSERT INTO counted VALUES (1)")
        postgres.end_connections(database)
        session.execute("INSERT INTO counted VALUES (2)")
    postgres.end_connections(database)
    with engine.write_transaction() as session:  # its connection died before
        assert (session.fetch("SELECT count(*) FROM counted"), asked) == ([(0,)], 1)


# ------------------------------------------------------------------ several servers


@dataclass
class Site:
    """A vault on disk, its builder, and the servers that it is published to."""

    cluster: Cluster
    database: str
    disk: Library
    builder: PublishJob
    place: Path
    edits: int = 0

    @property
    def news(self) -> Path:
        return self.place / "garden" / "news.md"

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
    """Asks one question after the other, as a client of a server does, and notes how long each took
    and what was wrong.
    """

    def __init__(self, library: Library, right: list[Any]) -> None:
        self._library, self._right = library, right
        self.wrong = list[str]()
        self.took = list[float]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if told(self._library.query("cellar")) not in self._right:
                    self.wrong.append("another answer")
            except EngineError as error:
                self.wrong.append(str(error))
            self.took.append(time.monotonic() - began)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def go_on(self, count: int = 20) -> None:
        """Wait until so many more are answered."""
        upto = len(self.took) + count
        wait_until(lambda: len(self.took) >= upto, "questions are answered", 60)


@pytest.mark.slow
def test_servers_read_from_the_standby_and_answer_as_the_primary_does(site: Site) -> None:
    first, second = site.cluster.nodes
    with (
        in_database(site.url(first, second), site.place) as standby,
        in_database(site.url(first), site.place) as primary,
    ):
        mine, other = standby.database.status(), primary.database.status()
        assert mine is not None
        assert other is not None
        assert ((mine.server, mine.standby), (other.server, other.standby)) == (
            (f"127.0.0.1:{second.port}", True),
            (f"127.0.0.1:{first.port}", False),
        )
        assert answers(standby, SOME) == answers(primary, SOME) == answers(site.disk, SOME)
        assert standby.outline() == primary.outline()
    with (
        closing(Engine(site.url(second), writes=True)) as engine,
        pytest.raises(EngineError, match="session is read-only"),
    ):
        engine.check()
    with (
        closing(Engine(site.url(second))) as engine,
        pytest.raises(EngineError, match="accepts no changes"),
        engine.write_transaction() as session,
    ):
        session.execute("DELETE FROM folders")


@pytest.mark.slow
def test_questions_go_on_through_the_death_of_each_server_and_a_promotion(site: Site) -> None:
    first, second = site.cluster.nodes
    with in_database(site.url(), site.place) as server:
        right = [told(server.query("cellar"))]
        with Asker(server, right) as asker:
            asker.go_on()
            second.kill()  # the standby that it reads from
            asker.go_on()
            site.cluster.rejoin(second)
            first.stop()  # the primary server
            asker.go_on()
            site.cluster.promote(second)
            asker.go_on()
            first.follow(second)
            first.start()
            asker.go_on()
            second.kill()
            asker.go_on()
        assert (asker.wrong, max(asker.took) < 10) == ([], True), sorted(asker.took)[-5:]


@pytest.mark.slow
def test_a_builder_publishes_again_what_a_failover_has_lost(site: Site) -> None:
    first, second = site.cluster.nodes
    site.edit()
    site.builder.publish_changes()
    site.cluster.catch_up()
    second.cut()
    site.edit()
    site.builder.publish_changes()
    site.news.unlink()  # a note that was there is gone, and that is lost, too
    site.disk.index()
    site.builder.publish_changes()
    first.kill()
    site.cluster.promote(second)
    with in_database(site.url(), site.place) as server:
        right = answers(site.disk, SOME)
        assert answers(server, SOME) != right
        began = time.monotonic()
        while answers(server, SOME) != right:
            assert time.monotonic() - began < 30
            try:
                site.builder.publish_changes()
            except EngineConnectionError:
                time.sleep(0.1)
        site.edit()
        site.builder.publish_changes()
        assert answers(server, SOME) == answers(site.disk, SOME)


@pytest.mark.slow
def test_an_answer_of_a_standby_that_lags_is_not_called_fresh(site: Site) -> None:
    with in_database(site.url(), site.place) as server, watching(site.builder):
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
