"""The memory that processes hold, as Linux tells of each: resident, and their share of what several of them map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thumbindex.errors import UsageError

_ROLLUP = "/proc/{}/smaps_rollup"


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes of some processes: those in memory, a shared page counted for each, and those where it is divided among all that map it."""

    resident: int = 0
    proportional: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(self.resident + other.resident, self.proportional + other.proportional)


def check_measurable() -> None:
    """Raise UsageError where the system does not tell."""
    if not Path(_ROLLUP.format("self")).exists():
        raise UsageError("Memory is measured by /proc/PID/smaps_rollup, which only Linux has: leave `memory` out here.")


def taken_by(process: int) -> Taken:
    """Return what a process and all of its descendants hold; what has ended holds nothing."""
    total = _of_one(process)
    for child in children(process):
        total += taken_by(child)
    return total


def children(process: int) -> list[int]:
    """Return the ids of a process's children."""
    try:
        return [int(each) for task in Path(f"/proc/{process}/task").iterdir() for each in (task / "children").read_text().split()]
    except OSError:
        return []


def _of_one(process: int) -> Taken:
    try:
        lines = Path(_ROLLUP.format(process)).read_text().splitlines()[1:]
    except OSError:
        return Taken()
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return Taken(1024 * kilobytes["Rss"], 1024 * kilobytes["Pss"])
