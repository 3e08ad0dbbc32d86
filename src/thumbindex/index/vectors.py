"""The adapter to FAISS: exact inner product over normalized vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.errors import IndexDamagedError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.model import ChunkId, Hit
from thumbindex.ports import IntArray, Mask, Matrix, Selection, Vector

VECTOR_BATCH = 16_384
"""Vectors that are compared at once with those whose near ones are looked for: with a thousand of
these 64 MB.
"""

VECTOR_DTYPE = np.dtype("<f2")
"""The type of numbers in memory: FAISS waits for memory, so half precision is twice as fast."""

TIE_MARGIN = 16
"""Vectors beyond the limit that are fetched first: they may tie with the last one."""

Float16Matrix = npt.NDArray[np.float16]

Part = tuple[Sequence[int] | IntArray, Matrix | Float16Matrix]
"""Row ids and their vectors, shape (row ids, dimensions)."""


def _faiss() -> Any:
    """Import FAISS in a process that opens an index to read: others need not wait for it."""
    import faiss

    return faiss


def _resized(index: Any, count: int) -> Float16Matrix:
    """Give an index room for so many vectors, and return them: as halves, without a copy."""
    index.codes.resize(count * index.d * VECTOR_DTYPE.itemsize)
    index.ntotal = count
    if not count:
        return np.zeros((0, index.d), dtype=VECTOR_DTYPE)
    codes = _faiss().rev_swig_ptr(index.codes.data(), count * index.d * VECTOR_DTYPE.itemsize)
    view: Float16Matrix = codes.view(VECTOR_DTYPE).reshape(count, index.d)
    return view


@contextmanager
def _single_threaded(faiss: Any) -> Iterator[None]:
    """Have FAISS compute on the thread that calls it: one query cannot be shared out, and threads
    that wait for more of it spin.

    How many there are is the calling thread's own in OpenMP: what else a program asks of FAISS goes
    on as it was.
    """
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class FaissVectors:
    """Row ids of chunks and their vectors in a FAISS index that never changes."""

    def __init__(self, dimensions: int, count: int, parts: Iterable[Part]) -> None:
        """Take at most `count` rows with their vectors, part by part: of all of them there is
        nothing but halves, and an index that grows by itself is up to twice as large.
        """
        faiss = _faiss()
        self.dimensions = dimensions
        self._index = faiss.IndexScalarQuantizer(
            dimensions, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        rows, start = np.empty(count, dtype=np.int64), 0
        halves = _resized(self._index, count)
        for own, matrix in parts:
            if matrix.shape[1] != dimensions:
                raise IndexDamagedError(
                    f"Stored vectors have {matrix.shape[1]} dimensions, not {dimensions}: "
                    "run `thumbindex index --rebuild`."
                )
            rows[start : start + len(own)] = own
            halves[start : start + len(own)] = matrix
            start += len(own)
        self._rows: IntArray = rows[:start].copy()
        self._halves = _resized(self._index, start)  # in the index's own memory

    def with_changes(self, gone: IntArray, rows: Sequence[int], matrix: Matrix) -> FaissVectors:
        """Return a view without some rows and with others; searches of this one go on."""
        kept = np.flatnonzero(~np.isin(self._rows, gone))
        parts: Iterable[Part] = (
            (self._rows[some], self._halves[some])
            for start in range(0, len(kept), VECTOR_BATCH)
            for some in (kept[start : start + VECTOR_BATCH],)
        )
        new: Iterable[Part] = [(rows, matrix)] if rows else []
        return FaissVectors(self.dimensions, len(kept) + len(rows), chain(parts, new))

    def rows(self) -> IntArray:
        """Return the row ids that it holds."""
        return self._rows

    def matrix_at(self, at: IntArray) -> Matrix:
        """Return some of the vectors, by their positions in `rows`: shape (positions,
        dimensions).
        """
        return self._halves[at].astype(np.float32)

    def search(
        self, query: Vector, limit: int, allowed: Mask | None = None
    ) -> tuple[IntArray, Any]:
        """Return positions in `rows` and cosines of the best `limit` that are allowed (all where
        None), best first, ties in any order.
        """
        faiss, wanted, chosen = _faiss(), len(self._rows), None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            chosen = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))
            wanted = int(np.count_nonzero(allowed))
        if not (wanted := min(limit, wanted)):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        with _single_threaded(faiss):
            scores, found = self._index.search(query.reshape(1, -1), wanted, params=chosen)
        return found[0], scores[0]

    def range_search(
        self, queries: Matrix, least: float, most: int
    ) -> tuple[IntArray, IntArray, Any]:
        """Return the vectors with a cosine of at least `least` to each query: positions in
        `queries` (ascending), row ids and cosines, best first, at most `most` a query.

        Few vectors are that near: they are selected by the cosine and sorted afterwards.
        """
        found: list[tuple[Any, Any, Any]] = []
        for start in range(0, len(self._rows), VECTOR_BATCH):
            ids = self._rows[start : start + VECTOR_BATCH]
            cosines = queries @ self._halves[start : start + VECTOR_BATCH].astype(np.float32).T
            at, to = np.nonzero(_first_of_ties(_highest(cosines, least, most), cosines, ids, most))
            found.append((at, ids[to], cosines[at, to]))
        none = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, np.float32)
        at, rows, cosines = (np.concatenate(parts) for parts in zip(none, *found, strict=True))
        order = np.lexsort((rows, -cosines, at))
        place = np.arange(len(order)) - np.searchsorted(at[order], at[order])
        order = order[place < most]
        return at[order], rows[order], cosines[order]


def _highest(cosines: Any, least: float, most: int) -> Any:
    """Tell which are at least `least`, and among the highest `most` of their row or as high as the
    last of them.
    """
    chosen = cosines >= least
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > most)
    if len(crowded):
        chosen[crowded] = cosines[crowded] >= np.maximum(
            np.partition(cosines[crowded], -most, axis=1)[:, -most, None], least
        )
    return chosen


def _first_of_ties(chosen: Any, cosines: Any, ids: IntArray, most: int) -> Any:
    """Leave at most `most` a row: of those that are as high as the last of them, which may be
    thousands of one text, the first by row id.
    """
    for row in np.flatnonzero(np.count_nonzero(chosen, axis=1) > most).tolist():
        columns = np.flatnonzero(chosen[row])
        lowest = cosines[row, columns].min()
        ties = columns[cosines[row, columns] == lowest]
        room = most - (len(columns) - len(ties))
        chosen[row, ties] = False
        chosen[row, ties[np.argpartition(ids[ties], room - 1)[:room]]] = True
    return chosen


class FaissVectorIndex:
    """VectorIndex over one folder's vectors, aligned with a catalog; the view holds no rows that
    the catalog does not know.
    """

    def __init__(self, view: FaissVectors, catalog: StoreCatalog) -> None:
        self.view = view
        self._catalog = catalog
        self._chunks = catalog.chunks_of_rows(view.rows())  # of each vector
        self._at = np.full(len(catalog), -1, dtype=np.int64)  # where each chunk's vector is
        self._at[self._chunks] = np.arange(len(self._chunks))

    def __len__(self) -> int:
        return len(self._chunks)

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        allowed = None if within is None else within.mask[self._chunks]
        total = len(self) if allowed is None else int(np.count_nonzero(allowed))
        if not total or not limit:
            return ()
        wanted = limit + TIE_MARGIN
        while True:
            at, scores = self.view.search(query, min(wanted, total), allowed)
            if wanted >= total or scores[-1] < scores[limit - 1]:
                break
            wanted *= 4  # the last one taken has an equal that may come before it
        chunks = self._chunks[at]
        order = np.lexsort((chunks, -scores))[:limit]
        pairs = ((ChunkId(int(chunks[n])), float(scores[n])) for n in order)
        return tuple(
            Hit(chunk, self._catalog.document_of(chunk), rank, score)
            for rank, (chunk, score) in enumerate(pairs, 1)
        )

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        at = self._at[np.array(chunks, dtype=np.int64)]
        held = at >= 0
        if held.all():
            return self.view.matrix_at(at)
        found = np.full((len(chunks), self.view.dimensions), np.nan, dtype=np.float32)
        found[held] = self.view.matrix_at(at[held])
        return found
