"""A run that was saved, and what has changed since."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.evaluation.baseline import Baseline, check_baseline, compare_with, read_baseline
from thumbindex.evaluation.queries import QuerySet
from thumbindex.evaluation.report import EvaluationReport, report_json
from thumbindex.evaluation.runner import Evaluation


@pytest.fixture
def saved(evaluation: Evaluation, tmp_path: Path) -> Baseline:
    (tmp_path / "run.json").write_text(
        json.dumps(report_json(EvaluationReport((evaluation,)))), encoding="utf-8"
    )
    return read_baseline(tmp_path / "run.json")


def test_a_lost_query_is_a_worse_one(saved: Baseline, evaluation: Evaluation) -> None:
    (found,) = compare_with(
        saved, [replace(evaluation, measured={**evaluation.measured, "q1": {"nDCG@10": 0.0}})]
    )
    assert (found.better, found.worse, found.difference) == (0, 1, pytest.approx(-1 / 3))


def test_a_baseline_of_other_queries_is_refused(saved: Baseline, evaluation: Evaluation) -> None:
    check_baseline(saved, [QuerySet("vault.manual", evaluation.queries)])
    with pytest.raises(UsageError, match="held other queries or labels"):
        check_baseline(saved, [QuerySet("vault.manual", evaluation.queries[:2])])
    with pytest.raises(UsageError, match=r"no set typo, only vault\.manual"):
        check_baseline(saved, [QuerySet("typo", evaluation.queries)])


@pytest.mark.parametrize("text", ["{", '{"sets": [{"name": "a"}]}'])
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="not a run of `thumbindex eval`"):
        read_baseline(tmp_path / "run.json")
