"""The measurement of a server's start: a real server, its steps in their order."""

import json
from pathlib import Path

import jsonschema
from typer.testing import CliRunner

from thumbindex.serve.cli import app

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "bench.json"


def test_a_start_is_measured_through_a_real_server(model_cache: str, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "begin.md").write_text("# Begin\n\nPress the green button.\n", encoding="utf-8")
    where = ["--folder", str(tmp_path / "vault"), "--index", str(tmp_path / "index")]
    model = ["--set", "encode.embed.model=all-MiniLM-L6-v2", "--set", f"encode.embed.cache={model_cache}"]
    result = CliRunner().invoke(app, ["bench", "start", "--rounds", "1", "--json", str(tmp_path / "run.json"), *where, *model])
    assert result.exit_code == 0
    found = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    seconds = [row["median"] for row in found["rows"] if row["what"] == "start" and row["unit"] == "s"]
    assert seconds[1:] == sorted(seconds[1:])
