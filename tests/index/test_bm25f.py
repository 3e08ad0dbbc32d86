"""BM25F merges fields before saturation, and counts document fields for all of their chunks."""

import math

import numpy as np
import pytest

from thumbindex.index.bm25f import FieldLengths, PostingList, Scorer, max_union
from thumbindex.ports import KeywordWeights

OF = np.array([0, 0, 1])  # chunks 0 and 1 are of document 0, chunk 2 of document 1


def postings(*pairs: tuple[int, float], by_document: bool = False) -> PostingList:
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


def test_score_of_one_term_follows_the_formula():
    bm25 = scorer(body=1.0)
    bm25.add(1.0, {"body": postings((0, 2.0))})
    idf = math.log(1 + (3 - 1 + 0.5) / 1.5)
    rows, scores, _ = bm25.best_chunks(5, None)
    assert (rows, scores) == ([0], [pytest.approx(idf * 2 * 2.2 / (2 + 1.2), rel=1e-5)])


def test_fields_are_merged_before_saturation():
    both, twice = scorer(body=1.0, headings=1.0), scorer(body=1.0)
    both.add(1.0, {"body": postings((0, 1.0)), "headings": postings((0, 1.0))})
    twice.add(1.0, {"body": postings((0, 2.0))})
    assert both.best_chunks(1, None)[1] == pytest.approx(twice.best_chunks(1, None)[1])


def test_ties_are_ordered_by_id():
    bm25 = scorer(body=1.0)
    bm25.add(1.0, {"body": postings((0, 1.0), (1, 1.0), (2, 1.0))})
    assert bm25.best_chunks(2, None)[0] == [0, 1]


def test_document_score_adds_its_best_chunk_and_the_whole_document():
    bm25 = scorer(body=1.0)
    bm25.add(1.0, {"body": postings((0, 1.0))})
    [(document, score)] = bm25.best_documents(None)
    chunk, whole = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 1.5) * 0.8 * 2.2 / (0.8 + 1.2)
    assert (document, score) == (0, pytest.approx(chunk + whole, rel=1e-5))
    assert bm25.best_documents(np.array([False, True, True])) == []


def test_document_without_a_field_scores_nothing_at_full_length_normalization():
    lengths = {"body": FieldLengths.of_chunks(np.array([4, 4, 0], dtype=np.float32), OF, 2)}
    bm25 = Scorer(OF, 2, KeywordWeights({"body": 1.0}, b=1.0), lengths.__getitem__)
    bm25.add(1.0, {"body": postings((0, 1.0))})
    assert [n for n, _ in bm25.best_documents(None)] == [0]


def test_highest_frequency_of_a_words_stems_counts():
    merged = max_union([postings((1, 2.0), (3, 1.0)), postings(), postings((3, 5.0), (4, 1.0))])
    assert (merged.ids.tolist(), merged.frequencies.tolist()) == ([1, 3, 4], [2.0, 5.0, 1.0])
    assert max_union([postings(), postings((3, 1.0))]).ids.tolist() == [3]
