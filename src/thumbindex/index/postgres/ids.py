"""Row ids, and one folder as it was published last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Row ids, ascending where nothing else is said."""

NO_ROWS: Rows = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FolderState:
    """One folder as it was published last: its number and what is known of it as a whole."""

    folder: int
    name: str
    generation: int
    published: float  # seconds since the epoch
    facts: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""  # digest of the facts

    @property
    def epoch(self) -> str:
        """What tells whether things that were read before are still so: see publish.EPOCH."""
        return str(self.facts.get("epoch", ""))


def as_rows(numbers: Iterable[int]) -> Rows:
    """Return row ids as an array, ascending, each once."""
    return np.unique(np.array(list(numbers), dtype=np.int64))
