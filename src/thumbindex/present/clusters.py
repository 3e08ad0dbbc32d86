"""Clusters of texts that say the same, for whoever decides of them: their order, and the words in
which two texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from thumbindex.model import Cluster

_PIECES = re.compile(r"\s+|\w+|[^\w\s]+")

MOST_PIECES = 3_000
"""Words and spaces of a text that are compared: what that takes grows with their square.

The rest stays unmarked.
"""

Piece = tuple[str, bool]
"""A part of a text, and whether the other text has it not."""


def differing_pieces(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, with the words marked that the other one has not; white space is
    never marked, and all of it is one.
    """
    left, right = _PIECES.findall(first), _PIECES.findall(second)
    mine, other = (
        [" " if each.isspace() else each for each in pieces[:MOST_PIECES]]
        for pieces in (left, right)
    )
    found: tuple[list[Piece], list[Piece]] = ([], [])
    for operation, a, b, c, d in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        for pieces, part in zip(found, ("".join(left[a:b]), "".join(right[c:d])), strict=True):
            if part:
                pieces.append((part, operation != "equal" and bool(part.strip())))
    for pieces, all_of in zip(found, (left, right), strict=True):
        if rest := "".join(all_of[MOST_PIECES:]):
            pieces.append((rest, False))
    return found


def is_long(text: str) -> bool:
    """Tell whether a text has more words than are compared."""
    return len(_PIECES.findall(text)) > MOST_PIECES


def is_open(cluster: Cluster) -> bool:
    """Tell whether the owner has to decide of a cluster, and has not."""
    return cluster.verdict is None and (cluster.zone == "grey" or bool(cluster.differs))


def in_order(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return clusters as they are best decided: contradictions first, then the grey ones, the
    largest and most alike first, then what is merged.
    """
    return sorted(
        clusters,
        key=lambda each: (
            not each.differs,
            each.zone == "same",
            -len(each.texts),
            -each.cosine,
            each.id,
        ),
    )
