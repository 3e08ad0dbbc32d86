"""Stage dedup_semantic: near copies by their stored vectors; no model is called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.model import Candidate
from thumbindex.ports import Matrix
from thumbindex.query.guards import word_overlap
from thumbindex.query.merge import Copy, greedy, merge, told_apart
from thumbindex.query.sketch import BY_MEANING, worth_reading
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import DedupSemanticSettings

OVERLAPS = 1024
"""Pairs of texts whose overlap is remembered."""

LEAST_OVERLAP = 0.5
"""The least share of words that copies have in common: a vector stands for its text's beginning and its headings as well."""


def dedup_semantic(search: Search, tools: Tools) -> Search:
    """Take out what says the same as a better candidate, unless a number, identifier or negation differs."""
    candidates = search.candidates
    alike, cosines = by_meaning(candidates, tools)
    copies = greedy(alike, lambda a, b: differing(candidates[a], candidates[b], tools))
    return merge(search, tools, {at: Copy(of, f"cosine {cosines[at, of]:.2f}: a near copy") for at, of in copies.items()})


def by_meaning(candidates: Sequence[Candidate], tools: Tools) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """Return which two have vectors that are alike and texts that are worth reading, and all cosines, each of shape (items, items)."""
    cosines = stored_cosines(tools.snapshot.vector.vectors([each.id for each in candidates]))
    alike = cosines >= thresholds([each.document for each in candidates], tools.settings.dedup_semantic)
    return np.asarray(alike & worth_reading([each.chunk.text for each in candidates], BY_MEANING), dtype=np.bool_), cosines


def stored_cosines(vectors: Matrix) -> npt.NDArray[np.float32]:
    """Return cosines each with each, shape (rows, rows); a row that is not there yet is like no other."""
    cosines: npt.NDArray[np.float32] = np.nan_to_num(vectors @ vectors.T, nan=-1.0)
    return cosines


def thresholds(documents: Sequence[int], settings: DedupSemanticSettings) -> npt.NDArray[np.float64]:
    """Return the least cosine of a copy for each two, shape (items, items): one inside a document, another across."""
    of = np.array(documents)
    return np.where(of[:, None] == of[None, :], settings.within, settings.across)


def differing(first: Candidate, second: Candidate, tools: Tools) -> str | None:
    """Say why two candidates are not copies although their vectors are alike; None where nothing speaks against it."""
    overlap = overlap_of(first.chunk.text, second.chunk.text)
    return f"only {overlap:.2f} of the words in common" if overlap < LEAST_OVERLAP else told_apart(first, second, tools.snapshot.duplicates)


@lru_cache(maxsize=OVERLAPS)
def overlap_of(first: str, second: str) -> float:
    """Return the share of words that two texts have in common, remembered for who asks again."""
    return word_overlap(first, second)
