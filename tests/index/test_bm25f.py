"""BM25F merges fields before saturation and counts each document field on every chunk of its
document.
"""

import math

import numpy as np
import pytest

from thumbindex.index.bm25f import FieldLengths, PostingList, Scorer, max_union
from thumbindex.ports import KeywordWeights

OF = np.array([0, 0, 1])  # chunks 0 and 1 are of document 0, chunk 2 of document 1


def column(*pairs: tuple[int, float], by_document: bool = False) -> PostingList:
    return PostingList(
        np.array([row for row, _ in pairs], dtype=np.int64),
        np.array([f for _, f in pairs], dtype=np.float32),
        by_document,
    )


def scorer(**fields: float) -> Scorer:
    lengths = {
        "title": FieldLengths.of_documents(np.full(2, 4, dtype=np.float32)),
        "body": FieldLengths.of_chunks(np.full(3, 4, dtype=np.float32), OF, 2),
    }
    lengths["headings"] = lengths["body"]
    return Scorer(OF, 2, KeywordWeights(fields, k1=1.2, b=0.75), lengths.__getitem__)


def test_one_term_scores_as_the_formula_says():
    one = scorer(body=1.0)
    one.add(1.0, {"body": column((0, 2.0))})
    idf = math.log(1 + (3 - 1 + 0.5) / 1.5)
    rows, scores, _ = one.best_chunks(5, None)
    assert (rows, scores) == ([0], [pytest.approx(idf * 2 * 2.2 / (2 + 1.2), rel=1e-5)])


def test_fields_are_merged_before_saturation():
    both, twice = scorer(body=1.0, headings=1.0), scorer(body=1.0)
    both.add(1.0, {"body": column((0, 1.0)), "headings": column((0, 1.0))})
    twice.add(1.0, {"body": column((0, 2.0))})
    assert both.best_chunks(1, None)[1] == pytest.approx(twice.best_chunks(1, None)[1])


def test_equal_scores_come_in_the_order_of_their_places():
    one = scorer(body=1.0)
    one.add(1.0, {"body": column((0, 1.0), (1, 1.0), (2, 1.0))})
    assert one.best_chunks(2, None)[0] == [0, 1]


def test_a_document_without_a_field_has_no_score_where_length_counts_in_full():
    lengths = {"body": FieldLengths.of_chunks(np.array([4, 4, 0], dtype=np.float32), OF, 2)}
    one = Scorer(OF, 2, KeywordWeights({"body": 1.0}, b=1.0), lengths.__getitem__)
    one.add(1.0, {"body": column((0, 1.0))})
    assert [n for n, _ in one.best_documents(None)] == [0]


def test_a_word_with_two_stems_counts_where_either_stands_as_often_as_the_more_frequent_one():
    joined = max_union([column((1, 2.0), (3, 1.0)), column(), column((3, 5.0), (4, 1.0))])
    assert (joined.ids.tolist(), joined.frequencies.tolist()) == ([1, 3, 4], [2.0, 5.0, 1.0])
    assert max_union([column(), column((3, 1.0))]).ids.tolist() == [3]
