"""Vectors in the store, under their model's fingerprint and the digest of the exact text that was embedded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from thumbindex.errors import ModelError
from thumbindex.index.checksum import are_whole, as_number, vector_sums
from thumbindex.index.database import Row
from thumbindex.index.stored_columns import StoredColumns
from thumbindex.ports import Matrix, Vector

STORED = np.dtype("i1")
"""How a vector's numbers are kept: a quarter of float32's bytes, and a cosine that differs by three ten-thousandths."""

_HIGHEST = 127
"""What a vector's largest number is kept as. By how much all were multiplied need not be known again: the length of every vector is 1."""

_HAS_VECTOR = "EXISTS (SELECT 1 FROM vectors v WHERE v.model = ? AND v.key = c.key)"


def model_id(fingerprint: str) -> bytes:
    """Return what a model is called beside each of its vectors."""
    return blake2b(fingerprint.encode(), digest_size=8).digest()


def packed(matrix: Matrix) -> npt.NDArray[np.int8]:
    """Return vectors as they are stored, whatever their length; what was stored before becomes the same again.

    Raises ModelError where a number is not finite: nothing can be near such a vector, and nobody would learn why.
    """
    numbers = np.asarray(matrix, dtype=np.float32)
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        raise ModelError(
            "The model made a vector of numbers that are not finite, and nothing of that batch was kept."
            " Name another model with `--set encode.embed.model=NAME`, or the other runtime with `--set encode.embed.runtime=` and `onnx` or `torch`."
        )
    largest[largest == 0] = 1
    stored: npt.NDArray[np.int8] = np.rint(numbers / largest * _HIGHEST).astype(STORED)  # 127 / largest can be more than a float32 holds
    return stored


def unpacked(vectors: Sequence[bytes]) -> Matrix:
    """Return stored vectors as rows of length 1: shape (vectors, dimensions)."""
    matrix = np.frombuffer(b"".join(vectors), dtype=STORED).astype(np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    units: Matrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return units


class StoredVectors(StoredColumns):
    """The store's table of vectors, and which chunks have one."""

    def pending(self, fingerprint: str) -> list[tuple[bytes, int]]:
        """Return each text key without a vector of this model, with one chunk that has it; newest documents first."""
        rows = self._rows(
            "SELECT c.key, c.id, d.modified, d.path, c.ordinal FROM chunks c JOIN documents d ON d.id = c.document"
            f" WHERE c.id > ? AND NOT {_HAS_VECTOR}",
            (self.embedded_to(fingerprint), model_id(fingerprint)),
        )
        first: dict[bytes, int] = {}
        for key, row, _modified, _path, _ordinal in sorted(rows, key=lambda r: (-r[2], r[3], r[4])):
            first.setdefault(key, row)
        return list(first.items())

    @property
    def last_row(self) -> int:
        """The last row id that was used; the next document's follow it."""
        return int(self.meta("last_row", "0"))

    def embedded_to(self, fingerprint: str) -> int:
        """Return the row up to which each chunk has a vector of this model: rows are never used twice, so that an edit looks at its own only."""
        model, _, row = self.meta("embedded").rpartition(" ")
        return int(row) if model == fingerprint and row else 0

    def note_embedded(self, fingerprint: str) -> None:
        """Take note, in a transaction, that each chunk has a vector of this model, if so."""
        if not self.pending(fingerprint):
            self.set_meta("embedded", f"{fingerprint} {self.last_row}")

    def count_embedded(self, fingerprint: str) -> int:
        """Count the chunks that have a vector of this model."""
        sql = f"SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM chunks c WHERE c.id > ? AND NOT {_HAS_VECTOR})"
        return int(self._rows(sql, (self.embedded_to(fingerprint), model_id(fingerprint)))[0][0])

    def add_vectors(self, fingerprint: str, keys: Sequence[bytes], matrix: Matrix) -> None:
        """Keep vectors under the digests of their texts; one that is there already stays."""
        self.take_vectors(model_id(fingerprint), keys, matrix)

    def take_vectors(self, model: bytes, keys: Sequence[bytes], matrix: Matrix) -> None:
        """Keep vectors of a model that is known by its id; one that is there already stays."""
        stored = packed(matrix)
        known = {key for part in self._in_keys("SELECT key FROM vectors WHERE model = ? AND key IN ({})", model, keys) for (key,) in part}
        sums = vector_sums(model.hex(), keys, stored)
        new = {key: (model, key, check, vector.tobytes()) for key, check, vector in zip(keys, sums, stored, strict=True) if key not in known}
        self._write_all("INSERT INTO vectors VALUES (?, ?, ?, ?)", new.values())
        self._counting.add("vectors", [(as_number(key),) for key in new])

    def vectors(self, fingerprint: str, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Load vectors by the digests of their texts."""
        return self._vectors(model_id(fingerprint), keys)

    def _vectors(self, model: bytes, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        found: dict[bytes, Vector] = {}
        for part in self._in_keys("SELECT key, sum, vector FROM vectors WHERE model = ? AND key IN ({})", model, keys):
            found.update(zip((row[0] for row in part), self._unpacked(model, part), strict=True))
        return found

    def _in_keys(self, sql: str, model: bytes, keys: Sequence[bytes]) -> Iterator[list[Row]]:
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            yield self._rows(sql.format(",".join("?" * len(part))), (model, *part))

    def vector_rows(self, fingerprint: str) -> list[int]:
        """Return the row ids of the chunks that have a vector of this model, ascending."""
        sql = "SELECT c.id FROM chunks c WHERE EXISTS (SELECT 1 FROM vectors v WHERE v.model = ? AND v.key = c.key) ORDER BY c.id"
        with self.reading():
            found = [row[0] for row in self._rows(sql, (model_id(fingerprint),))]
            if fingerprint and len(found) < self._known_census().counted.get("chunks", [0])[0]:
                self._verify(found == self._rows_by_tables(model_id(fingerprint)), "a vector is not found by its key")
        return found

    def _rows_by_tables(self, wanted: bytes) -> list[int]:
        """Find out which chunks have a vector from the tables alone: a chunk without one may be one whose index entry was flipped."""
        keys = self._rows("SELECT id, key FROM chunks NOT INDEXED")
        held = self._rows("SELECT model, key FROM vectors NOT INDEXED")
        for table, values in {"keys": keys, "vectors": held}.items():
            numbers = [len(values), sum(as_number(key) for _, key in values)]
            self._verify(self._known_census().agrees(table, numbers), f"{table} are missing")
        known = {key for model, key in held if model == wanted}
        return sorted(row for row, key in keys if key in known)

    def chunk_vectors(self, fingerprint: str, rows: Sequence[int]) -> dict[int, Vector]:
        """Load the vectors of those of the chunks that have one, by row id."""
        held, matrix = self.chunk_matrix(fingerprint, rows)
        return dict(zip(held, matrix, strict=True))

    def chunk_matrix(self, fingerprint: str, rows: Sequence[int]) -> tuple[list[int], Matrix]:
        """Load the vectors of those of the chunks that have one: their row ids, and shape (row ids, dimensions)."""
        parts = list(self.chunk_matrices(fingerprint, rows))
        held = [row for part, _ in parts for row in part]
        return held, np.concatenate([matrix for _, matrix in parts] or [np.zeros((0, 0), dtype=np.float32)])

    def chunk_matrices(self, fingerprint: str, rows: Sequence[int]) -> Iterator[tuple[list[int], Matrix]]:
        """Load the same part by part: of all of them together, float32 alone is four times what is stored."""
        # CROSS JOIN keeps SQLite from walking over all vectors of the model for each few hundred chunks
        sql = "SELECT c.key, v.sum, v.vector, c.id FROM chunks c CROSS JOIN vectors v ON v.model = ? AND v.key = c.key WHERE c.id IN ({})"
        model = model_id(fingerprint)
        for part in self._in(sql, rows, (model,)):
            if part:
                yield [row[3] for row in part], self._unpacked(model, part)

    def all_matrices(self, fingerprint: str) -> tuple[int, Iterator[tuple[list[int], Matrix]]]:
        """Count the chunks that have a vector, and load all of these part by part, in any order; to be called and read in one group of reads."""
        if self.embedded_to(fingerprint) < self.last_row:
            rows = self.vector_rows(fingerprint)
            return len(rows), self.chunk_matrices(fingerprint, rows)
        chunks = self._rows("SELECT key, id FROM chunks NOT INDEXED")
        self._verify(len(chunks) == self._known_census().counted.get("chunks", [0])[0], "rows of chunks are missing")
        return len(chunks), self._matrices_as_they_lie(fingerprint, chunks)

    def _matrices_as_they_lie(self, fingerprint: str, chunks: Sequence[Row]) -> Iterator[tuple[list[int], Matrix]]:
        """Load the vectors of chunks (key and row id) in the order of their table: to look each of them up costs as much again as all the rest."""
        of: dict[bytes, int] = dict(chunks)
        model, last = model_id(fingerprint), 0
        sql = "SELECT key, sum, vector, rowid FROM vectors NOT INDEXED WHERE rowid > ? AND model = ? ORDER BY rowid LIMIT 500"
        while part := self._rows(sql, (last, model)):
            last = part[-1][3]
            if needed := [row for row in part if row[0] in of]:
                yield [of[row[0]] for row in needed], self._unpacked(model, needed)
        yield from self.chunk_matrices(fingerprint, [row for key, row in chunks if of[key] != row])  # those that share a text with another

    def _unpacked(self, model: bytes, rows: list[Row]) -> Matrix:
        """Return the vectors of rows that begin with key, checksum and vector, or raise IndexDamagedError."""
        if not rows:
            return np.zeros((0, 0), dtype=np.float32)
        keys, sums, vectors, *_ = zip(*rows, strict=True)
        self._verify(are_whole(model.hex(), keys, vectors, sums), "a vector does not match its checksum")
        return unpacked(vectors)

    def verify_vectors(self) -> None:
        """Raise IndexDamagedError where a vector is missing, or is another than it was."""
        for (model,) in self._rows("SELECT DISTINCT model FROM vectors"):
            self._rows_by_tables(model)
            keys = [key for (key,) in self._rows("SELECT key FROM vectors NOT INDEXED WHERE model = ?", (model,))]
            self._verify(len(self._vectors(model, keys)) == len(keys), "a vector is not found by its key")

    def count_vectors(self, fingerprint: str) -> int:
        """Count the vectors of a model, needed or not."""
        return int(self._rows("SELECT count(*) FROM vectors WHERE model = ?", (model_id(fingerprint),))[0][0])

    def drop_orphan_vectors(self, fingerprint: str, keep: Iterable[bytes]) -> int:
        """Delete vectors that no chunk and no key of `keep` needs; return how many."""
        self._write("CREATE TEMP TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY)")
        self._write("DELETE FROM kept")
        self._write_all("INSERT OR IGNORE INTO kept VALUES (?)", [(key,) for key in keep])
        if not self.embedded_to(fingerprint):
            self.set_meta("embedded", "")  # it speaks of another model, whose vectors go
        orphans = "FROM vectors WHERE model <> ? OR (key NOT IN (SELECT key FROM chunks) AND key NOT IN (SELECT key FROM kept))"
        model = model_id(fingerprint)
        gone = self._rows(f"SELECT key {orphans}", (model,))
        self._counting.add("vectors", [(as_number(key),) for (key,) in gone], -1)
        return self._write(f"DELETE {orphans}", (model,))
