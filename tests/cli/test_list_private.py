"""`list --private` shows the owner which notes are private and why, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import thumbindex
from folders import write_notes
from notes import write
from schemas import checked
from thumbindex.cli.command_client import can_be_served

Run = Callable[..., Result]

NOTES = {
    "public.md": "# Public\n\nThe word private, `#private` and [x](a.md#private) hide nothing.\n",
    "code.md": "# Code\n\n```\n#private\n```\n\n    private: true\n",
    "key.md": "---\ntitle: Key\nPrivate: YES\n---\n# Key\n",
    "toml.md": "+++\nprivate = true\n+++\n",
    "broken.md": "---\ntitle: a: b\n\tprivate:\n---\n",
    "prose.md": "# Prose\n\n**private**: yes\n",
    "sentence.md": "# Modes\n\nOne mode.\n\nSimple #private mode for `#private` notes.\n",
    "nested.md": "# Nested\n\n```\n#private\n```\n\nText ＃Private/journal.\n",
    "listed.md": "---\ntags:\n  - kitchen\n  - private\n---\n",
    "comment.md": "# Comment\n\n<!-- #private -->\n",
    "secret.md": "# Own tag\n\nAll of it is #secret.\n",
    "journal/day.md": "# Day\n\nNo marker here.\n",
    "journal/both.md": "#private\n",
    "cp1252.md": "# Caf\u00e9\n\n#private\n",
    "ignored.md": "#private\n",
    ".gitignore": "ignored.md\n",
    "thumbindex.toml": '[corpus.private]\nglobs = ["journal/**", "none/*"]\ntags = ["secret"]\n',
}
PRIVATE = {
    "broken.md": ("the key `private`", 3),
    "comment.md": ("the tag #private", 3),
    "cp1252.md": ("the tag #private", 3),
    "journal/both.md": ("the glob journal/**", 0),
    "journal/day.md": ("the glob journal/**", 0),
    "key.md": ("the key `private`", 3),
    "listed.md": ("the tag #private", 4),
    "nested.md": ("the tag #private/journal", 7),
    "prose.md": ("the key `private`", 3),
    "secret.md": ("the tag #secret", 3),
    "sentence.md": ("the tag #private", 5),
    "toml.md": ("the key `private`", 2),
}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    vault = write_notes(tmp_path / "vault", NOTES)
    (vault / "cp1252.md").write_bytes(NOTES["cp1252.md"].encode("utf-16"))
    return vault


@pytest.fixture
def run(vault: Path, run_in: Run) -> Run:
    return lambda *arguments: run_in(vault, *arguments)


def test_private_notes_are_listed_with_reason_and_line(run: Run) -> None:
    listed = checked(run("list", "--private", "--json"), "list-private")
    assert {note["path"]: (note["reason"], note["line"]) for note in listed["notes"]} == PRIVATE
    assert not {note["path"] for note in checked(run("list", "--json"), "list")["notes"]} & {
        *PRIVATE
    }


def test_list_and_count_are_printed_for_the_owner(
    run: Run, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vault)
    lines = run("list", "--private", "--limit", "3").stdout.splitlines()
    assert lines == [
        "broken.md:3  the key `private`",
        "comment.md:3  the tag #private",
        "cp1252.md:3  the tag #private",
        "12 private notes",
    ]
    command = f"thumbindex list --private --folder {vault} --index {tmp_path / 'index'}"
    counted = f"12 notes are private: `{command}`"
    assert counted in run("index").stdout
    write(vault / "key.md", "# Key\n")
    (vault / "journal/day.md").unlink()
    assert counted.replace("12 notes", "10 notes") in run("index").stdout
    assert "private" not in run("index", "--json").stdout
    for path in PRIVATE:
        (vault / path).unlink(missing_ok=True)
    assert "private" not in run("index").stdout
    result = run("list", "--private")
    assert (result.exit_code, result.stdout) == (1, "No private notes.\n")
    assert run("list", "--private", "--tag", "kitchen").exit_code == 2


@pytest.mark.parametrize("command", ["read", "outline", "related", "why"])
@pytest.mark.parametrize("name", ["key", "key.md", "KEY.md#Key", "{vault}/key.md:3"])
def test_command_on_a_private_note_says_so(run: Run, vault: Path, command: str, name: str) -> None:
    question = ["x"] if command == "why" else []
    result = run(command, name.format(vault=vault), *question)
    told = result.stderr.splitlines()[-1]
    assert told == "key.md is private: `thumbindex list --private` says why."
    assert result.exit_code == 2
    assert "No note 'ke'" in run(command, "ke", *question).stderr


def test_symlink_into_a_private_folder_is_listed(run: Run, vault: Path) -> None:
    (vault / "how").symlink_to("journal")
    (vault / "link.md").symlink_to("journal/day.md")
    listed = checked(run("list", "--private", "--json"), "list-private")["notes"]
    assert {note["path"] for note in listed if "glob" in note["reason"]} == {
        "journal/both.md",
        "journal/day.md",
    }


def test_escape_sequences_in_names_do_not_reach_the_terminal(run: Run, vault: Path) -> None:
    write(vault / "\x1b[2J.md", "#private\n")
    assert "\x1b" not in run("list", "--private").stdout


def test_no_server_answers_about_private_notes() -> None:
    assert can_be_served(["list", "--json"])
    assert not can_be_served(["list", "--json", "--private"])
    package = Path(thumbindex.__file__).parent
    for room in ("mcp", "web", "background", "install"):
        for module in (package / room).rglob("*.py"):
            assert "private_notes" not in module.read_text(encoding="utf-8"), module
