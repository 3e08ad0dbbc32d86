"""Comparison with a saved run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.evaluation.baseline import Baseline, check_baseline, compare_with, read_baseline
from thumbindex.evaluation.queries import QuerySet
from thumbindex.evaluation.report import report_json
from thumbindex.evaluation.runner import Evaluation


@pytest.fixture
def saved(evaluation: Evaluation, tmp_path: Path) -> Baseline:
    (tmp_path / "run.json").write_text(json.dumps(report_json([evaluation])), encoding="utf-8")
    return read_baseline(tmp_path / "run.json")


def test_lost_query_counts_as_worse(saved: Baseline, evaluation: Evaluation) -> None:
    (difference,) = compare_with(
        saved, [replace(evaluation, measured={**evaluation.measured, "q1": {"nDCG@10": 0.0}})]
    )
    assert (difference.better, difference.worse) == (0, 1)
    assert difference.difference == pytest.approx(-1 / 3)


def test_baseline_with_other_queries_is_refused(saved: Baseline, evaluation: Evaluation) -> None:
    check_baseline(saved, [QuerySet("vault.manual", evaluation.queries)])
    with pytest.raises(UsageError, match=r"labels of vault\.manual have changed"):
        check_baseline(saved, [QuerySet("vault.manual", evaluation.queries[:2])])
    with pytest.raises(UsageError, match=r"no set typo, only vault\.manual"):
        check_baseline(saved, [QuerySet("typo", evaluation.queries)])


@pytest.mark.parametrize("text", ["{", '{"sets": [{"name": "a"}]}'])
def test_invalid_baseline_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="is not the output of `thumbindex eval --json`"):
        read_baseline(tmp_path / "run.json")
