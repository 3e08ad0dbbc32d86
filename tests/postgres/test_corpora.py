"""Real notes with the bundled model: answers equal those from disk, also in quality with HNSW."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from evaluation.corpora import SHARED, needs_corpora, unpack
from postgres.server import TestServer
from postgres.vault import comparable
from thumbindex.config import load_config
from thumbindex.evaluation.measures import MAIN_MEASURE
from thumbindex.evaluation.queries import load_queries
from thumbindex.evaluation.runner import evaluate, pooled_means
from thumbindex.library import Library
from thumbindex.postgres import PublishedFolders, PublishJob
from thumbindex.postgres.publish import create_vector_indexes
from thumbindex.postgres.published_folders import PublishedReader

KINDS = ("manual", "typo", "client", "names", "auto")
TOLERANCE = 0.002
"""Tolerated difference of nDCG@10 with an HNSW index."""

pytestmark = [pytest.mark.long, needs_corpora]


@pytest.fixture(scope="module")
def libraries(
    postgres: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Library, Library, Library]]:
    """Publish Obsidian's help; open it on disk, in the database, and with an HNSW index."""
    folder, name = tmp_path_factory.mktemp("corpora"), postgres.database(migrated=True)
    root = unpack("obsidian-help", folder)
    overrides = ["encode.embed.model=all-MiniLM-L6-v2"]
    config = load_config(user_file=folder / "none", overrides=overrides)
    url = postgres.address(name)
    with Library.open([root], index=folder / "index", config=config) as disk:
        disk.index()
        with closing(PublishJob(disk.opened, url)) as builder:
            builder.publish_changes()
            create_vector_indexes(builder.engine, above=1_000)
        with Library.open(index=folder / "index", config=config, engine=url) as served:
            readers = [
                PublishedReader(opened, PublishedFolders(url, exact=100))
                for opened in served.opened
            ]
            with Library((), config, published=readers) as near:
                yield disk, served, near
    postgres.drop(name)


def test_every_labeled_query_has_the_answer_from_disk(
    libraries: tuple[Library, Library, Library],
) -> None:
    disk, served, _ = libraries
    lines = [
        line
        for kind in KINDS
        for line in (SHARED / "queries" / "dev" / f"obsidian-help.{kind}.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
    different = []
    for number, query in enumerate(map(json.loads, lines[::2])):
        options = {key: query[key] for key in ("also", "passage") if query.get(key)}
        answers = [
            comparable(library.query(query["query"], explain=number % 20 == 0, **options))
            for library in (served, disk)
        ]
        different += [query["query"]] if answers[0] != answers[1] else []
    assert different == []


def test_quality_with_a_vector_index_equals_exact_search(
    libraries: tuple[Library, Library, Library],
) -> None:
    disk, _, near = libraries
    queries = load_queries(SHARED / "queries" / "dev" / "obsidian-help.manual.jsonl")
    scores = [
        pooled_means([evaluate(library, queries, name="manual")])[0]["ALL"][MAIN_MEASURE]
        for library in (near, disk)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=TOLERANCE)
