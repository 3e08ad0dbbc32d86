"""How queries are asked: as users ask for the cost, to the end for the quality."""

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


def test_every_query_is_measured_with_what_its_answer_costs(
    library: Library, evaluation: Evaluation
) -> None:
    assert all(each.seconds > 0 for each in evaluation.results.values())
    assert pooled_means([evaluation])[0]["keyword"]["nDCG@10"] == 1.0
    assert (pooled_means([evaluation])[1], evaluation.unanswered) == (
        {"ALL": 3, "keyword": 2, "question": 1},
        0,
    )


def test_tokens_are_counted_as_a_servers_budget_counts_them(
    library: Library, evaluation: Evaluation
) -> None:
    answers = {query.id: library.query(query.query).passages for query in evaluation.queries}
    counted = {
        name: sum(library.count_tokens(passage.text) for passage in passages)
        for name, passages in answers.items()
    }
    assert {name: each.tokens for name, each in evaluation.results.items()} == counted


def test_each_query_of_several_sets_counts_once(evaluation: Evaluation) -> None:
    lost = {query.id: {"nDCG@10": 0.0} for query in evaluation.queries[:1]}
    other = replace(evaluation, name="other", queries=evaluation.queries[:1], measured=lost)
    scores, counts = pooled_means([evaluation, other])
    assert counts == {"ALL": 4, "keyword": 3, "question": 1}
    assert scores["ALL"]["nDCG@10"] == pytest.approx(
        pooled_means([evaluation])[0]["ALL"]["nDCG@10"] * 3 / 4
    )


def test_labels_that_the_folder_lacks_are_counted(source: QuerySource) -> None:
    assert check_labels(replace(source, queries=(*source.queries, STRANGER))) == 1


def test_a_set_is_asked_with_its_rewordings_and_as_typed_without(
    library: Library, evaluation: Evaluation
) -> None:
    vague = replace(evaluation.queries[1], query="notes", also=("endless whiteboard",))
    found = [evaluate(library, [each]) for each in (vague, vague.as_typed)]
    assert [pooled_means([each])[0]["keyword"]["S@1"] for each in found] == [1.0, 0.0]
