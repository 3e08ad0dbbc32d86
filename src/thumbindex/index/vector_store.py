"""Vectors on disk, for all folders: one SQLite file a model, each vector under the digest of the
exact text that was embedded.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from thumbindex.errors import IndexDamagedError, ModelError
from thumbindex.index.files import as_storage_errors, delete_sqlite_file, make_folder
from thumbindex.index.sqlite import KEYS_PER_STATEMENT, SqliteFile, SqlRow, damage_message
from thumbindex.ports import Matrix, Vector

_LOG = logging.getLogger(__name__)

STORED = np.dtype("i1")
"""How a vector's numbers are kept: a quarter of float32's bytes, and a cosine that differs by three
ten-thousandths.
"""

_HIGHEST = 127
"""What a vector's largest number is kept as.

By how much all were multiplied need not be known again: the length of every vector is 1.
"""


def packed(matrix: Matrix) -> npt.NDArray[np.int8]:
    """Return vectors as they are stored, whatever their length; what was stored before becomes the
    same again.

    Raises ModelError where a number is not finite: nothing can be near such a vector, and nobody
    would learn why.
    """
    numbers = np.asarray(matrix, dtype=np.float32)
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        raise ModelError(
            "The model made a vector of numbers that are not finite, and nothing of that batch was "
            "kept."
            " Name another model with `--set encode.embed.model=NAME`, or the other runtime with "
            "`--set encode.embed.runtime=` and `onnx` or `torch`."
        )
    largest[largest == 0] = 1
    # 127 / largest can be more than a float32 holds
    stored: npt.NDArray[np.int8] = np.rint(numbers / largest * _HIGHEST).astype(STORED)
    return stored


def unpacked(vectors: Sequence[bytes]) -> Matrix:
    """Return stored vectors as rows of length 1: shape (vectors, dimensions)."""
    matrix = (
        np.frombuffer(b"".join(vectors), dtype=STORED).astype(np.float32).reshape(len(vectors), -1)
    )
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    units: Matrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return units


def vector_file(folder: Path, fingerprint: str) -> Path:
    """Return the file in a folder that holds the vectors of a model."""
    return folder / f"{blake2b(fingerprint.encode(), digest_size=8).hexdigest()}.sqlite3"


class VectorStore(SqliteFile):
    """The vectors of one model.

    Any number of processes may read and write it at once; what is there stays until nobody needs
    its text.
    """

    schema = "vectors.sql"
    version = 3

    @classmethod
    def open(cls, path: Path, fingerprint: str = "") -> VectorStore:
        """Open a model's vectors to write; a file that is damaged is begun anew."""
        with as_storage_errors(path.parent):
            make_folder(path.parent)
        try:
            store = cls(path)
        except IndexDamagedError:
            _LOG.warning("%s", repair_vectors(path))
            store = cls(path)
        if fingerprint and not store.fingerprint:
            with store.transaction():
                store.set_meta("fingerprint", fingerprint)
        return store

    @property
    def fingerprint(self) -> str:
        """What the model is known by: only vectors of one fingerprint can be compared."""
        return self.meta("fingerprint")

    def count(self) -> int:
        """Count the vectors, needed or not."""
        return int(self.fetch("SELECT count(*) FROM vectors")[0][0])

    def keys(self) -> set[bytes]:
        """Return the digests of all texts that have a vector."""
        return {key for (key,) in self.fetch("SELECT key FROM vectors")}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Load vectors by the digests of their texts; those that are not there, or not as they were
        written, are missing.
        """
        sql = "SELECT key, checksum, vector FROM vectors WHERE key IN ({})"
        rows = list(filter(_is_whole, self.fetch_in(sql, keys)))
        if not rows:
            return {}
        return dict(zip((row[0] for row in rows), unpacked([row[2] for row in rows]), strict=True))

    def add(self, keys: Sequence[bytes], matrix: Matrix) -> None:
        """Keep vectors under the digests of their texts; one that is there already stays."""
        stored = zip(keys, (vector.tobytes() for vector in packed(matrix)), strict=True)
        with self.transaction():
            self.execute_many(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
                [(key, crc32(vector, crc32(key)), vector) for key, vector in stored],
            )

    def remove(self, keys: Collection[bytes]) -> None:
        """Take vectors away."""
        if keys:
            with self.transaction():
                self.execute_many("DELETE FROM vectors WHERE key = ?", [(key,) for key in keys])

    def verify(self) -> None:
        """Raise IndexDamagedError where the file does not hold together or a vector is not as it
        was written.
        """
        self.check_integrity()
        last = 0
        while part := self.fetch(
            "SELECT key, checksum, vector, rowid FROM vectors "
            "WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (last, KEYS_PER_STATEMENT),
        ):
            last = part[-1][3]
            if not all(map(_is_whole, part)):
                raise IndexDamagedError(
                    damage_message(self.path, "a vector is not as it was written")
                )


def repair_vectors(path: Path) -> str:
    """Delete a file of vectors that is damaged, so that its texts are embedded again; return what
    was done, in words, empty where nothing was.
    """
    if not _damage(path):
        return ""
    with as_storage_errors(path.parent), FileLock(path.with_suffix(".lock")):
        if not (what := _damage(path)):  # another process was faster
            return ""
        delete_sqlite_file(path)
    return f"{what.partition(': run')[0]}: its texts are embedded again."


def _damage(path: Path) -> str:
    try:
        if path.exists():
            with closing(VectorStore(path)) as store:
                store.verify()
    except IndexDamagedError as error:
        return str(error)
    return ""


def _is_whole(row: SqlRow) -> bool:
    """Return whether a row (key, checksum, vector) is as it was written."""
    key, checksum, vector = row[:3]
    is_typed = isinstance(key, bytes) and isinstance(vector, bytes)
    return is_typed and crc32(vector, crc32(key)) == checksum
