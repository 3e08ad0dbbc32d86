"""`explain_passages` explains the rank of each passage."""

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
    """Return a function that queries with models, and returns each path with its explanation."""

    def run_and_explain(
        text, documents=DOCUMENTS, off="", **tables
    ) -> list[tuple[str, Explanation]]:
        embedder, history = FakeEmbedder(), []
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
            lambda stage, search: history.append((stage, search)),
        )
        return [
            (passage.path, passage.explanation)
            for passage in explain_passages(search.passages, history, tools)
        ]

    return run_and_explain


def test_evidence_has_rank_and_line_per_retriever(explain):
    _, explanation = explain("sync vaults")[0]
    by_name = {item.retriever: item for item in explanation.evidence}
    assert list(by_name) == ["search_vector", "search_keyword", "search_code", "salience"]
    assert (by_name["search_keyword"].rank, by_name["search_keyword"].line) == (1, 3)


def test_cosine_is_of_matched_chunk(explain):
    embedder = FakeEmbedder()
    ((_, explanation),) = explain("trees", documents=DOCUMENTS[2:])
    catalog = memory_snapshot(DOCUMENTS[2:], embedder)
    assert explanation.cosine == round(
        float(np.max(catalog.vector.vectors([0]) @ embedder.embed_query("trees"))), 4
    )


def test_link_to_document_is_named(explain):
    explanations = dict(explain("sync setup", confidence={"minimum_relevance": 0.0}))
    assert [edge.path for edge in explanations["c.md"].edges] == ["a.md"]


def test_removed_copies_are_listed_with_stage(explain):
    (explanation,) = (
        explanation for _, explanation in explain("sync keeps vaults equal") if explanation.copies
    )
    assert [(copy.stage, copy.path, copy.line) for copy in explanation.copies] in (
        [("dedup_hash", "a.md", 3)],
        [("dedup_hash", "b.md", 5)],
    )


def test_passage_is_explained_without_parents_and_fusion(explain):
    assert all(
        explanation is not None and explanation.evidence
        for _, explanation in explain("sync vaults", off="parents fuse")
    )
