"""A figure as it was measured: a value a round, the spread of them, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

WORDS = {True: "met", False: "missed", None: "-"}
"""What a table says of a target."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to come to: at most so much, or at least."""

    most: float | None = None
    least: float | None = None

    def is_met(self, value: float) -> bool:
        """Tell whether a value keeps within it."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def __str__(self) -> str:
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: a value a round, in the unit; without a target it is there to be read."""

    what: str  # what was measured, by its name on the command line
    name: str
    unit: str
    values: tuple[float, ...]
    target: Target | None = None
    note: str = ""  # what is to be known to read it
    size: int | None = None  # chunks, where it was measured at several sizes

    @property
    def median(self) -> float:
        """Return the middle of the values."""
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Tell whether the median meets the target; None where there is none."""
        return self.target.is_met(self.median) if self.target else None


def ratios(ours: tuple[float, ...], reference: tuple[float, ...]) -> tuple[float, ...]:
    """Divide round by round: both were measured one after the other, and met the same machine."""
    return tuple(a / b for a, b in zip(ours, reference, strict=True))
