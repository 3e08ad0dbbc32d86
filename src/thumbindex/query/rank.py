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
    """Rank the chunks found so far by salience, including the boosts for repeats."""
    found = {hit.chunk: hit.document for each in search.lists.values() for hit in each.hits}
    if not found:
        return search
    chunks = sorted(found)
    scores = dict(zip(chunks, map(float, tools.snapshot.duplicates.salience(chunks)), strict=True))
    return replace(search, lists={**search.lists, "salience": _rank_by_salience(found, scores)})


def _rank_by_salience(
    found: Mapping[ChunkId, DocumentId], scores: Mapping[ChunkId, float]
) -> RankedList:
    """Return chunks by salience, ties by position; a document's is that of its best chunk."""
    order = sorted(found, key=lambda n: (-scores[n], n))
    documents: dict[DocumentId, float] = {}
    for chunk in order:
        documents.setdefault(found[chunk], scores[chunk])
    return RankedList(
        tuple(Hit(n, found[n], rank, scores[n]) for rank, n in enumerate(order, 1)), documents
    )


_Item = TypeVar("_Item", bound=Hashable)


def fuse(search: Search, tools: Tools) -> Search:
    """Fuse the lists into candidates, best first; ties by path, then line."""
    settings = tools.settings
    weights = retriever_weights(search, settings)
    scores = fuse_lists(search.lists, weights, settings, _chunks_without_vector(search, tools))
    of = tools.snapshot.catalog.document_of
    best = limit_per_document(
        sorted(scores, key=lambda n: (-scores[n], n)), of, settings.fuse.chunks
    )
    fused = {n: scores[n] for n in best[: _candidate_limit(search, tools)]}
    return replace(search, fused=tuple(best), candidates=_make_candidates(fused, search, tools))


def take_first_list(search: Search, tools: Tools) -> Search:
    """Without fusion, take the first retriever's list that is not empty."""
    found = next((found for found in search.lists.values() if found.hits), RankedList())
    scores = {hit.chunk: hit.score for hit in found.hits[: _candidate_limit(search, tools)]}
    return replace(search, candidates=_make_candidates(scores, search, tools))


def _make_candidates(
    scores: Mapping[ChunkId, float], search: Search, tools: Tools
) -> tuple[Candidate, ...]:
    catalog = tools.snapshot.catalog
    chunks = catalog.chunks(list(scores))
    sources: dict[ChunkId, dict[str, int]] = defaultdict(dict)
    for name, found in search.lists.items():
        for hit in found.hits:
            sources[hit.chunk][name] = hit.rank
    return tuple(
        Candidate(n, catalog.document_of(n), chunks[n], score, sources[n])
        for n, score in scores.items()
        if n in chunks
    )


def _candidate_limit(search: Search, tools: Tools) -> int:
    """Return the maximum of candidates: later stages compare all pairs."""
    return max(tools.settings.fuse.limit, 3 * search.query.limit)


def limit_per_document(
    chunks: Sequence[ChunkId], of: Callable[[ChunkId], DocumentId], count: int
) -> list[ChunkId]:
    """Return the chunks in order, at most `count` of a document."""
    taken: Counter[DocumentId] = Counter()
    kept = []
    for chunk in chunks:
        taken[of(chunk)] += 1
        if taken[of(chunk)] <= count:
            kept.append(chunk)
    return kept


def retriever_weights(search: Search, settings: QuerySettings) -> dict[str, float]:
    """Return the weights of the retrievers with results, for this kind of query; they sum to 1."""
    raw = {
        name: getattr(settings, name).weight * search.weight_factors.get(name, 1.0)
        for name, found in search.lists.items()
        if found.hits or found.documents
    }
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()} if total else raw


def _chunks_without_vector(search: Search, tools: Tools) -> frozenset[ChunkId]:
    """Return the found chunks that have no vector yet."""
    vector = tools.snapshot.vector
    if "search_vector" not in search.lists or len(vector) == len(tools.snapshot.catalog):
        return frozenset()
    chunks = sorted({hit.chunk for found in search.lists.values() for hit in found.hits})
    missing = np.flatnonzero(np.isnan(vector.vectors(chunks)[:, 0]))
    return frozenset(chunks[at] for at in missing)


def fuse_lists(
    lists: Mapping[str, RankedList],
    weights: Mapping[str, float],
    settings: QuerySettings,
    pending: AbstractSet[ChunkId] = frozenset(),
) -> dict[ChunkId, float]:
    """Fuse the scores of documents and of chunks into one score per chunk.

    The best chunk of a document gets the document's score. The others get a fraction of it: their
    score as a share of the best chunk's, to the power of `fuse.spread`. Without `aggregate` a chunk
    has its own score. Chunks in `pending` have no vector yet: only the other retrievers score them.
    """
    fusion = _fusion(settings.fuse.method, settings.fuse.k)
    of = {hit.chunk: hit.document for found in lists.values() for hit in found.hits}
    chunk_scores: dict[ChunkId, float] = fusion(
        {name: {hit.chunk: hit.score for hit in found.hits} for name, found in lists.items()},
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
        {name: found.documents for name, found in lists.items()}, weights, frozenset(of.values())
    )
    for document in {of[chunk] for chunk in pending} - {of[chunk] for chunk in of.keys() - pending}:
        document_scores[document] = document_scores.get(document, 0.0) * factor
    best: dict[DocumentId, float] = {}
    for chunk, score in chunk_scores.items():
        best[of[chunk]] = max(best.get(of[chunk], 0.0), score)
    blended: dict[ChunkId, float] = {}
    for chunk, score in chunk_scores.items():
        best_in_document = best[of[chunk]]
        share = score / best_in_document if best_in_document > 0 else 1.0
        blended[chunk] = document_scores.get(of[chunk], 0.0) * share**settings.fuse.spread
    return blended


def _missing_vector_factor(weights: Mapping[str, float]) -> float:
    """Return the factor for the score of a chunk without a vector, which makes up for the weight of
    search_vector; 1 if no words were found: links alone must not outrank vectors.
    """
    others = sum(weight for name, weight in weights.items() if name != "search_vector")
    return (
        sum(weights.values()) / others
        if any(weights.get(name) for name in TEXT_RETRIEVERS)
        else 1.0
    )


def _fusion(method: str, k: int) -> Callable[..., dict[_Item, float]]:
    """Return the function that fuses scores. Reciprocal rank fusion ignores `only`."""
    if method == "convex":
        return convex_combination
    return lambda rankings, weights, only=None: reciprocal_rank_fusion(rankings, weights, k)


def convex_combination(
    rankings: Mapping[str, Mapping[_Item, float]],
    weights: Mapping[str, float],
    only: AbstractSet[_Item] | None = None,
) -> dict[_Item, float]:
    """Return the weighted sum of max-normalized scores, for all items or for those in `only`."""
    fused: dict[_Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        weight, highest = weights.get(name, 0.0), max(scores.values(), default=0.0)
        for item in scores if only is None else scores.keys() & only:
            fused[item] += weight * max(scores[item] / highest, 0.0) if highest > 0 else 0.0
    return dict(fused)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Mapping[_Item, float]], weights: Mapping[str, float], k: int
) -> dict[_Item, float]:
    """Return the sum of weight × (k + 1) / (k + rank) over the rankings, rank from 1."""
    fused: dict[_Item, float] = defaultdict(float)
    for name, scores in rankings.items():
        ordered = sorted(scores, key=lambda item: (-scores[item], item))
        for rank, item in enumerate(ordered, 1):
            fused[item] += weights.get(name, 0.0) * (k + 1) / (k + rank)
    return dict(fused)


_HEADING_BOOST = 0.4
"""Added to a chunk's share of the best score if its headings hold all query words."""

_CACHED_HEADINGS = 8192
"""Headings whose stems are cached."""


def headings(search: Search, tools: Tools) -> Search:
    """Boost chunks by the share of the query's words in their headings; a document's best score
    stays.
    """
    stops = function_word_weights(search.text, tools.snapshot.keyword.languages)
    asked = frozenset(cut_suffix(word) for word in words(search.text) if stops.get(word, 1.0))
    if not asked:
        return search
    by_document: dict[DocumentId, list[Candidate]] = defaultdict(list)
    for candidate in search.candidates:
        by_document[candidate.document].append(candidate)
    spread = tools.settings.fuse.spread
    boosted = (
        heading for own in by_document.values() for heading in _boost_headings(own, asked, spread)
    )
    ordered = sorted(boosted, key=lambda each: (-each.score, each.id))
    return replace(search, candidates=tuple(ordered))


def _boost_headings(
    candidates: Collection[Candidate], asked: frozenset[str], spread: float
) -> list[Candidate]:
    """Rescore a document's chunks as fusion did, with their headings included."""
    best = max(candidate.score for candidate in candidates)
    covered = [
        heading_coverage(candidate.chunk.heading_path[1:], asked) for candidate in candidates
    ]
    if best <= 0 or not any(covered):
        return list(candidates)
    shares = [
        (candidate.score / best) ** (1 / spread) if spread else 1.0 for candidate in candidates
    ]
    totals = [
        share + _HEADING_BOOST * covers for share, covers in zip(shares, covered, strict=True)
    ]
    highest = max(totals)
    return [
        each.with_score(best * (total / highest) ** spread)
        for each, total in zip(candidates, totals, strict=True)
    ]


def heading_coverage(headings: Collection[str], asked: frozenset[str]) -> float:
    """Return the share of the query's stems in the headings."""
    held = frozenset[str]().union(*map(_heading_stems, headings))
    return len(asked & held) / len(asked)


@lru_cache(maxsize=_CACHED_HEADINGS)
def _heading_stems(heading: str) -> frozenset[str]:
    return frozenset(map(cut_suffix, words(heading)))


def recency(search: Search, tools: Tools) -> Search:
    """Boost newer documents by their age in days.

    Age is relative to the newest document, so the answer does not depend on today's date. Undated
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
    """Multiply a score by 1 + bias · 2^(−age / half-life), age in days."""
    return candidate.with_score(
        candidate.score * (1 + settings.bias * 2 ** (-age / settings.half_life_days))
    )


def sort_candidates(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Sort candidates by score, ties by path, then line."""
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.id)))


def normalize(search: Search, tools: Tools) -> Search:
    """Scale scores to 0 to 1, by the highest possible one: a weak best hit stays weak."""
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
