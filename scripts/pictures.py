"""Draw `docs/pictures` from real output: `python scripts/pictures.py [FOLDER]`.

It writes a small vault, queries it in a terminal of 80 columns and over MCP, and draws the output.
The same version of thumbindex always gives the same pictures. They load no fonts from the network.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

COLUMNS, ROWS = 80, 24
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
QUESTION = "who decided on PostgreSQL, and why?"
NOTES = {
    "decisions/database.md": "---\ndate: 2026-03-03\ntags: [decision]\n---\n# Database\n\n"
    "## Decision\n\n"
    "Ada and Bo decided on PostgreSQL: reports join six tables, and a backup is one command. Ada "
    "has run it for years.\n\n"
    "## Others\n\nSQLite stays on the phones. MongoDB was faster to begin with, and its reports "
    "were not.\n",
    "meetings/2026-02-24.md": "# Meeting of 24 February\n\n## Storage\n\n"
    "Ada shows the databases that are left. Bo asks how long a restore "
    "takes.\n\n"
    "| database | restore | reports |\n|---|---|---|\n| PostgreSQL | 4 minutes | one query |\n"
    "| MongoDB | 11 minutes | by hand |\n\n"
    "## Summer party\n\nIn the garden behind the office. Cy brings the grill.\n",
    "meetings/2026-03-03.md": (
        "# Meeting of 3 March\n\n## Storage\n\nEverybody agrees with Ada: PostgreSQL. Bo moves "
        "the reports until Friday.\n"
    ),
    "runbooks/backup.md": "# Backup\n\nEvery night at two the database is dumped to the second "
    "disk, and each dump is kept for 30 days.\n\n"
    "```sh\npg_dump app | zstd > /backup/app.zst\n```\n",
    "runbooks/restore.md": (
        "# Restore\n\nStop the app, load the last dump of the database, start the app. It takes "
        "four minutes.\n"
    ),
    "people/ada.md": "# Ada\n\nLooks after storage and reports. Knows PostgreSQL by heart.\n",
    "ideas/offline.md": (
        "# Offline\n\nPhones keep their own copy in SQLite and send changes when there is a "
        "network.\n"
    ),
    "recipes/lentil soup.md": "# Lentil soup\n\nLentils, carrots, cumin. Half an hour.\n",
}


def pictures() -> dict[str, str]:
    """Return all pictures as SVG, by file name."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary).resolve()
        write_vault(directory / "notes")
        command = [sys.executable, "-m", "thumbindex"]
        options = ["--folder", str(directory / "notes"), "--index", str(directory / "index")]
        _run([*command, "index", *options], directory)
        output = _run([*command, "query", *options, QUESTION], directory)
        reply = asyncio.run(_ask([*command, "serve", *options], directory))
    return {
        "terminal-dark.svg": draw_terminal(output, SVG_EXPORT_THEME, "dark"),
        "terminal-light.svg": draw_terminal(output, DEFAULT_TERMINAL_THEME, "light"),
        "client.svg": draw_client(reply),
    }


def write_vault(root: Path) -> None:
    """Write the notes for the pictures."""
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def _environment(place: Path) -> dict[str, str]:
    screen = {
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
        "PYTHONUTF8": "1",
    }
    homes = {
        name: str(place / "home")
        for name in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    }
    return (
        {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        | screen
        | homes
        | {"HF_HUB_OFFLINE": "1"}
    )


def _run(command: list[str], place: Path) -> str:
    """Run a command in the vault's folder, and return its terminal output."""
    return subprocess.run(
        command,
        cwd=place / "notes",
        env=_environment(place),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout


async def _ask(command: list[str], place: Path) -> Any:
    """Return the reply of a real server's `query` tool, once its model is loaded."""
    async with Client(
        StdioServerParameters(command=command[0], args=command[1:], env=_environment(place))
    ) as client:
        while True:
            reply = await client.call_tool("query", {"query": QUESTION})
            if "the model is not loaded" not in reply.content[0].text:
                return reply
            await asyncio.sleep(0.2)


# ------------------------------------------------------------------ a terminal


def draw_terminal(printed: str, theme: TerminalTheme, name: str) -> str:
    """Draw the query command and its output in a terminal."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
    )
    console.print(Text.assemble(("$ ", "bold"), f'thumbindex query "{QUESTION}"'), highlight=False)
    console.print(Text.from_ansi(printed), end="")
    drawn = console.export_svg(title="~/notes", theme=theme, unique_id=f"terminal-{name}")
    # remove a font that would be loaded from the network
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = drawn.replace("font-family: Fira Code, monospace", f"font-family: {FONT}").replace(
        "font-family: arial", "font-family: sans-serif"
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


# ------------------------------------------------------------------ a client

_WIDTH, _LEFT, _LINE = 800, 32, 21
_LETTERS = 78
"""Number of monospaced characters, at 14 pixels, in a line of the passage's box."""

_PASSAGE = re.compile(
    r"^## (?P<place>[^\n]+)\n(?P<fence>`{3,})note\n(?P<text>.*?)\n(?P=fence)",
    re.DOTALL | re.MULTILINE,
)


def draw_client(reply: Any) -> str:
    """Draw a question, the tool call, and the best passage of the answer with its location."""
    text = reply.content[0].text
    (head, *_), passages = text.split("\n"), list(_PASSAGE.finditer(text))
    best = passages[0]
    rows = list(_client_rows(head, best.groupdict(), len(passages)))
    height = 96 + _LINE * (len(rows) + 1)
    drawn = [
        f'<svg viewBox="0 0 {_WIDTH} {height + 24}" xmlns="http://www.w3.org/2000/svg">',
        (
            f"<style>text {{ font: 14px {FONT}; fill: #24292f; white-space: pre }} .name {{ fill: "
            f"#57606a }}"
        ),
        ".place { fill: #8250df; font-weight: bold } .sure { fill: #1a7f37; font-weight: bold }",
        ".question { font-family: sans-serif; font-size: 15px }</style>",
        (
            f'<rect x="1" y="1" width="{_WIDTH - 2}" height="{height + 22}" rx="10" '
            'fill="#ffffff" stroke="#d0d7de"/>'
        ),
        f'<rect x="{_WIDTH - 392}" y="20" width="360" height="40" rx="18" fill="#ddf4ff"/>',
        (
            f'<text class="question" x="{_WIDTH - 372}" '
            f'y="45">{escape(QUESTION[0].upper() + QUESTION[1:])}</text>'
        ),
        (
            f'<rect x="{_LEFT}" y="80" width="{_WIDTH - 2 * _LEFT}" height="{height - 80}" rx="8" '
            'fill="#f6f8fa" stroke="#d0d7de"/>'
        ),
    ]
    for n, (kind, row) in enumerate(rows):
        drawn.append(
            f'<text class="{kind}" x="{_LEFT + 16}" y="{108 + _LINE * n}">{escape(row)}</text>'
        )
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _client_rows(head: str, best: Mapping[str, str], passages: int) -> Iterator[tuple[str, str]]:
    """Yield the CSS class and the text of each row: the tool call, then its answer."""
    yield "name", f'▸ thumbindex · query {{"query": "{QUESTION}"}}'
    yield "", ""
    yield "sure", head
    yield "", ""
    yield "place", best["place"]
    for line in best["text"].split("\n"):
        for row in textwrap.wrap(line, _LETTERS) or [""]:
            yield "", row
    yield "", ""
    yield "name", f"… and {passages - 1} more passages with their locations"


def main() -> None:
    """Write the pictures into a folder."""
    folder = (
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "pictures"
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (folder / name).write_text(drawn, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
