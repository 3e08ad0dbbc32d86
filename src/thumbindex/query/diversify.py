"""The stages after deduplication: let other pages come up beside the best one, and rerank the
best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from thumbindex.model import Candidate, DocumentId
from thumbindex.ports import Matrix, inner_products
from thumbindex.query.copies import in_pairs
from thumbindex.query.names import split_named
from thumbindex.query.rank import best_first
from thumbindex.query.stage import Search, Tools
from thumbindex.text import embedded_text


def diversify(search: Search, tools: Tools) -> Search:
    """Let other documents come up: discount a document's further chunks, or weigh relevance against
    novelty.
    """
    settings = tools.settings.diversify
    named, others = split_named(search.candidates)
    if settings.method == "mmr":
        vectors = tools.snapshot.vector.vectors([each.id for each in others])
        order = marginal_relevance([each.score for each in others], vectors, settings.relevance)
    else:
        order = by_discount(others, settings.discount, Counter(each.document for each in named))
    return replace(search, candidates=(*named, *in_pairs(in_order(others, order))))


def by_discount(
    candidates: Sequence[Candidate], discount: float, shown: Mapping[DocumentId, int]
) -> list[int]:
    """Return positions by score · discount^n, where n chunks of the document came before, those
    `shown` already included; ties keep their order.
    """
    before, worth = Counter(shown), list[float]()
    for each in candidates:
        worth.append(each.score * discount ** before[each.document])
        before[each.document] += 1
    return sorted(range(len(worth)), key=lambda at: -worth[at])


def marginal_relevance(relevance: Sequence[float], vectors: Matrix, weight: float) -> list[int]:
    """Return positions by MMR: weight · relevance − (1 − weight) · the highest cosine to one taken
    already.

    Carbonell & Goldstein, SIGIR 1998. `vectors` has shape (items, dimensions); an item without one
    (NaN) is like no other.
    """
    scores = np.array(relevance, dtype=np.float64)
    cosines = np.nan_to_num(inner_products(vectors, vectors), nan=0.0)
    nearest = np.zeros(len(scores))
    left = np.ones(len(scores), dtype=np.bool_)
    order: list[int] = []
    for _ in scores:
        gain = np.where(left, weight * scores - (1 - weight) * nearest, -np.inf)
        best = int(np.argmax(gain))
        order.append(best)
        left[best] = False
        nearest = np.maximum(nearest, cosines[best])
    return order


def in_order(candidates: Sequence[Candidate], order: Sequence[int]) -> tuple[Candidate, ...]:
    """Return candidates in a new order, none with a higher score than the one before it: later
    stages go by scores.
    """
    moved = [candidates[at] for at in order]
    scores = accumulate((each.score for each in moved), min)
    return tuple(each.scored(score) for each, score in zip(moved, scores, strict=True))


def rerank(search: Search, tools: Tools) -> Search:
    """Score the first candidates again, in one call; without a reranker, leave them as they are."""
    settings = tools.settings.rerank
    named, others = split_named(search.candidates)
    top, rest = others[: settings.top], others[settings.top :]
    if tools.reranker is None or not top:
        return search
    scores = tools.reranker.score(
        search.text, [embedded_text(each.chunk.heading_path, each.chunk.text) for each in top]
    )
    return replace(
        search, candidates=(*named, *in_pairs(blend(top, scores, rest, settings.weight)))
    )


def blend(
    top: Sequence[Candidate], scores: Sequence[float], rest: Sequence[Candidate], weight: float
) -> tuple[Candidate, ...]:
    """Order the top by (1 − weight) · score + weight · the reranker's score; the rest keeps its
    order below it.

    Both scores are in 0 to 1 and taken as they are: stretching them to the range in the top would
    make a winner of nonsense.
    """
    blended = best_first(
        replace(
            each,
            score=(1 - weight) * each.score + weight * min(max(score, 0.0), 1.0),
            reranked=score,
        )
        for each, score in zip(top, scores, strict=True)
    )
    lowest = blended[-1].score
    return (*blended, *(each.scored(min(each.score, lowest)) for each in rest))
