"""The measurement of a server's start: a real server, its steps in their order."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from thumbindex.serve.cli import app
from thumbindex.study.client import ServerProcess

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "bench.json"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has loaded")
def test_a_server_that_has_answered_by_meaning_holds_no_torch(model_cache: str, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "begin.md").write_text("# Begin\n\nPress the green button.\n", encoding="utf-8")
    given = [f"--folder={tmp_path / 'vault'}", f"--index={tmp_path / 'index'}"]
    given += ["--set=encode.embed.model=all-MiniLM-L6-v2", f"--set=encode.embed.cache={model_cache}"]
    assert CliRunner().invoke(app, ["index", *given]).exit_code == 0
    with ServerProcess(given) as server:
        steps = server.call("query", query="which button?", explain=True)["trace"]
        held = Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")
    assert ([step["stage"] for step in steps if step["stage"] == "search_vector" and step["out"]], "onnxruntime" in held, "torch" in held) == (
        ["search_vector"],
        True,
        False,
    )


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
