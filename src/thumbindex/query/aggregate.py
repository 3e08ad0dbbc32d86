"""Stage aggregate: what each retriever found, added up from chunks to whole documents.

Sums favor long pages and maxima favor lists of everything. What held on every corpus that was measured: by words, the best
chunk and the whole document; by meaning, the mean of the best three chunks, or of what there is (docs/evaluation.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from thumbindex.model import ChunkId, DocumentId, Hit, RankedList
from thumbindex.ports import Vector
from thumbindex.query.stage import Search, Tools

_DIGITS = 6
"""Of a cosine: beyond these it depends on which others are computed at once, and two equal texts are to have equal ones."""


def aggregate(search: Search, tools: Tools) -> Search:
    """Give every document that some retriever found its own score in each of them."""
    settings = tools.settings.aggregate
    lists = {name: add_whole(found, settings.whole) if name in {"search_keyword", "search_code"} else found for name, found in search.lists.items()}
    if search.vector is not None and "search_vector" in lists:
        documents = sorted({hit.document for found in lists.values() for hit in found.hits})
        lists["search_vector"] = by_meaning(lists["search_vector"], documents, search.vector, search, tools)
    return replace(search, lists=lists)


def add_whole(found: RankedList, weight: float) -> RankedList:
    """Score each document by its best chunk and, weighted, by all of its words together."""
    best: dict[DocumentId, float] = {}
    for hit in found.hits:
        best.setdefault(hit.document, hit.score)
    documents = {d: best.get(d, 0.0) + weight * found.documents.get(d, 0.0) for d in {*best, *found.documents}}
    return RankedList(found.hits, documents)


def by_meaning(found: RankedList, documents: Iterable[DocumentId], query: Vector, search: Search, tools: Tools) -> RankedList:
    """Score each document by the mean cosine of its best chunks; those chunks join the hits, best first."""
    scores: dict[DocumentId, float] = {}
    hits = {hit.chunk: hit for hit in found.hits}
    chunks_of = {d: [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(d) if search.mask is None or search.mask[n]] for d in documents}
    vectors = tools.snapshot.vector.vectors([n for chunks in chunks_of.values() for n in chunks])
    cosines = iter(np.round(vectors @ query, _DIGITS).tolist())
    for document, chunks in chunks_of.items():
        best = best_cosines(chunks, list(islice(cosines, len(chunks))), tools.settings.aggregate.best)
        if best:
            scores[document] = float(np.mean(list(best.values())))
        for chunk, cosine in best.items():
            hits.setdefault(chunk, Hit(chunk, document, 0, cosine))
    ranked = sorted(hits.values(), key=lambda hit: (-hit.score, hit.chunk))
    return RankedList(tuple(Hit(hit.chunk, hit.document, rank, hit.score) for rank, hit in enumerate(ranked, 1)), scores)


def best_cosines(chunks: Sequence[ChunkId], cosines: Sequence[float], count: int) -> Mapping[ChunkId, float]:
    """Return the chunks with the highest cosines; those without a vector (NaN) do not count."""
    pairs = [(cosine, chunk) for chunk, cosine in zip(chunks, cosines, strict=True) if not math.isnan(cosine)]
    return {chunk: cosine for cosine, chunk in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:count]}
