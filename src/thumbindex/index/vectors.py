"""The door to FAISS: exact inner product over normalized vectors, ids removable; a base and what
came since.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.errors import IndexDamagedError
from thumbindex.index.catalog import Positions, StoreCatalog
from thumbindex.index.selection import mask_of
from thumbindex.model import ChunkId, Hit
from thumbindex.ports import Cosines, Matrix, Selection, Vector, inner_products

LATE_ROWS, LATE_SHARE = 256, 0.02
"""Rows that came or went since the base was made, before all becomes one base again: so many, or so
large a share of it.
"""

NEAR_AT_ONCE = 16_384
"""Vectors that are compared at once with those whose near ones are looked for: with a thousand of
these 64 MB.
"""

SPARSE = 2_000
"""Row ids for each row that is searched among, from which a set is made faster than bits are: ids
grow with every edit and are never used twice.
"""

HELD = np.dtype("<f2")
"""How numbers are held in memory: FAISS compares halves as exactly as whole ones, in half the time,
since it is memory that it waits for.
"""


Halves = npt.NDArray[np.float16]


class VectorView:
    """Chunk row ids and their vectors: a base, which copies share and nobody changes, what came
    since, and what went.

    FAISS doubles what it holds where one row is added, and to copy all of it for each edit would
    cost as much again: a copy is two small things until they have become a share of the base.
    """

    def __init__(self, dimensions: int) -> None:
        import faiss

        self.dimensions = dimensions
        self._faiss: Any = faiss
        self._base: Any = self._empty()
        self._late: Any = self._empty()
        # positions in the base that still count, ascending
        self._kept: Positions = np.zeros(0, dtype=np.int64)

    def _empty(self) -> Any:
        faiss = self._faiss
        return faiss.IndexIDMap(
            faiss.IndexScalarQuantizer(
                self.dimensions, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
            )
        )

    def copy(self) -> VectorView:
        """Return a copy that can be changed while this one is searched."""
        other = VectorView(self.dimensions)
        other._base, other._kept, other._late = (
            self._base,
            self._kept,
            self._faiss.clone_index(self._late),
        )
        return other

    def rows(self) -> Positions:
        """Return the row ids that it holds."""
        return np.concatenate([self._ids(self._base)[self._kept], self._ids(self._late)])

    def remove(self, rows: Positions) -> None:
        """Remove rows. They take room until rows are added, be it none: what removes and adds makes
        all one base once.
        """
        if len(rows):
            self._kept = self._kept[~np.isin(self._ids(self._base)[self._kept], rows)]
            self._late.remove_ids(np.ascontiguousarray(rows, dtype=np.int64))

    def add(self, rows: Sequence[int], matrix: Matrix) -> None:
        """Add rows with their vectors: shape (rows, dimensions)."""
        if rows and not self._base.ntotal + self._late.ntotal:
            self.fill(len(rows), [(rows, matrix)])
            return
        if rows:
            self._late.add_with_ids(
                np.ascontiguousarray(self._checked(matrix)), np.array(rows, dtype=np.int64)
            )
        self._settle()

    def fill(self, count: int, parts: Iterable[tuple[Sequence[int], Matrix]]) -> None:
        """Take in at most `count` rows with their vectors where there are none yet, part by part:
        of all of them there is nothing but halves.
        """
        self._base = self._made(count, ((rows, self._checked(matrix)) for rows, matrix in parts))
        self._kept = np.arange(self._base.ntotal)

    def _checked(self, matrix: Matrix) -> Matrix:
        if matrix.shape[1] != self.dimensions:
            raise IndexDamagedError(
                f"Stored vectors have {matrix.shape[1]} dimensions, not {self.dimensions}: "
                "run `thumbindex index --rebuild`."
            )
        return matrix

    def _made(
        self, count: int, parts: Iterable[tuple[Sequence[int] | Positions, Matrix | Halves]]
    ) -> Any:
        """Return an index of at most `count` rows, made at its size: one that grows by itself is up
        to twice as large.
        """
        index = self._empty()
        inner: Any = self._faiss.downcast_index(index.index)
        inner.codes.resize(count * self.dimensions * HELD.itemsize)
        index.ntotal = inner.ntotal = count
        ids, held, start = np.empty(count, dtype=np.int64), self._halves(index), 0
        for rows, matrix in parts:
            ids[start : start + len(rows)] = rows
            held[start : start + len(rows)] = matrix
            start += len(rows)
        inner.codes.resize(start * self.dimensions * HELD.itemsize)
        index.ntotal = inner.ntotal = start
        self._faiss.copy_array_to_vector(ids[:start], index.id_map)
        return index

    def _settle(self) -> None:
        if self._gone() + self._late.ntotal > max(LATE_ROWS, LATE_SHARE * self._base.ntotal):
            self._merge()

    def _gone(self) -> int:
        return int(self._base.ntotal) - len(self._kept)

    def _merge(self) -> None:
        """Make one base of all, as large as it must be: what others share stays as it is."""
        if self._gone() or self._late.ntotal:
            rows, late = self.rows(), self._ids(self._late)
            of_base = len(rows) - len(late)
            # of the base a piece at a time is copied twice
            pieces = [
                slice(start, min(start + NEAR_AT_ONCE, of_base))
                for start in range(0, of_base, NEAR_AT_ONCE)
            ]
            halves = ((rows[each], self._halves(self._base)[self._kept[each]]) for each in pieces)
            self._base = self._made(len(rows), chain(halves, [(late, self._halves(self._late))]))
            self._late, self._kept = self._empty(), np.arange(len(rows))

    def take(self, at: Positions) -> Matrix:
        """Return some of the vectors, by their positions in `rows`: shape (positions,
        dimensions).
        """
        of_base = at < len(self._kept)
        if of_base.all():
            return self._halves(self._base)[self._kept[at]].astype(np.float32)
        found = np.empty((len(at), self.dimensions), dtype=np.float32)
        found[of_base] = self._halves(self._base)[self._kept[at[of_base]]]
        found[~of_base] = self._halves(self._late)[at[~of_base] - len(self._kept)]
        return found

    def search(self, query: Vector, limit: int, rows: Positions | None) -> tuple[Positions, Any]:
        """Return row ids and cosines of the best `limit` among `rows` (all where None), best first,
        ties in any order.
        """
        parameters = None
        if rows is not None:
            parameters = self._faiss.SearchParameters(sel=self._only(rows))
        found, scores = zip(
            *(self._search(index, query, limit, parameters) for index in (self._base, self._late)),
            strict=True,
        )
        ids, cosines = np.concatenate(found), np.concatenate(scores)
        best = np.argsort(-cosines, kind="stable")[:limit]
        return ids[best], cosines[best]

    def _only(self, rows: Positions) -> Any:
        """Return what lets rows through: a bit for each row id is looked up in half the time of a
        set.
        """
        highest = int(rows.max(initial=0))
        if highest > SPARSE * len(rows):
            return self._faiss.IDSelectorBatch(np.ascontiguousarray(rows, dtype=np.int64))
        bits = np.zeros(highest // 8 + 1, dtype=np.uint8)
        np.bitwise_or.at(bits, rows >> 3, (1 << (rows & 7)).astype(np.uint8))
        return self._faiss.IDSelectorBitmap(bits)

    def _search(
        self, index: Any, query: Vector, limit: int, parameters: Any
    ) -> tuple[Positions, Any]:
        gone = self._gone() if index is self._base else 0
        wanted = min(limit + gone, index.ntotal)
        if not wanted:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        with self._on_this_thread():
            scores, found = index.search(query.reshape(1, -1), wanted, params=parameters)
        held = found[0] >= 0
        if gone:
            held &= np.isin(found[0], self._ids(index)[self._kept])
        return found[0][held], scores[0][held]

    @contextmanager
    def _on_this_thread(self) -> Iterator[None]:
        """Have FAISS compute on the thread that calls it: one query cannot be shared out, and
        threads that wait for more of it spin.

        How many there are is the calling thread's own in OpenMP: what else a program asks of FAISS
        goes on as it was.
        """
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)

    def near(self, queries: Matrix, least: float, most: int) -> tuple[Positions, Positions, Any]:
        """Return which vectors are near which others: positions in `queries` (ascending), row ids,
        and cosines of at least `least`, best first.

        Of each no more than `most` come; few vectors are so near, so that they are picked by the
        cosine and not put in order first.
        """
        found: list[tuple[Any, Any, Any]] = []
        for ids, cosines in self._compared(queries):
            at, to = np.nonzero(_first_of_ties(highest(cosines, least, most), cosines, ids, most))
            found.append((at, ids[to], cosines[at, to]))
        if not found:
            return (
                np.zeros(0, dtype=np.int64),
                np.zeros(0, dtype=np.int64),
                np.zeros(0, dtype=np.float32),
            )
        at, rows, cosines = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.lexsort((rows, -cosines, at))
        place = np.arange(len(order)) - np.searchsorted(at[order], at[order])
        order = order[place < most]
        return at[order], rows[order], cosines[order]

    def _compared(self, queries: Matrix) -> Iterator[tuple[Positions, Any]]:
        """Yield row ids and the cosines of each query with them, a block at a time; of what went it
        is minus infinity.
        """
        for index in (self._base, self._late):
            ids, halves = self._ids(index), self._halves(index)
            gone = (
                np.setdiff1d(np.arange(len(ids)), self._kept)
                if index is self._base
                else np.zeros(0, dtype=np.int64)
            )
            for start in range(0, len(ids), NEAR_AT_ONCE):
                cosines = queries @ halves[start : start + NEAR_AT_ONCE].astype(np.float32).T
                cosines[:, gone[(gone >= start) & (gone < start + NEAR_AT_ONCE)] - start] = -np.inf
                yield ids[start : start + NEAR_AT_ONCE], cosines

    def _ids(self, index: Any) -> Positions:
        return np.array(self._faiss.vector_to_array(index.id_map), dtype=np.int64)

    def _halves(self, index: Any) -> Halves:
        """Return an index's vectors without a copy; valid until its next change."""
        inner: Any = self._faiss.downcast_index(index.index)
        if not inner.ntotal:
            return np.zeros((0, self.dimensions), dtype=HELD)
        codes = self._faiss.rev_swig_ptr(
            inner.codes.data(), inner.ntotal * self.dimensions * HELD.itemsize
        )
        view: Halves = codes.view(HELD).reshape(inner.ntotal, self.dimensions)
        return view


def highest(cosines: Any, least: float, most: int) -> Any:
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


def _first_of_ties(chosen: Any, cosines: Any, ids: Positions, most: int) -> Any:
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

    def __init__(self, view: VectorView, catalog: StoreCatalog) -> None:
        self.view = view
        self._catalog = catalog
        self._lock = threading.Lock()
        positions = catalog.chunk_positions(view.rows())
        self._at = np.full(len(catalog), -1, dtype=np.int64)  # chunk -> row of the matrix
        self._at[positions] = np.arange(len(positions))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._at >= 0))

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        held = self._at >= 0
        allowed = held if within is None else held & mask_of(within)
        total, excluded = int(np.count_nonzero(allowed)), int(np.count_nonzero(held & ~allowed))
        if not total or not limit:
            return ()
        # a few that may not be found are looked past: to be chosen among, each of all the others
        # would be looked up in a set
        rows, beside = (
            (None, excluded) if excluded <= LATE_ROWS else (self._catalog.chunk_rows[allowed], 0)
        )
        wanted = limit + 16 + beside
        while True:
            with self._lock:
                found, scores = self.view.search(query, min(wanted, total + beside), rows)
            positions = self._catalog.chunk_positions(found)
            positions, scores = positions[allowed[positions]], scores[allowed[positions]]
            if wanted >= total + beside or scores[-1] < scores[limit - 1]:
                break
            wanted *= 4  # the last one taken has an equal that may come before it
        order = np.lexsort((positions, -scores))[:limit]
        pairs = ((ChunkId(int(positions[n])), float(scores[n])) for n in order)
        return tuple(
            Hit(chunk, self._catalog.document_of(chunk), rank, score)
            for rank, (chunk, score) in enumerate(pairs, 1)
        )

    def similarities(self, chunks: Sequence[ChunkId], query: Vector) -> Cosines:
        found: Cosines = inner_products(self.vectors(chunks), query)
        return found

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        at = self._at[np.array(chunks, dtype=np.int64)]
        held = at >= 0
        if held.all():
            return self.view.take(at)
        found = np.full((len(chunks), self.view.dimensions), np.nan, dtype=np.float32)
        if held.any():
            found[held] = self.view.take(at[held])
        return found
