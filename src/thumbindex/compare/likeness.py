"""How alike two texts are by their letters: a quick sketch for all pairs, and the exact similarity
of 3-grams (Broder 1997).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.compare.tokens import comparable

BY_LETTERS = 0.5
"""The least likeness of sketches of texts whose letters are worth comparing: of copies it was 0.63
at least.
"""

BY_MEANING = 0.4
"""The same for texts whose vectors are alike: it was 0.5 at least."""

KEPT = 1024
"""Texts whose sketches are remembered, half a kilobyte each: the next query finds the same ones."""

SKETCH_SETS = 8
"""Sets of texts that are remembered: the stages look at one query's candidates one after the
other.
"""

_ROWS = 16
"""Texts that are compared with all others at once: what that takes stays in the processor's
cache.
"""

_END = "\0"
_BITS = 4096
_FACTORS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], dtype=np.uint64)
_SHIFT = np.uint64(20)
_LEADS = (re.compile(r"\]\([^()\s\0]*\)"), re.compile(r"\[\[[^\[\]|\0]*\|"))
"""Where links lead: two copies may lead to two places."""

_LETTER = np.array([chr(n).isalnum() or n > 126 or n == 0 for n in range(128)])
"""Of ASCII: what is looked at; of other characters all is, and 0 stands between texts."""


def worth_reading(texts: Sequence[str], least: float) -> npt.NDArray[np.bool_]:
    """Return which two texts could be alike, shape (texts, texts); an empty text is like no
    other.
    """
    return np.asarray(_likeness(tuple(texts)) >= least, dtype=np.bool_)


@lru_cache(maxsize=SKETCH_SETS)
def _likeness(texts: tuple[str, ...]) -> npt.NDArray[np.float64]:
    return likeness(texts)


def likeness(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return about which share of their 3-grams of letters and digits each two texts have in
    common, shape (texts, texts).

    Each text's 3-grams are hashed into 4,096 bits: the Jaccard similarity of the bits is that of
    the 3-grams, give or take 0.05.
    """
    bits = sketches(texts)
    sizes = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    parts = [
        np.bitwise_count(bits[n : n + _ROWS, None] & bits).sum(axis=2, dtype=np.int64)
        for n in range(0, len(bits), _ROWS)
    ]
    shared = np.concatenate([np.zeros((0, len(texts)), dtype=np.int64), *parts])
    joined = sizes[:, None] + sizes[None, :] - shared
    similar: npt.NDArray[np.float64] = np.divide(
        shared, joined, out=np.zeros(shared.shape), where=joined > 0
    )
    return similar


_kept: dict[str, npt.NDArray[np.uint64]] = {}


def sketches(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return each text's 3-grams as bits, shape (texts, words of 64 bits); those that are not
    remembered are read together.
    """
    own = {text: kept for text in texts if (kept := _kept.get(text)) is not None}
    new = list(dict.fromkeys(text for text in texts if text not in own))
    own |= dict(zip(new, _sketched(new), strict=True))
    if len(_kept) + len(new) > KEPT:
        _kept.clear()
    _kept.update((text, own[text]) for text in new)
    return np.stack([own[text] for text in texts]) if texts else _sketched(())


def _sketched(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    points = _letters("\0".join(f" {text.replace(_END, ' ')} " for text in texts).lower())
    rows = np.cumsum(points == 0)
    grams = points[:-2] * _FACTORS[0] + points[1:-1] * _FACTORS[1] + points[2:] * _FACTORS[2]
    whole = (rows[:-2] == rows[2:]) & (points[:-2] > 0)  # inside one text
    held = np.zeros((len(texts), _BITS), dtype=np.bool_)
    held[rows[:-2][whole], (grams[whole] >> _SHIFT) % np.uint64(_BITS)] = True
    return np.packbits(held, axis=1).view(np.uint64)


def _letters(joined: str) -> npt.NDArray[np.uint64]:
    """Return characters as numbers, a space for any run of what is neither letter nor digit."""
    for pattern in _LEADS:
        joined = pattern.sub("", joined)
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    letter = _LETTER[np.minimum(points, 127)]
    kept = letter.copy()
    kept[1:] |= letter[:-1]  # the first of a run stays as a space
    kept[:1] = True
    found: npt.NDArray[np.uint64] = np.where(letter, points, 32)[kept].astype(np.uint64)
    return found


Grams = npt.NDArray[np.int64]
"""Shape (grams,): each three characters as one number, in the order of the text; a repeated one
counts once.
"""

GRAM_SETS = 512
"""Texts whose 3-grams are kept: about 4 KB each."""

_PAIRS = 1024
"""Pairs of texts whose similarity is remembered: several stages ask, and the next query finds the
same texts.
"""

_LENGTH = 3
_NONE = "\0"


def by_letters(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the similarity of each two texts, shape (texts, texts); 0 where a first look tells
    that they are not alike.
    """
    similarities = np.zeros((len(texts), len(texts)))
    for a, b in np.argwhere(np.triu(worth_reading(texts, BY_LETTERS), 1)):
        similarities[a, b] = similarities[b, a] = similarity(texts[a], texts[b])
    return similarities


@lru_cache(maxsize=_PAIRS)
def similarity(first: str, second: str) -> float:
    """Return the shared share of the 3-grams of two texts, |A ∩ B| / |A ∪ B|; an empty one is like
    no other (Broder 1997).
    """
    mine, yours = gram_set(first), gram_set(second)
    shared = len(np.intersect1d(mine, yours, assume_unique=True))
    joined = len(mine) + len(yours) - shared
    return shared / joined if joined else 0.0


@lru_cache(maxsize=GRAM_SETS)
def gram_set(markdown: str) -> Grams:
    """Return a text's 3-grams, each once, ascending."""
    return np.unique(ngrams(markdown))


def ngrams(markdown: str) -> Grams:
    """Return the character 3-grams of a text's visible words, one number each: case, quotes, line
    breaks and markers do not count.
    """
    text = " ".join(comparable(markdown)[0].casefold().split())
    # a text of one or two characters is one gram by itself
    points = np.frombuffer(
        text.ljust(_LENGTH if text else 0, _NONE).encode("utf-32-le", "surrogatepass"),
        dtype=np.uint32,
    ).astype(np.int64)
    return points[:-2] << 42 | points[1:-1] << 21 | points[2:]
