"""Compare texts by their character 3-grams (Broder 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.visible_text import strip_markup

TrigramSet = npt.NDArray[np.int64]
"""Shape (grams,): sorted, distinct numbers, each of which encodes three characters."""

SimilarityMatrix = npt.NDArray[np.float64]
"""Shape (texts, texts): |A ∩ B| / |A ∪ B|, 0 to 1."""

_TRIGRAM_CACHE_SIZE = 512
"""Entries in the cache of 3-grams, about 4 KB each."""

_MATRIX_CACHE_SIZE = 8
"""Entries in the cache of matrices. The stages of one query compare the same candidates."""

_SKETCH_CUTOFF = 0.35
"""If the sketches of two texts are less similar than this, the texts are not compared exactly.

The similarity of two sketches is off by about 0.05.
"""

_BITS = 4096
_FACTOR = 0x9E3779B97F4A7C15
_SHIFT = np.uint64(52)


@lru_cache(maxsize=1024)
def trigram_similarity(first: str, second: str) -> float:
    """Return the Jaccard similarity of two texts' 3-grams; 0 for an empty text."""
    mine, yours = trigrams(first), trigrams(second)
    shared = len(np.intersect1d(mine, yours, assume_unique=True))
    union = len(mine) + len(yours) - shared
    return shared / union if union else 0.0


@lru_cache(maxsize=_MATRIX_CACHE_SIZE)
def trigram_similarities(texts: tuple[str, ...]) -> SimilarityMatrix:
    """Return the similarity of each pair of texts; 0 if their sketches differ too much."""
    similarities = np.zeros((len(texts), len(texts)))
    for a, b in np.argwhere(np.triu(_sketch_similarities(texts) >= _SKETCH_CUTOFF, 1)).tolist():
        similarities[a, b] = similarities[b, a] = trigram_similarity(texts[a], texts[b])
    return similarities


def _sketch_similarities(texts: Sequence[str]) -> SimilarityMatrix:
    """Return the approximate similarity of each pair of texts from 4,096-bit sketches."""
    bit_rows = np.zeros((len(texts), _BITS), dtype=np.bool_)
    for row, text in zip(bit_rows, texts, strict=True):
        row[trigrams(text).astype(np.uint64) * np.uint64(_FACTOR) >> _SHIFT] = True
    bits = np.packbits(bit_rows, axis=1).view(np.uint64)
    sizes = bit_rows.sum(axis=1)
    shared = np.zeros((len(texts), len(texts)))
    for n, row_bits in enumerate(bits):
        shared[n] = np.bitwise_count(row_bits & bits).sum(axis=1)
    union = sizes[:, None] + sizes - shared
    similarities = np.zeros_like(shared)
    np.divide(shared, union, out=similarities, where=union > 0)
    return similarities


@lru_cache(maxsize=_TRIGRAM_CACHE_SIZE)
def trigrams(markdown: str) -> TrigramSet:
    """Return the 3-grams of a text's visible words, ignoring case, line breaks and markup."""
    text = " ".join(strip_markup(markdown).casefold().split())
    # a text of one or two characters is padded to one gram
    padded = text.ljust(3 if text else 0, "\0").encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(padded, dtype=np.uint32).astype(np.int64)
    return np.unique(points[:-2] << 42 | points[1:-1] << 21 | points[2:])
