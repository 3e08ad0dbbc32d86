"""Real servers over two folders, one with a hostile configuration of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from notes import write
from servers import ServerProcess, path_of
from waiting import until

pytestmark = pytest.mark.slow

WORDS = ["--set=serve.watch.reconcile_seconds=0.5", "--set=serve.watch.debounce_ms=50"]
OWN = '[corpus.private]\nglobs = ["diary*.md"]\n'


def answered(server: ServerProcess, expected: set[str], query: str = "apples") -> set[str]:
    """Query until these notes are in the answer, or time is up."""
    paths = set[str]()

    def are_found() -> bool:
        results = server.call("query", query=query, limit=20, wait_fresh=1)["results"]
        paths.update(path_of(result).rpartition(": ")[2] for result in results)
        return expected <= paths

    until(are_found, 60)
    return paths


@pytest.mark.parametrize("hostile", [f"x = {'[' * 5_000}", "[query.fuse]\nlimit = 1000000000\n"])
def test_hostile_folder_file_stops_no_server_and_reveals_no_private_note(
    tmp_path: Path, hostile: str
) -> None:
    mine, strange = tmp_path / "mine", tmp_path / "strange"
    write(mine / "fruit.md", "# Fruit\n\nApples keep in a cool cellar.\n")
    write(strange / "pie.md", "# Pie\n\nApples are baked into a pie.\n")
    write(strange / "diary.md", "# Diary\n\nApples were sour.\n")
    write(strange / "thumbindex.toml", OWN)
    options = [
        "--folder",
        str(mine),
        "--folder",
        str(strange),
        "--index",
        str(tmp_path / "index"),
        *WORDS,
        f"--set=encode.embed.model={tmp_path / 'absent'}",
    ]
    with ServerProcess(options) as server:
        assert answered(server, {"fruit.md", "pie.md"}) == {"fruit.md", "pie.md"}
        write(strange / "thumbindex.toml", f"{OWN}{hostile}")
        write(strange / "diary 2.md", "# Diary\n\nApples were sweet.\n")
        write(mine / "new.md", "# New\n\nApples bloom.\n")
        assert answered(server, {"new.md"}) == {"fruit.md", "pie.md", "new.md"}
    with ServerProcess(options) as server:
        assert answered(server, {"fruit.md", "pie.md", "new.md"}) == {
            "fruit.md",
            "pie.md",
            "new.md",
        }
        status = server.call("status")
        wrong = {
            folder["folder"]: [problem["path"].partition(":")[0] for problem in folder["skipped"]]
            for folder in status["folders"]
        }
        assert wrong == {"mine": [], "strange": ["thumbindex.toml"]}
        assert any(
            "The folder strange is served without its own file" in note for note in status["notes"]
        )
