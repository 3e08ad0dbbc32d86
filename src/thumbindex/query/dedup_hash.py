"""Stage dedup_hash: chunks whose texts are the same to the byte."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.query.merge import Copy, merge
from thumbindex.query.stage import Search, Tools


def dedup_hash(search: Search, tools: Tools) -> Search:
    """Keep the best of each group of equal texts, whatever their paths, tags and headings; what the owner keeps apart is no copy."""
    found, duplicates = search.candidates, tools.snapshot.duplicates
    copies = exact_copies([each.chunk.text for each in found], [each.score for each in found])
    copies = {at: of for at, of in copies.items() if duplicates.verdict(found[at].id, found[of].id) != "apart"}
    return merge(search, tools, {at: Copy(of, "a byte-exact copy") for at, of in copies.items()})


def exact_copies(texts: Sequence[str], scores: Sequence[float]) -> dict[int, int]:
    """Return each copy's survivor: of equal texts the highest score, then the earliest; nothing is folded or normalized."""
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text not in best or scores[at] > scores[best[text]]:
            best[text] = at
    return {at: best[text] for at, text in enumerate(texts) if best[text] != at}
