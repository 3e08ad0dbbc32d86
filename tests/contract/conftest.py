"""Indexes of all kinds with the same documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contract.makers import Make, open_index, write_index
from fakes import FakeEmbedder, memory_snapshot
from postgres.server import TestServer, fresh_database
from thumbindex.model import ParsedDocument
from thumbindex.ports import Snapshot

if TYPE_CHECKING:
    from thumbindex.postgres.published_index import PublishedIndex


@pytest.fixture(scope="module")
def publish_index(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], PublishedIndex]]:
    """Return a function that publishes an index to PostgreSQL and opens it."""
    server: TestServer = request.getfixturevalue("postgres")
    from thumbindex.postgres.database import Engine
    from thumbindex.postgres.publish import IndexPublisher
    from thumbindex.postgres.published_index import open_published, read_folders
    from thumbindex.postgres.published_store import PublishedStore

    with ExitStack() as stack:

        def publish(folder: Path) -> PublishedIndex:
            engine = Engine(server.address(stack.enter_context(fresh_database(server))))
            stack.callback(engine.close)
            opened, store = open_index(folder)
            IndexPublisher(engine, "", lambda path: None).publish(opened, store)
            store.close()
            session = stack.enter_context(engine.read_transaction())
            (state,) = read_folders(session)
            return open_published(PublishedStore(session.fetch, state))

        yield publish


@pytest.fixture(scope="module", params=["memory", "disk", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that builds an index of one kind."""
    embedder = FakeEmbedder()
    if request.param == "memory":
        return lambda documents: memory_snapshot(documents, embedder)
    publish = request.getfixturevalue("publish_index") if request.param == "postgres" else None

    def build(documents: Sequence[ParsedDocument]) -> Snapshot:
        folder = tmp_path_factory.mktemp("index") / "index"
        write_index(documents, embedder, folder)
        return open_index(folder)[0].snapshot if publish is None else publish(folder).snapshot

    return build
