"""The door to FAISS: exact inner product over normalized vectors, ids removable; a base file and what came since."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from thumbindex.errors import IndexDamagedError
from thumbindex.index.catalog import Positions, StoreCatalog
from thumbindex.index.failures import writing
from thumbindex.index.replacing import put_in_place
from thumbindex.model import ChunkId, Hit
from thumbindex.ports import Mask, Matrix, Vector

_MARK = b"thumbindex 1"


def view_file(folder: Path, fingerprint: str) -> Path:
    """Return the file of one model's vectors: another model is another file."""
    name = "".join(c if c.isalnum() else "-" for c in fingerprint)[-80:]
    return folder / f"{name}.faiss"


class VectorView:
    """Chunk row ids and their vectors: loaded from its file, brought up to date, searched, saved."""

    def __init__(self, dimensions: int) -> None:
        import faiss

        self.dimensions = dimensions
        self._faiss: Any = faiss
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimensions))

    @classmethod
    def load(cls, path: Path, dimensions: int) -> VectorView:
        """Load the file where it is there and whole; else begin empty: the store holds every vector."""
        view = cls(dimensions)
        if path.is_file():
            try:
                index = view._faiss.deserialize_index(np.frombuffer(_without_footer(path.read_bytes()), dtype=np.uint8))
            except (RuntimeError, OSError, ValueError):
                return view
            if isinstance(index, view._faiss.IndexIDMap2) and index.d == dimensions:
                view._index = index
        return view

    def copy(self) -> VectorView:
        """Return a copy that can be changed while this one is searched."""
        other = VectorView(self.dimensions)
        other._index = self._faiss.clone_index(self._index)
        return other

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        data = self._faiss.serialize_index(self._index).data  # faiss opens no path of its own: not every system's names suit it
        temporary = path.with_suffix(".partial")  # there is one writer
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.write(_footer(data))
                    file.flush()
                    os.fsync(file.fileno())
                put_in_place(temporary, path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise

    def rows(self) -> Positions:
        """Return the row ids that it holds, in the order in which they were added."""
        return np.array(self._faiss.vector_to_array(self._index.id_map), dtype=np.int64)

    def remove(self, rows: Positions) -> None:
        """Remove rows."""
        if len(rows):
            self._index.remove_ids(np.ascontiguousarray(rows, dtype=np.int64))

    def add(self, vectors: Mapping[int, bytes]) -> None:
        """Add rows with their vectors (bytes of float32)."""
        if not vectors:
            return
        matrix = np.frombuffer(b"".join(vectors.values()), dtype=np.float32).reshape(len(vectors), -1)
        if matrix.shape[1] != self.dimensions:
            raise IndexDamagedError(f"Stored vectors have {matrix.shape[1]} dimensions, not {self.dimensions}: run `thumbindex index --rebuild`.")
        self._index.add_with_ids(matrix, np.fromiter(vectors, dtype=np.int64))

    def matrix(self) -> Matrix:
        """Return the vectors in the order of `rows`, without a copy; valid until the next change."""
        flat: Any = self._faiss.downcast_index(self._index.index)
        if not flat.ntotal:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        view: Matrix = self._faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * self.dimensions).reshape(flat.ntotal, self.dimensions)
        return view

    def search(self, query: Vector, limit: int, rows: Positions | None) -> tuple[Positions, Any]:
        """Return row ids and cosines of the best `limit` among `rows` (all where None), best first, ties in any order."""
        parameters = None
        if rows is not None:
            selector = self._faiss.IDSelectorBatch(np.ascontiguousarray(rows, dtype=np.int64))
            parameters = self._faiss.SearchParameters(sel=selector)
        scores, found = self._index.search(query.reshape(1, -1), limit, params=parameters)
        held = found[0] >= 0
        return found[0][held], scores[0][held]

    def nearest(self, queries: Matrix, limit: int) -> tuple[Positions, Any]:
        """Return row ids and cosines of the best `limit` for each vector: shapes (queries, limit), best first, -1 where there are no more."""
        scores, found = self._index.search(np.ascontiguousarray(queries), limit)
        return found, scores


def _footer(data: bytes | memoryview) -> bytes:
    """Return what a file ends with: a mark and a checksum, since faiss reads whatever it is given."""
    return _MARK + crc32(data).to_bytes(4)


def _without_footer(data: bytes) -> memoryview:
    """Return what stands before the footer; raise ValueError where it is not as it was written."""
    body = memoryview(data)[: -len(_MARK) - 4]
    if data[len(body) :] != _footer(body):
        raise ValueError("not as it was written")
    return body


class FaissVectorIndex:
    """VectorIndex over one folder's vectors, aligned with a catalog."""

    def __init__(self, view: VectorView, catalog: StoreCatalog) -> None:
        self.view = view
        self._catalog = catalog
        self._lock = threading.Lock()
        positions = catalog.chunk_positions(view.rows())
        self._at = np.full(len(catalog), -1, dtype=np.int64)  # chunk -> row of the matrix
        self._at[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
        self._gone = int(np.count_nonzero(positions < 0))  # rows of the view that are no chunks of the catalog's any more

    def __len__(self) -> int:
        """Count the chunks that have a vector."""
        return int(np.count_nonzero(self._at >= 0))

    def search(self, query: Vector, limit: int, mask: Mask | None = None) -> tuple[Hit, ...]:
        """Return the best `limit` chunks by cosine, ties by position."""
        allowed = self._at >= 0 if mask is None else (self._at >= 0) & mask
        total = int(np.count_nonzero(allowed))
        if not total or not limit:
            return ()
        rows, gone = (None, self._gone) if mask is None else (self._catalog.chunk_rows[allowed], 0)
        wanted = limit + 16 + gone
        while True:
            with self._lock:
                found, scores = self.view.search(query, min(wanted, total + gone), rows)
            positions = self._catalog.chunk_positions(found)
            positions, scores = positions[positions >= 0], scores[positions >= 0]
            if wanted >= total + gone or scores[-1] < scores[limit - 1]:
                break
            wanted *= 4  # the last one taken has an equal that may come before it
        order = np.lexsort((positions, -scores))[:limit]
        pairs = ((ChunkId(int(positions[n])), float(scores[n])) for n in order)
        return tuple(Hit(chunk, self._catalog.document_of(chunk), rank, score) for rank, (chunk, score) in enumerate(pairs, 1))

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return stored vectors; NaN rows for chunks that have none."""
        at = self._at[np.array(chunks, dtype=np.int64)]
        found = np.full((len(chunks), self.view.dimensions), np.nan, dtype=np.float32)
        held = at >= 0
        if held.any():
            found[held] = self.view.matrix()[at[held]]
        return found
