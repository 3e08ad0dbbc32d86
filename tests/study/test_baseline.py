"""A run that was saved, and what has changed since."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.study.compare import Baseline, check_baseline, compare_with, read_baseline
from thumbindex.study.evaluate import Evaluation
from thumbindex.study.queries import QuerySet
from thumbindex.study.report import Findings, record


@pytest.fixture
def saved(evaluation: Evaluation, tmp_path: Path) -> Baseline:
    (tmp_path / "run.json").write_text(
        json.dumps(record(Findings((evaluation,)))), encoding="utf-8"
    )
    return read_baseline(tmp_path / "run.json")


def test_a_run_is_no_better_than_itself(saved: Baseline, evaluation: Evaluation) -> None:
    (same,) = compare_with(saved, [evaluation])
    assert (same.name, same.better, same.worse, same.interval.mean) == ("vault.manual", 0, 0, 0.0)
    assert same.before == same.after == evaluation.scores["ALL"]["nDCG@10"]


def test_a_lost_query_is_a_worse_one(saved: Baseline, evaluation: Evaluation) -> None:
    (found,) = compare_with(
        saved, [replace(evaluation, measured={**evaluation.measured, "q1": {"nDCG@10": 0.0}})]
    )
    assert (found.better, found.worse, found.interval.mean) == (0, 1, pytest.approx(-1 / 3))


def test_several_sets_are_compared_together_first(saved: Baseline, evaluation: Evaluation) -> None:
    both = replace(saved, values={**saved.values, "other": saved.values["vault.manual"]})
    assert [
        each.name for each in compare_with(both, [evaluation, replace(evaluation, name="other")])
    ] == ["ALL", "vault.manual", "other"]


def test_a_baseline_of_other_queries_is_refused(saved: Baseline, evaluation: Evaluation) -> None:
    check_baseline(saved, [QuerySet("vault.manual", evaluation.queries)])
    with pytest.raises(UsageError, match="held other queries or labels"):
        check_baseline(saved, [QuerySet("vault.manual", evaluation.queries[:2])])
    with pytest.raises(UsageError, match=r"no set typo, only vault\.manual"):
        check_baseline(saved, [QuerySet("typo", evaluation.queries)])


def test_a_set_that_got_rewordings_is_compared_as_typed(
    saved: Baseline, evaluation: Evaluation
) -> None:
    queries = tuple(replace(each, also=("more",)) for each in evaluation.queries)
    check_baseline(saved, [QuerySet("vault.manual", queries)])
    reworded = replace(
        evaluation, queries=queries, typed=replace(evaluation, name="vault.manual, as typed")
    )
    assert [(each.name, each.interval.mean) for each in compare_with(saved, [reworded])] == [
        ("vault.manual, as typed", 0.0)
    ]


def test_a_run_with_rewordings_is_compared_both_ways(
    evaluation: Evaluation, tmp_path: Path
) -> None:
    queries = tuple(replace(each, also=("more",)) for each in evaluation.queries)
    reworded = replace(
        evaluation, queries=queries, typed=replace(evaluation, name="vault.manual, as typed")
    )
    (tmp_path / "run.json").write_text(json.dumps(record(Findings((reworded,)))), encoding="utf-8")
    saved = read_baseline(tmp_path / "run.json")
    assert [each.name for each in compare_with(saved, [reworded])] == [
        "vault.manual",
        "vault.manual, as typed",
    ]
    assert [each.name for each in compare_with(saved, [evaluation])] == ["vault.manual"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"sets": [{"name": "a"}]}',
        '{"sets": [{"name": "a", "digest": "b", "by_query": {"q": "?"}}]}',
    ],
)
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="not a run of `thumbindex eval`"):
        read_baseline(tmp_path / "run.json")
