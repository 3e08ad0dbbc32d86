"""Which candidates say almost the same, by their letters or by their stored vectors, before any guard has spoken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from thumbindex.model import Candidate
from thumbindex.query.dedup_ngram import by_letters
from thumbindex.query.dedup_semantic import LEAST_OVERLAP, by_meaning, overlap_of
from thumbindex.query.stage import Tools


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return the positions of each two of one kind that `dedup_ngram` or `dedup_semantic` would compare further, the better one first."""
    pairs = np.argwhere(np.triu(_alike(candidates, tools), 1))
    return [(int(a), int(b)) for a, b in pairs if _of_one_kind(candidates[a], candidates[b])]


def _alike(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.bool_]:
    texts = [each.chunk.text for each in candidates]
    alike = np.asarray(by_letters(texts) >= tools.settings.dedup_ngram.similarity, dtype=np.bool_)
    for a, b in np.argwhere(np.triu(by_meaning(candidates, tools)[0] & ~alike, 1)):
        alike[a, b] = overlap_of(texts[a], texts[b]) >= LEAST_OVERLAP
    return alike


def _of_one_kind(first: Candidate, second: Candidate) -> bool:
    return first.chunk.kind is second.chunk.kind and first.chunk.language.casefold() == second.chunk.language.casefold()
