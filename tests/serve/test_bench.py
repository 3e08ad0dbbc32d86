"""`thumbindex bench`: what it takes for granted, what it refuses, and what it writes."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from thumbindex.serve.cli import app
from thumbindex.study.plots import draw_lines

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "bench.json"


def test_the_name_of_the_table_may_be_left_out_and_vectors_too(vault: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run.json"
    where = ["--folder", str(vault), "--index", str(tmp_path / "index")]
    result = CliRunner().invoke(app, ["bench", "disk", "--words-only", "--json", str(kept), *where])
    found = json.loads(kept.read_text(encoding="utf-8"))
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert (result.exit_code, {row["what"] for row in found["rows"]}) == (0, {"index", "disk"})
    compared = CliRunner().invoke(app, ["bench", "cost", "disk", "--words-only", "--compare", str(kept), *where])
    assert (compared.exit_code, "+0%" in compared.stdout) == (0, True)


def test_made_up_notes_are_measured_where_no_folder_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "disk", "--made", "3", "--words-only"])
    assert (result.exit_code, "of 3 files" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["speed"], "no 'speed' to measure: name any of start, words"),
        (["disk", "--compare", "nothing.json"], "nothing.json: it cannot be read"),
        (["disk", "--words-only", "--made", "1", "--plots", "plots"], "nothing to draw"),
    ],
)
def test_what_cannot_be_is_told_with_what_can(arguments: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert (result.exit_code, hint in result.stderr) == (2, True)


def test_the_other_benchmarks_keep_their_names() -> None:
    assert CliRunner().invoke(app, ["bench", "freshness", "--help"]).stdout.count("--edits") == 1


def test_a_cost_is_drawn_against_size(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_lines(tmp_path / "a.png", "Time", "ms", [("p50", ((1_000, 1.0), (10_000, 2.0)))])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
