"""The measurement of freshness: a real server, real edits, and numbers that say what they are."""

import json
import math

from typer.testing import CliRunner

from thumbindex.serve.cli import app
from thumbindex.study.freshness import quantiles
from thumbindex.study.vault import Author, make_vault, note_path


def test_quantiles_are_values_that_were_measured():
    assert quantiles([float(n) for n in range(1, 101)]) == (50, 90, 95, 99, 100)


def test_an_edit_that_was_never_found_is_the_last_quantile():
    assert quantiles([1.0, math.inf])[-1] == math.inf


def test_the_same_seed_writes_the_same_vault(tmp_path):
    make_vault(tmp_path, 3, 1000)
    author = Author()
    assert [note_path(tmp_path, n).read_text() for n in range(3)] == [author.write_note(n, 3, 1000) for n in range(3)]


def test_a_note_is_about_as_long_as_was_asked_and_has_links():
    text = Author().write_note(7, 10, 5000)
    assert 5000 <= len(text) < 6500
    assert text.count("[[note ") >= 5


def test_a_few_edits_are_measured_through_a_real_server(model_cache):
    model = ["--set", "encode.embed.model=all-MiniLM-L6-v2", "--set", f"encode.embed.cache={model_cache}"]
    result = CliRunner().invoke(app, ["bench", "freshness", "--edits", "3", "--notes", "5", "--characters", "500", "--json", *model])
    measured = json.loads(result.stdout)
    assert (result.exit_code, measured["edits"], len(measured["seconds"]["words"])) == (0, 3, 3)
    assert 0.2 < measured["words"]["p50"] < 10
    assert measured["words"]["p50"] <= measured["vectors"]["p50"]
