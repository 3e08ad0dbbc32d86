"""What PostgreSQL does to answer: it looks into one folder's partitions, by their indexes, and
never through all of what is there.
"""

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

WHOLE = ("parts", "vectors", "documents")
"""Tables of one folder that a step may read whole: when it is opened, and each vector where they
are few.
"""


class Recording(DatabaseSession):
    """A session that remembers what it was asked."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self.asked: list[tuple[str, Sequence[Any]]] = []

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[ResultRow]:
        self.asked.append((sql, parameters))
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


def opened(
    session: DatabaseSession, exact: int = MAX_EXACT_VECTORS
) -> tuple[PublishedIndex, FolderState]:
    state = read_folders(session)[0]
    return open_published(PublishedStore(session.fetch, state), exact=exact), state


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def plan_of(session: DatabaseSession, sql: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    ((found,),) = session.fetch(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
    return list(nodes(found[0]["Plan"]))


def test_each_step_of_a_question_looks_into_its_folder_by_an_index(
    session: DatabaseSession,
) -> None:
    recording = Recording(session)
    index, state = opened(recording)
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
    # of some thousand rows PostgreSQL would rather read all
    session.fetch("SELECT set_config('enable_seqscan', 'off', true)")
    partition, wrong = f"_{state.folder}", list[tuple[str, str]]()
    statements = {
        sql: parameters
        for sql, parameters in recording.asked
        if sql.lstrip().startswith(("SELECT", "WITH")) and "set_config" not in sql
    }
    assert len(statements) > 6
    for sql, parameters in statements.items():
        for node in plan_of(session, sql, parameters):
            table = node.get("Relation Name", "")
            of = table.rpartition("_")[0]
            if table and table != "folders" and not table.endswith(partition):
                wrong.append((f"looks into {table}", sql))
            if node["Node Type"] == "Seq Scan" and table != "folders" and of not in WHOLE:
                wrong.append((f"reads all of {table}", sql))
    assert wrong == []


def test_of_many_vectors_an_index_is_asked_and_finds_most_of_the_nearest(
    builder: PublishJob,
) -> None:
    assert len(create_vector_indexes(builder.engine, above=100)) == 2
    assert create_vector_indexes(builder.engine, above=100) == []
    with builder.engine.write_transaction() as session:
        session.execute("ANALYZE")
    with builder.engine.read_transaction() as session:
        # of two thousand vectors PostgreSQL would rather compare each
        session.fetch("SELECT set_config('enable_sort', 'off', true)")
        recording = Recording(session)
        index, state = opened(recording)
        exact, near = index.snapshot.vector, opened(recording, exact=10)[0].snapshot.vector
        sampled = index.snapshot.catalog.every_nth(97, None)
        queries = [
            vector
            for vector in index.snapshot.vector.vectors(sampled)
            if not np.isnan(vector).any()
        ]
        both = [
            (
                {hit.chunk for hit in exact.search(query, 20)},
                {hit.chunk for hit in near.search(query, 20)},
            )
            for query in queries
        ]
        shared = [len(mine & yours) / len(mine) for mine, yours in both]
        some = index.snapshot.catalog.select(Filters(path=("folder 1/**",)))
        narrow = [hit.chunk for hit in near.search(queries[0], 20, some)]
        asked = [each for each in recording.asked if "halfvec(" in each[0]]
        used = {node.get("Index Name") for node in plan_of(session, *asked[0])}
        scores = [hit.score for hit in near.search(queries[0], 5)] == [
            hit.score for hit in exact.search(queries[0], 5)
        ]
    assert (float(np.mean(shared)) > 0.9, f"vectors_{state.folder}_hnsw" in used, scores) == (
        True,
        True,
        True,
    )
    assert some is not None
    assert some.among(narrow).all()
