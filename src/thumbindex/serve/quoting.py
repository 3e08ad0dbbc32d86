"""What notes say, set apart from what we say: a note can close no fence around it and begin no line of ours."""

from __future__ import annotations

import re

from thumbindex.text import one_line

__all__ = ["one_line", "quoted"]

_TICKS = re.compile(r"`{3,}")


def quoted(text: str) -> str:
    """Return a note's text between two fences, longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}note\n{text}\n{fence}"
