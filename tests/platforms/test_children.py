"""Commands and servers in child processes on faked Windows."""

import subprocess
import sys
from pathlib import Path

import pytest

from platforms.fakes import on_windows
from servers import THUMBINDEX, ServerProcess, children_of, is_alive
from waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="a fake asks Linux which files are open"),
]

NOTE = "Äpfel.md"


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / NOTE).write_text(
        "# Äpfel\n\nPlenty of apples grow on trees.\n", encoding="utf-8"
    )
    return [
        f"--folder={tmp_path / 'vault'}",
        f"--index={tmp_path / 'index'}",
        "--set=encode.embed.model=all-MiniLM-L6-v2",
    ]


def run(home: Path, *arguments: str) -> str:
    environment = on_windows(PYTHONIOENCODING="cp1252", HOME=str(home), XDG_CONFIG_HOME=str(home))
    result = subprocess.run(
        [*THUMBINDEX, *arguments], env=environment, capture_output=True, timeout=120, check=False
    )
    assert result.returncode == 0, f"{arguments[0]}: {result.stderr.decode('cp1252', 'replace')}"
    return result.stdout.decode("cp1252")


def test_commands_index_query_rebuild_and_forget(options: list[str], tmp_path: Path) -> None:
    assert "1 added" in run(tmp_path, "index", *options)
    with (tmp_path / "vault" / NOTE).open("a", encoding="utf-8") as file:
        file.write("\nThe harvest → October.\n")
    assert "1 changed" in run(tmp_path, "index", *options)
    assert "October" in run(tmp_path, "query", *options, "when is the harvest?")
    assert "1 changed" in run(tmp_path, "index", "--rebuild", *options)
    assert "ready" in run(tmp_path, "status", *options)
    assert "Deleted the index" in run(tmp_path, "forget", *options)
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file()] == []


def best(server: ServerProcess, question: str) -> str:
    text = server.call("query", query=question, wait_fresh=30)["results"][0]["text"]
    assert isinstance(text, str)
    return text


def test_server_answers_follows_edits_and_stops_its_indexer(
    options: list[str], tmp_path: Path
) -> None:
    with ServerProcess(options, environment=on_windows(PYTHONIOENCODING="cp1252")) as server:
        assert "apples" in best(server, "where do apples grow?")
        (tmp_path / "vault" / "pears.md").write_text(
            "# Pears\n\nThe pears are in the cellar.\n", encoding="utf-8"
        )
        assert "cellar" in best(server, "where are the pears?")
        (child,) = children_of(server.process.pid)
    assert until(lambda: not is_alive(child), 10)
