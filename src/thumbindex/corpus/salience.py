"""How much a chunk matters in its document before anything is known of other chunks."""

from __future__ import annotations

from thumbindex.model import BlockKind

_KIND = {BlockKind.PROSE: 1.0, BlockKind.LIST: 0.95, BlockKind.TABLE: 0.9, BlockKind.CODE: 0.85, BlockKind.HEADING: 0.4}
_FULL = 200  # characters from which length counts for all it can


def salience(kind: BlockKind, depth: int, place: int, ordinal: int, count: int, size: int) -> float:
    """Return the salience of a chunk in [0, 1] (spec/dedup.md, section 3).

    kind · (0.30 · (1 - depth / 6) + 0.30 / (1 + place) + 0.20 · (1 - ordinal / (count - 1)) + 0.20 · min(1, size / 200)):
    the number of headings below the title, the position under its own heading and in the document, and the length in characters.
    A first paragraph near the top of a document comes near 1, a one-line tail under a deep heading near 0.
    """
    high = 1 - min(depth, 6) / 6
    early = 1 - ordinal / (count - 1) if count > 1 else 1.0
    score = 0.30 * high + 0.30 / (1 + place) + 0.20 * early + 0.20 * min(1.0, size / _FULL)
    return round(_KIND[kind] * score, 4)
