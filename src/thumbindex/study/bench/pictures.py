"""Cost against size, as pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from thumbindex.errors import UsageError
from thumbindex.study.bench.row import Row
from thumbindex.study.plots import Line, draw_lines

_SIZE = re.compile(r", [\d,]+ chunks$")

PICTURES = {
    "ms": ("Time of an answer against size", "growth-time.svg", "milliseconds"),
    "MB": ("Memory against size", "growth-memory.svg", "MB resident"),
}


def draw_costs(folder: Path, rows: Sequence[Row]) -> tuple[Path, ...]:
    """Draw what was measured at several sizes into a folder, which is made; raise UsageError where nothing was, or nothing can be drawn."""
    lines = {unit: lines_of([row for row in rows if row.size and row.unit == unit]) for unit in PICTURES}
    if not any(lines.values()):
        raise UsageError("There is nothing to draw: `growth` is what is measured at several sizes.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: the folder cannot be made ({error.strerror}): name another one with --plots.") from error
    found = []
    for unit, (title, name, label) in PICTURES.items():
        if lines[unit]:
            draw_lines(folder / name, title, label, lines[unit])
            found.append(folder / name)
    return tuple(found)


def lines_of(rows: Sequence[Row]) -> tuple[Line, ...]:
    """Group figures of several sizes by their name without the size."""
    names = dict.fromkeys(_SIZE.sub("", row.name) for row in rows)
    return tuple((name, tuple((row.size or 0, row.median) for row in rows if _SIZE.sub("", row.name) == name)) for name in names)
