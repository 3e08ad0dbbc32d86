"""Running queries: with the normal limit for cost, with a long ranking for quality."""

from dataclasses import replace

import pytest

from thumbindex.evaluation.queries import Label, LabeledQuery
from thumbindex.evaluation.runner import (
    Evaluation,
    QuerySource,
    check_labels,
    evaluate,
    pooled_means,
)
from thumbindex.library import Library

STRANGER = LabeledQuery("q9", "green", "keyword", (Label("elsewhere.md", None, 2),))


def test_every_query_has_measures_and_cost(library: Library, evaluation: Evaluation) -> None:
    assert all(result.seconds > 0 for result in evaluation.results.values())
    assert pooled_means([evaluation])[0]["keyword"]["nDCG@10"] == 1.0
    assert (pooled_means([evaluation])[1], evaluation.unanswered) == (
        {"ALL": 3, "keyword": 2, "question": 1},
        0,
    )


def test_tokens_are_counted_by_the_library(library: Library, evaluation: Evaluation) -> None:
    answers = {query.id: library.query(query.query).passages for query in evaluation.queries}
    expected = {
        name: sum(library.count_tokens(passage.text) for passage in passages)
        for name, passages in answers.items()
    }
    assert {name: result.tokens for name, result in evaluation.results.items()} == expected


def test_pooled_means_weigh_each_query_equally(evaluation: Evaluation) -> None:
    lost = {query.id: {"nDCG@10": 0.0} for query in evaluation.queries[:1]}
    other = replace(evaluation, name="other", queries=evaluation.queries[:1], measured=lost)
    scores, counts = pooled_means([evaluation, other])
    assert counts == {"ALL": 4, "keyword": 3, "question": 1}
    assert scores["ALL"]["nDCG@10"] == pytest.approx(
        pooled_means([evaluation])[0]["ALL"]["nDCG@10"] * 3 / 4
    )


def test_labels_missing_from_the_folder_are_counted(source: QuerySource) -> None:
    assert check_labels(replace(source, queries=(*source.queries, STRANGER))) == 1


def test_rewordings_are_used_unless_as_typed(library: Library, evaluation: Evaluation) -> None:
    vague = replace(evaluation.queries[1], query="notes", also=("endless whiteboard",))
    evaluations = [evaluate(library, [query]) for query in (vague, vague.as_typed)]
    scores = [pooled_means([evaluation])[0]["keyword"]["S@1"] for evaluation in evaluations]
    assert scores == [1.0, 0.0]
