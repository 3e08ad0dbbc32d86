"""Stage fuse: the retrievers' rankings of documents become one, and each document's chunks follow it.

Convex combination of calibrated scores (Bruch, Gai & Ingber 2023), or reciprocal rank fusion (Cormack, Clarke & Buettcher 2009).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import nlargest
from typing import TypeVar

import numpy as np

from thumbindex.language import ENGLISH, is_read, telling_words
from thumbindex.model import Candidate, ChunkId, DocumentId, RankedList
from thumbindex.ports import Embedder
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings

Item = TypeVar("Item", bound=Hashable)
Fusion = Callable[[Mapping[str, Mapping[Item, float]], Mapping[str, float]], dict[Item, float]]
"""Rankings by retriever (item to score) and the retrievers' weights in; fused scores out, at most the sum of the weights."""


READING = ("search_keyword", "search_code")
"""Retrievers that judge a text by what it says, as vectors do."""


_TELLING = 5
"""Documents that words find, best first, by whose languages it is seen what is asked about."""


def fuse(search: Search, tools: Tools) -> Search:
    """Fuse the lists into candidates, best first; ties by path, then line."""
    settings = tools.settings
    search = replace(search, weights=as_read(search, tools))
    weights = retriever_weights(search, settings)
    scores = fuse_lists(search.lists, weights, settings, without_vector(search, tools))
    of = tools.snapshot.catalog.document_of
    best = first_of_each(sorted(scores, key=lambda n: (-scores[n], n)), of, settings.fuse.chunks)
    fused = {n: scores[n] for n in best[: _most(search, tools)]}
    chunks = tools.snapshot.catalog.chunks(list(fused))
    sources: dict[ChunkId, dict[str, int]] = defaultdict(dict)
    for name, found in search.lists.items():
        for hit in found.hits:
            sources[hit.chunk][name] = hit.rank
    candidates = (Candidate(n, of(n), chunks[n], fused[n], sources[n]) for n in fused if n in chunks)
    return replace(search, candidates=tuple(candidates))


def _most(search: Search, tools: Tools) -> int:
    """Return how many candidates go on: later stages compare each with each."""
    return max(tools.settings.fuse.limit, 3 * search.query.limit)


def as_read(search: Search, tools: Tools) -> Mapping[str, float]:
    """Return the retrievers' factors, search_vector's lower by the share of what words find in languages that the model does not read."""
    found = search.lists.get("search_keyword")
    factor = tools.settings.search_vector.unread
    if tools.embedder is None or factor == 1 or not found or not found.documents:
        return search.weights
    documents = tools.snapshot.catalog.documents
    best = nlargest(_TELLING, found.documents.items(), key=lambda item: (item[1], -item[0]))
    scores: dict[str, float] = defaultdict(float)
    for document, score in best:
        scores[documents[document].language] += score
    unread = sum(score for language, score in scores.items() if not reads(tools.embedder, language))
    share = unread / sum(scores.values())
    return {**search.weights, "search_vector": search.weights.get("search_vector", 1.0) * (1 - share + share * factor)} if share else search.weights


def reads(embedder: Embedder, language: str) -> bool:
    """Tell whether a model reads a language: whether its vocabulary holds the function words whole, as it does those of English.

    Of a model that does not hold English's either, and of a language whose words are not known here, nothing is told, and it is taken to read.
    """
    return language in ("", ENGLISH) or _holds_words(embedder, language) or not _holds_words(embedder, ENGLISH)


def _holds_words(embedder: Embedder, language: str) -> bool:
    asked = telling_words(language)
    return is_read(sum(map(embedder.knows, asked)), len(asked))


def first_of_each(chunks: Sequence[ChunkId], of: Callable[[ChunkId], DocumentId], count: int) -> list[ChunkId]:
    """Return the chunks in order, at most `count` of a document: a long page must not crowd out the others."""
    taken: Counter[DocumentId] = Counter()
    kept = []
    for chunk in chunks:
        taken[of(chunk)] += 1
        if taken[of(chunk)] <= count:
            kept.append(chunk)
    return kept


def first_list(search: Search, tools: Tools) -> Search:
    """Take one retriever's list as it is, where fusion is switched off: meaning's where it found something, else words'."""
    found = next((found for found in search.lists.values() if found.hits), RankedList())
    chunks = tools.snapshot.catalog.chunks([hit.chunk for hit in found.hits])
    name = next((name for name, own in search.lists.items() if own is found), "")
    candidates = (
        Candidate(hit.chunk, hit.document, chunks[hit.chunk], hit.score, {name: hit.rank})
        for hit in found.hits[: _most(search, tools)]
        if hit.chunk in chunks
    )
    return replace(search, candidates=tuple(candidates))


def retriever_weights(search: Search, settings: QuerySettings) -> dict[str, float]:
    """Return each retriever's share for this kind of query; the shares of those that found something sum to 1."""
    raw = {
        name: getattr(settings, name).weight * search.weights.get(name, 1.0) for name, found in search.lists.items() if found.hits or found.documents
    }
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()} if total else raw


def without_vector(search: Search, tools: Tools) -> frozenset[ChunkId]:
    """Return the chunks in the running that search_vector could not score, as their vectors are not there yet."""
    vector = tools.snapshot.vector
    if "search_vector" not in search.lists or len(vector) == len(tools.snapshot.catalog):
        return frozenset()
    chunks = sorted({hit.chunk for found in search.lists.values() for hit in found.hits})
    missing = np.flatnonzero(np.isnan(vector.vectors(chunks)[:, 0]))
    return frozenset(chunks[at] for at in missing)


def fuse_lists(
    lists: Mapping[str, RankedList], weights: Mapping[str, float], settings: QuerySettings, pending: AbstractSet[ChunkId] = frozenset()
) -> dict[ChunkId, float]:
    """Fuse documents and chunks; a document's best chunk takes its score, the others follow by their share of the best one's.

    What is `pending`, without a vector yet, is scored by the other retrievers alone: their weights are raised to the sum of all.
    """
    fusion = _fusion(settings.fuse.method, settings.fuse.k)
    of = {hit.chunk: hit.document for found in lists.values() for hit in found.hits}
    chunk_scores: dict[ChunkId, float] = fusion({name: {hit.chunk: hit.score for hit in found.hits} for name, found in lists.items()}, weights)
    raised = gain_of_others(weights)
    chunk_scores = {chunk: score * raised if chunk in pending else score for chunk, score in chunk_scores.items()}
    if not settings.aggregate.enabled:
        return chunk_scores
    document_scores: dict[DocumentId, float] = fusion({name: found.documents for name, found in lists.items()}, weights, frozenset(of.values()))
    for document in {of[chunk] for chunk in pending} - {of[chunk] for chunk in of.keys() - pending}:
        document_scores[document] = document_scores.get(document, 0.0) * raised
    best: dict[DocumentId, float] = {}
    for chunk, score in chunk_scores.items():
        best[of[chunk]] = max(best.get(of[chunk], 0.0), score)
    return {
        chunk: document_scores.get(of[chunk], 0.0) * ((score / best[of[chunk]]) ** settings.fuse.spread if best[of[chunk]] > 0 else 1.0)
        for chunk, score in chunk_scores.items()
    }


def gain_of_others(weights: Mapping[str, float]) -> float:
    """Return the factor that raises all weights but search_vector's to the sum of all.

    It is 1 where no words were found: links measure a document's neighbors, and raised they would put it before what was found by meaning.
    """
    others = sum(weight for name, weight in weights.items() if name != "search_vector")
    return sum(weights.values()) / others if any(weights.get(name) for name in READING) else 1.0


def _fusion(method: str, k: int) -> Callable[..., dict[Item, float]]:
    return convex if method == "convex" else lambda rankings, weights, only=None: reciprocal_ranks(rankings, weights, k)


def convex(rankings: Mapping[str, Mapping[Item, float]], weights: Mapping[str, float], only: AbstractSet[Item] | None = None) -> dict[Item, float]:
    """Add each retriever's scores, as shares of its highest, by weight; of all items, or of some."""
    fused: dict[Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        weight, highest = weights.get(name, 0.0), max(scores.values(), default=0.0)
        for item in scores if only is None else scores.keys() & only:
            fused[item] += weight * max(scores[item] / highest, 0.0) if highest > 0 else 0.0
    return dict(fused)


def reciprocal_ranks(rankings: Mapping[str, Mapping[Item, float]], weights: Mapping[str, float], k: int) -> dict[Item, float]:
    """Add weight × (k + 1) / (k + rank) over the rankings, rank from 1: the first of all of them gets the sum of the weights."""
    fused: dict[Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        ordered = sorted(scores, key=lambda item: (-scores[item], item))
        for rank, item in enumerate(ordered, 1):
            fused[item] += weights.get(name, 0.0) * (k + 1) / (k + rank)
    return dict(fused)
