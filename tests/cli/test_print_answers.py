"""What `query` prints: short, marked and clickable on a terminal, plain in a pipe."""

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from urllib.parse import quote

import pytest
from click.testing import Result
from typer.testing import CliRunner

from folders import write_notes
from notes import write
from thumbindex.cli.app import app
from thumbindex.cli.terminal import file_url
from thumbindex.library import Library
from thumbindex.opening import OpenOptions

FILLER = (
    "The ferry leaves the harbor at noon and comes back late, when the lamps along the pier are "
    "lit and the kitchens are quiet again. "
)
NOTES = {
    **{
        f"keeper {n}.md": (
            f"# Keeper {n}\n\n{FILLER * 3}Lanterns are lit by keeper number {n}. {FILLER * 3}\n"
        )
        for n in range(1, 8)
    },
    "days/log.md": (
        "---\ndate: 2026-03-01\n---\n# Log\n\n## Storm\n\n- the roof held\n"
        "- two lanterns were lighting the stairs\n- the cat came back\n"
    ),
    "-dash.md": "# Dash\n\nThe gull took the sandwich.\n",
    "hidden.md": "# Hidden\n\n%% a remark\nof two lines %%\n\nThe albatross slept on the mast.\n",
}
MARK, OFF = "\x1b[1;31m", "\x1b[0m"
TERMINAL = {
    "FORCE_COLOR": "1",
    "TERM": "xterm-256color",
    "COLUMNS": "80",
    "LINES": "40",
    "NO_COLOR": "",
}

Ask = Callable[..., Result]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("lighthouse").resolve() / "my notes", NOTES)


@pytest.fixture(scope="module")
def ask(
    notes: Path,
    tmp_path_factory: pytest.TempPathFactory,
    open_fake: Callable[[OpenOptions], Library],
) -> Ask:
    place = ["--folder", str(notes), "--index", str(tmp_path_factory.mktemp("index"))]
    CliRunner().invoke(app, ["index", *place], obj=open_fake)

    def run(*given: str, **environment: str) -> Result:
        return CliRunner().invoke(app, ["query", *place, *given], obj=open_fake, env=environment)

    return run


def seen(printed: str) -> list[str]:
    """Return the rows of a screen without colors and links."""
    return re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", printed).split("\n")


def test_a_short_answer_names_path_and_line_and_shows_the_line_that_matches(
    ask: Ask, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    lines = ask("lantern lighting the stairs").stdout.splitlines()
    assert lines[0].startswith("5 passages, confidence ")
    assert lines[2] == f"1. days{os.sep}log.md:8  Storm (2026-03-01)"
    assert "   - two lanterns were lighting the stairs" in lines[3:6]


def test_the_line_is_that_with_which_the_text_begins_inside_a_paragraph_too(
    tmp_path: Path, run_in: Ask
) -> None:
    lines = [
        " and ".join(f"{number}{word}" for word in ("one", "two", "three", "four", "five", "of it"))
        for number in range(30)
    ]
    lines[17] = "here the cormorant dries its wings and nobody minds it at all"
    write(tmp_path / "notes/paragraph.md", "# Birds\n\n" + "\n".join(lines) + "\n")
    printed = run_in(tmp_path / "notes", "query", "cormorant wings").stdout
    line, first = re.search(
        r"paragraph\.md:(\d+)\n\s+(?:Birds[^\n]*\n\s+)?…?(\S+)", printed
    ).groups()  # type: ignore[union-attr]
    assert 3 < int(line) <= 20, printed
    assert first in lines[int(line) - 3].split()


def test_a_path_outside_the_current_directory_is_whole(
    ask: Ask, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        f"1. {notes / 'days' / 'log.md'}:8\n   Storm (2026-03-01)\n"
        in ask("lantern lighting the stairs").stdout
    )


@pytest.mark.parametrize(("columns", "rows"), [("80", "40"), ("60", "24")])
def test_five_passages_and_the_prompt_are_on_the_screen_together(
    ask: Ask, columns: str, rows: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    shown = seen(
        ask("who lights the lanterns", **TERMINAL | {"COLUMNS": columns, "LINES": rows}).stdout
    )
    assert len(shown) + 1 <= int(rows)
    assert max(map(len, shown)) <= int(columns)
    assert [line[:3] for line in shown if re.match(r"\d\. ", line)] == [
        f"{n}. " for n in range(1, 6)
    ]


def test_in_a_pipe_five_passages_take_forty_rows_and_no_escape(ask: Ask) -> None:
    printed = ask("who lights the lanterns").stdout
    assert len(printed.splitlines()) <= 40
    assert "\x1b" not in printed
    assert "Lanterns are lit by keeper number" in printed


def test_the_querys_words_are_marked_by_their_stems_on_a_terminal(ask: Ask) -> None:
    printed = ask("lantern light stair", **TERMINAL).stdout
    assert f"- two {MARK}lanterns{OFF} were {MARK}lighting{OFF} the {MARK}stairs{OFF}" in printed


def test_a_place_on_a_terminal_is_a_link_to_the_file_on_this_machine(ask: Ask, notes: Path) -> None:
    address = f"file://{platform.node()}{quote(str(notes / 'days' / 'log.md'))}"
    assert (
        os.name == "nt"
        or f";{address}\x1b\\" in ask("lantern lighting the stairs", **TERMINAL).stdout
    )
    assert "\x1b]8" not in ask("lantern lighting the stairs", **TERMINAL | {"TERM": "dumb"}).stdout


def test_an_address_on_windows_names_a_drive_and_no_machine() -> None:
    assert file_url(PureWindowsPath(r"C:\my notes\log.md")) == "file:///C:/my%20notes/log.md"


def test_files_are_paths_that_open_each_once_the_best_first(
    ask: Ask, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    near = ask("lantern lighting the stairs", "--files").stdout.splitlines()
    assert near[0] == f"days{os.sep}log.md"
    assert len(near) == len(set(near))
    assert all(Path(each).is_file() for each in near)
    assert ask("gull took the sandwich", "--files").stdout.splitlines()[0] == f".{os.sep}-dash.md"
    monkeypatch.chdir(tmp_path)
    assert ask("lantern lighting the stairs", "--files").stdout.splitlines()[0] == str(
        notes / "days" / "log.md"
    )


def test_files_alone_are_on_standard_output_and_doubt_is_on_standard_error(ask: Ask) -> None:
    doubtful, nothing = ask("storm beer", "--files"), ask("xyzzyq plughw", "--files")
    assert "confidence low" in doubtful.stderr
    assert "confidence" not in doubtful.stdout
    assert (nothing.exit_code, nothing.stdout, "Nothing found" in nothing.stderr) == (1, "", True)
    assert ask("log", "--files").stderr == ""


def test_forms_of_an_answer_exclude_each_other(ask: Ask) -> None:
    refused = ask("lantern", "--files", "--json")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "--full, --files and --json exclude each other: give one of them.\n",
    )


def test_where_comments_were_left_out_the_place_is_where_the_match_begins(ask: Ask) -> None:
    assert re.search(r"1\. \S*.*hidden\.md:6\b", ask("albatross slept on the mast").stdout)
