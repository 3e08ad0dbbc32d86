"""Stage salience: what was found, ranked by how much it matters in its document, as a list of its own beside the retrievers'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from thumbindex.model import ChunkId, DocumentId, Hit, RankedList
from thumbindex.query.stage import Search, Tools


def salience(search: Search, tools: Tools) -> Search:
    """Rank the chunks in the running by their salience, repeats' boosts included; it finds nothing that was not found."""
    found = {hit.chunk: hit.document for each in search.lists.values() for hit in each.hits}
    if not found:
        return search
    chunks = sorted(found)
    scores = dict(zip(chunks, map(float, tools.snapshot.duplicates.salience(chunks)), strict=True))
    return replace(search, lists={**search.lists, "salience": by_salience(found, scores)})


def by_salience(found: Mapping[ChunkId, DocumentId], scores: Mapping[ChunkId, float]) -> RankedList:
    """Return chunks by salience, ties by position; a document matters as much as the chunk of it that matters most."""
    order = sorted(found, key=lambda n: (-scores[n], n))
    documents: dict[DocumentId, float] = {}
    for chunk in order:
        documents.setdefault(found[chunk], scores[chunk])
    return RankedList(tuple(Hit(n, found[n], rank, scores[n]) for rank, n in enumerate(order, 1)), documents)
