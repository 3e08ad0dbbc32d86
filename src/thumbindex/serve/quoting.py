"""What notes say, set apart from what we say: a note can close no fence around it and begin no line of ours."""

from __future__ import annotations

import re

_TICKS = re.compile(r"`{3,}")

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""Control characters, whatever some program takes for the end of a line, and what turns the direction of writing."""


def quoted(text: str) -> str:
    """Return a note's text between two fences, longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}note\n{text}\n{fence}"


def one_line(text: str) -> str:
    """Return a name, heading or reason as part of one line of ours, whatever characters it is made of."""
    return _BREAKS.sub(" ", text)
