"""The stages that search: by words, identifiers, meaning and links; and the scores of chunks added up to documents."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from thumbindex.model import ChunkId, DocumentId, Hit, QueryKind, RankedList, Term
from thumbindex.ports import KeywordWeights, LinkGraph, Mask, Vector
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import SearchGraphSettings, SearchKeywordSettings

_Item = TypeVar("_Item", bound=Hashable)

KEYWORD_FIELDS = ("title", "headings", "keywords", "description", "tags", "aliases", "author", "path", "body")


def search_keyword(search: Search, tools: Tools) -> Search:
    """Find chunks by words; the more of them a chunk holds the better, quoted phrases must be there."""
    settings = tools.settings.search_keyword
    weights = field_weights(settings)

    def found(terms: Sequence[Term], mask: Mask | None) -> RankedList | None:
        return tools.snapshot.keyword.search(terms, weights, settings.limit, mask) if terms else None

    mask = search.mask
    for phrase in (term.text for term in search.terms if term.phrase) if search.phrasings else ():
        held = tools.snapshot.keyword.holding_phrase(phrase)
        mask = held if mask is None else held & mask
    return with_lists(search, "search_keyword", found(search.terms, search.mask), [found(each.terms, mask) for each in search.phrasings])


def with_lists(search: Search, retriever: str, own: RankedList | None, others: Sequence[RankedList | None]) -> Search:
    """Return a search with what a retriever found by the query's own words, and by each phrasing; None where it was not asked."""
    lists = {**search.lists, retriever: own} if own is not None else search.lists
    phrasings = tuple(
        replace(each, lists={**each.lists, retriever: found}) if found is not None else each
        for each, found in zip(search.phrasings, others, strict=True)
    )
    return replace(search, lists=lists, phrasings=phrasings)


def field_weights(settings: SearchKeywordSettings) -> KeywordWeights:
    """Return the fields with their boosts, those at zero left out."""
    boosts = {name: boost for name in KEYWORD_FIELDS if (boost := getattr(settings, name))}
    return KeywordWeights(boosts, settings.k1, settings.b, settings.coverage)


def search_code(search: Search, tools: Tools) -> Search:
    """Find chunks by identifiers and words as they are written."""
    settings = tools.settings.search_code
    weights = KeywordWeights({"code": 1.0}, settings.k1, settings.b)

    def found(identifiers: Sequence[Term]) -> RankedList | None:
        return tools.snapshot.keyword.search(identifiers, weights, settings.limit, search.mask) if identifiers else None

    return with_lists(search, "search_code", found(search.identifiers), [found(each.identifiers) for each in search.phrasings])


def search_vector(search: Search, tools: Tools) -> Search:
    """Find chunks by meaning; without a model or vectors, find nothing."""
    settings = tools.settings.search_vector
    if tools.embedder is None or not len(tools.snapshot.vector):
        return search
    own = search.meaning or search.text
    texts = [own, *(each.text for each in search.phrasings)]
    vectors = tools.embedder.embed_queries(texts) if search.phrasings else [tools.embedder.embed_query(own)]
    lists = [RankedList(tools.snapshot.vector.search(vector, settings.limit, search.mask)) for vector in vectors]
    phrasings = tuple(replace(each, vector=vector) for each, vector in zip(search.phrasings, vectors[1:], strict=True))
    return with_lists(replace(search, vector=vectors[0], phrasings=phrasings), "search_vector", lists[0], lists[1:])


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


_DIGITS = 6
"""Of a cosine: beyond these it depends on which others are computed at once, and two equal texts are to have equal ones."""


BEST_CHUNKS = 3
"""Chunks of a document whose mean cosine is the document's."""


def aggregate(search: Search, tools: Tools) -> Search:
    """Give every document that some retriever found its own score in each of them."""
    every = [search.lists, *(each.lists for each in search.phrasings)]
    documents = sorted({hit.document for lists in every for found in lists.values() for hit in found.hits})
    own = _aggregated(search.lists, search.vector, documents, search, tools)
    phrasings = tuple(replace(each, lists=_aggregated(each.lists, each.vector, documents, search, tools)) for each in search.phrasings)
    return replace(search, lists=own, phrasings=phrasings)


def _aggregated(
    found: Mapping[str, RankedList], vector: Vector | None, documents: Sequence[DocumentId], search: Search, tools: Tools
) -> dict[str, RankedList]:
    lists = {name: add_whole(each) if name in {"search_keyword", "search_code"} else each for name, each in found.items()}
    if vector is not None and "search_vector" in lists:
        lists["search_vector"] = by_meaning(lists["search_vector"], documents, vector, search, tools)
    return lists


AS_WRITTEN = 2.0
"""Weight of a query's own words against each phrasing, where they are to be found as they are written; elsewhere it is 1."""


def combine(search: Search, tools: Tools) -> Search:
    """Bring together what each retriever found by the query's own words and by each of its other phrasings."""
    if not search.phrasings:
        return search
    own = AS_WRITTEN if search.kind is QueryKind.FACTUAL else 1.0
    every = [(search.lists, own), *((each.lists, 1.0) for each in search.phrasings)]
    names = dict.fromkeys(name for lists, _ in every for name in lists)
    return replace(search, lists={name: together([(lists[name], weight) for lists, weight in every if name in lists]) for name in names})


def together(lists: Sequence[tuple[RankedList, float]]) -> RankedList:
    """Return one list of several of one retriever, each with its weight: chunks and documents get the mean of their shares of the best score."""
    total = sum(weight for _, weight in lists)
    chunks: dict[ChunkId, float] = defaultdict(float)
    documents: dict[DocumentId, float] = defaultdict(float)
    hits: dict[ChunkId, Hit] = {}
    for found, weight in lists:
        for chunk, share in shares({hit.chunk: hit.score for hit in found.hits}).items():
            chunks[chunk] += weight / total * share
        for document, share in shares(found.documents).items():
            documents[document] += weight / total * share
        for hit in found.hits:
            hits.setdefault(hit.chunk, hit)
    ranked = sorted(hits.values(), key=lambda hit: (-chunks[hit.chunk], hit.chunk))
    return RankedList(tuple(replace(hit, rank=rank, score=chunks[hit.chunk]) for rank, hit in enumerate(ranked, 1)), documents)


def shares(scores: Mapping[_Item, float]) -> dict[_Item, float]:
    """Return scores as shares of the highest; nothing below 0."""
    highest = max(scores.values(), default=0.0)
    return {item: max(score / highest, 0.0) for item, score in scores.items()} if highest > 0 else dict.fromkeys(scores, 0.0)


def add_whole(found: RankedList) -> RankedList:
    """Score each document by its best chunk and by all of its words together."""
    best: dict[DocumentId, float] = {}
    for hit in found.hits:
        best.setdefault(hit.document, hit.score)
    documents = {d: best.get(d, 0.0) + found.documents.get(d, 0.0) for d in {*best, *found.documents}}
    return RankedList(found.hits, documents)


def by_meaning(found: RankedList, documents: Iterable[DocumentId], query: Vector, search: Search, tools: Tools) -> RankedList:
    """Score each document by the mean cosine of its best chunks; those chunks join the hits, best first."""
    scores: dict[DocumentId, float] = {}
    hits = {hit.chunk: hit for hit in found.hits}
    chunks_of = {d: [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(d) if search.mask is None or search.mask[n]] for d in documents}
    vectors = tools.snapshot.vector.vectors([n for chunks in chunks_of.values() for n in chunks])
    cosines = iter(np.round(vectors @ query, _DIGITS).tolist())
    for document, chunks in chunks_of.items():
        best = best_cosines(chunks, list(islice(cosines, len(chunks))), BEST_CHUNKS)
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
