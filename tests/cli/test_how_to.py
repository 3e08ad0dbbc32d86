"""The how-to pages show what the terminal sessions show."""

import re
from pathlib import Path

import pytest

from cli.test_sessions import BLOCK, DIFFERS, SESSIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("first-hour", "ask-well", "private", "not-found", "look-after")
TRANSCRIPT = re.compile(r"^(\$ thumbindex .+\n)((?:(?!\$ |```).*\n)+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_outputs_on_the_page_are_those_of_a_session(page: str) -> None:
    sessions = "".join(
        block for path in SESSIONS for block in BLOCK.findall(path.read_text(encoding="utf-8"))
    )
    for command, output in TRANSCRIPT.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        for pattern, placeholder in DIFFERS:
            output = re.sub(pattern, placeholder, output, flags=re.MULTILINE)
        expected = re.escape(command + output.strip()).replace("…", ".*?")
        assert re.search(expected, sessions, re.DOTALL), command
