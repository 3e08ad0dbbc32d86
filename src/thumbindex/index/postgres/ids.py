"""How documents and chunks are numbered: by rows in the tables, by places in a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.model import ChunkId, DocumentId

ORDINAL_BITS = 18
"""Of a ChunkId that count the chunks of a document; the bits above are its document's place."""

MOST_CHUNKS = 1 << ORDINAL_BITS
"""Chunks of a document that can be published."""

Rows = npt.NDArray[np.int64]
"""Row ids, ascending where nothing else is said."""

NO_ROWS: Rows = np.zeros(0, dtype=np.int64)


def chunk_id(place: int, ordinal: int) -> ChunkId:
    """Return the id of a chunk by its document's place."""
    return ChunkId(place << ORDINAL_BITS | ordinal)


def place_of(chunk: ChunkId) -> DocumentId:
    """Return the document of a chunk."""
    return DocumentId(chunk >> ORDINAL_BITS)


def ordinal_of(chunk: ChunkId) -> int:
    """Return where a chunk stands in its document."""
    return chunk & (MOST_CHUNKS - 1)


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

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return int(self.facts["chunks"])

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return int(self.facts["documents"])


def as_rows(numbers: Iterable[int]) -> Rows:
    """Return row ids as an array, ascending, each once."""
    return np.unique(np.array(list(numbers), dtype=np.int64))
