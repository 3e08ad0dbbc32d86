"""`thumbindex bench`: what it takes for granted, what it refuses, and what it writes."""

import json
import os
import signal
import subprocess
import sys
import time
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
    for name in ("a.svg", "b.svg", "a.png"):
        draw_lines(tmp_path / name, "Time", "ms", [("p50", ((1_000, 1.0), (10_000, 2.0)))])
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(os.name == "nt", reason="nothing can be told to end gently there")
def test_a_measurement_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "thumbindex", "bench", "together", "--made", "3", "--words-only"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("thumbindex-bench-*/vault/*")) and time.monotonic() < end:
            time.sleep(0.05)
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
