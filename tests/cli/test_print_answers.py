"""The output of `query`: short, marked and clickable on a terminal, plain in a pipe."""

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from folders import write_notes
from notes import write
from program import app
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
    "hidden.md": "# Hidden\n\n<!-- a remark\nof two lines -->\n\nAn albatross slept on the mast.\n",
}
MARK, DIM, OFF = "\x1b[1;31m", "\x1b[2m", "\x1b[0m"
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
    CliRunner().invoke(app, ["index", "--complete", *place], obj=open_fake)

    def run(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(
            app, ["query", *place, *arguments], obj=open_fake, env=environment
        )

    return run


def seen(printed: str) -> list[str]:
    """Return the rows of a screen without colors and links."""
    return re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", printed).split("\n")


def test_short_answer_shows_path_line_and_matching_line(
    ask: Ask, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    lines = ask("lantern lighting the stairs").stdout.splitlines()
    assert lines[0].startswith("1 passage, confidence ")
    assert lines[2:4] == ["1. Storm", f"   days{os.sep}log.md:9  (2026-03-01)"]
    assert "   - two lanterns were lighting the stairs" in lines[4:7]
    assert "4 weaker ones: --limit 5" in lines


def test_line_number_is_that_of_the_paragraph_that_answers(tmp_path: Path, run_in: Ask) -> None:
    lines = [
        " and ".join(f"{number}{word}" for word in ("one", "two", "three", "four", "five", "of it"))
        for number in range(30)
    ]
    lines[17] = "here the cormorant dries its wings and nobody minds it at all"
    write(tmp_path / "notes/paragraph.md", "# Birds\n\n" + "\n".join(lines) + "\n")
    printed = run_in(tmp_path / "notes", "query", "cormorant wings").stdout
    (line,) = re.search(r"paragraph\.md:(\d+)\n", printed).groups()  # type: ignore[union-attr]
    assert 3 < int(line) <= 20, printed
    assert "here the cormorant" in printed


def test_disagreement_names_the_other_place_at_any_width(tmp_path: Path, run_in: Ask) -> None:
    folder = "rules for the keepers of all lighthouses on the northern coast"
    for name, years in (("old", 20), ("new", 30)):
        text = f"# Logs\n\nThe logs of the lighthouse are kept for {years} years in the tower.\n"
        write(tmp_path / "notes" / folder / f"{name}.md", text)
    printed = run_in(tmp_path / "notes", "query", "logs of the lighthouse").stdout
    assert f"these two disagree: `20 year` vs. `30 year` in {folder}/new.md (line 3)\n" in printed


def test_path_is_that_in_the_folder_if_the_current_directory_is_elsewhere(
    ask: Ask, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ask("lantern lighting the stairs").stdout
    assert "\n1. Storm\n   days/log.md:9  (2026-03-01)\n" in answer


def test_path_above_the_current_directory_begins_with_dots(
    ask: Ask, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes / "days")
    assert f"   ..{os.sep}hidden.md:6\n" in ask("albatross slept on the mast").stdout


def test_long_path_is_shortened_in_the_middle_and_can_be_read(
    tmp_path: Path, run_in: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in TERMINAL.items():
        monkeypatch.setenv(variable, value)
    name = "the rules for the keepers of all lighthouses on the northern coast and its islands.md"
    write(tmp_path / "notes" / "north" / name, "# Oil\n\nThe oil is stored in the cellar.\n")
    printed = run_in(tmp_path / "notes", "query", "where is the oil stored").stdout
    (shown,) = (line.strip() for line in seen(printed) if "…" in line)
    assert len(shown) <= 77
    assert "The oil is stored" in run_in(tmp_path / "notes", "read", shown).stdout


@pytest.mark.parametrize(("columns", "rows"), [("80", "40"), ("60", "24")])
def test_five_passages_fit_on_the_screen(
    ask: Ask, columns: str, rows: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    screen = seen(
        ask("lanterns lit by keeper", **TERMINAL | {"COLUMNS": columns, "LINES": rows}).stdout
    )
    assert len(screen) + 1 <= int(rows)
    assert max(map(len, screen)) <= int(columns)
    assert [line[:3] for line in screen if re.match(r"\d\. ", line)] == [
        f"{n}. " for n in range(1, 6)
    ]


def test_piped_answer_takes_forty_rows_without_escapes(ask: Ask) -> None:
    printed = ask("who lights the lanterns").stdout
    assert len(printed.splitlines()) <= 40
    assert "\x1b" not in printed
    assert "Lanterns are lit by keeper number" in printed


def test_terminal_marks_query_words_by_stem(ask: Ask) -> None:
    printed = ask("two lanterns light the stairs", **TERMINAL).stdout
    assert f" {MARK}lanterns{OFF} were {MARK}lighting{OFF} the {MARK}stairs{OFF}" in printed


def test_passages_of_low_confidence_are_dim(ask: Ask) -> None:
    printed = ask("who lights the lanterns", **TERMINAL).stdout
    assert "2 passages, confidence low" in printed
    assert f"{DIM}1. {OFF}" in printed
    assert f"{DIM}3 weaker ones: --limit 5" in printed


def test_terminal_location_links_to_the_local_file(ask: Ask, notes: Path) -> None:
    address = f"file://{platform.node()}{quote(str(notes / 'days' / 'log.md'))}"
    assert (
        os.name == "nt"
        or f";{address}\x1b\\" in ask("lantern lighting the stairs", **TERMINAL).stdout
    )
    assert "\x1b]8" not in ask("lantern lighting the stairs", **TERMINAL | {"TERM": "dumb"}).stdout


def test_windows_file_url_has_a_drive_and_no_host() -> None:
    assert file_url(PureWindowsPath(r"C:\my notes\log.md")) == "file:///C:/my%20notes/log.md"


def test_files_prints_each_path_once_best_first(
    ask: Ask, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    paths = ask("lantern lighting the stairs", "--files").stdout.splitlines()
    assert paths[0] == f"days{os.sep}log.md"
    assert len(paths) == len(set(paths))
    assert all(Path(path).is_file() for path in paths)
    assert ask("gull took the sandwich", "--files").stdout.splitlines()[0] == f".{os.sep}-dash.md"
    monkeypatch.chdir(tmp_path)
    assert ask("lantern lighting the stairs", "--files").stdout.splitlines()[0] == str(
        notes / "days" / "log.md"
    )


def test_files_prints_doubts_on_stderr(ask: Ask) -> None:
    doubtful, nothing = ask("who lights the lanterns", "--files"), ask("xyzzyq plughw", "--files")
    assert "confidence low" in doubtful.stderr
    assert "confidence" not in doubtful.stdout
    assert (nothing.exit_code, nothing.stdout, "Nothing found" in nothing.stderr) == (1, "", True)
    assert ask("log", "--files").stderr == ""


def test_output_formats_exclude_each_other(ask: Ask) -> None:
    refused = ask("lantern", "--files", "--json")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "--full, --files and --json cannot be combined: use only one.\n",
    )


def test_location_is_the_match_if_comments_are_left_out(ask: Ask) -> None:
    assert "hidden.md:6\n" in ask("albatross slept on the mast").stdout


def test_code_and_long_words_are_not_broken_and_rows_of_an_item_align(
    tmp_path: Path, run_in: Ask
) -> None:
    command = "sudo kextunload " + "/System/Library" * 6
    item = "- Turn the internal keyboard off before you clean its keys with a cloth, as here:"
    write(tmp_path / "notes/mac.md", f"# Mac\n\n{item} {'x' * 90}\n\n```sh\n{command}\n```\n")
    printed = run_in(tmp_path / "notes", "query", "turn the internal keyboard off").stdout
    assert (
        "   - Turn the internal keyboard off before you clean its keys with a cloth, as\n"
        f"     here:\n     {'x' * 90}\n      {command}\n"
    ) in printed


def test_code_of_one_line_is_printed(tmp_path: Path, run_in: Ask) -> None:
    text = "# Windows\n\nTo remove the walrus:\n\n```text\n| :-: |\n```\n\n---\n\nDone.\n"
    write(tmp_path / "notes/windows.md", text)
    printed = run_in(tmp_path / "notes", "query", "remove the walrus").stdout
    assert "   To remove the walrus:\n      | :-: |\n   Done.\n" in printed
