"""Vectors on disk, shared by all folders: one SQLite file per model, keyed by digests of texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from thumbindex.errors import IndexDamagedError, ModelError
from thumbindex.index.files import as_storage_errors, delete_sqlite_file, make_folder
from thumbindex.index.sqlite import (
    BUSY_SECONDS,
    KEYS_PER_STATEMENT,
    SqliteFile,
    SqlRow,
    damage_error,
)
from thumbindex.ports import Matrix, Vector

_LOG = logging.getLogger(__name__)

STORED = np.dtype("i1")
"""Type of the numbers in a stored vector. It is a quarter the size of float32, and rounding changes
cosines by about 0.0003.
"""

_HIGHEST = 127
"""Each vector is scaled so that its largest absolute number is stored as this. The scale is not
stored, because all vectors have length 1.
"""


def packed(matrix: Matrix) -> npt.NDArray[np.int8]:
    """Return vectors of any norm in stored form. Raises ModelError if a number is not finite.

    If `matrix` is the result of `unpacked`, the original stored form is restored.
    """
    numbers = np.asarray(matrix, dtype=np.float32)
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        raise ModelError(
            "The model returned a vector with infinite or undefined numbers, so this batch of "
            "vectors was not stored. Choose another model with "
            "`--set encode.embed.model=NAME`, or the other runtime with "
            "`--set encode.embed.runtime=onnx` or `--set encode.embed.runtime=torch`."
        )
    largest[largest == 0] = 1
    # divide first: 127 / largest can overflow a float32
    stored: npt.NDArray[np.int8] = np.rint(numbers / largest * _HIGHEST).astype(STORED)
    return stored


def unpacked(vectors: Sequence[bytes]) -> Matrix:
    """Return stored vectors as unit vectors, shape (vectors, dimensions)."""
    matrix = (
        np.frombuffer(b"".join(vectors), dtype=STORED).astype(np.float32).reshape(len(vectors), -1)
    )
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    units: Matrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return units


def vector_file(folder: Path, fingerprint: str) -> Path:
    """Return the path of the file with a model's vectors."""
    return folder / f"{blake2b(fingerprint.encode(), digest_size=8).hexdigest()}.sqlite3"


class VectorStore(SqliteFile):
    """The vectors of one model.

    Several processes may read and write the file concurrently. A vector is kept as long as any
    index contains its text.
    """

    schema = "vectors.sql"
    version = 3

    @classmethod
    def open(
        cls, path: Path, fingerprint: str = "", *, busy_seconds: float = BUSY_SECONDS
    ) -> VectorStore:
        """Open a model's vectors for writing. Replaces a damaged file with an empty one."""
        with as_storage_errors(path.parent):
            make_folder(path.parent)
        try:
            store = cls(path, busy_seconds=busy_seconds)
        except IndexDamagedError:
            _LOG.warning("%s", repair_vectors(path))
            store = cls(path, busy_seconds=busy_seconds)
        if fingerprint and not store.fingerprint:
            with store.transaction():
                store.set_meta("fingerprint", fingerprint)
        return store

    @property
    def fingerprint(self) -> str:
        """Identifies the model: only vectors with the same fingerprint are comparable."""
        return self.meta("fingerprint")

    def count(self) -> int:
        """Return the number of vectors, including unused ones."""
        return int(self.fetch("SELECT count(*) FROM vectors")[0][0])

    def keys(self) -> set[bytes]:
        """Return the digests of all texts with a vector."""
        return {key for (key,) in self.fetch("SELECT key FROM vectors")}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Load vectors by the digests of their texts. Missing and corrupted vectors are omitted."""
        sql = "SELECT key, checksum, vector FROM vectors WHERE key IN ({})"
        rows = list(filter(_is_intact, self.fetch_in(sql, keys)))
        if not rows:
            return {}
        return dict(zip((row[0] for row in rows), unpacked([row[2] for row in rows]), strict=True))

    def add(
        self,
        keys: Sequence[bytes],
        matrix: Matrix,
        used_keys: Callable[[], Collection[bytes]] | None = None,
    ) -> None:
        """Store vectors by the digests of their texts. Existing vectors are not replaced.

        `used_keys` is called inside the transaction, and only the keys that it returns are stored.
        """
        stored = list(zip(keys, (vector.tobytes() for vector in packed(matrix)), strict=True))
        with self.transaction():
            used = set(keys if used_keys is None else used_keys())
            self.execute_many(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
                [(key, crc32(vector, crc32(key)), vector) for key, vector in stored if key in used],
            )

    def remove_unused(self, used: Collection[bytes]) -> None:
        """Delete all vectors but those of the texts in `used`, and record how many remain."""
        with self.transaction():  # other processes may store vectors until it begins
            unused = self.keys().difference(used)
            self.execute_many("DELETE FROM vectors WHERE key = ?", [(key,) for key in unused])
            self.set_meta("used_count", str(self.count()))

    def verify(self) -> None:
        """Check the file and the checksums of all vectors. Raises IndexDamagedError."""
        self.check_integrity()
        last = 0
        while part := self.fetch(
            "SELECT key, checksum, vector, rowid FROM vectors "
            "WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (last, KEYS_PER_STATEMENT),
        ):
            last = part[-1][3]
            if not all(map(_is_intact, part)):
                raise damage_error(self.path, "a vector is corrupted")


def repair_vectors(path: Path) -> str:
    """Delete a file of vectors if it is damaged. Return a message about that, or ""."""
    if not _damage(path):
        return ""
    with as_storage_errors(path.parent), FileLock(path.with_suffix(".lock")):
        if not (message := _damage(path)):  # another process has repaired it
            return ""
        delete_sqlite_file(path)
    damage = message.partition(": run")[0]
    return f"{damage}. The file was deleted, and its chunks will be embedded again."


def _damage(path: Path) -> str:
    try:
        if path.exists():
            with closing(VectorStore(path)) as store:
                store.verify()
    except IndexDamagedError as error:
        return str(error)
    return ""


def _is_intact(row: SqlRow) -> bool:
    key, checksum, vector = row[:3]
    is_typed = isinstance(key, bytes) and isinstance(vector, bytes)
    return is_typed and crc32(vector, crc32(key)) == checksum
