"""A hub reads folders of several databases through `postgres_fdw`, and answers as if they were its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from postgres.server import TestServer, fresh_database
from postgres.vault import QUESTIONS, answers, in_database
from thumbindex.library import Library
from thumbindex.library.administration import attach_shard, migrate
from thumbindex.library.engine import Publishing

HNSW = "-c hnsw.ef_search=800 -c hnsw.iterative_scan=strict_order"


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
    """Do what docs/scale.md tells an operator to do in a hub; its address."""
    parts = urlsplit(postgres.url)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    port = f", port '{parts.port}'" if parts.port else ""
    with fresh_database(postgres, migrated=False) as name:
        postgres.run("CREATE EXTENSION vector", name)
        postgres.run("CREATE EXTENSION postgres_fdw", name)
        for server, database in zip(("one", "two"), shards, strict=True):
            options = (
                f"host '{host}', dbname '{database}', extensions 'vector', fetch_size '10000', "
                f"options '{HNSW}'{port}"
            )
            postgres.run(
                f"CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})",
                name,
            )
            postgres.run(
                f"CREATE USER MAPPING FOR CURRENT_USER SERVER {server} OPTIONS (user "
                f"'{parts.username or 'postgres'}')",
                name,
            )
        yield postgres.address(name)


def test_a_hub_answers_as_an_index_that_holds_all(
    postgres: TestServer, disk: Library, shards: tuple[str, str], hub: str, tmp_path: Path
) -> None:
    for folder, name in zip(disk.opened, shards, strict=True):
        with closing(Publishing([folder], postgres.address(name))) as builder:
            builder.look()
    assert [attach_shard(hub, name) for name in ("one", "two")] == [0, 7]
    with in_database(hub, tmp_path) as through:
        assert [name for name, _ in through.folders] == ["garden", "shed"]
        assert answers(through, QUESTIONS[::6]) == answers(disk, QUESTIONS[::6])
