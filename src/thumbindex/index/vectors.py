"""The adapter to FAISS: exact inner-product search over normalized vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thumbindex.errors import IndexDamagedError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.model import ChunkId, Hit
from thumbindex.ports import IntArray, Mask, Matrix, Selection, Vector, VectorIndex

VECTOR_BATCH = 16_384
"""Number of vectors that are compared with the queries at once. For 1,000 queries, their cosines
take 64 MB.
"""

VECTOR_DTYPE = np.dtype("<f2")
"""Type of the numbers of a vector in memory. Half precision is faster, because memory bandwidth
limits FAISS.
"""

TIE_MARGIN = 16
"""`FaissVectorIndex.search` fetches this many vectors beyond `limit`, to find ties at the limit."""

Float16Matrix = npt.NDArray[np.float16]


class Part(NamedTuple):
    """Row ids and their vectors."""

    rows: Sequence[int] | IntArray
    matrix: Matrix | Float16Matrix  # shape (rows, dimensions)
    provisional: Mask | bool = False  # whether the vectors are provisional: of each row, or of all


def _faiss() -> Any:
    # imported here: a process that only writes does not need it
    import faiss

    return faiss


def _resized(index: Any, count: int) -> Float16Matrix:
    """Resize an index, and return a view of its vectors, shape (count, dimensions)."""
    index.codes.resize(count * index.d * VECTOR_DTYPE.itemsize)
    index.ntotal = count
    if not count:
        return np.zeros((0, index.d), dtype=VECTOR_DTYPE)
    codes = _faiss().rev_swig_ptr(index.codes.data(), count * index.d * VECTOR_DTYPE.itemsize)
    view: Float16Matrix = codes.view(VECTOR_DTYPE).reshape(count, index.d)
    return view


@contextmanager
def _single_threaded(faiss: Any) -> Iterator[None]:
    # FAISS cannot split one query among threads, and idle threads would spin. OpenMP keeps this
    # setting per thread, so other threads of the program are not affected
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class FaissVectors:
    """Row ids of chunks and their vectors, in an immutable FAISS index."""

    def __init__(self, dimensions: int, count: int, parts: Iterable[Part]) -> None:
        """Copy at most `count` rows with their vectors, part by part to save memory.

        Raises IndexDamagedError if a part's vectors do not have `dimensions` dimensions.
        """
        faiss = _faiss()
        self.dimensions = dimensions
        self._index = faiss.IndexScalarQuantizer(
            dimensions, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        rows, start = np.empty(count, dtype=np.int64), 0
        provisional = np.zeros(count, dtype=np.bool_)
        halves = _resized(self._index, count)
        for ids, matrix, is_provisional in parts:
            if not len(ids):
                continue
            if matrix.shape[1] != dimensions:
                raise IndexDamagedError(
                    f"Stored vectors have {matrix.shape[1]} dimensions, not {dimensions}: "
                    "run `thumbindex index --rebuild`."
                )
            rows[start : start + len(ids)] = ids
            halves[start : start + len(ids)] = matrix
            provisional[start : start + len(ids)] = is_provisional
            start += len(ids)
        self._rows: IntArray = rows[:start].copy()
        self.provisional: Mask = provisional[:start].copy()  # of each row
        self._halves = _resized(self._index, start)  # a view of the index's memory

    def with_changes(self, removed: IntArray, new: Iterable[Part], count: int) -> FaissVectors:
        """Return a copy without the rows in `removed`, and with at most `count` new rows."""
        kept = np.flatnonzero(~np.isin(self._rows, removed))
        parts = (
            Part(self._rows[some], self._halves[some], self.provisional[some])
            for start in range(0, len(kept), VECTOR_BATCH)
            for some in (kept[start : start + VECTOR_BATCH],)
        )
        return FaissVectors(self.dimensions, len(kept) + count, chain(parts, new))

    def rows(self) -> IntArray:
        return self._rows

    def matrix_at(self, at: IntArray) -> Matrix:
        """Return the vectors at the positions `at` in `rows`, shape (positions, dimensions)."""
        return self._halves[at].astype(np.float32)

    def search(
        self, query: Vector, limit: int, allowed: Mask | None = None
    ) -> tuple[IntArray, Any]:
        """Return positions in `rows` and cosines of the best `limit` vectors, best first.

        `allowed` is a mask over `rows`, or None for all. Ties are in no particular order.
        """
        faiss, count, selector = _faiss(), len(self._rows), None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))
            count = int(np.count_nonzero(allowed))
        if not (count := min(limit, count)):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        with _single_threaded(faiss):
            scores, at = self._index.search(query.reshape(1, -1), count, params=selector)
        return at[0], scores[0]

    def range_search(
        self, queries: Matrix, min_cosine: float, limit: int
    ) -> tuple[IntArray, IntArray, Any]:
        """For each query, return the `limit` best vectors with at least `min_cosine`, best first.

        Returns three arrays: positions in `queries` (ascending), row ids and cosines.
        """
        at, rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        cosines = np.zeros(0, dtype=np.float32)
        for start in range(0, len(self._rows), VECTOR_BATCH):
            ids = self._rows[start : start + VECTOR_BATCH]
            products = queries @ self._halves[start : start + VECTOR_BATCH].astype(np.float32).T
            of, to = np.nonzero(products >= min_cosine)
            at, rows = np.append(at, of), np.append(rows, ids[to])
            cosines = np.append(cosines, products[of, to])
            order = np.lexsort((rows, -cosines, at))
            rank = np.arange(len(order)) - np.searchsorted(at[order], at[order])
            order = order[rank < limit]
            at, rows, cosines = at[order], rows[order], cosines[order]
        return at, rows, cosines


class FaissVectorIndex(VectorIndex):
    """Vector index over one folder's vectors. `catalog` must contain the chunk of every vector."""

    def __init__(self, view: FaissVectors, catalog: StoreCatalog) -> None:
        self.view = view
        self._catalog = catalog
        self._chunks = catalog.chunks_of_rows(view.rows())  # chunk of each vector
        # position of each chunk's vector in the view, or -1
        self._at = np.full(len(catalog), -1, dtype=np.int64)
        self._at[self._chunks] = np.arange(len(self._chunks))
        self._provisional = np.zeros(len(catalog), dtype=np.bool_)
        self._provisional[self._chunks] = view.provisional

    def __len__(self) -> int:
        return len(self._chunks)

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        allowed = None if within is None else within.mask[self._chunks]
        total = len(self) if allowed is None else int(np.count_nonzero(allowed))
        if not total or not limit:
            return ()
        count = limit + TIE_MARGIN
        while True:
            at, scores = self.view.search(query, min(count, total), allowed)
            if count >= total or scores[-1] < scores[limit - 1]:
                break
            count *= 4  # more vectors may tie at the limit
        chunks = self._chunks[at]
        order = np.lexsort((chunks, -scores))[:limit]
        pairs = ((ChunkId(int(chunks[n])), float(scores[n])) for n in order)
        return tuple(
            Hit(chunk, self._catalog.document_of(chunk), rank, score)
            for rank, (chunk, score) in enumerate(pairs, 1)
        )

    @property
    def coverage(self) -> float:
        return len(self) / len(self._catalog) if len(self) else 0.0

    def count_provisional(self) -> int:
        return int(np.count_nonzero(self._provisional))

    def is_provisional(self, chunks: Sequence[ChunkId]) -> Mask:
        mask: Mask = self._provisional[np.array(chunks, dtype=np.int64)]
        return mask

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        at = self._at[np.array(chunks, dtype=np.int64)]
        exists = at >= 0
        if exists.all():
            return self.view.matrix_at(at)
        matrix = np.full((len(chunks), self.view.dimensions), np.nan, dtype=np.float32)
        matrix[exists] = self.view.matrix_at(at[exists])
        return matrix
