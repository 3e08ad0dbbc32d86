"""The stages that find chunks by words, identifiers, meaning and links, and score documents."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from thumbindex.model import ChunkId, DocumentId, Hit, RankedList, Term
from thumbindex.ports import KeywordWeights, LinkGraph, Vector
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import SearchGraphSettings, SearchKeywordSettings

KEYWORD_FIELDS = tuple("title headings keywords description tags aliases author path body".split())

TEXT_RETRIEVERS = ("search_keyword", "search_code")
"""Retrievers that match words of the text."""

QUERY_WEIGHT = 2
"""Weight of the query itself, relative to each other phrasing."""


def search_keyword(search: Search, tools: Tools) -> Search:
    """Find chunks by words. Quoted phrases must match."""
    settings = tools.settings.search_keyword
    terms = merge_terms(search.terms, [phrasing.terms for phrasing in search.other_phrasings])
    if not terms:
        return search
    ranked = tools.snapshot.keyword.search(
        terms, field_weights(settings), settings.limit, search.searchable
    )
    return replace(search, lists={**search.lists, "search_keyword": ranked})


def field_weights(settings: SearchKeywordSettings) -> KeywordWeights:
    """Return the BM25F parameters, without the fields whose boost is 0."""
    boosts = {name: boost for name in KEYWORD_FIELDS if (boost := getattr(settings, name))}
    return KeywordWeights(boosts, settings.k1, settings.b, settings.coverage)


def merge_terms(query_terms: Sequence[Term], others: Sequence[Sequence[Term]]) -> tuple[Term, ...]:
    """Return each term of all phrasings once, with the sum of its weights.

    BM25 is a sum over terms, so a search with all terms equals the sum of a search per phrasing.
    """
    if not others:
        return tuple(query_terms)
    merged = {term.text: replace(term, weight=QUERY_WEIGHT * term.weight) for term in query_terms}
    for term in (term for terms in others for term in terms):
        earlier = merged.get(term.text)
        merged[term.text] = (
            replace(earlier, weight=earlier.weight + term.weight) if earlier else term
        )
    return tuple(merged.values())


def merge_identifiers(search: Search) -> tuple[Term, ...]:
    """Return the query's identifiers and words. Other phrasings add whole identifiers only."""
    return merge_terms(
        search.identifiers,
        [
            [term for term in phrasing.identifiers if term.weight > 1]
            for phrasing in search.other_phrasings
        ],
    )


def search_code(search: Search, tools: Tools) -> Search:
    """Find chunks by identifiers and unstemmed words."""
    settings = tools.settings.search_code
    identifiers = merge_identifiers(search)
    if not identifiers:
        return search
    weights = KeywordWeights({"code": 1.0}, settings.k1, settings.b)
    ranked = tools.snapshot.keyword.search(identifiers, weights, settings.limit, search.searchable)
    return replace(search, lists={**search.lists, "search_code": ranked})


_MIN_COVERAGE = 0.5
"""Minimum share of the chunks that have a vector."""


def search_vector(search: Search, tools: Tools) -> Search:
    """Find chunks by meaning, if there are a model, vectors, and a query that has a meaning.

    If fewer than half of the chunks have a vector, the rest would be disadvantaged: words alone
    find more.
    """
    settings, index = tools.settings.search_vector, tools.snapshot.vector
    has_vectors = len(index) and index.coverage >= _MIN_COVERAGE
    if tools.embedder is None or not has_vectors or _is_only_codes(search, tools):
        return search
    text = search.embedding_text or search.text
    others = [phrasing.text for phrasing in search.other_phrasings]
    if others:
        vectors = list(tools.embedder.embed_queries([text, *others]))
    else:
        vectors = [tools.embedder.embed_query(text)]
    phrasings = tuple(
        replace(each, vector=vector)
        for each, vector in zip(search.other_phrasings, vectors[1:], strict=True)
    )
    vector = _mean_vector(vectors) if others else vectors[0]
    hits = index.search(vector, settings.limit, search.searchable)
    return replace(
        search,
        other_phrasings=phrasings,
        query_vector=vectors[0],
        vector=vector,
        lists={**search.lists, "search_vector": RankedList(hits)},
    )


_MIN_DIGITS = 5
"""Digits of a long number."""


def _is_only_codes(search: Search, tools: Tools) -> bool:
    """Return whether the query has only symbols and long numbers, and the notes contain these.

    Models know neither, but they know years and other short numbers, such as 401k.
    """
    return not search.other_phrasings and all(
        sum(map(str.isdigit, term.text)) >= _MIN_DIGITS
        and any(tools.snapshot.keyword.chunk_frequency(t.text) for t in (term, *term.forms))
        for term in search.terms
    )


def _mean_vector(vectors: Sequence[Vector]) -> Vector:
    """Return the normalized weighted mean of the phrasings' vectors."""
    # the mean ranks chunks in the order of the weighted sum of the phrasings' cosines
    total = np.sum(vectors, axis=0) + (QUERY_WEIGHT - 1) * vectors[0]
    norm = max(float(np.linalg.norm(total)), np.finfo(np.float32).tiny)
    mean: Vector = (total / norm).astype(np.float32)
    return mean


def search_graph(search: Search, tools: Tools) -> Search:
    """Find the best chunk of each document that the top documents link to."""
    settings = tools.settings.search_graph
    seeds = top_documents(search.lists, settings.from_documents)
    scores = link_scores(seeds, tools.snapshot.graph, settings)
    hits = _neighbor_hits(scores, search, tools)[: settings.limit]
    search = replace(search, seeds=seeds)
    if not hits:
        return search
    ranked = tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, 1))
    documents = {hit.document: hit.score for hit in ranked}
    return replace(search, lists={**search.lists, "search_graph": RankedList(ranked, documents)})


def top_documents(lists: Mapping[str, RankedList], count: int) -> tuple[DocumentId, ...]:
    """Return the documents with the highest sum of 1 / rank over all lists.

    The rank of a document is that of its best chunk.
    """
    scores: dict[DocumentId, float] = defaultdict(float)
    for ranked in lists.values():
        best = {hit.document: hit.rank for hit in reversed(ranked.hits)}
        for document, rank in best.items():
            scores[document] += 1 / rank
    return tuple(sorted(scores, key=lambda d: (-scores[d], d))[:count])


def link_scores(
    seeds: Sequence[DocumentId], graph: LinkGraph, settings: SearchGraphSettings
) -> dict[DocumentId, float]:
    """Score each neighbor by the sum of 1 / rank of the seeds that link to it."""
    scores: dict[DocumentId, float] = defaultdict(float)
    for rank, seed in enumerate(seeds, 1):
        for neighbor in neighbors(seed, graph, settings):
            scores[neighbor] += 1 / rank
    return dict(scores)


def neighbors(
    seed: DocumentId, graph: LinkGraph, settings: SearchGraphSettings
) -> tuple[DocumentId, ...]:
    """Return the first `settings.neighbors` documents that a document links to, sorted by id."""
    return graph.outgoing(seed)[: settings.neighbors]


def _neighbor_hits(scores: Mapping[DocumentId, float], search: Search, tools: Tools) -> list[Hit]:
    documents = sorted(scores, key=lambda d: (-scores[d], d))
    chunks_by_document = {
        document: chunks
        for document in documents
        if (chunks := search.keep_searchable(chunk_ids_of(document, tools)))
    }
    chunk_ids = [n for chunks in chunks_by_document.values() for n in chunks]
    cosines = np.full(len(chunk_ids), np.nan, dtype=np.float32)
    if search.vector is not None:  # one call, because the index may be remote
        cosines = np.round(tools.cosines(chunk_ids, search.vector), COSINE_DIGITS)
    remaining = iter(cosines.tolist())
    best = {
        document: _best_chunk(chunks, list(islice(remaining, len(chunks))), search)
        for document, chunks in chunks_by_document.items()
    }
    return [Hit(chunk, document, 1, scores[document]) for document, chunk in best.items()]


def chunk_ids_of(document: DocumentId, tools: Tools) -> list[ChunkId]:
    """Return the ids of a document's chunks, in order."""
    return [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(document)]


def _best_chunk(chunks: Sequence[ChunkId], cosines: Sequence[float], search: Search) -> ChunkId:
    """Return the chunk with the highest cosine.

    Without vectors, return the best-ranked chunk, or the first one if none has a rank.
    """
    if best := top_cosines(chunks, cosines, 1):
        return next(iter(best))
    hits = (hit for ranked in search.lists.values() for hit in reversed(ranked.hits))
    ranks = {hit.chunk: hit.rank for hit in hits}
    return min(chunks, key=lambda n: (ranks.get(n, len(ranks) + 1), n))


COSINE_DIGITS = 6
"""Cosines are rounded to this many decimal places. Further digits depend on the batch size."""

_BEST_CHUNK_WEIGHTS = (4, 2, 1)
"""Weights of a document's best chunks in the score of the document, best first."""

_MAX_UNPENALIZED_CHUNKS = 5
"""A document with up to this many chunks gets no length penalty."""

_LENGTH_PENALTY = 0.005
"""Length penalty per unit of ln(chunks).

The more chunks a document has, the more of them are close to a query by chance.
"""

_NEIGHBOR_SHARE = 0.15
"""Weight of each neighboring chunk in a smoothed cosine."""


def aggregate(search: Search, tools: Tools) -> Search:
    """Score the documents that any retriever found by their vectors."""
    lists = dict(search.lists)
    if search.vector is not None and "search_vector" in lists:
        documents = sorted({hit.document for ranked in lists.values() for hit in ranked.hits})
        lists["search_vector"] = score_documents_by_vectors(
            lists["search_vector"], documents, search.vector, search, tools
        )
    return replace(search, lists=lists)


def score_documents_by_vectors(
    ranked: RankedList, documents: Iterable[DocumentId], query: Vector, search: Search, tools: Tools
) -> RankedList:
    """Score each document by the cosines of its best chunks, minus the length penalty.

    Add the best chunks to the hits. The score of each hit is a smoothed cosine.
    """
    scores: dict[DocumentId, float] = {}
    hits = {hit.chunk: hit.document for hit in ranked.hits}
    chunks_by_document = {d: chunk_ids_of(d, tools) for d in documents}
    searchable = set(
        search.keep_searchable([n for chunks in chunks_by_document.values() for n in chunks])
    )
    chunks_by_document = {
        d: [n for n in chunks if n in searchable] for d, chunks in chunks_by_document.items()
    }
    chunk_ids = [n for chunks in chunks_by_document.values() for n in chunks]
    cosines = np.round(tools.cosines(chunk_ids, query), COSINE_DIGITS)
    shared = tools.snapshot.duplicates.shared()
    own = cosines if shared is None else np.where(shared.among(chunk_ids), np.nan, cosines)
    remaining = iter(own.tolist())
    for document, chunks in chunks_by_document.items():
        best = top_cosines(chunks, list(islice(remaining, len(chunks))), len(_BEST_CHUNK_WEIGHTS))
        if best:
            scores[document] = float(
                np.average(list(best.values()), weights=_BEST_CHUNK_WEIGHTS[: len(best)])
            ) - length_penalty(len(chunks))
        hits.update(dict.fromkeys(best, document))
    smoothed = smooth_cosines(cosines, [len(chunks) for chunks in chunks_by_document.values()])
    hit_scores = {
        chunk: score
        for chunk, score in zip(chunk_ids, smoothed.tolist(), strict=True)
        if chunk in hits
    }
    order = sorted(hits, key=lambda chunk: (-hit_scores[chunk], chunk))
    return RankedList(
        tuple(
            Hit(chunk, hits[chunk], rank, hit_scores[chunk]) for rank, chunk in enumerate(order, 1)
        ),
        scores,
    )


def length_penalty(chunks: int) -> float:
    """Return the length penalty of a document with this many chunks."""
    return _LENGTH_PENALTY * max(math.log(chunks / _MAX_UNPENALIZED_CHUNKS), 0.0)


def smooth_cosines(
    cosines: npt.NDArray[np.float32], lengths: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Blend the cosine of each chunk with the cosines of neighboring chunks in the document.

    `cosines` has the chunks of one document after another. `lengths` has the number of chunks of
    each document.
    """
    document = np.repeat(np.arange(len(lengths)), lengths)
    same_document = document[1:] == document[:-1]
    before, after = np.full_like(cosines, np.nan), np.full_like(cosines, np.nan)
    before[1:][same_document] = cosines[:-1][same_document]
    after[:-1][same_document] = cosines[1:][same_document]
    sides = np.where(np.isnan(before), cosines, before) + np.where(np.isnan(after), cosines, after)
    smoothed: npt.NDArray[np.float32] = np.round(
        (1 - 2 * _NEIGHBOR_SHARE) * cosines + _NEIGHBOR_SHARE * sides, COSINE_DIGITS
    )
    return smoothed


def top_cosines(
    chunks: Sequence[ChunkId], cosines: Sequence[float], count: int
) -> Mapping[ChunkId, float]:
    """Return the `count` chunks with the highest cosines, best first. NaN is ignored."""
    pairs = [
        (cosine, chunk)
        for chunk, cosine in zip(chunks, cosines, strict=True)
        if not math.isnan(cosine)
    ]
    return {
        chunk: cosine
        for cosine, chunk in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:count]
    }
