"""On real notes, with the bundled model: the same answers as from the disk, and with an index of
vectors answers as good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from evaluation.corpora import SHARED, needs_corpora, unpack
from postgres.server import TestServer
from postgres.vault import told
from thumbindex.config import load_config
from thumbindex.evaluation.measures import MAIN_MEASURE
from thumbindex.evaluation.queries import load_queries
from thumbindex.evaluation.runner import evaluate, pooled_means
from thumbindex.library import Library
from thumbindex.postgres import PublishedFolders, PublishJob
from thumbindex.postgres.publish import create_vector_indexes
from thumbindex.postgres.published_folders import PublishedReader

KINDS = ("manual", "typo", "client", "names", "auto")
MOST_APART = 0.002
"""By so much nDCG@10 may differ where an index of vectors is asked."""

pytestmark = [pytest.mark.long, needs_corpora]


@pytest.fixture(scope="module")
def libraries(
    postgres: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Library, Library, Library]]:
    """Index Obsidian's help, publish it, and open it on disk, in the database, and there by an
    index of vectors.
    """
    place, name = tmp_path_factory.mktemp("corpora"), postgres.database(migrated=True)
    root = unpack("obsidian-help", place)
    overrides = ["encode.embed.model=all-MiniLM-L6-v2"]
    config = load_config(user_file=place / "none", overrides=overrides)
    url = postgres.address(name)
    with Library.open([root], index=place / "index", config=config) as disk:
        disk.index()
        with closing(PublishJob(disk.opened, url)) as builder:
            builder.publish_changes()
            create_vector_indexes(builder.engine, above=1_000)
        with Library.open(index=place / "index", config=config, engine=url) as served:
            readers = [
                PublishedReader(each, PublishedFolders(url, exact=100)) for each in served.opened
            ]
            with Library((), config, published=readers) as near:
                yield disk, served, near
    postgres.drop(name)


def test_every_labeled_question_has_the_answer_that_the_disk_gives(
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
    for number, each in enumerate(map(json.loads, lines[::2])):
        options = {key: each[key] for key in ("also", "passage") if each.get(key)}
        answers = [
            told(library.query(each["query"], explain=number % 20 == 0, **options))
            for library in (served, disk)
        ]
        different += [each["query"]] if answers[0] != answers[1] else []
    assert different == []


def test_answers_by_an_index_of_vectors_are_as_good(
    libraries: tuple[Library, Library, Library],
) -> None:
    disk, _, near = libraries
    queries = load_queries(SHARED / "queries" / "dev" / "obsidian-help.manual.jsonl")
    figures = [
        pooled_means([evaluate(library, queries, name="manual")])[0]["ALL"][MAIN_MEASURE]
        for library in (near, disk)
    ]
    assert figures[0] == pytest.approx(figures[1], abs=MOST_APART)
