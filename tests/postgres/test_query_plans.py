"""Query plans: statements read only the folder's partitions, and use their indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from fakes import FakeEmbedder
from notes import make_vault
from postgres.server import TestServer
from postgres.vault import QUESTIONS, on_disk, publishing
from thumbindex.model import Filters, Query
from thumbindex.postgres import PublishedStore, PublishJob
from thumbindex.postgres.database import DatabaseSession, ResultRow
from thumbindex.postgres.publish import create_vector_indexes
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders
from thumbindex.postgres.published_store import FolderState
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Tools

SCANNABLE = ("parts", "vectors", "documents")
"""Tables that may be scanned: for opening a folder, and for exact search over few vectors."""


class Recording(DatabaseSession):
    """A session that records its statements."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self.statements: list[tuple[str, Sequence[Any]]] = []

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[ResultRow]:
        self.statements.append((sql, parameters))
        return self._session.fetch(sql, parameters)


@pytest.fixture(scope="module")
def builder(postgres: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishJob]:
    place = tmp_path_factory.mktemp("plans")
    name = postgres.database(migrated=True)
    for folder in ("first", "second"):
        make_vault(place / folder, 60, 600)
    with on_disk(place, place / "first", place / "second") as library:
        library.index()
        with publishing(library, postgres.address(name)) as builder:
            builder.publish_changes()
            with builder.engine.write_transaction() as session:
                session.execute("ANALYZE")
            yield builder
    postgres.drop(name)


@pytest.fixture
def session(builder: PublishJob) -> Iterator[DatabaseSession]:
    with builder.engine.read_transaction() as session:
        yield session


def open_index(
    session: DatabaseSession, exact: int = MAX_EXACT_VECTORS
) -> tuple[PublishedIndex, FolderState]:
    state = read_folders(session)[0]
    return open_published(PublishedStore(session.fetch, state), exact=exact), state


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def plan_of(session: DatabaseSession, sql: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    ((plans,),) = session.fetch(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
    return list(nodes(plans[0]["Plan"]))


def test_statements_of_a_query_use_indexes_of_one_folder(session: DatabaseSession) -> None:
    recording = Recording(session)
    index, state = open_index(recording)
    embedder = FakeEmbedder()
    tools = Tools(index.snapshot, embedder=embedder)
    words = sorted(index.snapshot.keyword.lexicon(range(4, 12)))[:40]
    texts = [
        " ".join(words[:6]),
        f'"{words[7]} {words[8]}" {words[9]}',
        f"{words[3]}x {words[4]}s",
        "tag:nothing path:folder note",
    ]
    for text in (*texts, *(text for text, _ in QUESTIONS[:6])):
        for filters in (
            Filters(),
            Filters(path=("folder 1/**",)),
            Filters(without=("folder 1/note 1.md",)),
        ):
            run_pipeline(Query(text, 5, filters), tools, iter(range(10_000)).__next__)
    # PostgreSQL would prefer to scan a few thousand rows
    session.fetch("SELECT set_config('enable_seqscan', 'off', true)")
    partition, wrong = f"_{state.folder}", list[tuple[str, str]]()
    statements = {
        sql: parameters
        for sql, parameters in recording.statements
        if sql.lstrip().startswith(("SELECT", "WITH")) and "set_config" not in sql
    }
    assert len(statements) > 6
    for sql, parameters in statements.items():
        for node in plan_of(session, sql, parameters):
            table = node.get("Relation Name", "")
            parent = table.rpartition("_")[0]
            if table and table != "folders" and not table.endswith(partition):
                wrong.append((f"reads {table}", sql))
            if node["Node Type"] == "Seq Scan" and table != "folders" and parent not in SCANNABLE:
                wrong.append((f"scans {table}", sql))
    assert wrong == []


def test_vector_index_is_used_and_finds_most_nearest_neighbors(builder: PublishJob) -> None:
    assert len(create_vector_indexes(builder.engine, above=100)) == 2
    assert create_vector_indexes(builder.engine, above=100) == []
    with builder.engine.write_transaction() as session:
        session.execute("ANALYZE")
    with builder.engine.read_transaction() as session:
        # PostgreSQL would prefer to compare all of two thousand vectors
        session.fetch("SELECT set_config('enable_sort', 'off', true)")
        recording = Recording(session)
        index, state = open_index(recording)
        exact, near = index.snapshot.vector, open_index(recording, exact=10)[0].snapshot.vector
        sampled = index.snapshot.catalog.every_nth(97, None)
        queries = [
            vector
            for vector in index.snapshot.vector.vectors(sampled)
            if not np.isnan(vector).any()
        ]
        results = [
            (
                {hit.chunk for hit in exact.search(query, 20)},
                {hit.chunk for hit in near.search(query, 20)},
            )
            for query in queries
        ]
        recall = [len(expected & actual) / len(expected) for expected, actual in results]
        selection = index.snapshot.catalog.select(Filters(path=("folder 1/**",)))
        filtered = [hit.chunk for hit in near.search(queries[0], 20, selection)]
        searches = [statement for statement in recording.statements if "halfvec(" in statement[0]]
        indexes = {node.get("Index Name") for node in plan_of(session, *searches[0])}
        near_scores = [hit.score for hit in near.search(queries[0], 5)]
        exact_scores = [hit.score for hit in exact.search(queries[0], 5)]
    assert float(np.mean(recall)) > 0.9
    assert f"vectors_{state.folder}_hnsw" in indexes
    assert near_scores == exact_scores
    assert selection is not None
    assert selection.among(filtered).all()
