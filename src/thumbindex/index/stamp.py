"""The file beside the keyword index that says what it shows: without it, or with one of another version, there is no keyword index."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

STAMP = "stamp"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a keyword index shows."""

    version: str  # of the analysis
    generation: int  # of the store
    behind: int = 0  # rows of that generation that it still lacks: the rest of a large file comes in slices


def read_stamp(folder: Path) -> Stamp | None:
    """Return what the index in a folder shows; None where there is none, or its stamp is no stamp."""
    parts = stamp_text(folder).split()
    return Stamp(parts[0], int(parts[1]), int(parts[2])) if len(parts) == 3 and all(map(str.isdecimal, parts)) else None


def stamp_text(folder: Path) -> str:
    """Return the stamp as it is written: another text is another state of the index. Empty where there is none."""
    try:
        return (folder / STAMP).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Say what the index shows; readers open it anew."""
    temporary = folder / f"stamp.{os.getpid()}"
    temporary.write_text(f"{stamp.version} {stamp.generation} {stamp.behind}", encoding="utf-8")
    temporary.replace(folder / STAMP)
