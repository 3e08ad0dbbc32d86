"""The stages that rank: salience, fusion, headings, recency and normalized scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from thumbindex.compare.tokens import cut_suffix
from thumbindex.language import function_word_weights
from thumbindex.model import Candidate, ChunkId, DocumentId, Hit, RankedList
from thumbindex.query.retrieve import TEXT_RETRIEVERS
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings, RecencySettings
from thumbindex.text import words


def salience(search: Search, tools: Tools) -> Search:
    """Add a list of the found chunks, ranked by salience.

    The salience includes the boost that a kept chunk gets for its repeats.
    """
    hits = [hit for hit_list in search.lists.values() for hit in hit_list.hits]
    documents = {hit.chunk: hit.document for hit in hits}
    if not documents:
        return search
    chunks = sorted(documents)
    scores = dict(zip(chunks, map(float, tools.snapshot.duplicates.salience(chunks)), strict=True))
    ranked = _rank_by_salience(documents, scores)
    return replace(search, lists={**search.lists, "salience": ranked})


def _rank_by_salience(
    documents: Mapping[ChunkId, DocumentId], scores: Mapping[ChunkId, float]
) -> RankedList:
    """Rank chunks by salience, and ties by position.

    The score of a document is the salience of its best chunk.
    """
    order = sorted(documents, key=lambda n: (-scores[n], n))
    document_scores: dict[DocumentId, float] = {}
    for chunk in order:
        document_scores.setdefault(documents[chunk], scores[chunk])
    return RankedList(
        tuple(Hit(n, documents[n], rank, scores[n]) for rank, n in enumerate(order, 1)),
        document_scores,
    )


_Item = TypeVar("_Item", bound=Hashable)


def fuse(search: Search, tools: Tools) -> Search:
    """Fuse the lists into candidates, best first. Ties are sorted by path, then by line."""
    settings = tools.settings
    weights = retriever_weights(search, settings)
    scores = fuse_lists(search.lists, weights, settings, _chunks_without_vector(search, tools))
    document_of = tools.snapshot.catalog.document_of
    best = limit_per_document(
        sorted(scores, key=lambda n: (-scores[n], n)), document_of, settings.fuse.chunks
    )
    fused = {n: scores[n] for n in best[: _candidate_limit(search, tools)]}
    return replace(search, fused=tuple(best), candidates=_make_candidates(fused, search, tools))


def take_first_list(search: Search, tools: Tools) -> Search:
    """Take the candidates from the first list that is not empty, without fusion."""
    first = next((ranked for ranked in search.lists.values() if ranked.hits), RankedList())
    scores = {hit.chunk: hit.score for hit in first.hits[: _candidate_limit(search, tools)]}
    return replace(search, candidates=_make_candidates(scores, search, tools))


def _make_candidates(
    scores: Mapping[ChunkId, float], search: Search, tools: Tools
) -> tuple[Candidate, ...]:
    catalog = tools.snapshot.catalog
    chunks = catalog.chunks(list(scores))
    sources: dict[ChunkId, dict[str, int]] = defaultdict(dict)
    for name, ranked in search.lists.items():
        for hit in ranked.hits:
            sources[hit.chunk][name] = hit.rank
    return tuple(
        Candidate(n, catalog.document_of(n), chunks[n], score, sources[n])
        for n, score in scores.items()
        if n in chunks
    )


def _candidate_limit(search: Search, tools: Tools) -> int:
    """Return the maximum number of candidates.

    The number is limited because later stages compare all pairs of candidates.
    """
    return max(tools.settings.fuse.limit, 3 * tools.limit(search.query))


def limit_per_document(
    chunks: Sequence[ChunkId], document_of: Callable[[ChunkId], DocumentId], count: int
) -> list[ChunkId]:
    """Return the first `count` chunks of each document, in order."""
    counts: Counter[DocumentId] = Counter()
    limited = []
    for chunk in chunks:
        counts[document_of(chunk)] += 1
        if counts[document_of(chunk)] <= count:
            limited.append(chunk)
    return limited


def retriever_weights(search: Search, settings: QuerySettings) -> dict[str, float]:
    """Return the weights of the retrievers that found something. Their sum is 1."""
    raw = {
        name: getattr(settings, name).weight * search.weight_factors.get(name, 1.0)
        for name, ranked in search.lists.items()
        if ranked.hits or ranked.documents
    }
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()} if total else raw


def _chunks_without_vector(search: Search, tools: Tools) -> frozenset[ChunkId]:
    vector = tools.snapshot.vector
    if "search_vector" not in search.lists or len(vector) == len(tools.snapshot.catalog):
        return frozenset()
    chunks = sorted({hit.chunk for ranked in search.lists.values() for hit in ranked.hits})
    missing = np.flatnonzero(np.isnan(vector.vectors(chunks)[:, 0]))
    return frozenset(chunks[at] for at in missing)


def fuse_lists(
    lists: Mapping[str, RankedList],
    weights: Mapping[str, float],
    settings: QuerySettings,
    pending: AbstractSet[ChunkId] = frozenset(),
) -> dict[ChunkId, float]:
    """Fuse the scores of documents and of chunks into one score per chunk.

    A chunk gets document score · (chunk score / score of the document's best chunk)^`fuse.spread`.
    `pending` has the chunks without a vector.
    """
    fusion = _fusion(settings.fuse.method, settings.fuse.k)
    documents = {hit.chunk: hit.document for ranked in lists.values() for hit in ranked.hits}
    chunk_scores: dict[ChunkId, float] = fusion(
        {name: {hit.chunk: hit.score for hit in ranked.hits} for name, ranked in lists.items()},
        weights,
    )
    factor = _missing_vector_factor(weights)
    chunk_scores = {
        chunk: score * factor if chunk in pending else score
        for chunk, score in chunk_scores.items()
    }
    if not settings.runs("aggregate"):
        return chunk_scores
    document_scores: dict[DocumentId, float] = fusion(
        {name: ranked.documents for name, ranked in lists.items()},
        weights,
        frozenset(documents.values()),
    )
    for document in {documents[chunk] for chunk in pending} - {
        documents[chunk] for chunk in documents.keys() - pending
    }:
        document_scores[document] = document_scores.get(document, 0.0) * factor
    best: dict[DocumentId, float] = {}
    for chunk, score in chunk_scores.items():
        best[documents[chunk]] = max(best.get(documents[chunk], 0.0), score)
    blended: dict[ChunkId, float] = {}
    for chunk, score in chunk_scores.items():
        best_in_document = best[documents[chunk]]
        share = score / best_in_document if best_in_document > 0 else 1.0
        blended[chunk] = document_scores.get(documents[chunk], 0.0) * share**settings.fuse.spread
    return blended


def _missing_vector_factor(weights: Mapping[str, float]) -> float:
    """Return the factor for the score of a chunk without a vector.

    The factor compensates for the missing score of search_vector. If no retriever matched words,
    the factor is 1, because links alone must not outrank vectors.
    """
    others = sum(weight for name, weight in weights.items() if name != "search_vector")
    return (
        sum(weights.values()) / others
        if any(weights.get(name) for name in TEXT_RETRIEVERS)
        else 1.0
    )


def _fusion(method: str, k: int) -> Callable[..., dict[_Item, float]]:
    """Return the function for a fusion method. For `rrf`, it ignores its parameter `only`."""
    if method == "convex":
        return convex_combination
    return lambda rankings, weights, only=None: reciprocal_rank_fusion(rankings, weights, k)


def convex_combination(
    rankings: Mapping[str, Mapping[_Item, float]],
    weights: Mapping[str, float],
    only: AbstractSet[_Item] | None = None,
) -> dict[_Item, float]:
    """Return the weighted sum of each item's scores.

    Each score is first divided by the highest score in its list. If `only` is given, other items
    are omitted.
    """
    fused: dict[_Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        weight, highest = weights.get(name, 0.0), max(scores.values(), default=0.0)
        for item in scores if only is None else scores.keys() & only:
            fused[item] += weight * max(scores[item] / highest, 0.0) if highest > 0 else 0.0
    return dict(fused)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Mapping[_Item, float]], weights: Mapping[str, float], k: int
) -> dict[_Item, float]:
    """Return each item's sum of weight × (k + 1) / (k + rank). Ranks start at 1."""
    fused: dict[_Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        ordered = sorted(scores, key=lambda item: (-scores[item], item))
        for rank, item in enumerate(ordered, 1):
            fused[item] += weights.get(name, 0.0) * (k + 1) / (k + rank)
    return dict(fused)


_HEADING_BOOST = 0.4
"""Boost for a chunk whose headings contain all words of the query.

It is added to the ratio of the chunk's score to the document's best score.
"""

_CACHED_HEADINGS = 8192
"""Maximum number of headings whose stems are cached."""


def headings(search: Search, tools: Tools) -> Search:
    """Boost chunks by the fraction of the query's words in their headings.

    The boosted scores of each document are scaled so that its highest score does not change.
    """
    stops = function_word_weights(search.text, tools.snapshot.keyword.languages)
    stems = frozenset(cut_suffix(word) for word in words(search.text) if stops.get(word, 1.0))
    if not stems:
        return search
    by_document: dict[DocumentId, list[Candidate]] = defaultdict(list)
    for candidate in search.candidates:
        by_document[candidate.document].append(candidate)
    spread = tools.settings.fuse.spread
    boosted = (
        candidate
        for candidates in by_document.values()
        for candidate in _boost_headings(candidates, stems, spread)
    )
    return replace(search, candidates=sort_candidates(boosted))


def _boost_headings(
    candidates: Collection[Candidate], query_stems: frozenset[str], spread: float
) -> list[Candidate]:
    """Rescore the chunks of one document by the query's words in the headings."""
    best = max(candidate.score for candidate in candidates)
    coverages = [
        heading_coverage(candidate.chunk.heading_path[1:], query_stems) for candidate in candidates
    ]
    if best <= 0 or not any(coverages):
        return list(candidates)
    # undo the effect of `fuse.spread`, which is applied again after the boosts are added
    shares = [
        (candidate.score / best) ** (1 / spread) if spread else 1.0 for candidate in candidates
    ]
    totals = [
        share + _HEADING_BOOST * coverage for share, coverage in zip(shares, coverages, strict=True)
    ]
    highest = max(totals)
    return [
        each.with_score(best * (total / highest) ** spread)
        for each, total in zip(candidates, totals, strict=True)
    ]


def heading_coverage(headings: Collection[str], query_stems: frozenset[str]) -> float:
    """Return the fraction of the query's stems that the headings contain."""
    stems = frozenset[str]().union(*map(_heading_stems, headings))
    return len(query_stems & stems) / len(query_stems)


@lru_cache(maxsize=_CACHED_HEADINGS)
def _heading_stems(heading: str) -> frozenset[str]:
    return frozenset(map(cut_suffix, words(heading)))


def recency(search: Search, tools: Tools) -> Search:
    """Boost recent documents.

    Age is relative to the newest document, so answers do not depend on today's date. Undated
    documents have age 0.
    """
    days = tools.snapshot.catalog.ordinal_days
    newest = int(days.max(initial=0))
    boosted = (
        boost_recent(
            candidate, newest - (int(days[candidate.document]) or newest), tools.settings.recency
        )
        for candidate in search.candidates
    )
    return replace(search, candidates=sort_candidates(boosted))


def boost_recent(candidate: Candidate, age: float, settings: RecencySettings) -> Candidate:
    """Multiply a score by 1 + bias · 2^(−age / half-life). The age is in days."""
    return candidate.with_score(
        candidate.score * (1 + settings.bias * 2 ** (-age / settings.half_life_days))
    )


def sort_candidates(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Sort candidates by score, and ties by path, then by line."""
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.id)))


def normalize(search: Search, tools: Tools) -> Search:
    """Divide scores by the highest possible score, so that weak candidates get low scores."""
    ceiling = max_score(tools.settings)
    return replace(
        search,
        candidates=tuple(
            candidate.with_score(min(max(candidate.score / ceiling, 0.0), 1.0))
            for candidate in search.candidates
        ),
    )


def max_score(settings: QuerySettings) -> float:
    """Return the highest possible score."""
    return 1.0 + (settings.recency.bias if settings.runs("recency") else 0.0)
