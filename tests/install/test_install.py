"""`thumbindex install` as a user runs it, in a temporary home folder."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from notes import write
from program import app

Install = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of notes in a temporary home folder."""
    notes = tmp_path / "home" / "notes"
    notes.mkdir(parents=True)
    monkeypatch.chdir(notes)
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(notes.parent))
    return notes.parent


@pytest.fixture
def install(home: Path) -> Install:
    return lambda *arguments: CliRunner().invoke(app, ["install", *arguments])


def files(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


def entry(home: Path) -> dict[str, list[str]]:
    servers: dict[str, list[str]] = json.loads((home / ".claude.json").read_text(encoding="utf-8"))[
        "mcpServers"
    ]["thumbindex"]
    return servers


def test_entry_names_each_folder_by_absolute_path(install: Install, home: Path) -> None:
    (home / "docs").mkdir()
    result = install(
        "claude-code",
        "--folder",
        ".",
        "--folder",
        "../docs",
        "--set",
        "query.limit=3",
        "--index",
        "../elsewhere",
    )
    assert result.exit_code == 0
    folders = ["--folder", str(home / "docs"), "--folder", str(home / "notes")]
    assert entry(home)["args"] == [
        "serve",
        *folders,
        "--set",
        "query.limit=3",
        "--index",
        str(home / "notes" / ".." / "elsewhere"),
    ]


@pytest.mark.slow
def test_installed_command_starts_a_server_from_anywhere(install: Install, home: Path) -> None:
    install("claude-code")
    command, *arguments = entry(home)["command"], *entry(home)["args"]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    hello["params"] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }  # type: ignore[assignment]
    bare = {"HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    result = subprocess.run(
        [command, *arguments],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        cwd="/",
        env=bare,
        timeout=60,
    )
    assert json.loads(result.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "thumbindex"


@pytest.mark.skipif(os.name == "nt", reason="it has no such permissions")
def test_changes_written_before_an_error_are_shown(install: Install, home: Path) -> None:
    instructions = home / ".claude/CLAUDE.md"
    instructions.parent.mkdir()
    instructions.write_text("Mine.\n", encoding="utf-8")
    instructions.chmod(0o444)
    result = install("claude-code", "--folder", ".", "--instructions")
    assert result.exit_code == 2
    assert f"{home / '.claude.json'}" in result.stdout
    assert '+    "thumbindex": {' in result.stdout
    assert entry(home)["args"][0] == "serve"


def test_without_a_folder_the_current_one_is_installed(install: Install, home: Path) -> None:
    install("claude-code")
    assert entry(home)["args"] == ["serve", "--folder", str(home / "notes")]


def test_configured_folders_are_not_repeated_in_the_entry(install: Install, home: Path) -> None:
    config = home / "own.toml"
    write(config, f"[folders]\nwork = {json.dumps(str(home / 'notes'))}\n")
    install("claude-code", "--config", str(config))
    assert entry(home)["args"] == ["serve", "--config", str(config)]


@pytest.mark.parametrize("place", ["home", "/"])
def test_home_or_root_is_served_only_if_named(
    install: Install, home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home if place == "home" else place)
    result = install("claude-code")
    assert (result.exit_code, files(home)) == (2, set())
    assert "name the folder with your notes with --folder" in result.stderr


def test_folder_that_contains_the_index_is_refused(install: Install, home: Path) -> None:
    for inside in (
        install("claude-code", "--folder", str(home)),
        install("claude-code", "--index", "elsewhere"),
    ):
        assert (inside.exit_code, files(home)) == (2, set())
        assert "is inside the folder" in inside.stderr
    assert (
        install(
            "claude-code", "--folder", str(home), "--index", str(home.parent / "indexes")
        ).exit_code
        == 0
    )


def test_dry_run_shows_the_real_changes_and_writes_nothing(install: Install, home: Path) -> None:
    diff = install("codex", "--dry-run", "--instructions").stdout
    assert files(home) == set()
    assert install("codex", "--instructions").stdout.splitlines()[:12] == diff.splitlines()[:12]
    assert "+[mcp_servers.thumbindex]" in diff
    assert "+Before answering anything that the user's notes and docs (notes) may cover" in diff
    assert "Nothing was written" in diff


def test_second_run_reports_no_changes(install: Install, home: Path) -> None:
    install("claude-code", "--instructions")
    output = install("claude-code", "--instructions").stdout
    assert output == "".join(
        f"{home / name}: nothing to change\n" for name in (".claude.json", ".claude/CLAUDE.md")
    )


def test_uninstall_leaves_no_trace(install: Install, home: Path) -> None:
    write(home / ".claude" / "CLAUDE.md", "Be brief.")
    install("claude-code", "--instructions")
    assert files(home) == {
        ".claude.json",
        ".claude/CLAUDE.md",
        ".claude/CLAUDE.md.thumbindex-backup",
    }
    assert "no longer starts thumbindex" in install("claude-code", "--uninstall").stdout
    assert files(home) == {".claude/CLAUDE.md"}
    assert (home / ".claude" / "CLAUDE.md").read_text(encoding="utf-8") == "Be brief."


def test_instructions_are_written_only_on_request(install: Install, home: Path) -> None:
    assert (
        "run this again with --instructions: it adds a line to "
        f"{home / '.claude' / 'CLAUDE.md'}." in install("claude-code").stdout
    )
    assert files(home) == {".claude.json"}


@pytest.mark.parametrize(
    ("client", "file"),
    [
        ((), "AGENTS.md"),
        (("cursor",), ".cursor/rules/thumbindex.mdc"),
        (("vscode",), ".github/copilot-instructions.md"),
    ],
)
def test_project_instructions_are_written_and_removed(
    install: Install, home: Path, client: tuple[str, ...], file: str
) -> None:
    install(*client, "--project", "--instructions")
    text = (home / "notes" / file).read_text(encoding="utf-8")
    assert "ask the `query` tool of the MCP server `thumbindex`" in text
    install(*client, "--project", "--uninstall")
    assert files(home) == set()


def test_list_of_clients_says_which_are_set_up(install: Install, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    install("cursor")
    assert install().stdout.splitlines()[:2] == [
        "Cursor  set up",
        "Codex   thumbindex install codex --folder DIR",
    ]


def test_difference_shows_that_a_new_folder_replaces_the_old_one(
    install: Install, home: Path
) -> None:
    (home / "docs").mkdir()
    install("cursor")
    second = install("cursor", "--folder", str(home / "docs")).stdout
    removed = [line for line in second.splitlines() if line.startswith("-")]
    assert any(str(home / "notes") in line for line in removed)
    assert (
        "Cursor no longer starts thumbindex. If it is running, restart it.\n"
        in install("cursor", "--uninstall").stdout
    )
    assert files(home) == set()


def test_nothing_is_written_if_one_file_is_broken(install: Install, home: Path) -> None:
    write(home / ".claude.json", "{")
    result = install("claude-code")
    assert (result.exit_code, files(home)) == (2, {".claude.json"})
    assert (
        ".claude.json:1:2: expecting property name enclosed in double quotes. Nothing was changed"
    ) in result.stderr


@pytest.mark.parametrize(
    ("client", "file", "keys", "folder"),
    [
        ((), ".mcp.json", "mcpServers", "docs"),
        (("cursor",), ".cursor/mcp.json", "mcpServers", "${workspaceFolder}/docs"),
    ],
)
def test_project_file_contains_nothing_specific_to_this_machine(
    install: Install, home: Path, client: tuple[str, ...], file: str, keys: str, folder: str
) -> None:
    (home / "notes/docs").mkdir()
    assert install(*client, "--project", "--folder", "docs").exit_code == 0
    entry = json.loads((home / "notes" / file).read_text(encoding="utf-8"))[keys]["thumbindex"]
    assert (entry["command"], entry["args"], files(home)) == (
        "thumbindex",
        ["serve", "--folder", folder],
        {f"notes/{file}"},
    )
    assert (install(*client, "--project", "--uninstall").exit_code, files(home)) == (0, set())


def test_project_accepts_only_its_own_folders(install: Install, home: Path) -> None:
    refused = [
        install("--project", "--folder", ".."),
        install("--project", "--index", "x"),
        install("zed", "--project"),
    ]
    assert [(result.exit_code, files(home)) for result in refused] == 3 * [(2, set())]
    assert "inside the project" in refused[0].stderr
