"""The measurement of a server's start: a real server, its steps in their order."""

import json
from pathlib import Path

from typer.testing import CliRunner

from thumbindex.serve.cli import app

STEPS = ("initialized", "listed", "answered", "by_meaning")


def test_a_start_is_measured_through_a_real_server(model_cache: str, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "begin.md").write_text("# Begin\n\nPress the green button.\n", encoding="utf-8")
    where = ["--folder", str(tmp_path / "vault"), "--index", str(tmp_path / "index")]
    model = ["--set", "encode.embed.model=all-MiniLM-L6-v2", "--set", f"encode.embed.cache={model_cache}"]
    result = CliRunner().invoke(app, ["bench", "start", "--rounds", "1", "--json", *where, *model])
    (found,) = json.loads(result.stdout)["starts"]
    seconds = [found[name] for name in STEPS]
    assert (result.exit_code, seconds == sorted(seconds), found["reference"] > 0) == (0, True, True)
