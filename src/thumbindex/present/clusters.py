"""Clusters of duplicates for review: their order, and the differing words of two texts."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from thumbindex.model import Cluster
from thumbindex.present.excerpts import MarkedText

_TOKENS = re.compile(r"\s+|\w+|[^\w\s]+")

MAX_DIFF_TOKENS = 3_000
"""Maximum tokens compared in a text, since the time grows with the square of their number."""


def diff_texts(first: str, second: str) -> tuple[list[MarkedText], list[MarkedText]]:
    """Split two texts into pieces, and mark the words that the other text lacks."""
    left, right = _TOKENS.findall(first), _TOKENS.findall(second)
    left_tokens, right_tokens = (
        [" " if piece.isspace() else piece for piece in pieces[:MAX_DIFF_TOKENS]]
        for pieces in (left, right)
    )
    marked: tuple[list[MarkedText], list[MarkedText]] = ([], [])
    for operation, a, b, c, d in SequenceMatcher(
        None, left_tokens, right_tokens, autojunk=False
    ).get_opcodes():
        for pieces, part in zip(marked, ("".join(left[a:b]), "".join(right[c:d])), strict=True):
            if part:
                pieces.append((part, operation != "equal" and bool(part.strip())))
    for pieces, all_of in zip(marked, (left, right), strict=True):
        if tail := "".join(all_of[MAX_DIFF_TOKENS:]):
            pieces.append((tail, False))
    return marked


def exceeds_diff_limit(text: str) -> bool:
    """Return whether a text is too long for `diff_texts` to compare all of it."""
    return len(_TOKENS.findall(text)) > MAX_DIFF_TOKENS


def needs_decision(cluster: Cluster) -> bool:
    """Return whether a cluster needs a decision by the user."""
    return cluster.verdict is None and (cluster.zone == "grey" or bool(cluster.differs))
