"""Stage dedup_ngram: near copies, by the character 3-grams of what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from thumbindex.query.guards import comparable, kept_apart
from thumbindex.query.merge import Copy, greedy, merge
from thumbindex.query.stage import Search, Tools

_LENGTH = 3


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation differs."""
    chunks = [each.chunk for each in search.candidates]
    similarities = jaccard([ngrams(chunk.text) for chunk in chunks])
    copies = greedy(similarities >= tools.settings.dedup_ngram.similarity, lambda a, b: kept_apart(chunks[a], chunks[b]))
    return merge(search, tools, {at: Copy(of, f"3-gram similarity {similarities[at, of]:.2f}: a near copy") for at, of in copies.items()})


def ngrams(markdown: str) -> frozenset[str]:
    """Return the character 3-grams of a text's visible words: case, quotes, line breaks and markers do not count."""
    text = " ".join(comparable(markdown)[0].casefold().split())
    return frozenset(text[at : at + _LENGTH] for at in range(max(1, len(text) - _LENGTH + 1)) if text)


def jaccard(sets: Sequence[frozenset[str]]) -> npt.NDArray[np.float64]:
    """Return the shared share of each two sets, |A ∩ B| / |A ∪ B|, shape (sets, sets); an empty set is like no other (Broder 1997)."""
    columns = {gram: at for at, gram in enumerate(sorted(frozenset().union(*sets)))}
    held = np.zeros((len(sets), len(columns)), dtype=np.bool_)
    for row, grams in enumerate(sets):
        held[row, [columns[gram] for gram in grams]] = True
    # bits, not floats: three hundred candidates with ten thousand grams between them stay in the processor's cache
    bits = np.packbits(held, axis=1)
    shared = np.array([np.bitwise_count(bits & row).sum(axis=1, dtype=np.int64) for row in bits]).reshape(len(sets), len(sets))
    sizes = np.array([len(grams) for grams in sets])
    joined = sizes[:, None] + sizes[None, :] - shared
    similarities: npt.NDArray[np.float64] = np.divide(shared, joined, out=np.zeros(shared.shape), where=joined > 0)
    return similarities
