"""A passage says how it came to its place; what says it is what the run did."""

from itertools import count

import numpy as np
import pytest

from fakes import FakeEmbedder, FakeReranker, document, memory_snapshot
from thumbindex.model import Explanation, Query
from thumbindex.query.explain import explain_passages
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Tools

DOCUMENTS = [
    document(
        "a.md",
        "# Alpha\n\nSync keeps vaults equal.\n\n## Setup\n\nRun `ob sync-setup` first.",
        links=["c.md"],
        tags=("cloud",),
    ),
    document("b.md", "# Beta\n\nPublish a site.\n\nSync keeps vaults equal."),
    document("c.md", "# Gamma\n\nPlant trees in spring."),
]


@pytest.fixture
def explain(settings_of):
    """Ask with models, and return each passage's path with its explanation, best first."""

    def ask_and_explain(
        text, documents=DOCUMENTS, off="", **tables
    ) -> list[tuple[str, Explanation]]:
        embedder, seen = FakeEmbedder(), []
        tools = Tools(
            memory_snapshot(documents, embedder),
            settings_of(off, **tables),
            embedder,
            FakeReranker(),
        )
        search, _ = run_pipeline(
            Query(text, limit=10),
            tools,
            count().__next__,
            lambda stage, found: seen.append((stage, found)),
        )
        return [
            (passage.path, passage.explanation)
            for passage in explain_passages(search.passages, seen, tools)
        ]

    return ask_and_explain


def test_each_retriever_tells_its_rank_its_score_and_its_share(explain):
    _, found = explain("sync vaults")[0]
    by_name = {each.retriever: each for each in found.evidence}
    assert list(by_name) == ["search_vector", "search_keyword", "search_code", "salience"]
    assert (by_name["search_keyword"].rank, by_name["search_keyword"].line) == (1, 3)


def test_the_cosine_is_that_of_the_chunk_that_matched(explain):
    embedder = FakeEmbedder()
    ((_, found),) = explain("trees", documents=DOCUMENTS[2:])
    catalog = memory_snapshot(DOCUMENTS[2:], embedder)
    assert found.cosine == round(
        float(np.max(catalog.vector.vectors([0]) @ embedder.embed_query("trees"))), 4
    )


def test_the_link_that_led_to_a_document_is_named(explain):
    found = dict(explain("sync setup", confidence={"minimum_relevance": 0.0}))
    assert [edge.path for edge in found["c.md"].edges] == ["a.md"]


def test_what_was_taken_out_for_a_passage_is_named_with_the_stage(explain):
    (found,) = (found for _, found in explain("sync keeps vaults equal") if found.copies)
    assert [(copy.stage, copy.path, copy.line) for copy in found.copies] in (
        [("dedup_hash", "a.md", 3)],
        [("dedup_hash", "b.md", 5)],
    )


def test_without_parents_and_fusion_a_passage_is_explained_all_the_same(explain):
    assert all(
        found is not None and found.evidence
        for _, found in explain("sync vaults", off="parents fuse")
    )
