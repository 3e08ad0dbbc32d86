"""Stage dedup_ngram: near copies, by the character 3-grams of what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.query.guards import comparable
from thumbindex.query.merge import Copy, greedy, merge, told_apart
from thumbindex.query.sketch import BY_LETTERS, worth_reading
from thumbindex.query.stage import Search, Tools

Grams = npt.NDArray[np.int64]
"""Shape (grams,): each three characters as one number, in the order of the text; a repeated one counts once."""

SETS = 512
"""Texts whose 3-grams are kept: about 4 KB each."""

PAIRS = 1024
"""Pairs of texts whose similarity is remembered: several stages ask, and the next query finds the same texts."""

_LENGTH = 3
_NONE = "\0"


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation differs."""
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    similarities = by_letters([each.chunk.text for each in candidates])
    alike = similarities >= tools.settings.dedup_ngram.similarity
    copies = greedy(alike, lambda a, b: told_apart(candidates[a], candidates[b], duplicates))
    return merge(search, tools, {at: Copy(of, f"3-gram similarity {similarities[at, of]:.2f}: a near copy") for at, of in copies.items()})


def by_letters(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the similarity of each two texts, shape (texts, texts); 0 where a first look tells that they are not alike."""
    similarities = np.zeros((len(texts), len(texts)))
    for a, b in np.argwhere(np.triu(worth_reading(texts, BY_LETTERS), 1)):
        similarities[a, b] = similarities[b, a] = similarity(texts[a], texts[b])
    return similarities


@lru_cache(maxsize=PAIRS)
def similarity(first: str, second: str) -> float:
    """Return the shared share of the 3-grams of two texts, |A ∩ B| / |A ∪ B|; an empty one is like no other (Broder 1997)."""
    mine, yours = gram_set(first), gram_set(second)
    shared = len(np.intersect1d(mine, yours, assume_unique=True))
    joined = len(mine) + len(yours) - shared
    return shared / joined if joined else 0.0


@lru_cache(maxsize=SETS)
def gram_set(markdown: str) -> Grams:
    """Return a text's 3-grams, each once, ascending."""
    return np.unique(ngrams(markdown))


def ngrams(markdown: str) -> Grams:
    """Return the character 3-grams of a text's visible words, one number each: case, quotes, line breaks and markers do not count."""
    text = " ".join(comparable(markdown)[0].casefold().split())
    # a text of one or two characters is one gram by itself
    points = np.frombuffer(text.ljust(_LENGTH if text else 0, _NONE).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    return points[:-2] << 42 | points[1:-1] << 21 | points[2:]
