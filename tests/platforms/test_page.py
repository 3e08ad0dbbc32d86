"""The page about Windows and macOS."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")


def test_files_named_on_the_page_exist() -> None:
    names = re.findall(r"`([\w/]+\.py)`", PAGE)
    files = [*ROOT.glob("src/thumbindex/**/*.py"), *ROOT.glob("tests/**/*.py")]
    assert [
        name for name in names if not any(file.as_posix().endswith(f"/{name}") for file in files)
    ] == []


def test_page_states_that_neither_system_was_run() -> None:
    assert "**Neither Windows nor macOS was run.**" in PAGE
