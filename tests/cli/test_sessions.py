"""Terminal sessions: commands and their exact output, one file a command.

`python tests/cli/test_sessions.py` replaces the outputs by those of today. To add a command, first
write its line `$ thumbindex …` into a file.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

# So that this file also runs as a program.
sys.path.insert(0, str(Path(__file__).parents[1]))

import thumbindex
from folders import write_notes
from program import app
from thumbindex.encode.embed import open_embedder
from thumbindex.encode.models import BUNDLED
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.ports import Embedder
from thumbindex.settings import EmbedSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.md"))
WITHOUT_SESSION = {
    "serve": "runs until it is stopped",
    "page": "runs until it is stopped",
    "engine": "needs a PostgreSQL server",
}

NOTES = {
    ".gitignore": "drafts/\n",
    "drafts/party.md": "# Party\n\nSongs to grill by.\n",
    "diary.md": "---\nprivate: true\n---\n# Diary\n\nCy is looking for another job.\n",
    "projects/greenhouse.md": (
        "---\nstatus: done\ndue: 2026-05-01\n---\n# Greenhouse\n\n"
        "Tomatoes along the south wall, cucumbers in the shade.\n"
    ),
    "projects/reports.md": (
        "---\nstatus: doing\ndue: 2026-12-01\ntags: [project]\n---\n# Reports\n\n"
        "Bo moves the monthly tables, as [[meetings|agreed]]. Left: [[invoices]] and [[diary]].\n"
    ),
    "recipes/rye rolls.md": (
        "---\ntags: [recipe]\n---\n\n# Rye rolls\n\n## Starter\n\n"
        "Feed it with equal parts of rye flour and water, twice a day, before you bake.\n"
    ),
    "work/archive/offsite in the mountains/notes of the second day, by Ada and Cy.md": (
        "# Offsite, second day\n\n## On-call\n\n"
        "Whoever is on call carries the red phone for a week and writes down every alarm, even "
        "the false ones. The next person reads the list on Monday, before the phone changes "
        "hands. An alarm that came three times without a reason is removed.\n"
    ),
    "work/backups 2025.md": (
        "# Backups in 2025\n\n`pg_dump` runs every night at 02:00 and keeps 14 days. Restoring "
        "took 25 minutes in the\nlast drill (2025-02-12). The phones are not backed up.\n"
    ),
    "work/storage.md": (
        '---\nstatus: superseded\nsuperseded_by: "[[meetings]]"\ndate: 2024-06-01\n---\n'
        "# Storage\n\nAll data is in MongoDB, since it is quick to begin with.\n"
    ),
}
"""More notes than in `examples/notes`, so that each command has something to show."""


BLOCK = re.compile(r"````console\n(.*?)````\n", re.DOTALL)
BLOCK_AT_120 = re.compile(rf"\nAt 120 columns:\n\n{BLOCK.pattern}", re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:thumbindex|cd) .+)$", re.MULTILINE)
PROGRESS_BARS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(?:\r?\x1b\[1A\x1b\[2K)*", re.DOTALL)
STYLES = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m")
INSTALLED = {str(Path(thumbindex.__file__).parent): "/opt/thumbindex", sys.prefix: "/opt"}
DIFFERS = (
    (r"(?<=\b0\.)\d\d\d?\b", lambda match: "x" * len(match[0])),  # scores, by processor
    (r"\b\d+\.\d(?= (?:s|MB)\b)", "x.x"),
    (r"\b\d+(?= ms\b)", lambda match: "x".rjust(len(match[0]))),
    (r"(?<=\bti_)[\w-]{43}", "xxxxxxxx"),
    (r"(?<=-)[0-9a-f]{12}\b", "xxxxxxxx"),  # the digest of a folder's path
    (r" +$", ""),
)
"""What differs between machines, and its placeholder; blanks at the end of a row."""


class Home:
    """A user's home with the indexed folder `notes`, in which each session begins."""

    def __init__(self, path: Path, saved: Path, embedder: Embedder) -> None:
        self.path, self.saved, self.embedder = path, saved, embedder
        shutil.copytree(EXAMPLES, self.path, dirs_exist_ok=True)
        write_notes(self.path / "notes", NOTES)
        (self.path / ".cursor").mkdir()  # the settings of a client
        with chdir(self.path / "notes"):
            self.run("thumbindex index --complete", 80)
        shutil.copytree(self.path, self.saved, ignore=lambda *_: {"notes"})

    def play(self, session: str) -> str:
        """Return a session with the outputs of today."""
        text, *parts = BLOCK.split(BLOCK_AT_120.sub("", session))
        at_80, at_120 = (self.outputs(parts[::2], columns) for columns in (80, 120))
        for narrow, wide, prose in zip(at_80, at_120, parts[1::2], strict=True):
            text += f"````console\n{narrow}````\n"
            if wide != narrow:
                text += f"\nAt 120 columns:\n\n````console\n{wide}````\n"
            text += prose
        return text

    def outputs(self, blocks: Sequence[str], columns: int) -> list[str]:
        """Return blocks of commands with the output of each command."""
        for entry in self.path.glob(".*"):
            shutil.rmtree(entry)
        shutil.copytree(self.saved, self.path, dirs_exist_ok=True)
        with chdir(self.path / "notes"):
            return [
                "".join(
                    f"$ {command}\n{self.run(command, columns)}"
                    for command in COMMAND.findall(block)
                )
                for block in blocks
            ]

    def run(self, command: str, columns: int) -> str:
        """Return what a terminal of this width shows of a command."""
        program, *arguments = shlex.split(command.replace("~", str(self.path)))
        if program == "cd":
            os.chdir(arguments[0])
            return ""
        terminal = {"FORCE_COLOR": "1", "NO_COLOR": "", "TERM": "xterm", "LINES": "40"}
        unset = ("EDITOR", "VISUAL", *(name for name in os.environ if name.startswith("XDG_")))
        result = CliRunner().invoke(
            app,
            arguments,
            obj=self.open,
            env={
                **dict.fromkeys(unset),
                **terminal,
                "COLUMNS": str(columns),
                "HOME": str(self.path),
            },
        )
        output = STYLES.sub("", PROGRESS_BARS.sub("", result.output))
        for place, shown in {str(self.path): "/home/dorothy", **INSTALLED}.items():
            output = output.replace(place, shown)
        for pattern, placeholder in DIFFERS:
            output = re.sub(pattern, placeholder, output, flags=re.MULTILINE)
        return output + (f"$ echo $?\n{result.exit_code}\n" if result.exit_code else "")

    def open(self, opening: OpenOptions) -> Library:
        """Open a library with the loaded model."""
        return Library.open(
            opening.folder, index=opening.index, config=opening.load(), embedder=self.embedder
        )


@contextmanager
def open_home(embedder: Embedder) -> Iterator[Home]:
    # rows are as long as with /home/dorothy
    with TemporaryDirectory(prefix="", dir="/tmp") as home, TemporaryDirectory() as other:
        yield Home(Path(home), Path(other, "saved"), embedder)


@pytest.fixture(scope="module")
def home(real_embedder: Embedder) -> Iterator[Home]:
    with open_home(real_embedder) as home:
        yield home


@pytest.mark.skipif(sys.platform != "linux", reason="the files of a home are at other paths")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow) if path.stem == "doctor" else path
        for path in SESSIONS  # doctor starts a server
    ],
    ids=lambda path: path.stem,
)
def test_session_prints_what_its_file_shows(path: Path, home: Home) -> None:
    session = path.read_text(encoding="utf-8")
    actual = home.play(session)
    assert actual == session, "if intended, run `python tests/cli/test_sessions.py`"


def test_each_command_has_a_session_or_a_reason() -> None:
    commands = app.commands
    assert sorted([path.stem for path in SESSIONS] + list(WITHOUT_SESSION)) == sorted(commands)


def main() -> None:
    """Write today's outputs into the sessions, or into those that are named."""
    embedder = open_embedder(EmbedSettings(model=BUNDLED, runtime="onnx"), offline=True)
    with open_home(embedder) as home:
        for path in SESSIONS:
            if not sys.argv[1:] or path.stem in sys.argv[1:]:
                session = path.read_text(encoding="utf-8")
                path.write_text(home.play(session), encoding="utf-8")


if __name__ == "__main__":
    main()
