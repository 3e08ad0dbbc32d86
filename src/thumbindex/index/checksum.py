"""A row that was flipped on disk is found and not believed: what a row's checksum is, and how many rows there must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

_LOW = 2**63 - 1
"""SQLite's integers are signed."""


def row_sum(*values: Any) -> int:
    """Return the checksum of a row's values: numbers and texts as they are written, so that no version of Python disagrees."""
    return crc32("\x1f".join(map(str, values)).encode("utf-8", "surrogatepass"))


def vector_sums(fingerprint: str, keys: Sequence[bytes], matrix: np.ndarray[tuple[Any, ...], np.dtype[Any]]) -> list[int]:
    """Return a checksum a vector. They are sums of words, so that many vectors are verified at the price of one addition."""
    width = matrix.shape[1] * matrix.itemsize
    padded = np.zeros((len(matrix), -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), width)
    of_vectors = padded.view("<u8").sum(axis=1, dtype=np.uint64).tolist()
    of_model = row_sum(fingerprint)
    return [(total + _words([key]) + of_model) & _LOW for total, key in zip(of_vectors, keys, strict=True)]


def are_whole(fingerprint: str, keys: Sequence[bytes], vectors: Sequence[bytes], sums: Sequence[int]) -> bool:
    """Tell whether vectors are those whose checksums were kept, under these keys."""
    try:
        return (_words(keys) + _words(vectors) + len(keys) * row_sum(fingerprint) - sum(sums)) & _LOW == 0
    except TypeError:  # a flipped byte can make a number of what was a blob
        return False


def _words(parts: Sequence[bytes]) -> int:
    """Add up words of eight bytes, the last of each part filled with zeros."""
    whole = b"".join(parts)
    width = len(parts[0])
    if width % 8 or len(whole) != width * len(parts):
        whole = b"".join(part.ljust(-(-len(part) // 8) * 8, b"\0") for part in parts)
    return int(np.frombuffer(whole, dtype="<u8").sum(dtype=np.uint64))


def as_number(key: bytes) -> int:
    """Return a key as a number, to be added up."""
    return int.from_bytes(key) if isinstance(key, bytes) else -1


class Census:
    """How many rows each table has, and what some of their columns add up to: a row that vanished is missed."""

    def __init__(self, counted: dict[str, list[int]] | None = None) -> None:
        self.counted = counted or {}

    def add(self, table: str, rows: Iterable[Sequence[int]], sign: int = 1) -> None:
        """Count rows in, or out with a sign of -1; a row is the columns that are added up."""
        for row in rows:
            self.shift(table, [1, *row], sign)

    def shift(self, table: str, numbers: Sequence[int], sign: int = 1) -> None:
        """Add a number of rows and the sums of their columns."""
        known = self.counted.get(table) or [0] * len(numbers)
        self.counted[table] = [a + sign * b for a, b in zip(known, numbers, strict=True)]

    def agrees(self, table: str, numbers: Sequence[int]) -> bool:
        """Tell whether a table has just as many rows, and they add up to the same."""
        return [*numbers] == (self.counted.get(table) or [0] * len(numbers))
