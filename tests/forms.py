"""The tables of `docs/security.md` that say which notes are private and which are not, as texts."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs" / "security.md"
_ROW = re.compile(r"^\| (.+?) \| (`+)( ?)(.+)\3\2 \|$", re.M)


def forms(kind: str) -> dict[str, str]:
    """Return the beginnings of notes in the table whose first column has this head, by what they are called."""
    table = _PAGE.read_text(encoding="utf-8").partition(f"\n| {kind} | the note's beginning |\n")[2].partition("\n\n")[0]
    return {name: _meant(written) for name, _, _, written in _ROW.findall(table)}


def _meant(written: str) -> str:
    text = written.replace("\\|", "|").replace("⏎", "\n")
    text = re.sub(r"⟨U\+([0-9A-F]{4})⟩", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"⟨(\d+) × ([^⟨⟩]+)⟩", lambda match: int(match[1]) * match[2], text)
