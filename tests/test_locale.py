"""In a locale without UTF-8, a name that needs it ends in one sentence, never in half an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from folders import write_notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are always UTF-8 elsewhere")
LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ADVICE = (
    " needs UTF-8, but the locale is ascii: set PYTHONUTF8=1 or a UTF-8 locale (LC_ALL=C.UTF-8), "
    "and run it again."
)


def run(folder: Path, *command: str, locale: bool = True) -> subprocess.CompletedProcess[str]:
    index = folder.parent / "index"
    return subprocess.run(
        [sys.executable, "-m", "thumbindex", *command, "--folder", folder, "--index", index],
        env={**os.environ, "HOME": str(folder.parent), **(LOCALE if locale else {})},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "name", "shown"),
    [("notes", "🚀.md", "🚀.md"), ("nötes", "a.md", "A path")],
)
def test_name_that_needs_utf8_ends_in_one_sentence(
    folder: str, name: str, shown: str, tmp_path: Path
) -> None:
    notes = {name: "The launch is in May.\n", "boat.md": "The launch of the boat is in June.\n"}
    root = write_notes(tmp_path / folder, notes)
    for is_indexed in (False, True):
        if is_indexed:
            run(root, "index", locale=False)
        done = run(root, "query", "launch")
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{shown}{ADVICE}\n")


@pytest.mark.slow
def test_plain_names_work_in_any_locale(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "notes", {"boat.md": "Größe: 3 m\n", "é.png": "", ".ü/x.md": ""})
    done = run(root, "list")
    assert (done.returncode, done.stdout) == (0, "no date     boat.md - boat\n")
    assert "UTF-8" not in run(root, "index").stdout
