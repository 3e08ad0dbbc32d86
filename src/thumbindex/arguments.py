"""Limits and formats of arguments shared by tools, forms and commands."""

from __future__ import annotations

from thumbindex.errors import UsageError

LONGEST_ARGUMENT = 4_096
"""Maximum characters of an argument that has no other limit. No path is longer."""

MOST_VALUES = 100
"""Maximum number of values in a list, e.g. of globs or tags."""

_DIGITS = 9
"""Maximum digits of a line number."""


def read_lines(text: str) -> tuple[int, int]:
    """Parse `12-40` or `12` into the first and last line. Raises UsageError."""
    first, dash, last = text.partition("-")
    numbers = [part.strip() for part in ((first, last) if dash else (first, first))]
    if not all(
        number.isascii() and number.isdigit() and len(number) <= _DIGITS for number in numbers
    ):
        raise UsageError(f"Write `lines` as 12-40, not {text!r}.")
    start, end = int(numbers[0]), int(numbers[1])
    if not 1 <= start <= end:
        raise UsageError(
            f"`lines` must start at 1 or later and end at a later line or the same: {text!r}."
        )
    return start, end
