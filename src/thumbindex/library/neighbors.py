"""Which chunks of other documents are nearest to a new one, by their vectors and by their words, and what the two are to each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thumbindex.index.snapshot import Places, stored_vectors
from thumbindex.index.store import Store
from thumbindex.index.stored_duplicates import Alike
from thumbindex.index.vector import VectorView
from thumbindex.model import BlockKind, Chunk, Judgement
from thumbindex.ports import Vector
from thumbindex.settings import DuplicatesSettings
from thumbindex.text import text_key, visible, words

SPARE = 251
"""Near chunks that are looked at beside the nearest ones that are wanted: some are of the same document, or gone. A page whose own chunks
come before all others has its copies found when those are looked at."""

QUERIES_AT_ONCE = 1024
"""Chunks whose nearest ones are looked for at once: what it takes is some tens of megabytes, whatever the size of the index."""

KEPT_VIEWS = 4
"""Folders whose vectors stay in memory between two edits."""

Judge = Callable[[Chunk, Chunk, float | None, DuplicatesSettings], Judgement]


def plain_digest(chunk: Chunk) -> bytes | None:
    """Return a digest of a chunk's kind, language and words, by which a copy is found that stands under another heading; None without words."""
    found = chunk.text.split() if chunk.kind is BlockKind.CODE else words(visible(chunk.text))
    if not found:
        return None
    return text_key("\0".join((chunk.kind, chunk.language, *found)))


# ------------------------------------------------------------------ by vectors


@dataclass(slots=True)
class Nearby:
    """The vectors of one folder's chunks, kept in memory between two edits."""

    identity: tuple[int, int, str]  # the store's file, and the model
    view: VectorView
    last: int = 0  # up to here it holds all
    gone: set[int] = field(default_factory=set)  # rows that it should not hold any more

    def follow(self, store: Store, fingerprint: str, last: int) -> None:
        """Take in the chunks that came since, and drop those that were found to be gone."""
        self.view.remove(np.array(sorted(self.gone), dtype=np.int64))
        self.gone.clear()
        new = np.array([row for row, _ in store.documents_between(self.last, last)], dtype=np.int64)
        self.view.add(*store.chunk_matrix(fingerprint, np.setdiff1d(new, self.view.rows()).tolist()))
        self.last = max(self.last, last)

    def nearest(self, store: Store, own: Mapping[int, int], vectors: Mapping[int, Vector], wanted: int, least: float) -> Iterator[tuple[int, int]]:
        """Yield pairs of a chunk of `own` (row id to document's) and each of its nearest ones of other documents, of at least so high a cosine."""
        rows = [row for row in own if row in vectors]
        for start in range(0, len(rows), QUERIES_AT_ONCE):
            part = rows[start : start + QUERIES_AT_ONCE]
            at, found, _ = self.view.near(np.stack([vectors[row] for row in part]), least, wanted + SPARE)
            elsewhere = self._elsewhere(store, np.unique(found).tolist())
            taken = [0] * len(part)
            for n, other in zip(at.tolist(), found.tolist(), strict=True):
                if taken[n] < wanted and elsewhere.get(other, own[part[n]]) != own[part[n]]:
                    taken[n] += 1
                    yield part[n], other

    def _elsewhere(self, store: Store, rows: Sequence[int]) -> dict[int, int]:
        """Return the documents of chunks that may be paired; take note of those that are gone."""
        there = store.documents_of(rows)
        self.gone.update(row for row in rows if row not in there)
        repeated = store.repeats_among(list(there))
        return {row: document for row, document in there.items() if row not in repeated}


_views: dict[str, Nearby] = {}
_guard = threading.Lock()


def nearby(store: Store, places: Places, fingerprint: str, last: int) -> Nearby:
    """Return the vectors of a folder's chunks up to a row: those of the last call with what came since, else those of its file."""
    facts = places.store.stat()
    identity = (facts.st_dev, facts.st_ino, fingerprint)
    with _guard:
        known = _views.pop(str(places.store), None)
    if known is None or known.identity != identity or known.last > store.last_row:
        known = Nearby(identity, stored_vectors(store), last)
    known.follow(store, fingerprint, last)
    return known


def keep_nearby(places: Places, known: Nearby) -> None:
    """Keep the vectors for the next edit; nobody else has them meanwhile."""
    with _guard:
        _views[str(places.store)] = known
        while len(_views) > KEPT_VIEWS:
            del _views[next(iter(_views))]


# ------------------------------------------------------------------ judged


@dataclass(slots=True)
class Comparison:
    """Compares chunks with their nearest ones, each pair once."""

    store: Store
    fingerprint: str
    settings: DuplicatesSettings
    judge: Judge
    near: Nearby
    seen: set[tuple[int, int]] = field(default_factory=set)

    def alike(self, own: Mapping[int, int], chunks: Mapping[int, Chunk], plain: Mapping[int, bytes]) -> list[Alike]:
        """Return the pairs of chunks of `own` (row id to document's) and chunks of other documents that are one text twice or in the grey zone."""
        vectors = self.store.chunk_vectors(self.fingerprint, list(own))
        pairs = {(min(a, b), max(a, b)) for a, b in self._candidates(own, vectors, plain)} - self.seen
        # what is in a later block comes again there; of earlier ones nothing does but what comes from the other side
        self.seen = {pair for pair in self.seen | pairs if pair[1] > max(own, default=0)}
        others = sorted({row for pair in pairs for row in pair} - chunks.keys())
        texts = {**chunks, **self.store.chunks(others)}
        vectors.update(self.store.chunk_vectors(self.fingerprint, others))
        found = (self._judged(a, b, texts, vectors) for a, b in sorted(pairs) if a in texts and b in texts)
        return [pair for pair in found if pair is not None]

    def _candidates(self, own: Mapping[int, int], vectors: Mapping[int, Vector], plain: Mapping[int, bytes]) -> Iterator[tuple[int, int]]:
        yield from self.near.nearest(self.store, own, vectors, self.settings.nearest, self.settings.grey)
        same: dict[bytes, list[int]] = {}
        for row, document in own.items():
            if row in plain:
                here = [other for other in same.get(plain[row], ()) if own[other] != document]
                there = self.store.rows_of_words(plain[row], document, self.settings.nearest)
                yield from ((row, other) for other in sorted({*here, *there}, reverse=True)[: self.settings.nearest])
                same.setdefault(plain[row], []).append(row)

    def _judged(self, first: int, second: int, texts: Mapping[int, Chunk], vectors: Mapping[int, Vector]) -> Alike | None:
        cosine = _cosine(vectors[first], vectors[second]) if first in vectors and second in vectors else None
        found = self.judge(texts[first], texts[second], cosine, self.settings)
        return None if found.zone == "distinct" else (first, second, cosine or 0.0, found.zone, found.rule, found.differs)


def _cosine(first: Vector, second: Vector) -> float:
    """Return the cosine of two stored vectors, the same whatever else was compared with them."""
    return round(float(first.astype(np.float64) @ second.astype(np.float64)), 6)
