"""Stage search_graph: documents one link away from the best ones found so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thumbindex.model import ChunkId, DocumentId, Hit, RankedList
from thumbindex.ports import LinkGraph
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import SearchGraphSettings


def search_graph(search: Search, tools: Tools) -> Search:
    """Find neighbors of what was found; each is stood for by its best chunk for this query."""
    settings = tools.settings.search_graph
    seeds = first_documents(search.lists, settings.from_documents)
    scores = spread(seeds, tools.snapshot.graph, settings)
    hits = _best_chunks(scores, search, tools)[: settings.limit]
    if not hits:
        return search
    ranked = tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, 1))
    documents = {hit.document: hit.score for hit in ranked}
    return replace(search, lists={**search.lists, "search_graph": RankedList(ranked, documents)})


def first_documents(lists: Mapping[str, RankedList], count: int) -> tuple[DocumentId, ...]:
    """Return the documents that stand first over all lists: the sum of 1 / rank of each one's best chunk."""
    scores: dict[DocumentId, float] = defaultdict(float)
    for found in lists.values():
        best = {hit.document: hit.rank for hit in reversed(found.hits)}
        for document, rank in best.items():
            scores[document] += 1 / rank
    return tuple(sorted(scores, key=lambda d: (-scores[d], d))[:count])


def spread(seeds: Sequence[DocumentId], graph: LinkGraph, settings: SearchGraphSettings) -> dict[DocumentId, float]:
    """Give each neighbor of the seeds the sum of 1 / rank of the seeds that it hangs on; a hub's neighbors are bounded."""
    scores: dict[DocumentId, float] = defaultdict(float)
    for rank, seed in enumerate(seeds, 1):
        for neighbor in neighbors(seed, graph, settings):
            scores[neighbor] += 1 / rank
    return dict(scores)


def neighbors(seed: DocumentId, graph: LinkGraph, settings: SearchGraphSettings) -> list[DocumentId]:
    """Return the documents one link away, in the direction that is followed, ascending."""
    linked = graph.linked(seed) if settings.direction != "in" else ()
    linking = graph.linking(seed) if settings.direction != "out" else ()
    return sorted({*linked, *linking})[: settings.neighbors]


def _best_chunks(scores: Mapping[DocumentId, float], search: Search, tools: Tools) -> list[Hit]:
    hits = []
    for document in sorted(scores, key=lambda d: (-scores[d], d)):
        chunks = [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(document) if search.mask is None or search.mask[n]]
        if chunks:
            hits.append(Hit(_best_chunk(chunks, search, tools), document, 1, scores[document]))
    return hits


def _best_chunk(chunks: Sequence[ChunkId], search: Search, tools: Tools) -> ChunkId:
    """Return the nearest by meaning; where none has a vector the one that the words found first, else the document's first."""
    if search.vector is not None:
        cosines = tools.snapshot.vector.vectors(chunks) @ search.vector
        if not np.isnan(cosines).all():
            return chunks[int(np.nanargmax(cosines))]
    ranks = {hit.chunk: hit.rank for found in search.lists.values() for hit in reversed(found.hits)}
    return min(chunks, key=lambda n: (ranks.get(n, len(ranks) + 1), n))
