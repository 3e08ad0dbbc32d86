"""The stage aggregate scores documents without favoring long ones."""

import numpy as np
import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.model import ChunkId, DocumentId, Query, RankedList
from thumbindex.query.retrieve import (
    length_penalty,
    score_documents_by_vectors,
    smooth_cosines,
    top_cosines,
)
from thumbindex.query.stage import Search, Tools


def test_top_cosines_returns_best_chunks_or_fewer():
    several = top_cosines([ChunkId(n) for n in range(4)], [0.1, 0.9, 0.5, 0.7], 3)
    alone = top_cosines([ChunkId(9)], [0.8], 3)
    assert (list(several), np.mean(list(alone.values()))) == ([1, 3, 2], pytest.approx(0.8))


def test_length_penalty_grows_from_six_chunks():
    assert (length_penalty(1), length_penalty(5)) == (0.0, 0.0)
    assert 0 < length_penalty(6) < length_penalty(200) < 0.02


def test_vector_score_is_weighted_best_chunks_minus_length_penalty():
    parts = "\n\n".join(
        f"## Part {n}\n\nWords about number {n} of the list, and some more of them."
        for n in range(30)
    )
    embedder = FakeEmbedder()
    snapshot = memory_snapshot([document("long.md", parts)], embedder)
    vector = embedder.embed_query("words about the list")
    hits = snapshot.vector.search(vector, 50)
    (score,) = score_documents_by_vectors(
        RankedList(hits), [DocumentId(0)], vector, Search(Query("x"), "x"), Tools(snapshot)
    ).documents.values()
    assert score == pytest.approx(
        np.dot([4 / 7, 2 / 7, 1 / 7], [hit.score for hit in hits[:3]])
        - length_penalty(len(snapshot.catalog)),
        abs=1e-4,
    )


def test_smoothing_favors_chunk_with_near_neighbors():
    scores = smooth_cosines(np.array([0.2, 0.8, 0.2, 0.6, 0.8, 0.6], dtype=np.float32), [3, 3])
    assert scores[4] > scores[1]
