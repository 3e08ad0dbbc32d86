"""What a report says, in words and in pictures."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.study.compare import Ablation, Variant, ablate, compare_runs
from thumbindex.study.evaluate import Evaluation, QuerySource
from thumbindex.study.report import (
    Findings,
    draw,
    render_markdown,
    rewordings,
    tables,
    undominated,
    verdict_of,
    write_report,
)


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


def test_all_sets_come_first_where_there_are_several(evaluation: Evaluation) -> None:
    two = tables(Findings((evaluation, replace(evaluation, name="other"))))[0]
    assert [row[:2] for row in two.rows] == [("ALL", "6"), ("vault.manual", "3"), ("other", "3")]


def test_what_a_setting_does_to_each_set_is_told_where_there_are_several(
    evaluation: Evaluation,
) -> None:
    nothing = replace(
        evaluation,
        name="other",
        measured={query: {**each, "nDCG@10": 0.0} for query, each in evaluation.measured.items()},
    )
    effect = Ablation(Variant("worse", {}), (nothing, nothing), compare_runs("ALL", [1.0], [0.0]))
    last = tables(Findings((evaluation, nothing), effects=(effect,)))[-1]
    assert last.columns == ("configuration", "vault.manual", "other")
    assert last.rows == (("as configured", "0.988", "0.000"), ("worse", "0.000", "0.000"))


def test_both_ways_stand_side_by_side_where_a_set_has_rewordings(evaluation: Evaluation) -> None:
    lost = {query: {**each, "nDCG@10": 0.0} for query, each in evaluation.measured.items()}
    slow = {
        query: replace(each, seconds=each.seconds * 2) for query, each in evaluation.asked.items()
    }
    both = replace(
        evaluation,
        asked=slow,
        typed=replace(evaluation, name="vault.manual, as typed", measured=lost),
    )
    by_set, _, beside = tables(Findings((both,)))
    assert [row[0] for row in by_set.rows] == ["vault.manual", "vault.manual, as typed"]
    assert beside.title == "vault.manual: nDCG@10 as typed, and with `also` and `passage`"
    assert beside.rows[0][:7] == (
        "ALL",
        "3",
        "0.000",
        "0.988",
        "+0.988",
        "[+0.964, +1.000]",
        "better",
    )
    assert beside.notes[1].endswith("all together 2.00 times as long.")
    assert [each.name for each in rewordings([both, both])] == [
        "ALL",
        "vault.manual",
        "vault.manual",
    ]


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


def test_a_difference_is_said_in_words() -> None:
    runs = {
        "better": [0.6, 0.7],
        "worse": [0.4, 0.3],
        "within the noise": [0.6, 0.3],
        "no change": [0.5, 0.5],
    }
    assert [verdict_of(compare_runs("", [0.5, 0.5], after)) for after in runs.values()] == list(
        runs
    )


def test_a_report_that_cannot_be_written_is_said_in_one_sentence(
    findings: Findings, tmp_path: Path
) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(UsageError, match="the report cannot be written"):
        write_report(tmp_path, findings)


def test_plots_show_kinds_settings_and_latency(findings: Findings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
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


def test_only_what_nothing_beats_in_both_is_named() -> None:
    fast, good, dominated, slow_and_best = (
        ("fast", 5.0, 0.6),
        ("good", 10.0, 0.8),
        ("dominated", 11.0, 0.7),
        ("best", 90.0, 0.9),
    )
    assert undominated([dominated, slow_and_best, good, fast]) == [slow_and_best, good, fast]
