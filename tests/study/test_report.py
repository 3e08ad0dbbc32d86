"""What a report says."""

from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.study.compare import compare_runs
from thumbindex.study.evaluate import Evaluation
from thumbindex.study.report import Findings, render_markdown, tables, write_report


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


def test_a_page_names_what_was_asked(findings: Findings) -> None:
    page = render_markdown(findings)
    asked = "vault.manual asked of vault: 3 documents, 4 chunks; model fake"
    assert f"- {asked}; settings that are not at their defaults: `query.limit = 3`\n" in page
    assert (
        "| vault.manual | 2 | 1.000 | 0.500 | -0.500 | [-1.000, +0.000] | within the noise | "
        "0 | 1 |\n"
    ) in page


def test_a_report_that_cannot_be_written_is_said_in_one_sentence(
    findings: Findings, tmp_path: Path
) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(UsageError, match="the report cannot be written"):
        write_report(tmp_path, findings)
