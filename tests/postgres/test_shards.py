"""A hub reads folders of several databases through `postgres_fdw`, and answers as if they were its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from postgres.server import PASSWORD, TestServer, fresh_database
from postgres.vault import QUESTIONS, in_database, make_vault, on_disk, publishing, told
from thumbindex.errors import EngineError, UsageError
from thumbindex.index.postgres.database import FOLDERS_A_SHARD, Engine
from thumbindex.index.postgres.doctor import examine
from thumbindex.library import Library
from thumbindex.library.administration import attach_shard, migrate
from thumbindex.library.engine import Publishing

HNSW = "-c hnsw.ef_search=800 -c hnsw.iterative_scan=strict_order"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Library]:
    shed = tmp_path / "shed"
    shed.mkdir()
    (shed / "tools.md").write_text(
        "# Tools\n\nA spade for the garden, and apples in the cellar.\n", encoding="utf-8"
    )
    with on_disk(tmp_path, make_vault(tmp_path / "garden"), shed) as library:
        library.index()
        yield library


@pytest.fixture
def shards(postgres: TestServer) -> Iterator[tuple[str, str]]:
    """Make two databases that hold folders; their names."""
    with (
        fresh_database(postgres, migrated=False) as first,
        fresh_database(postgres, migrated=False) as second,
    ):
        migrate(postgres.address(first))
        migrate(postgres.address(second), shard=7)
        yield first, second


@pytest.fixture
def hub(postgres: TestServer, shards: tuple[str, str]) -> Iterator[str]:
    """Make a database that knows both as foreign servers; its address."""
    with fresh_database(postgres, migrated=False) as name:
        know(postgres, name, one=shards[0], two=shards[1])
        yield postgres.address(name)


def know(postgres: TestServer, hub: str, **servers: str) -> None:
    """Do what docs/scale.md tells an operator to do in a hub."""
    reader = postgres.role("reader")
    postgres.run("CREATE EXTENSION IF NOT EXISTS vector", hub)
    postgres.run("CREATE EXTENSION IF NOT EXISTS postgres_fdw", hub)
    parts = urlsplit(postgres.url)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    for server, database in servers.items():
        options = (
            f"host '{host}', dbname '{database}', extensions 'vector', fetch_size '10000', "
            f"options '{HNSW}'"
        )
        port = f", port '{parts.port}'" if parts.port else ""
        postgres.run(
            f"CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options}{port})",
            hub,
        )
        postgres.run(
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER {server} OPTIONS (user "
            f"'{parts.username or 'postgres'}')",
            hub,
        )
        postgres.run(
            f"CREATE USER MAPPING FOR {reader} SERVER {server} OPTIONS (user '{reader}', "
            f"password '{PASSWORD}')",
            hub,
        )
        postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}", database)


@pytest.fixture
def served(
    postgres: TestServer, disk: Library, shards: tuple[str, str], hub: str, tmp_path: Path
) -> Iterator[tuple[Library, Library]]:
    """Publish one folder to each shard; give the hub, as a role that may read alone, and one
    database that holds both.
    """
    for folder, name in zip(disk.opened, shards, strict=True):
        with closing(Publishing([folder], postgres.address(name))) as builder:
            builder.look()
    assert [attach_shard(hub, name) for name in ("one", "two")] == [0, 7]
    name = urlsplit(hub).path.removeprefix("/")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {postgres.role('reader')}", name)
    for shard in shards:
        postgres.run(
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {postgres.role('reader')}", shard
        )
    with (
        fresh_database(postgres) as whole,
        in_database(postgres.address(name, postgres.role("reader")), tmp_path) as through,
    ):
        with publishing(disk, postgres.address(whole)) as builder:
            builder.look()
        with in_database(postgres.address(whole), tmp_path) as direct:
            yield through, direct


def test_a_hub_answers_as_one_database_that_holds_all(served: tuple[Library, Library]) -> None:
    through, direct = served
    assert [name for name, _ in through.folders] == ["garden", "shed"]
    for text, options in QUESTIONS:
        plain = {key: value for key, value in options.items() if key not in ("since", "until")}
        assert told(through.query(text, **plain, explain=True)) == told(
            direct.query(text, **plain, explain=True)
        ), text
    assert (through.outline(), through.listing()) == (direct.outline(), direct.listing())


def test_a_question_about_a_folder_asks_its_shard_alone_and_its_index(
    served: tuple[Library, Library], hub: str, shards: tuple[str, str]
) -> None:
    row = 7 * FOLDERS_A_SHARD + 1
    with closing(Engine(hub)) as engine, engine.question() as session:
        plans = [
            "\n".join(line for (line,) in session.fetch(f"EXPLAIN VERBOSE {sql}", values))
            for sql, values in (
                (
                    (
                        "SELECT columns FROM postings WHERE folder = %s AND field = 1 AND term = "
                        "ANY(%s)"
                    ),
                    (row, ["a", "b"]),
                ),
                (
                    (
                        "SELECT id FROM vectors WHERE folder = %s ORDER BY (vector::halfvec(64)) "
                        "<#> %s::halfvec(64) LIMIT 5"
                    ),
                    (row, str([0.0] * 64)),
                ),
            )
        ]
    assert [(plan.count("Foreign Scan"), "on two." in plan) for plan in plans] == [(1, True)] * 2
    assert (
        "term = ANY" in plans[0].partition("Remote SQL")[2],
        "ORDER BY" in plans[1].partition("Remote SQL")[2],
    ) == (True, True)


def test_a_hub_follows_what_a_shard_publishes(
    served: tuple[Library, Library],
    disk: Library,
    postgres: TestServer,
    shards: tuple[str, str],
    tmp_path: Path,
) -> None:
    (tmp_path / "shed" / "rake.md").write_text(
        "# Rake\n\nA rake for autumn leaves.\n", encoding="utf-8"
    )
    disk.index()
    with closing(Publishing([disk.opened[1]], postgres.address(shards[1]))) as builder:
        builder.look()
    assert [each.path for each in served[0].query("autumn leaves").passages][:1] == ["rake.md"]


def test_a_doctor_finds_a_hub_well(served: tuple[Library, Library], hub: str) -> None:
    with closing(Engine(hub)) as engine:
        assert [each for each in examine(engine) if not each.is_well] == []


def test_what_is_no_shard_is_refused_in_a_sentence(
    postgres: TestServer, disk: Library, shards: tuple[str, str], hub: str
) -> None:
    name = urlsplit(hub).path.removeprefix("/")
    with pytest.raises(UsageError, match="no name of a foreign server"):
        attach_shard(hub, "x; DROP TABLE folders")
    with pytest.raises(EngineError, match="knows no foreign server"):
        attach_shard(hub, "three")
    attach_shard(hub, "one")
    with pytest.raises(EngineError, match="attached already"):
        attach_shard(hub, "one")
    with fresh_database(postgres) as same, fresh_database(postgres, migrated=False) as empty:
        know(postgres, name, same=same, empty=empty)
        with pytest.raises(EngineError, match="is shard 0, and so is one"):
            attach_shard(hub, "same")
        with pytest.raises(EngineError, match="no index of thumbindex"):
            attach_shard(hub, "empty")
        with pytest.raises(EngineError, match="holds folders of its own"):
            attach_shard(postgres.address(same), "one")
    with pytest.raises(EngineError, match="is a hub"):
        Publishing(disk.opened, hub)
    with pytest.raises(EngineError, match="is shard 7 already"):
        migrate(postgres.address(shards[1]), shard=8)


def test_two_folders_of_one_name_are_refused(
    postgres: TestServer, disk: Library, shards: tuple[str, str], hub: str
) -> None:
    for name in shards:
        with closing(Publishing([disk.opened[1]], postgres.address(name))) as builder:
            builder.look()
    attach_shard(hub, "one")
    with pytest.raises(EngineError, match="Another shard holds a folder 'shed'"):
        attach_shard(hub, "two")
    with closing(Engine(hub)) as engine, engine.question() as session:
        assert session.fetch("SELECT count(*) FROM pg_namespace WHERE nspname = 'two'") == [(0,)]
