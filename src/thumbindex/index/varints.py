"""Whole numbers in as few bytes as each needs: seven bits a byte, the lowest first, the last byte below 128; a column at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

Narrow = npt.NDArray[np.uint32]
"""Numbers while there are many of them."""

_BITS, _MORE = 7, 0x80

_FEW = 24
"""Bytes that are read quicker one by one than by a dozen calls of NumPy: a rare term's."""


def packed(numbers: Numbers) -> tuple[bytes, Numbers]:
    """Write numbers that are not negative; return the bytes, and how many each number takes."""
    sizes = np.ones(len(numbers), dtype=np.int64)
    while len(longer := np.flatnonzero(numbers >> _BITS * sizes)):
        sizes[longer] += 1
    ends = np.cumsum(sizes)
    found = np.zeros(ends[-1] if len(ends) else 0, dtype=np.uint8)
    starts, left, rest = ends - sizes, numbers, sizes
    while len(left):
        more = rest > 1
        found[starts] = left & (_MORE - 1) | more * _MORE
        starts, left, rest = starts[more] + 1, left[more] >> _BITS, rest[more] - 1
    return found.tobytes(), sizes


def unpacked(data: bytes) -> Numbers:
    """Read numbers."""
    if len(data) < _FEW:
        return np.array(list(_one_by_one(data)), dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw < _MORE)
    if len(ends) == len(raw):
        return raw.astype(np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    found = (raw[starts] & (_MORE - 1)).astype(np.int64)
    for place in range(1, int(sizes.max()) + 1):
        longer = np.flatnonzero(sizes >= place)
        found[longer] |= (raw[starts[longer] + place] & (_MORE - 1)).astype(np.int64) << _BITS * place
    return found


def _one_by_one(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & (_MORE - 1)) << shift
        shift += _BITS
        if byte < _MORE:
            yield number
            number = shift = 0


def last_bytes(data: bytes) -> Numbers:
    """Return where in the bytes each number ends."""
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) < _MORE)
