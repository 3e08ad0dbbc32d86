"""Faults of every part at random moments: answers are right or refused in a sentence, nothing is
lost, and all ends as on one machine.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from postgres.cluster import Cluster, running_cluster, wait_until
from postgres.processes import Processes, running
from postgres.server import TestServer
from postgres.vault import (
    QUESTIONS,
    Gardener,
    configured,
    in_database,
    make_vault,
    on_disk,
    publishing,
    told,
)
from thumbindex.errors import EngineError
from thumbindex.library import Library
from thumbindex.testing import FakeEmbedder

pytestmark = pytest.mark.slow

KILLS = 100

ASKED = (
    "how long do pears keep in the cellar?",
    "apples",
    "get_user_name MailMerge",
    "tag:fruit storage",
    "water the trees",
)

DATELESS = tuple(
    (text, options) for text, options in QUESTIONS if not options.keys() & {"since", "until"}
)


class Vault:
    """A folder that is edited at random, and all that was ever in it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self._gardener = make_vault(root), Gardener(root, seed)
        self._texts: dict[str, set[str]] = {}
        self._remember()

    def edit(self) -> None:
        """Change something."""
        self._gardener.edit()
        self._remember()

    def _remember(self) -> None:
        for path in self.root.rglob("*.md"):
            self._texts.setdefault(path.relative_to(self.root).as_posix(), set()).add(
                path.read_text(encoding="utf-8", errors="replace")
            )

    def texts(self) -> set[tuple[str, str]]:
        """Return path and text of each note."""
        texts = {
            path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
            for path in self.root.rglob("*.md")
        }
        return {(path, text.replace("\0", "\ufffd").strip()) for path, text in texts.items()}

    def had(self, path: str, passage: str) -> bool:
        """Tell whether a note at a path had a passage at some time."""
        return any(passage in text.replace("\0", "\ufffd") for text in self._texts.get(path, ()))


def ends_as_on_one_machine(vault: Vault, url: str, place: Path, processes: Processes) -> None:
    """Assert that all comes to be published that there is, that answers are those of the builder's
    disk, and that nothing went wrong before.
    """
    deadline, differing = time.monotonic() + 90, ["nothing was compared"]
    while differing and time.monotonic() < deadline:
        time.sleep(0.5)
        with (
            suppress(EngineError),
            Library.open(
                [vault.root],
                index=place / "index",
                config=configured(place),
                embedder=FakeEmbedder(),
            ) as disk,
            in_database(url, place) as served,
        ):
            differing = [
                text
                for text, options in DATELESS
                if told(served.query(text, **options)) != told(disk.query(text, **options))
            ]
            published = {
                (each.path, served.read(each.path).text.replace("\0", "\ufffd").strip())
                for each in served.outline()
            }
            differing += sorted(f"{path}: {text}" for path, text in vault.texts() ^ published)
            differing += [
                f"of {each.folder} a vector is lacking"
                for each in served.status()
                if each.state.pending
            ]
    assert differing == [], processes.deeds("builder")[-5:]
    assert processes.deeds(what="broken") == []
    answers = processes.deeds(what="answer")
    assert [each for answer in answers for each in answer["passages"] if not vault.had(*each)] == []
    for each in processes.deeds(what="refused"):
        assert re.search(r"[a-z]{3,}.*[.:]", each["sentence"]), each
        assert "Traceback" not in each["sentence"]


def build(url: str, place: Path, **options: object) -> dict[str, Any]:
    return {"role": "build", "url": url, "index": str(place / "index"), **options}


def serve(url: str) -> dict[str, Any]:
    return {"role": "serve", "url": url, "questions": list(ASKED)}


@pytest.mark.parametrize("seed", [1])
def test_builder_worker_and_server_are_killed_a_hundred_times(
    postgres: TestServer, database: str, tmp_path: Path, seed: int
) -> None:
    url, vault, chance = (
        postgres.address(database),
        Vault(tmp_path / "garden", seed),
        random.Random(seed),
    )
    jobs = {
        "builder": build(url, tmp_path, queued=True),
        "worker": {"role": "work", "url": url},
        "server": serve(url),
    }
    with running(tmp_path, vault.root, **jobs) as processes:
        wait_until(lambda: bool(processes.deeds("server", what="answer")), "a first answer", 60)
        for _ in range(KILLS):
            if chance.random() < 0.5:
                vault.edit()
            time.sleep(chance.random() * 0.5)
            name = chance.choice(tuple(jobs))
            processes.kill(name)
            processes.start(name)
        ends_as_on_one_machine(vault, url, tmp_path, processes)
        assert (
            min(len(processes.deeds(what=what)) for what in ("answer", "published", "embedded")) > 5
        )


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.15, 0.4])
def test_a_primary_that_is_killed_in_a_publication_is_replaced_by_its_standby(
    tmp_path: Path, moment: float
) -> None:
    with running_cluster() as cluster:
        url = _database_of(cluster)
        vault = Vault(tmp_path / "garden", 3)
        with running(
            tmp_path, vault.root, builder=build(url, tmp_path), server=serve(url)
        ) as processes:
            wait_until(lambda: bool(processes.deeds("server", what="answer")), "a first answer", 60)
            for _ in range(4):
                vault.edit()
            known = len(processes.deeds("builder", what="published"))
            wait_until(
                lambda: (
                    _is_publishing(cluster)
                    or len(processes.deeds("builder", what="published")) > known
                ),
                "a publication begins",
                30,
            )
            time.sleep(moment)
            cluster.primary.kill()
            cluster.promote(cluster.standby)
            vault.edit()
            ends_as_on_one_machine(vault, url, tmp_path, processes)
            gaps = [each["seconds"] for each in processes.deeds("server", what="answer")]
            assert max(gaps) < 15


def _database_of(cluster: Cluster) -> str:
    """Make a database with our tables in a cluster; return its address, of all servers."""
    name = cluster.server.database(migrated=True)
    cluster.catch_up()
    return cluster.url(database=name)


def _is_publishing(cluster: Cluster) -> bool:
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND backend_xid IS NOT NULL"
    return cluster.primary.run(sql) != [(0,)]


def test_connections_that_are_cut_again_and_again_cost_an_answer_at_most_time(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    url, vault, chance = postgres.address(database), Vault(tmp_path / "garden", 5), random.Random(5)
    jobs = {
        "builder": build(url, tmp_path, queued=True),
        "worker": {"role": "work", "url": url},
        "server": serve(url),
    }
    with running(tmp_path, vault.root, **jobs) as processes:
        wait_until(lambda: bool(processes.deeds("server", what="answer")), "a first answer", 60)
        for _ in range(40):
            vault.edit()
            time.sleep(chance.random() * 0.4)
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                f"'{database}' AND pid <> pg_backend_pid()"
            )
        ends_as_on_one_machine(vault, url, tmp_path, processes)


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk of so many megabytes; skip the test where this process may not."""
    place.mkdir()
    options = f"size={megabytes}M,mode=0777,uid={place.parent.stat().st_uid}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


@pytest.mark.skipif(not shutil.which("mount"), reason="there is no `mount` here")
def test_a_full_disk_of_the_database_changes_nothing_and_is_got_over(tmp_path: Path) -> None:
    with (
        running_cluster(standbys=0) as cluster,
        small_disk(cluster.primary.place.parent / "small", 40) as small,
    ):
        cluster.primary.run(f"CREATE TABLESPACE small LOCATION '{small}'")
        cluster.primary.run("CREATE DATABASE tiny TABLESPACE small")
        url = cluster.url(database="tiny")
        from thumbindex.library.administration import migrate

        migrate(url)
        make_vault(tmp_path / "garden")
        with (
            on_disk(tmp_path, tmp_path / "garden") as disk,
            publishing(disk, url) as builder,
            in_database_later(url, tmp_path) as served,
        ):
            disk.index()
            builder.look()
            before = [told(served().query(text)) for text in ASKED]
            ballast = small / "ballast"
            with suppress(OSError), ballast.open("wb") as file:
                while True:
                    file.write(b"\0" * 65536)
            for number in range(40):
                (tmp_path / "garden" / f"new {number}.md").write_text(
                    f"# New {number}\n\n" + f"Apples {number} and pears. " * 4000, encoding="utf-8"
                )
            disk.index()
            with pytest.raises(EngineError, match=r"The disk of .* is full: free some space there"):
                builder.look()
            assert [told(served().query(text)) for text in ASKED] == before
            ballast.unlink()
            builder.look()
            assert [told(served().query(text)) for text in ASKED] == [
                told(disk.query(text)) for text in ASKED
            ]


@contextmanager
def in_database_later(url: str, place: Path) -> Iterator[Callable[[], Library]]:
    """Give what opens the published folders when they are asked for first: there are none
    before.
    """
    opened: list[Library] = []

    def served() -> Library:
        if not opened:
            opened.append(in_database(url, place).__enter__())
        return opened[0]

    try:
        yield served
    finally:
        for each in opened:
            each.close()


def test_a_statement_that_takes_too_long_is_refused_in_a_sentence_and_the_next_is_answered(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    import psycopg

    url = postgres.address(database)
    make_vault(tmp_path / "garden")
    with on_disk(tmp_path, tmp_path / "garden") as disk, publishing(disk, url) as builder:
        disk.index()
        builder.look()
        with in_database(url, tmp_path) as served:
            before = told(served.query("apples"))
            with psycopg.connect(url) as other:
                other.execute(b"LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
                began = time.monotonic()
                with pytest.raises(EngineError, match="took more than 30 s"):
                    served.query("pears")
                assert time.monotonic() - began < 40
            assert told(served.query("apples")) == before


def test_a_clock_that_jumps_makes_nothing_fresh_that_is_not(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    """The database's clock was an hour ahead when the builder said last that all is published, and
    is put right.
    """
    url = postgres.address(database)
    make_vault(tmp_path / "garden")
    with on_disk(tmp_path, tmp_path / "garden") as disk, publishing(disk, url) as builder:
        disk.index()
        builder.look()
        postgres.run("UPDATE folders SET published = now() + interval '1 hour'", database)
        with in_database(url, tmp_path) as served:
            early = served.query("cellar", wait_fresh=0.3).freshness
            done = threading.Event()

            def beat() -> None:
                while not done.wait(0.1):
                    builder.look()

            beating = threading.Thread(target=beat)
            beating.start()
            try:
                late = served.query("cellar", wait_fresh=10).freshness
            finally:
                done.set()
                beating.join()
    assert early is not None
    assert late is not None
    assert (early.fresh, late.fresh) == (False, True)
