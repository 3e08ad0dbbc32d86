"""Vectors on disk, for all folders: one SQLite file a model, each vector under the digest of the
exact text that was embedded.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from thumbindex.errors import IndexDamagedError, ModelError
from thumbindex.index.database import KEYS_AT_ONCE, Database, Row
from thumbindex.index.files import delete_database, make_folder, writing
from thumbindex.ports import Matrix, Vector
from thumbindex.text import plural

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


class VectorStore(Database):
    """The vectors of one model.

    Any number of processes may read and write it at once; what is there stays until nobody needs
    its text.
    """

    schema = "vectors.sql"
    version = 1

    @classmethod
    def open(cls, path: Path, fingerprint: str = "") -> VectorStore:
        """Open a model's vectors to write; a file that is damaged is begun anew."""
        with writing(path.parent):
            make_folder(path.parent)
        try:
            store = cls(path)
        except IndexDamagedError:
            begin_anew(path)
            store = cls(path)
        if fingerprint and not (store.mark and store.fingerprint):
            with store.transaction():
                store.set_meta("fingerprint", fingerprint)
                store.set_meta("mark", store.mark or secrets.token_hex(8))
        return store

    @property
    def fingerprint(self) -> str:
        """What the model is known by: only vectors of one fingerprint can be compared."""
        return self.meta("fingerprint")

    @property
    def mark(self) -> str:
        """What changes when a vector is taken away: until then, who has a vector keeps it."""
        return self.meta("mark")

    def count(self) -> int:
        """Count the vectors, needed or not."""
        return int(self.fetch("SELECT count(*) FROM vectors")[0][0])

    def keys(self) -> set[bytes]:
        """Return the digests of all texts that have a vector."""
        return {key for (key,) in self.fetch("SELECT key FROM vectors")}

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of these digests have a vector."""
        return {key for (key,) in self.fetch_in("SELECT key FROM vectors WHERE key IN ({})", keys)}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Load vectors by the digests of their texts; those that are not there, or not as they were
        written, are missing.
        """
        rows = _whole(self.fetch_in("SELECT key, sum, vector FROM vectors WHERE key IN ({})", keys))
        if not rows:
            return {}
        return dict(zip((row[0] for row in rows), unpacked([row[2] for row in rows]), strict=True))

    def _parts(self) -> Iterator[list[Row]]:
        last = 0
        while part := self.fetch(
            "SELECT key, sum, vector, rowid FROM vectors WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (last, KEYS_AT_ONCE),
        ):
            last = part[-1][3]
            yield part

    def add(self, keys: Sequence[bytes], matrix: Matrix) -> None:
        """Keep vectors under the digests of their texts; one that is there already stays."""
        stored = [vector.tobytes() for vector in packed(matrix)]
        with self.transaction():
            self.execute_many(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
                zip(keys, checksums(keys, stored), stored, strict=True),
            )

    def remove(self, keys: Collection[bytes]) -> None:
        """Take vectors away; whoever relies on them looks again."""
        if keys:
            with self.transaction():
                self.execute_many("DELETE FROM vectors WHERE key = ?", [(key,) for key in keys])
                self.set_meta("mark", secrets.token_hex(8))

    def damaged(self) -> set[bytes]:
        """Return the keys of vectors that are not as they were written.

        Raises IndexDamagedError where the file does not hold together.
        """
        self.verify_pages()
        found: set[bytes] = set()
        for part in self._parts():
            found |= {row[0] for row in part} - {row[0] for row in _whole(part)}
        return found


def mend_vectors(path: Path) -> str:
    """Take damaged vectors away, so that their texts are embedded again; return what was done, in
    words, empty where nothing was.
    """
    if not path.exists():
        return ""
    try:
        with closing(VectorStore(path)) as store:
            damaged = store.damaged()
            store.remove(damaged)
    except IndexDamagedError as error:
        begin_anew(path)
        return f"{str(error).partition(': run')[0]}: its texts are embedded again."
    if not damaged:
        return ""
    return f"{path} had {plural(len(damaged), 'damaged vector')}: their texts are embedded again."


def begin_anew(path: Path) -> None:
    """Delete a damaged file, so that its texts are embedded again; nothing where another process
    has done so.
    """
    with writing(path.parent), FileLock(path.with_suffix(".lock")):
        try:
            with closing(VectorStore(path)) as store:
                store.verify_pages()
        except IndexDamagedError as error:
            _LOG.warning("%s", error)
            delete_database(path)


def _whole(rows: Sequence[Row]) -> list[Row]:
    """Return the rows (key, checksum, vector) that are as they were written: most of the time all,
    at the price of one product.
    """
    typed = [
        row
        for row in rows
        if isinstance(row[0], bytes) and isinstance(row[1], int) and isinstance(row[2], bytes)
    ]
    lengths = Counter((len(row[0]), len(row[2])) for row in typed).most_common(1)
    like = [row for row in typed if (len(row[0]), len(row[2])) == lengths[0][0]]
    if not like:
        return []
    keys, sums, vectors, *_ = zip(*like, strict=True)
    return [
        row
        for row, expected, found in zip(like, sums, checksums(keys, vectors), strict=True)
        if expected == found
    ]


def checksums(keys: Sequence[bytes], vectors: Sequence[bytes]) -> list[int]:
    """Return a checksum of each vector with its key, all of one length.

    Words of eight bytes are added up, each with its own weight.
    """
    joined = b"".join(map(bytes.__add__, keys, vectors))
    width = len(joined) // len(keys)
    padded = np.zeros((len(keys), -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = np.frombuffer(joined, dtype=np.uint8).reshape(len(keys), width)
    words = padded.view("<u8")
    weights = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    # SQLite's integers are signed
    sums: list[int] = ((words * weights).sum(axis=1, dtype=np.uint64) >> np.uint64(1)).tolist()
    return sums
