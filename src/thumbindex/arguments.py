"""Limits and formats of the arguments that a tool, a form or a command takes."""

from __future__ import annotations

from thumbindex.errors import UsageError

LONGEST_ARGUMENT = 4_096
"""Characters: no path is longer."""


MOST_VALUES = 100
"""Values of a list, as of globs or tags."""


_DIGITS = 9
"""Digits of a line's number: no file has so many lines."""


def read_lines(written: str) -> tuple[int, int]:
    """Read `12-40` or `12` as first and last line."""
    first, dash, last = written.partition("-")
    numbers = [part.strip() for part in ((first, last) if dash else (first, first))]
    if not all(
        number.isascii() and number.isdigit() and len(number) <= _DIGITS for number in numbers
    ):
        raise UsageError(f"`lines` must be written as 12-40, not {written!r}.")
    start, end = int(numbers[0]), int(numbers[1])
    if not 1 <= start <= end:
        raise UsageError(
            f"`lines` must run from a line to a later one, counted from 1, not {written!r}."
        )
    return start, end
