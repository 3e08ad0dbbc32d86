"""What two texts are to each other: one text twice, a case for the owner, or two texts; guards have the last word."""

from __future__ import annotations

from thumbindex.model import Chunk, Judgement
from thumbindex.query.guards import kept_apart
from thumbindex.settings import DuplicatesSettings


def judge(first: Chunk, second: Chunk, cosine: float | None, settings: DuplicatesSettings) -> Judgement:
    """Judge two chunks by the cosine of their vectors (None where one has none), their words and the guards (spec/dedup.md, section 4)."""
    apart = kept_apart(first, second)
    if cosine is None or cosine < settings.grey:
        return Judgement("distinct", "not alike")
    if cosine < settings.same:
        return Judgement("grey", f"cosine {cosine:.2f}")
    return Judgement("same", f"cosine {cosine:.2f}") if apart is None else Judgement("grey", apart)
