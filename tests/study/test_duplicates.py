"""The measurement of looking for duplicates: a made-up vault, copies in it, and seconds that were spent."""

import json

from typer.testing import CliRunner

from thumbindex.serve.cli import app
from thumbindex.study.duplicates import RandomEmbedder


def test_a_text_has_one_random_vector():
    first, again, other = RandomEmbedder().embed_passages(["a", "a", "b"])
    assert [round(abs(float(first @ vector))) for vector in (again, other)] == [1, 0]


def test_planted_copies_are_found_and_edits_are_timed():
    result = CliRunner().invoke(app, ["bench", "duplicates", "--notes", "10", "--characters", "1500", "--edits", "2", "--json"])
    measured = json.loads(result.stdout)
    assert (result.exit_code, measured["pairs"] > 0, len(measured["edits"]), measured["whole"] > 0) == (0, True, 2, True)


def test_what_was_measured_is_said_in_two_lines():
    result = CliRunner().invoke(app, ["bench", "duplicates", "--notes", "4", "--characters", "500", "--edits", "1"])
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["pairs", "(most)"]
