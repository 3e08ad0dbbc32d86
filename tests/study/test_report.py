"""What a report says, in words and in pictures."""

import sys
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.study.compare import Ablation, Variant, ablate, compare_runs
from thumbindex.study.evaluate import Evaluation, QuerySource
from thumbindex.study.report import Findings, draw, render_markdown, tables, write_report


@pytest.fixture
def findings(source: QuerySource, evaluation: Evaluation) -> Findings:
    effects = ablate(
        [source], [evaluation], [Variant("without search_keyword", {"skip": ("search_keyword",)})]
    )
    refused = Ablation(Variant("with magic", {}), refusal="There is none.")
    return Findings(
        (evaluation,),
        {"vault.manual": {"query.limit": 3}},
        (compare_runs("vault.manual", [1.0, 1.0], [1.0, 0.0]),),
        (*effects, refused),
    )


def test_a_report_has_a_table_for_each_question(findings: Findings) -> None:
    titles = ["By set", "By kind of query", "nDCG@10 since the baseline", "Each setting alone"]
    assert [each.title for each in tables(findings)] == titles
    assert [each.title for each in tables(Findings(findings.evaluations))] == titles[:2]


def test_a_page_names_what_was_asked_and_what_could_not_be(findings: Findings) -> None:
    page = render_markdown(findings, [("A plot", Path("/there/plot.png"))])
    asked = "vault.manual asked of vault: 3 documents, 4 chunks; model fake"
    assert f"- {asked}; settings that are not at their defaults: `query.limit = 3`\n" in page
    assert (
        "| vault.manual | 2 | 1.000 | 0.500 | -0.500 | [-1.000, +0.000] | within the noise | "
        "0 | 1 |\n"
    ) in page
    assert "with magic was not asked: There is none.\n" in page
    assert "![A plot](plot.png)\n" in page


def test_a_report_that_cannot_be_written_is_said_in_one_sentence(
    findings: Findings, tmp_path: Path
) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(UsageError, match="the report cannot be written"):
        write_report(tmp_path, findings)


@pytest.mark.long
def test_plots_show_kinds_settings_and_latency(findings: Findings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra `plots`)")
    drawn = [path for _, path in draw(tmp_path, findings)]
    assert [each.name for each in drawn] == ["by-kind.png", "ablation.png", "latency.png"]
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in drawn)
    assert [path.name for _, path in draw(tmp_path, Findings(findings.evaluations))] == [
        "by-kind.png",
        "latency.png",
    ]


def test_without_matplotlib_a_sentence_says_what_to_install(
    findings: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[plots\]'"):
        draw(tmp_path, findings)
