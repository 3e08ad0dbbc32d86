"""What the README shows of the command line is what it says; … stands for a figure or for lines
that depend on the machine.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from notes import write
from thumbindex.cli.app import app
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.ports import Embedder

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def shown(command: str) -> str:
    """Return what the README shows below the command that begins so."""
    (found,) = re.findall(rf"(?ms)^\$ {re.escape(command)}[^\n]*\n(.*?)(?=^\$ |^```)", README)
    return str(found)


def assert_shown(command: str, said: str) -> None:
    expected = re.escape(shown(command).strip()).replace("…", ".*")
    assert re.fullmatch(expected, said.strip(), re.DOTALL), f"`{command}` says now:\n{said}"


def test_the_readme_shows_what_indexing_and_asking_its_note_says(
    tmp_path: Path, real_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def opener(opening: OpenOptions) -> Library:
        return Library.open(
            opening.folder, index=opening.index, config=opening.load(), embedder=real_embedder
        )

    notes = tmp_path / "notes"
    write(notes / "meetings.md", shown("cat notes/meetings.md"))
    (asked,) = re.findall(r"^\$ thumbindex query --folder notes (.*)$", README, re.MULTILINE)
    for name, arguments in (("index", []), ("query", shlex.split(asked))):
        result = CliRunner().invoke(
            app,
            [name, "--folder", str(notes), "--index", str(tmp_path / "index"), *arguments],
            obj=opener,
        )
        assert_shown(f"thumbindex {name} --folder notes", result.stdout)


@pytest.mark.skipif(
    sys.platform != "linux", reason="the README shows where Linux keeps a client's file"
)
def test_the_readme_shows_what_installing_writes(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    arguments = ["install", "claude-desktop", "--folder", str(tmp_path / "notes")]
    result = CliRunner().invoke(
        app, arguments, env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
    )
    said = re.sub(
        '"command": "[^"]*"', '"command": "/home/ada/.venv/bin/thumbindex"', result.output
    ).replace(str(tmp_path), "/home/ada")
    assert_shown("thumbindex install claude-desktop --folder", said)
