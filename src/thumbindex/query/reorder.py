"""The stages that reorder distinct candidates: put contradictions side by side, let other documents
come up, and rerank the best.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import numpy as np

from thumbindex.compare.differences import contradiction, is_form
from thumbindex.model import Candidate, DocumentId
from thumbindex.ports import Documents, Matrix, inner_products
from thumbindex.query.copies import near_copies
from thumbindex.query.match_names import split_name_matches
from thumbindex.query.rank import sort_candidates
from thumbindex.query.stage import Search, Tools
from thumbindex.text import embedded_text

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


_MIN_SERIES = 4
"""Contradictions of one text that make it part of a series, as release notes are."""


def contradict(search: Search, tools: Tools) -> Search:
    """Put contradicting near copies side by side, with the better one's score; each names the
    other and the words that differ.
    """
    candidates, documents = search.candidates, tools.snapshot.catalog.documents
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        if _may_contradict(first, second, documents):
            for mine, other in ((a, b), (b, a)):
                differs = contradiction(candidates[mine].chunk.text, candidates[other].chunk.text)
                if differs:
                    found[mine][other] = differs
    series = {at for at, others in found.items() if len(others) >= _MIN_SERIES}
    if not found.keys() - series:
        return search
    named = []
    for at, each in enumerate(candidates):
        others = () if at in series else sorted(found.get(at, {}).items())
        disagrees = tuple((candidates[n].id, differs) for n, differs in others if n not in series)
        named.append(replace(each, disagrees=disagrees))
    return replace(search, candidates=_pair_contradictions(named))


def _may_contradict(first: Candidate, second: Candidate, documents: Documents) -> bool:
    """Return whether two chunks are about one thing.

    Passages of one document under headings of their own do not, nor do notes of a series. Short
    lines ("Desk: 12") lean on their note: in notes of two titles they speak of two
    things.
    """
    mine, other = documents[first.document], documents[second.document]
    if mine is other:
        return first.chunk.heading_path == second.chunk.heading_path
    if are_in_series(mine.path, other.path):
        return False
    return mine.title == other.title or not (
        is_form(first.chunk.text) or is_form(second.chunk.text)
    )


_NUMBER = re.compile(r"\d+")


def are_in_series(path: str, other: str) -> bool:
    """Return whether two notes are parts of a series, as days or releases are: their names have
    numbers, and their paths have different ones.
    """
    names = (each.rpartition("/")[2].rpartition(".")[0] for each in (path, other))
    return all(map(_NUMBER.search, names)) and _NUMBER.findall(path) != _NUMBER.findall(other)


def _pair_contradictions(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates with the second of each pair right behind the first, with its
    score.
    """
    if not any(candidate.disagrees for candidate in candidates):
        return tuple(candidates)
    ordered = group_partners(
        candidates, lambda each: each.id, lambda each: {n for n, _ in each.disagrees}
    )
    raised: list[Candidate] = []
    for each in ordered:
        least = each.score
        if raised and any(n == raised[-1].id for n, _ in each.disagrees):
            least = max(least, raised[-1].score)
        raised.append(each.with_score(least))
    return tuple(raised)


def group_partners(
    items: Sequence[_Item],
    key: Callable[[_Item], _Key],
    partners: Callable[[_Item], AbstractSet[_Key]],
) -> list[_Item]:
    """Return the items in order, an item's partners directly behind it."""
    by_key = {key(item): item for item in items}
    ordered: dict[_Key, _Item] = {}
    for own, item in by_key.items():
        if own not in ordered:
            wanted = partners(item)
            ordered[own] = item
            ordered |= {
                other: each
                for other, each in by_key.items()
                if other in wanted and other not in ordered
            }
    return list(ordered.values())


def diversify(search: Search, tools: Tools) -> Search:
    """Rank further chunks of a document lower, by discount or by maximal marginal relevance."""
    settings = tools.settings.diversify
    named, others = split_name_matches(search.candidates)
    if settings.method == "mmr":
        vectors = tools.snapshot.vector.vectors([each.id for each in others])
        order = _mmr_order([each.score for each in others], vectors, settings.relevance)
    else:
        order = discounted_order(
            others, settings.discount, Counter(each.document for each in named)
        )
    return replace(search, candidates=(*named, *_pair_contradictions(apply_order(others, order))))


def discounted_order(
    candidates: Sequence[Candidate], discount: float, shown: Mapping[DocumentId, int]
) -> list[int]:
    """Return positions by score · discount^n; n counts the document's chunks before this one,
    `shown` included.
    """
    before, worth = Counter(shown), list[float]()
    for candidate in candidates:
        worth.append(candidate.score * discount ** before[candidate.document])
        before[candidate.document] += 1
    return sorted(range(len(worth)), key=lambda at: -worth[at])


def _mmr_order(relevance: Sequence[float], vectors: Matrix, weight: float) -> list[int]:
    """Return positions by weight · relevance − (1 − weight) · highest cosine to a chosen item.

    Carbonell & Goldstein, SIGIR 1998. `vectors` has shape (items, dimensions); NaN means no vector.
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


def apply_order(candidates: Sequence[Candidate], order: Sequence[int]) -> tuple[Candidate, ...]:
    """Return candidates in a new order, with scores that never rise: later stages sort by score."""
    moved = [candidates[at] for at in order]
    scores = accumulate((each.score for each in moved), min)
    return tuple(each.with_score(score) for each, score in zip(moved, scores, strict=True))


def rerank(search: Search, tools: Tools) -> Search:
    """Rescore the first candidates with the reranker, if there is one."""
    settings = tools.settings.rerank
    named, others = split_name_matches(search.candidates)
    top, rest = others[: settings.top], others[settings.top :]
    if tools.reranker is None or not top:
        return search
    scores = tools.reranker.score(
        search.text, [embedded_text(each.chunk.heading_path, each.chunk.text) for each in top]
    )
    return replace(
        search,
        candidates=(*named, *_pair_contradictions(blend(top, scores, rest, settings.weight))),
    )


def blend(
    top: Sequence[Candidate], scores: Sequence[float], rest: Sequence[Candidate], weight: float
) -> tuple[Candidate, ...]:
    """Order the top by (1 − weight) · score + weight · the reranker's score; the rest keeps its
    order below it.

    Both scores are in 0 to 1 and taken as they are: stretching them to the range in the top would
    make a winner of nonsense.
    """
    blended = sort_candidates(
        replace(
            each,
            score=(1 - weight) * each.score + weight * min(max(score, 0.0), 1.0),
            reranked=score,
        )
        for each, score in zip(top, scores, strict=True)
    )
    lowest = blended[-1].score
    return (*blended, *(each.with_score(min(each.score, lowest)) for each in rest))
