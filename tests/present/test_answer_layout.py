"""`print(answer)` in Python, and the rows of an answer in the terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

from folders import write_notes
from thumbindex.cli.app import app
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.present.answer_layout import wrap_line

FILLER = 16 * "The ferry leaves at noon, and the lamps along the pier are lit at night.\n\n"
NOTES = {
    **{
        f"{name}.md": f"# {name}\n\n## Duties\n\n{FILLER}The {name} lantern is cleaned weekly.\n\n"
        + FILLER
        for name in ("red", "green")
    },
    "copy.md": "# Copy\n\nLogs of the lantern are kept for 20 years in the tower.\n",
    "logs.md": "# Logs\n\nLogs of the lantern are kept for 20 years in the tower.\n",
    "old.md": "---\nstatus: superseded\ndate: 2020-01-01\n---\n# Old\n\n"
    "Logs of the lantern are kept for 30 years in the tower.\n",
}


@pytest.mark.parametrize("folders", [["one"], ["one", "two"]])
@pytest.mark.parametrize("query", ["logs of the lantern", "lantern cleaned weekly", "xyzzyq"])
def test_printed_answer_is_that_of_the_command_in_a_pipe(
    query: str, folders: list[str], open_fake: Callable[[OpenOptions], Library], tmp_path: Path
) -> None:
    roots = [write_notes(tmp_path / folder, NOTES) for folder in folders]
    options = [f"--folder={root}" for root in roots] + [f"--index={tmp_path / 'index'}"]
    CliRunner().invoke(app, ["index", "--complete", *options], obj=open_fake)
    printed = CliRunner().invoke(app, ["query", *options, query], obj=open_fake).stdout
    with open_fake(OpenOptions(tuple(map(str, roots)), tmp_path / "index")) as library:
        assert f"{library.query(query)}\n" == printed


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("- one two three", ["- one", "  two", "  three"]),
        ("x https://example.org", ["x", "https://example.org"]),
        ("日本語のメモ", ["日本語の", "メモ"]),
        ("복원하려면 서버", ["복원하려면", "서버"]),
        ("", [""]),
    ],
)
def test_rows_break_between_words_and_wide_characters(line: str, rows: list[str]) -> None:
    assert [row.plain for row in wrap_line(Text(line), 8)] == rows
