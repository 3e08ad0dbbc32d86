"""The contract of Reranker, for the fake and real ones."""

import pytest

from fakes import FakeReranker
from thumbindex.encode.models import CrossEncoderReranker

QUERY = "share a vault"
PASSAGES = ["walnuts and bread", "Share a vault with your team", "", "the vault"]

KINDS = {
    "fake": lambda request: FakeReranker(),
    "cross-encoder": lambda request: CrossEncoderReranker(
        str(request.getfixturevalue("tiny_cross_encoder")), offline=True
    ),
}
ALL = ["fake", pytest.param("cross-encoder", marks=pytest.mark.long)]
TRAINED = ALL[:1]  # the tiny cross-encoder has random weights


@pytest.fixture(params=ALL)
def reranker(request):
    return KINDS[request.param](request)


def test_scores_are_between_zero_and_one(reranker):
    scores = reranker.score(QUERY, PASSAGES)
    assert len(scores) == len(PASSAGES)
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_scores_are_in_the_order_of_the_passages(reranker):
    assert reranker.score(QUERY, PASSAGES[::-1]) == pytest.approx(
        reranker.score(QUERY, PASSAGES)[::-1], abs=1e-6
    )


def test_the_same_question_gets_the_same_scores(reranker):
    assert list(reranker.score(QUERY, PASSAGES)) == list(reranker.score(QUERY, PASSAGES))


def test_no_passages_return_no_scores(reranker):
    assert list(reranker.score(QUERY, [])) == []


def test_empty_query_is_accepted(reranker):
    assert len(reranker.score("", PASSAGES)) == len(PASSAGES)


@pytest.mark.parametrize("reranker", TRAINED, indirect=True)
def test_answering_passage_scores_highest(reranker):
    bread, answer, nothing, part = reranker.score(QUERY, PASSAGES)
    assert answer > part > bread >= nothing
