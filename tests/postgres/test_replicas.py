"""Servers read from standbys and go on through the death of any server; builders follow the
primary, and publish what a failover has lost.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from postgres.cluster import Cluster, Node, wait_until
from postgres.server import TestServer
from postgres.vault import QUESTIONS, in_database, make_vault, on_disk, publishing, told
from serve.http.test_metrics import read as read_metrics
from thumbindex.errors import EngineError, EngineLostError
from thumbindex.index.postgres.connections import AMONG_SEVERAL_SECONDS, hosts_of, place_of
from thumbindex.index.postgres.database import Engine
from thumbindex.index.postgres.doctor import examine
from thumbindex.library import Library
from thumbindex.library.engine import PublishedFolders, Publishing
from thumbindex.serve.cli import app
from thumbindex.serve.http.limits import Metrics

SEVERAL = "postgresql://reader:p%40ss@db1,db2:6432/notes"


# ------------------------------------------------------------------ addresses


def test_an_address_of_several_servers_is_shown_by_their_names_and_without_a_password() -> None:
    shown = {
        SEVERAL: "db1,db2:6432/notes",
        "postgresql://a:p%40ss@/notes?host=/tmp/x,db2&port=1,2": "a local socket:1,db2:2/notes",
        "host=db1,db2 port=7000 dbname=notes password=p@ss": "db1:7000,db2:7000/notes",
    }
    assert {url: place_of(url) for url in shown} == shown
    assert [each.name for each in hosts_of(SEVERAL)] == ["db1", "db2:6432"]


def test_a_server_that_vanishes_is_noticed_unless_the_address_says_otherwise() -> None:
    (host,) = hosts_of("postgresql://db/notes?keepalives_idle=60")
    assert {"keepalives_idle=60", "keepalives_interval=3", "tcp_user_timeout=15000"} <= set(
        host.address.split()
    )
    assert all(
        "tcp_user_timeout=15000" in each.address and "password=p@ss" in each.address
        for each in hosts_of(SEVERAL)
    )


def test_a_kind_of_server_that_there_is_none_of_is_told() -> None:
    with pytest.raises(
        EngineError,
        match="none of any, read-write, read-only, primary, standby, prefer-standby: correct it",
    ):
        Engine(f"{SEVERAL}?target_session_attrs=replica")


# ------------------------------------------------------------------ what is asked again, on one ser


@pytest.fixture
def served(postgres: TestServer, database: str, tmp_path: Path) -> Iterator[Library]:
    """Open a vault that is published to one server."""
    url = postgres.address(database)
    with (
        on_disk(tmp_path, make_vault(tmp_path / "garden")) as disk,
        publishing(disk, url) as builder,
    ):
        disk.index()
        builder.look()
        with in_database(url, tmp_path) as served:
            yield served


def end_all(postgres: TestServer, database: str) -> int:
    """End each connection to a database, as a server does that is shut down."""
    return len(
        postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
            f"'{database}' AND pid <> pg_backend_pid()"
        )
    )


def test_a_question_whose_connection_is_lost_is_asked_again_whole(
    postgres: TestServer, database: str, served: Library
) -> None:
    asked = list[int]()

    def ask() -> Any:
        before = served.outline()
        if not asked:
            assert end_all(postgres, database)
        asked.append(1)
        return before, served.outline()

    before, after = served.in_one_moment(ask)
    assert (before == after == served.outline(), len(asked)) == (True, 2)


def test_connections_that_died_unused_delay_nobody(
    postgres: TestServer, database: str, served: Library
) -> None:
    """Eight were made; the first question after they died meets one of them at most."""
    questions = [threading.Thread(target=served.query, args=("apples",)) for _ in range(4)]
    with ExitStack() as held:
        for _ in range(8):
            held.enter_context(Engine(postgres.address(database)).question())
        for each in questions:
            each.start()
        for each in questions:
            each.join()
        expected = told(served.query("cellar"))
        end_all(postgres, database)
        began = time.monotonic()
        assert told(served.query("cellar")) == expected
        assert time.monotonic() - began < 2


def test_what_is_lost_again_and_again_is_given_up(
    postgres: TestServer, database: str, served: Library
) -> None:
    """It may be the question itself that ends the server."""
    asked = list[int]()

    def ask() -> Any:
        asked.append(1)
        end_all(postgres, database)
        return served.outline()

    with pytest.raises(EngineLostError):
        served.in_one_moment(ask)
    assert len(asked) == 3
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
        folders.in_one_moment(ask)
    assert len(asked) == 1


def test_a_change_whose_connection_is_lost_is_not_made_twice(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    with engine.change() as session:
        session.execute("CREATE TABLE counted (n int)")
    asked = 0
    # what happens between two changes
    with pytest.raises(EngineLostError), engine.change() as session:  # noqa: PT012
        asked += 1
        session.execute("INSERT INTO counted VALUES (1)")
        end_all(postgres, database)
        session.execute("INSERT INTO counted VALUES (2)")
    end_all(postgres, database)
    with engine.change() as session:  # its connection had died before anything was asked of it
        assert (session.fetch("SELECT count(*) FROM counted"), asked) == ([(0,)], 1)


def test_slow_statements_are_counted_and_shown_without_what_was_asked(engine: Engine) -> None:
    with engine.question() as session:
        session.fetch("SELECT pg_sleep(0.6), %s, 'secret', 4711", ("secret",))
        session.fetch("SELECT 1")
        status = engine.status(session)
    assert (
        status.slow_statements,
        status.statements >= 2,
        status.slowest_seconds > 0.5,
        sum(status.buckets),
    ) == (1, True, True, status.statements)
    assert status.slowest == "SELECT pg_sleep(….…), %s, '…', …"


# ------------------------------------------------------------------ several servers


@dataclass
class Site:
    """A vault on disk, its builder, and the servers that it is published to."""

    cluster: Cluster
    database: str
    disk: Library
    builder: Publishing
    place: Path
    root: Path
    edits: int = field(default=0)

    def url(self, *nodes: Node, **options: str) -> str:
        return self.cluster.url(*nodes, database=self.database, **options)

    def edit(self) -> None:
        """Change a note on disk, and index it."""
        self.edits += 1
        (self.root / "news.md").write_text(
            f"# News\n\nThe cellar got shelf number {self.edits}.\n", encoding="utf-8"
        )
        self.disk.index()

    def publish(self) -> None:
        self.builder.look()

    def answers(self, library: Library) -> list[Any]:
        return [told(library.query(text, **as_asked(options))) for text, options in QUESTIONS]


@contextmanager
def published(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """Publish a vault to a cluster."""
    database, root = cluster.server.database(migrated=True), make_vault(tmp_path / "garden")
    with on_disk(tmp_path, root) as disk:
        disk.index()
        with publishing(disk, cluster.url(database=database)) as builder:
            site = Site(cluster, database, disk, builder, tmp_path, root)
            site.publish()
            cluster.catch_up()
            yield site


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    with published(cluster, tmp_path) as site:
        yield site


def as_asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a question with its days as days."""
    return {
        key: date.fromisoformat(value) if key in ("since", "until") else value
        for key, value in options.items()
    }


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


def test_servers_read_from_the_standby_and_answer_as_the_primary_does(site: Site) -> None:
    first, second = site.cluster.nodes
    with (
        in_database(site.url(first, second), site.place) as standby,
        in_database(site.url(first), site.place) as primary,
    ):
        mine, other = standby.database(), primary.database()
        assert mine is not None
        assert other is not None
        assert ((mine.server, mine.standby), (other.server, other.standby)) == (
            (f"127.0.0.1:{second.port}", True),
            (f"127.0.0.1:{first.port}", False),
        )
        assert site.answers(standby) == site.answers(primary) == site.answers(site.disk)
        assert (standby.outline(), standby.listing(), standby.duplicates(grey=True)) == (
            primary.outline(),
            primary.listing(),
            primary.duplicates(grey=True),
        )
    with (
        closing(Engine(site.url(second), writes=True)) as engine,
        pytest.raises(EngineError, match="is a standby, and read-write is wanted"),
    ):
        engine.check()
    with (
        closing(Engine(site.url(second))) as engine,
        pytest.raises(EngineError, match="only the primary server takes changes"),
        engine.change() as session,
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
        said = (
            f"questions {len(asker.took)}, median {sorted(asker.took)[len(asker.took) // 2]:.3f} "
            f"s, longest {max(asker.took):.3f} s"
        )
        logging.getLogger(__name__).info(said)
        assert (asker.wrong, max(asker.took) < 2) == ([], True), said


@pytest.mark.slow
def test_a_server_that_is_started_again_is_waited_for(site: Site) -> None:
    first, second = site.cluster.nodes
    second.stop()
    with in_database(site.url(first), site.place) as server:
        with Asker(server, [told(server.query("cellar"))]) as asker:
            asker.go_on()
            first.stop()
            first.start()
            asker.go_on()
        assert (asker.wrong, max(asker.took) < 5) == ([], True)
        first.kill()
        began = time.monotonic()
        # who lost it waits for a while, who comes later hears of it at once
        for seconds in (6.5, 0.5):
            with pytest.raises(EngineLostError, match="cannot be reached"):
                server.query("cellar")
            assert time.monotonic() - began < seconds
            assert server.is_answering is False
            began = time.monotonic()
        first.start()
        assert server.query("cellar").passages


@pytest.mark.slow
def test_a_question_that_a_standby_ends_is_asked_again(tmp_path: Path, cluster: Cluster) -> None:
    """The standby applies changes at once, whoever reads: what a question reads is taken away under
    it.
    """
    standby = cluster.standby
    standby.stop()
    standby.start(max_standby_streaming_delay="0", hot_standby_feedback="off")
    with published(cluster, tmp_path) as site, in_database(site.url(standby), tmp_path) as server:
        asked = list[int]()

        def ask() -> Any:
            server.outline()
            if not asked:
                cluster.primary.run("UPDATE folders SET facts = facts", site.database)
                cluster.primary.run("VACUUM FULL folders", site.database)
                cluster.catch_up()
            asked.append(1)
            return server.listing()

        assert (server.in_one_moment(ask), len(asked)) == (server.listing(), 2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["published", "forgotten"])
def test_a_builder_publishes_again_what_a_failover_has_lost(site: Site, how: str) -> None:
    first, second = site.cluster.nodes
    site.edit()
    site.publish()
    site.cluster.catch_up()
    second.cut()
    site.edit()
    site.publish()
    if how == "forgotten":  # a note that was there is gone, and that is lost, too
        (site.root / "news.md").unlink()
        site.disk.index()
        site.publish()
    first.kill()
    site.cluster.promote(second)
    with in_database(site.url(), site.place) as server:
        right = site.answers(site.disk)
        assert site.answers(server) != right
        began = time.monotonic()
        while site.answers(server) != right:
            assert time.monotonic() - began < 30
            try:
                site.publish()
            except EngineLostError:
                time.sleep(0.1)
        site.edit()
        site.publish()
        assert site.answers(server) == site.answers(site.disk)


# ------------------------------------------------------------------ what is told of them


@pytest.mark.slow
def test_the_lag_of_a_standby_is_told(site: Site, tmp_path: Path) -> None:
    second = site.cluster.standby
    with in_database(site.url(), site.place) as server:
        second.pause()
        site.edit()
        site.publish()
        time.sleep(6)
        freshness = server.query("cellar", wait_fresh=0.2).freshness
        assert freshness is not None
        assert (freshness.fresh, freshness.lag_seconds > 5, freshness.untended) == (False, True, ())
        database = server.database()
        assert database is not None
        metrics = read_metrics(Metrics().text({}, 0, database).decode())
        assert database.lag_seconds is not None
        assert metrics["thumbindex_engine_lag_seconds"] == {
            "thumbindex_engine_lag_seconds": database.lag_seconds
        }
        assert database.lag_seconds > 5
        done = CliRunner().invoke(app, ["status", "--engine", site.url()])
        assert f"127.0.0.1:{second.port} answers, a standby, " in " ".join(done.output.split())
        told = json.loads(
            CliRunner().invoke(app, ["status", "--engine", site.url(), "--json"]).stdout
        )["folders"][0]["database"]
        assert (told["role"], told["lag_seconds"] > 5, told["connections"]["waiting"]) == (
            "standby",
            True,
            0,
        )
        second.resume()
        site.cluster.catch_up()
        assert (server.database() or database).lag_seconds == 0
        second.cut()
        site.edit()
        site.publish()
        time.sleep(1)
        # it cannot know what it lacks
        assert ((server.database() or database).lag_seconds or 0) > 0


def test_the_doctor_looks_at_each_server(site: Site) -> None:
    first = site.cluster.primary
    names = [f"server 127.0.0.1:{each.port}" for each in site.cluster.nodes]

    def looked() -> dict[str, tuple[bool, str]]:
        with closing(Engine(site.url())) as engine:
            return {each.name: (each.is_well, each.sentence) for each in examine(engine)}

    first.run("ANALYZE", site.database)
    site.cluster.catch_up()
    found = looked()
    assert ({name: each for name, each in found.items() if not each[0]}, "primary" in found) == (
        {},
        False,
    )
    assert found[names[0]][1].startswith("the primary server, with 1 standby")
    assert found[names[1]][1].startswith("a standby, which is enough to answer from")
    first.kill()
    found = looked()
    assert (found[names[0]][0], "cannot be reached" in found[names[0]][1], found["primary"][0]) == (
        False,
        True,
        False,
    )
    assert found["connection"][0]


def test_metrics_of_a_database_that_is_away_hang_nowhere(site: Site) -> None:
    with in_database(site.url(), site.place) as server:
        for each in site.cluster.nodes:
            each.kill()
        began = time.monotonic()
        database = server.database()
        assert database is not None
        assert (
            database.server,
            time.monotonic() - began < AMONG_SEVERAL_SECONDS * len(site.cluster.nodes),
        ) == ("", True)
        metrics = read_metrics(Metrics().text({}, 0, database).decode())
        assert metrics["thumbindex_engine_up"] == {"thumbindex_engine_up": 0}
        assert "thumbindex_engine_lag_seconds" not in metrics


def test_what_is_told_of_a_database_is_written_by_the_rules(engine: Engine) -> None:
    with engine.question() as session:
        session.fetch("SELECT 1")
        metrics = read_metrics(Metrics().text({}, 0, engine.status(session)).decode())
    assert metrics["thumbindex_engine_pool_connections"] == {
        'thumbindex_engine_pool_connections{state="used"}': 1,
        'thumbindex_engine_pool_connections{state="idle"}': 0,
    }
    seconds = metrics["thumbindex_engine_statement_seconds"]
    count = metrics["thumbindex_engine_statements_total"]["thumbindex_engine_statements_total"]
    assert (seconds["thumbindex_engine_statement_seconds_count"], count) == (count, 1)
