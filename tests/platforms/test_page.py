"""The page about Windows and macOS."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")


def test_every_module_and_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`", PAGE)
    places = [*ROOT.glob("src/thumbindex/**/*.py"), *ROOT.glob("tests/**/*.py")]
    assert [
        name for name in named if not any(place.as_posix().endswith(f"/{name}") for place in places)
    ] == []


def test_the_page_says_what_was_run() -> None:
    assert "**Neither Windows nor macOS was run.**" in PAGE
