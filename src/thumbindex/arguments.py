"""Limits and formats of arguments shared by tools, forms and commands."""

from __future__ import annotations

import re

from thumbindex.errors import UsageError
from thumbindex.text import Lines

LONGEST_ARGUMENT = 4_096
"""Maximum characters of an argument that has no other limit. No path is longer."""

MOST_VALUES = 100
"""Maximum number of values in a list, e.g. of globs or tags."""

_LINES = re.compile(r"(\d{1,9})(?::(\d{1,9}))?(?:\s*[-–]\s*(\d{1,9}))?", re.ASCII)


def read_lines(text: str) -> Lines:
    """Parse `12-40`, `12`, or `12:2001-40` from a character of line 12 on. Raises UsageError."""
    match = _LINES.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"Write `lines` as 12-40, or as 12:2001-40 from a character of line 12, not {text!r}."
        )
    lines = Lines(int(match[1]), int(match[3] or match[1]), int(match[2] or 1))
    if not 1 <= lines.first <= lines.last or not lines.character:
        raise UsageError(
            f"`lines` must start at 1 or later and end at a later line or the same: {text!r}."
        )
    return lines
