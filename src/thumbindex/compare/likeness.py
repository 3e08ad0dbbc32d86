"""How alike texts are by their letters: the similarity of their 3-grams (Broder 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.text import strip_markup

Grams = npt.NDArray[np.int64]
"""Shape (grams,): three characters as one number, ascending, each once."""

Similarities = npt.NDArray[np.float64]
"""Shape (texts, texts): |A ∩ B| / |A ∪ B|, 0 to 1."""

GRAM_SETS = 512
"""Texts whose 3-grams are kept: about 4 KB each."""

COMPARED_SETS = 8
"""Sets of texts that stay compared: the stages look at one query's candidates one after the
other.
"""

_FIRST_LOOK = 0.35
"""The least similarity of sketches of texts that are compared further: sketches are off by 0.05."""

_BITS = 4096
_FACTOR = 0x9E3779B97F4A7C15
_SHIFT = np.uint64(52)


@lru_cache(maxsize=1024)
def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts; an empty one is like no other."""
    mine, yours = gram_set(first), gram_set(second)
    shared = len(np.intersect1d(mine, yours, assume_unique=True))
    joined = len(mine) + len(yours) - shared
    return shared / joined if joined else 0.0


@lru_cache(maxsize=COMPARED_SETS)
def similarities(texts: tuple[str, ...]) -> Similarities:
    """Return the similarity of each two texts; 0 where a first look tells that they are not
    alike.
    """
    found = np.zeros((len(texts), len(texts)))
    for a, b in np.argwhere(np.triu(_look(texts) >= _FIRST_LOOK, 1)).tolist():
        found[a, b] = found[b, a] = similarity(texts[a], texts[b])
    return found


def _look(texts: Sequence[str]) -> Similarities:
    """Return about which share of their 3-grams each two texts have in common, by sketches: each
    3-gram is hashed to one of 4,096 bits.
    """
    held = np.zeros((len(texts), _BITS), dtype=np.bool_)
    for row, text in zip(held, texts, strict=True):
        row[gram_set(text).astype(np.uint64) * np.uint64(_FACTOR) >> _SHIFT] = True
    bits = np.packbits(held, axis=1).view(np.uint64)
    sizes = held.sum(axis=1)
    shared = np.zeros((len(texts), len(texts)))
    for n, own in enumerate(bits):
        shared[n] = np.bitwise_count(own & bits).sum(axis=1)
    joined = sizes[:, None] + sizes - shared
    found = np.zeros_like(shared)
    np.divide(shared, joined, out=found, where=joined > 0)
    return found


@lru_cache(maxsize=GRAM_SETS)
def gram_set(markdown: str) -> Grams:
    """Return the character 3-grams of a text's visible words: case, line breaks and markup do not
    count.
    """
    text = " ".join(strip_markup(markdown).casefold().split())
    # a text of one or two characters is one gram by itself
    padded = text.ljust(3 if text else 0, "\0").encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(padded, dtype=np.uint32).astype(np.int64)
    return np.unique(points[:-2] << 42 | points[1:-1] << 21 | points[2:])
