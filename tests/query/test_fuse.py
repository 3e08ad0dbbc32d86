"""The stage fuse ranks documents, then their chunks."""

import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.model import ChunkId, DocumentId, Hit, RankedList
from thumbindex.query.rank import (
    convex_combination,
    fuse_lists,
    limit_per_document,
    reciprocal_rank_fusion,
)
from thumbindex.settings import FuseSettings, QuerySettings

EVEN = {"search_vector": 0.5, "search_keyword": 0.5}


def ranked(*hits: tuple[int, int, float], **documents: float) -> RankedList:
    """Make a list from hits (chunk, document, score) and scores of documents (d0=…)."""
    ranked_hits = tuple(
        Hit(ChunkId(c), DocumentId(d), rank, score) for rank, (c, d, score) in enumerate(hits, 1)
    )
    scores = {DocumentId(int(name[1:])): score for name, score in documents.items()}
    return RankedList(ranked_hits, scores)


def test_convex_combination_adds_normalized_scores():
    assert convex_combination({"a": {1: 4.0, 2: 2.0}, "b": {2: 10.0}}, {"a": 0.6, "b": 0.4}) == {
        1: 0.6,
        2: pytest.approx(0.7),
    }


def test_reciprocal_rank_fusion_starts_at_rank_1():
    assert reciprocal_rank_fusion({"a": {7: 0.9, 8: 0.1}}, {"a": 1.0}, k=10) == {
        7: 1.0,
        8: pytest.approx(11 / 12),
    }


def test_best_chunk_gets_document_score():
    lists = {"search_vector": ranked((0, 0, 0.8), (1, 0, 0.4), d0=0.6)}
    fused = fuse_lists(lists, {"search_vector": 1.0}, QuerySettings(fuse=FuseSettings(spread=1.0)))
    assert fused == {0: 1.0, 1: pytest.approx(0.5)}


def test_document_score_outweighs_single_chunk():
    lists = {
        "search_vector": ranked((0, 0, 0.9), (1, 1, 0.8), d0=0.5, d1=0.8),
        "search_keyword": ranked((1, 1, 5.0), d1=5.0),
    }
    fused = fuse_lists(lists, EVEN, QuerySettings())
    assert fused[ChunkId(1)] > fused[ChunkId(0)]


def test_limit_per_document_cuts_long_pages():
    of = {0: 0, 1: 0, 2: 0, 3: 1}
    assert limit_per_document([0, 1, 2, 3], of.__getitem__, 2) == [0, 1, 3]


@pytest.mark.parametrize("method", ["convex", "rrf"])
def test_chunk_without_vector_is_scored_by_other_retrievers(method):
    lists = {
        "search_vector": ranked((0, 0, 0.9), d0=0.9),
        "search_keyword": ranked((1, 1, 5.0), (0, 0, 1.0), d1=5.0, d0=1.0),
    }
    fused = fuse_lists(
        lists,
        EVEN,
        QuerySettings(fuse=FuseSettings(method=method)),
        pending=frozenset({ChunkId(1)}),
    )
    assert fused == {1: 1.0, 0: pytest.approx(0.6 if method == "convex" else 0.5 + 0.5 * 11 / 12)}


def test_document_without_vectors_keeps_rank_by_words(ask):
    notes = [
        document("a.md", "# Money\n\nInvoices are sent monthly."),
        document("b.md", "# Trees\n\nPlant invoices of trees."),
    ]
    answers = [
        ask(
            memory_snapshot(notes, FakeEmbedder(), pending=late),
            "invoices sent",
            embedder=FakeEmbedder(),
        )
        for late in ((), ("a.md",))
    ]
    assert [search.passages[0].path for search, _ in answers] == ["a.md", "a.md"]
