"""Exact vectors for a query's best candidates, while other vectors are still provisional."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from thumbindex.errors import StorageError
from thumbindex.index.chunk_vectors import keep_vectors
from thumbindex.index.store import Store
from thumbindex.index.vectors import VECTOR_DTYPE
from thumbindex.library.reader import Reader
from thumbindex.model import Candidate, ChunkId, Hit, IndexState, Query
from thumbindex.ports import (
    Catalog,
    Embedder,
    Mask,
    Matrix,
    Selection,
    Vector,
    VectorIndex,
    inner_products,
)
from thumbindex.query.pipeline import find_candidates
from thumbindex.query.stage import Tools
from thumbindex.text import text_key
from thumbindex.visible_text import embedded_text

MAX_EMBEDDED = 32
"""Maximum candidates that are embedded for a query.

With 32, the rankings are about as good as with exact vectors for all chunks.
"""


def with_exact_candidates(query: Query, tools: Tools, readers: Sequence[Reader]) -> Tools:
    """Return the tools with exact vectors for the best candidates of a query.

    The vectors are stored, so that neither the next query nor the indexer computes them again.
    """
    vector = tools.snapshot.vector
    if tools.embedder is None or not vector.count_provisional():
        return tools
    search = find_candidates(query, tools)
    if search.vector is None:
        return tools
    at = vector.is_provisional([candidate.id for candidate in search.candidates])
    candidates = [search.candidates[n] for n in np.flatnonzero(at)]
    if not candidates:
        return tools
    exact = _exact_vectors(candidates, tools, tools.embedder, readers)
    refined = _RefinedVectors(vector, exact, tools.snapshot.catalog)
    return replace(tools, snapshot=replace(tools.snapshot, vector=refined))


def _exact_vectors(
    candidates: Sequence[Candidate], tools: Tools, embedder: Embedder, readers: Sequence[Reader]
) -> dict[ChunkId, Vector]:
    """Return the stored vectors of candidates, and compute up to `MAX_EMBEDDED` more."""
    texts = {c.id: embedded_text(c.chunk.heading_path, c.chunk.text) for c in candidates}
    keys = {chunk: text_key(text) for chunk, text in texts.items()}
    stores = {
        reader.folder.name: reader.store
        for reader in readers
        if isinstance(reader.store, Store)
        and reader.store.meta("fingerprint") == embedder.fingerprint
    }
    exact: dict[bytes, Vector] = {}
    for store in stores.values():
        if store.vectors:
            exact |= store.vectors.get(list(keys.values()))
    new = {key: texts[chunk] for chunk, key in keys.items() if key not in exact}
    new = dict(islice(new.items(), MAX_EMBEDDED))
    if new:
        vectors = dict(zip(new, embedder.embed_passages(list(new.values())), strict=True))
        exact |= vectors
        paths: dict[str, list[str]] = defaultdict(list)
        for candidate in candidates:
            document = tools.snapshot.catalog.documents[candidate.document]
            paths[document.folder].append(document.path)
        for name in paths.keys() & stores.keys():
            with suppress(StorageError):  # if they cannot be stored, only this query uses them
                keep_vectors(stores[name].path, embedder.fingerprint, paths[name], vectors)
    return {chunk: exact[key] for chunk, key in keys.items() if key in exact}


def count_refined(state: IndexState, before: VectorIndex, vector: VectorIndex) -> IndexState:
    """Count the vectors that were computed for this query as exact."""
    refined = before.count_provisional() - vector.count_provisional()
    return replace(
        state,
        vectors=state.vectors + refined,
        pending=state.pending - refined,
        refining=state.refining - refined,
    )


class _RefinedVectors(VectorIndex):
    """A vector index in which some provisional vectors are replaced by exact ones."""

    def __init__(
        self, base: VectorIndex, exact: Mapping[ChunkId, Vector], catalog: Catalog
    ) -> None:
        self._base, self._catalog = base, catalog
        self._chunks = sorted(exact)
        matrix = np.stack([exact[chunk] for chunk in self._chunks])
        self._matrix: Matrix = matrix.astype(VECTOR_DTYPE).astype(np.float32)
        self._at = {chunk: at for at, chunk in enumerate(self._chunks)}

    def __len__(self) -> int:
        return len(self._base)

    @property
    def coverage(self) -> float:
        return self._base.coverage

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        hits = self._base.search(query, limit + len(self._chunks), within)
        kept = [hit for hit in hits if hit.chunk not in self._at]
        allowed = np.ones(len(self._chunks), bool) if within is None else within.among(self._chunks)
        scores = inner_products(self._matrix, query)
        refined = [
            Hit(self._chunks[at], self._catalog.document_of(self._chunks[at]), 0, float(scores[at]))
            for at in np.flatnonzero(allowed)
        ]
        best = sorted([*kept, *refined], key=lambda hit: (-hit.score, hit.chunk))[:limit]
        return tuple(replace(hit, rank=rank) for rank, hit in enumerate(best, 1))

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        matrix = self._base.vectors(chunks)
        for at, chunk in enumerate(chunks):
            if chunk in self._at:
                matrix[at] = self._matrix[self._at[chunk]]
        return matrix

    def count_provisional(self) -> int:
        return self._base.count_provisional() - len(self._chunks)

    def is_provisional(self, chunks: Sequence[ChunkId]) -> Mask:
        mask = self._base.is_provisional(chunks)
        return mask & np.array([chunk not in self._at for chunk in chunks], dtype=np.bool_)
