"""The last answer: saving it, opening its results, and erasing it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mcp import Client

from notes import write
from program import app
from thumbindex.background.host import LibraryHost
from thumbindex.cli.last_answer import editor_command, read_answer
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.mcp.server import build_server
from thumbindex.opening import OpenOptions

Run = Callable[..., Result]

TEA = "# Tea\n\nGreen or black.\n\n## Storage\n\nKeep tea leaves dry and dark.\n"
GONE = (
    "of the last answer: its note is missing, private, or outside its folder now. Run "
    "`thumbindex query` again."
)


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    root = tmp_path / "my notes"
    write(root / "tea & milk; (1).md", TEA)
    write(root / "dark.md", "# Dark\n\nKeep dry leaves of tea in a dark wood.\n")
    return root


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the last answer; neither an editor nor a configuration is set."""
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/thumbindex/last/answer.json"


@pytest.fixture
def run(state: Path, open_fake: Callable[[OpenOptions], Library]) -> Run:
    return lambda *arguments, opener=open_fake: CliRunner().invoke(app, list(arguments), obj=opener)


@pytest.fixture
def query(run: Run, kitchen: Path, tmp_path: Path) -> Run:
    return lambda *arguments: run(
        "query", "--folder", str(kitchen), "--index", str(tmp_path / "index"), *arguments
    )


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that adds a program to PATH, which records its arguments in a file."""

    def make(name: str, code: int = 0) -> Path:
        (tmp_path / "bin").mkdir(exist_ok=True)
        program, ran = tmp_path / "bin" / name, tmp_path / f"{name}.ran"
        write(
            program,
            f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], "
            f"open({str(ran)!r}, 'w'))\nsys.exit({code})\n",
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
        return ran

    return make


def test_result_opens_in_the_editor_at_its_line(
    query: Run,
    run: Run,
    kitchen: Path,
    script: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = script("vim")
    monkeypatch.setenv("EDITOR", "vim -c 'set number'")
    assert query("keep tea leaves dry").stdout.count("\n1. ") == 1
    assert run("open").exit_code == 0
    assert json.loads(ran.read_text()) == [
        "-c",
        "set number",
        "+7",
        str(kitchen / "tea & milk; (1).md"),
    ]
    monkeypatch.setenv("VISUAL", str(script("code").with_name("bin") / "code"))
    assert run("open", "2").exit_code == 0
    assert json.loads(ran.with_name("code.ran").read_text()) == [
        "--goto",
        f"{kitchen / 'dark.md'}:3",
    ]


def test_read_prints_the_section_of_a_result(query: Run, run: Run, kitchen: Path) -> None:
    write(
        kitchen / "wood.md",
        "# Wood\n\nOak.\n\n## Cellar\n\nA wet zebra cellar.\n\n## Attic\n\nDry.\n",
    )
    query("wet zebra cellar")
    read = json.loads(run("read", "1", "--json").stdout)
    assert (read["path"], read["start_line"], read["end_line"]) == ("wood.md", 5, 8)
    assert run("read", "99").exit_code == 2


def test_windows_command_file_never_gets_a_path_it_would_run(
    script: Callable[[str], Path],
) -> None:
    script("code.cmd")
    assert editor_command(["code.cmd"], Path("/a b.md"), 1)[1:] == ["--goto", "/a b.md:1"]
    with pytest.raises(UsageError, match="Windows would run a part of its name as a command"):
        editor_command(["code.cmd"], Path("/a&calc.md"), 1)


def test_without_an_editor_notes_open_in_obsidian_or_the_default_program(
    query: Run,
    run: Run,
    kitchen: Path,
    script: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    ran = script(opener)
    query("keep tea leaves dry")
    assert run("open").exit_code == 0
    assert json.loads(ran.read_text()) == [str(kitchen / "tea & milk; (1).md")]
    refused = run("open", "--with", "obsidian")
    assert (refused.exit_code, "is not in an Obsidian vault" in refused.stderr) == (2, True)
    (kitchen / ".obsidian").mkdir()
    assert run("open").exit_code == 0
    assert json.loads(ran.read_text())[0].startswith("obsidian://open?path=%2F")
    assert json.loads(ran.read_text())[0].endswith("my%20notes%2Ftea%20%26%20milk%3B%20%281%29.md")
    monkeypatch.setenv("PATH", "")
    assert f"`{opener}` is not installed: set $EDITOR" in run("open").stderr


def test_wrong_usage_is_reported_in_one_sentence(query: Run, run: Run) -> None:
    assert "There is no last answer: run `thumbindex query` first." in run("open").stderr
    query("keep tea leaves dry")
    for number in ("9", "0"):
        result = run("open", number)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"There is no result {number}: the last answer has 2 results." in result.stderr
    query("xyzzyq plughw")
    assert "Your last query found nothing that can be opened." in run("open").stderr


@pytest.mark.parametrize("change", ["gone", "private", "outside", "index gone"])
def test_unreadable_note_is_neither_opened_nor_named(
    query: Run, run: Run, kitchen: Path, tmp_path: Path, change: str
) -> None:
    query("keep tea leaves dry")
    note = kitchen / "tea & milk; (1).md"
    if change == "private":
        write(note, f"---\nprivate: true\n---\n{TEA}")
    elif change == "outside":
        note.rename(tmp_path / "outside.md")
        note.symlink_to(tmp_path / "outside.md")
    elif change == "gone":
        note.unlink()
    else:
        shutil.rmtree(tmp_path / "index")
    for only in ((), ("--print",)):
        result = run("open", "1", *only)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Cannot open result 1 {GONE}" in result.stderr
        assert "tea" not in result.stderr


def test_saved_answer_is_private_and_contains_no_text(
    query: Run, state: Path, kitchen: Path, tmp_path: Path
) -> None:
    query("keep tea leaves dry")
    saved = json.loads(state.read_text(encoding="utf-8"))
    opening = [f"--folder={kitchen}", f"--index={tmp_path / 'index'}"]
    assert saved == {
        "format": 1,
        "opening": opening,
        "places": [[str(kitchen), "tea & milk; (1).md", 7], [str(kitchen), "dark.md", 3]],
    }
    assert [path.name for path in state.parent.iterdir()] == ["answer.json"]
    if os.name != "nt":
        assert (state.stat().st_mode & 0o777, state.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_json_answer_is_not_saved(query: Run, state: Path) -> None:
    query("keep tea leaves dry", "--json")
    assert not state.exists()


def test_query_answers_even_if_nothing_can_be_saved(query: Run, state: Path) -> None:
    write(state.parents[2], "a file where the folder should be")
    result = query("keep tea leaves dry")
    assert (result.exit_code, result.stderr.count("state")) == (0, 0)


def test_unreadable_saved_answer_is_ignored(query: Run, run: Run, state: Path) -> None:
    query("keep tea leaves dry")
    for text in ("", '{"format": 1, "opening": 5, "places": [1]}'):
        write(state, text)
        assert "There is no last answer" in run("open").stderr


def test_forget_erases_the_saved_answer_of_its_folder(
    query: Run, run: Run, state: Path, kitchen: Path, tmp_path: Path
) -> None:
    second = tmp_path / "other"
    second.mkdir()
    run("index", "--folder", str(second), "--index", str(tmp_path / "index"))
    query("keep tea leaves dry", "--folder", str(second))
    assert set(read_answer().opening.folder) == {str(kitchen), str(second)}  # type: ignore[union-attr]
    run("forget", "--folder", str(tmp_path / "bin"), "--index", str(tmp_path / "index"))
    assert state.exists()
    run("forget", "--folder", str(second), "--index", str(tmp_path / "index"))
    assert not state.exists()
    query("keep tea leaves dry")
    write(state, "damaged")
    run("forget", "--folder", str(kitchen), "--index", str(tmp_path / "index"))
    assert not state.exists()


@pytest.mark.anyio
async def test_client_queries_are_not_saved(library: Library, state: Path) -> None:
    async with Client(
        build_server(
            LibraryHost(OpenOptions(), lambda opening: library, command=[]), library.folders
        )
    ) as client:
        assert not (await client.call_tool("query", {"query": "press the green button"})).is_error
    assert not state.exists()


def test_windows_opens_a_file_without_a_shell(
    query: Run, run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query("keep tea leaves dry")
    started: list[str] = []
    monkeypatch.setattr(os, "startfile", started.append, raising=False)
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setattr("thumbindex.cli.last_answer.sys.platform", "win32")
    assert run("open").exit_code == 0
    assert started == [str(kitchen / "tea & milk; (1).md")]
