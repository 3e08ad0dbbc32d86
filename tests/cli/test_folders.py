"""Named folders: `add`, `folders`, `remove`, and the folder of a command that names none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from notes import write
from program import app
from schemas import checked
from thumbindex.config import load_config, resolve_folders
from thumbindex.library import Library
from thumbindex.mcp.server import server_instructions
from thumbindex.opening import OpenOptions

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with two projects, each with its own `docs`."""
    for project in ("one", "two"):
        (tmp_path / project / "docs" / "guides").mkdir(parents=True)
        write(
            tmp_path / project / "docs" / f"{project}.md",
            f"# {project}\n\nAll about project {project}.\n",
        )
    return tmp_path


@pytest.fixture
def config(home: Path) -> Path:
    return home / "config.toml"


@pytest.fixture
def run(home: Path, config: Path, open_fake: Callable[[OpenOptions], Library]) -> Run:
    def run_it(command: str, *arguments: str) -> Result:
        more = () if command in {"add", "remove"} else ("--index", str(home / "indexes"))
        return CliRunner().invoke(
            app, [command, *arguments, "--config", str(config), *more], obj=open_fake
        )

    return run_it


def listed(result: Result) -> list[dict[str, Any]]:
    folders: list[dict[str, Any]] = checked(result, "folders")["folders"]
    return folders


def test_added_folder_is_listed_and_served_by_name(run: Run, home: Path, config: Path) -> None:
    write(config, "")
    added = run(
        "add", str(home / "one/docs"), "--name", "handbook", "--about", "How project one\nis built."
    )
    assert (added.exit_code, added.stdout.splitlines()[0]) == (
        0,
        f"Added handbook ({home / 'one/docs'}) to {config}.",
    )
    (before,) = listed(run("folders", "--json"))
    run("index", "--folder", "handbook")
    (after,) = listed(run("folders", "--json"))
    facts = {
        "name": "handbook",
        "path": str(home / "one/docs"),
        "about": "How project one is built.",
        "there": True,
    }
    assert [before, after] == [facts | {"indexed": False}, facts | {"indexed": True}]
    config_read = load_config(config_file=config)
    assert (
        server_instructions(resolve_folders(config_read), about=config_read.about).splitlines()[-1]
        == "- handbook: How project one is built."
    )


@pytest.mark.parametrize(
    "text",
    [
        (
            "[[folders]]  # the first\nname = 'other'\npath = '/elsewhere'\n\n# about queries\n"
            "[query]\nlimit = 7\n"
        ),
        "[query]\r\nlimit = 7\r\n[folders.other]\r\npath = '/elsewhere'\r\ntokens = ['ada']\r\n",
        "\ufeff[folders]\nother = '/elsewhere'\n",
    ],
)
def test_rest_of_the_file_is_unchanged(run: Run, home: Path, config: Path, text: str) -> None:
    config.write_bytes(text.encode())
    assert run("add", str(home / "two/docs"), "--about", "Two.").exit_code == 0
    remaining = config.read_bytes().decode()
    assert (remaining.startswith(text), load_config(config_file=config).about) == (
        True,
        {"docs": "Two."},
    )
    assert (run("remove", "docs").exit_code, config.read_bytes().decode().rstrip()) == (
        0,
        text.rstrip(),
    )
    assert run("remove", "other").exit_code == 0
    assert (load_config(config_file=config).folders, "#" in text) == (
        {},
        "#" in config.read_bytes().decode(),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "{home}/nowhere"), "there is no folder"),
        (("add", "{home}/one/docs"), "is already named docs"),
        (
            ("add", "{home}/two/docs"),
            "{home}/one/docs is already named docs: choose another name with --name.",
        ),
        (("add", "{home}/two/docs", "--name", "a: b"), "Cannot use 'a: b' as a name"),
        (("remove", "dosc"), "did you mean docs?"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(
    run: Run, home: Path, config: Path, arguments: tuple[str, ...], message: str
) -> None:
    write(config, f"[folders]\ndocs = '{home}/one/docs'\n")
    before = config.read_bytes()
    command, *options = (argument.replace("{home}", str(home)) for argument in arguments)
    result = run(command, *options)
    assert (
        result.exit_code,
        message.replace("{home}", str(home)) in result.stderr,
        config.read_bytes() == before,
    ) == (2, True, True)


def test_invalid_toml_is_left_alone_and_reported_with_its_line(
    run: Run, home: Path, config: Path
) -> None:
    write(config, "[query\n")
    result = run("add", str(home / "one/docs"))
    assert (f"{config}:1" in result.stderr, config.read_text(encoding="utf-8")) == (
        True,
        "[query\n",
    )


def test_command_inside_an_indexed_folder_uses_and_reports_it(
    run: Run, home: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(config, "")
    run("index", "--folder", str(home / "one/docs"))
    monkeypatch.chdir(home / "one/docs/guides")
    inside = run("query", "project one", "--json")
    monkeypatch.chdir(home / "one/docs")
    at = run("query", "project one", "--json")
    assert [
        [entry["path"] for entry in json.loads(result.stdout)["results"]] for result in (inside, at)
    ] == [["one.md"], ["one.md"]]
    assert f"Using the folder docs ({home / 'one/docs'})" in inside.stderr
    assert "Using the index" not in at.stderr
    assert [
        entry.name.partition("-")[0]
        for entry in (home / "indexes").iterdir()
        if entry.name != "vectors"
    ] == ["docs"]


def test_a_command_uses_the_configured_folder_it_runs_in_else_all(
    run: Run, home: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(config, "")
    for name in ("one", "two"):
        run("add", str(home / name / "docs"), "--name", name)
    run("index", "--complete")
    monkeypatch.chdir(home / "two/docs")
    inside = run("query", "all about project", "--json")
    monkeypatch.chdir(home)
    outside = run("query", "all about project", "--json")
    assert [
        {passage["folder"] for passage in json.loads(result.stdout)["results"]}
        for result in (inside, outside)
    ] == [{"two"}, {"one", "two"}]


def test_remove_reports_that_tokens_were_removed(run: Run, home: Path, config: Path) -> None:
    write(config, f"[folders.notes]\npath = '{home}/one/docs'\ntokens = ['alice']\n")
    assert "Its list of allowed tokens was removed too" in run("remove", "notes").stdout
