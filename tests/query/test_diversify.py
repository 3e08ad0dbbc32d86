from dataclasses import replace

import numpy as np

from thumbindex.model import Query
from thumbindex.query.diversify import in_order, limit_documents, marginal_relevance
from thumbindex.query.stage import Search
from thumbindex.testing import document, memory_snapshot


def test_what_follows_the_best_chunks_of_a_document_comes_behind_all_others(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree"), document("b.md", "four")])
    made = candidates(snapshot, 0.9, 0.8, 0.7, 0.1)
    limited = limit_documents(Search(Query("x"), "x", candidates=made), 2)
    assert [(each.id, each.score) for each in limited.candidates] == [(0, 0.9), (1, 0.8), (3, 0.1), (2, 0.1)]
    assert limited.dropped == ()


def test_what_disagrees_with_a_chunk_that_stays_stays_beyond_the_limit(candidates) -> None:
    made = candidates(memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")]))
    found = (made[0], made[1], replace(made[2], disagrees=((made[0].id, "`1` against `3`"),)))
    assert [each.id for each in limit_documents(Search(Query("x"), "x", candidates=found), 1).candidates] == [0, 2, 1]


def test_a_repeated_text_waits_for_a_new_one() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    assert marginal_relevance([1.0, 0.9, 0.8], vectors, 0.7) == [0, 2, 1]


def test_relevance_alone_changes_nothing() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    assert marginal_relevance([1.0, 0.9, 0.8], vectors, 1.0) == [0, 1, 2]


def test_a_candidate_without_a_vector_competes_by_relevance() -> None:
    vectors = np.array([[1, 0], [1, 0], [np.nan, np.nan]], dtype=np.float32)
    assert marginal_relevance([1.0, 0.9, 0.8], vectors, 0.7) == [0, 2, 1]


def test_ties_keep_their_order() -> None:
    assert marginal_relevance([0.5, 0.5, 0.5], np.full((3, 1), np.nan, dtype=np.float32), 0.7) == [0, 1, 2]


def test_scores_follow_the_new_order(candidates) -> None:
    made = candidates(memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")]), 0.9, 0.8, 0.7)
    assert [(each.id, each.score) for each in in_order(made, [0, 2, 1])] == [(0, 0.9), (2, 0.7), (1, 0.7)]
