"""What a report says."""

import pytest

from thumbindex.evaluation.baseline import compare_runs
from thumbindex.evaluation.evaluate import Evaluation
from thumbindex.evaluation.report import Findings, tables


@pytest.fixture
def findings(evaluation: Evaluation) -> Findings:
    return Findings(
        (evaluation,),
        {"vault.manual": {"query.limit": 3}},
        (compare_runs("vault.manual", [1.0, 1.0], [1.0, 0.0]),),
    )


def test_a_report_has_a_table_for_each_question(findings: Findings) -> None:
    titles = ["By set", "By kind of query", "nDCG@10 since the baseline"]
    assert [each.title for each in tables(findings)] == titles
    assert [each.title for each in tables(Findings(findings.evaluations))] == titles[:2]
