"""How far the vectors' file is behind the store: counted, so that an edit need not read the file to find out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from thumbindex.index.store import Store

BEHIND_SHARE, BEHIND_AT_LEISURE = 0.2, 0.05
"""Of the chunks with a vector: with fewer that differ the file is not written anew, while edits may wait and where nothing else is to be done."""

_FACT = "vectors_saved"


@dataclass(frozen=True, slots=True)
class Tally:
    """The store's counts when the vectors' file was last compared with it, and by how many rows the two differed."""

    fingerprint: str
    size: int  # of the file
    mtime_ns: int
    last_row: int
    chunks: int
    embedded: int
    differing: int = 0

    @classmethod
    def now(cls, store: Store, path: Path, fingerprint: str) -> Self:
        """Return what there is to be counted now; a file that is not there has the size -1."""
        facts = path.stat() if path.is_file() else None
        _, chunks, embedded = store.counts(fingerprint)
        return cls(fingerprint, facts.st_size if facts else -1, facts.st_mtime_ns if facts else 0, store.last_row, chunks, embedded)

    @classmethod
    def last(cls, store: Store) -> Self | None:
        """Return what was kept."""
        written = store.meta(_FACT)
        return cls(**json.loads(written)) if written else None

    def keep(self, store: Store, differing: int) -> None:
        """Write it down, in a transaction."""
        store.set_meta(_FACT, json.dumps(asdict(replace(self, differing=differing))))

    def most_differing(self, last: Self, store: Store) -> int:
        """Return how many rows may differ now: row ids are never used twice, so that those that went can be told from those that came."""
        gone = last.chunks + store.count_chunks(last.last_row) - self.chunks
        return last.differing + gone + (self.embedded - last.embedded + gone)

    def is_near(self, last: Self | None, store: Store, share: float) -> bool:
        """Tell whether the file is the one that was compared, and so few rows came or went since that readers can add them."""
        if last is None or self.size < 0 or (self.fingerprint, self.size, self.mtime_ns) != (last.fingerprint, last.size, last.mtime_ns):
            return False
        return self.most_differing(last, store) <= self.embedded * share
