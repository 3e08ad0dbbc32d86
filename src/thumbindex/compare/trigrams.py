"""Compare texts by their character 3-grams (Broder 1997)."""

from __future__ import annotations

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


@lru_cache(maxsize=1024)
def trigram_similarity(first: str, second: str) -> float:
    """Return the Jaccard similarity of two texts' 3-grams; 0 for an empty text."""
    mine, yours = trigrams(first), trigrams(second)
    shared = len(np.intersect1d(mine, yours, assume_unique=True))
    union = len(mine) + len(yours) - shared
    return shared / union if union else 0.0


@lru_cache(maxsize=_MATRIX_CACHE_SIZE)
def trigram_similarities(texts: tuple[str, ...]) -> SimilarityMatrix:
    """Return the similarity of each pair of texts, and 0 for a text with itself."""
    grams = [trigrams(text) for text in texts]
    sizes = np.array(list(map(len, grams)), dtype=np.int64)
    unique, columns = np.unique(np.concatenate([[0], *grams]), return_inverse=True)
    has_gram = np.zeros((len(texts), -(-len(unique) // 64) * 64), dtype=np.bool_)
    has_gram[np.repeat(np.arange(len(texts)), sizes), columns[1:]] = True
    bits = np.packbits(has_gram, axis=1).view(np.uint64)
    shared = np.zeros((len(texts), len(texts)))
    for row, row_bits in zip(shared, bits, strict=True):
        row[:] = np.bitwise_count(row_bits & bits).sum(axis=1)
    np.fill_diagonal(shared, 0)
    similarities: SimilarityMatrix = shared / np.maximum(sizes[:, None] + sizes - shared, 1)
    return similarities


@lru_cache(maxsize=_TRIGRAM_CACHE_SIZE)
def trigrams(markdown: str) -> TrigramSet:
    """Return the 3-grams of a text's visible words, ignoring case, line breaks and markup."""
    text = " ".join(strip_markup(markdown).casefold().split())
    # a text of one or two characters is padded to one gram
    padded = text.ljust(3 if text else 0, "\0").encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(padded, dtype=np.uint32).astype(np.int64)
    return np.unique(points[:-2] << 42 | points[1:-1] << 21 | points[2:])
