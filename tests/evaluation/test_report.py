"""Tables of a report."""

import pytest

from thumbindex.evaluation.baseline import compare_runs
from thumbindex.evaluation.report import EvaluationReport, tables
from thumbindex.evaluation.runner import Evaluation


@pytest.fixture
def report(evaluation: Evaluation) -> EvaluationReport:
    return EvaluationReport(
        (evaluation,),
        {"vault.manual": {"query.limit": 3}},
        (compare_runs("vault.manual", [1.0, 1.0], [1.0, 0.0]),),
    )


def test_baseline_adds_a_table(report: EvaluationReport) -> None:
    titles = [
        "By set",
        "By kind of query",
        "Answers of `query.limit` passages (the measures above are of longer rankings)",
        "nDCG@10 since the baseline",
    ]
    assert [table.title for table in tables(report)] == titles
    assert [table.title for table in tables(EvaluationReport(report.evaluations))] == titles[:3]
