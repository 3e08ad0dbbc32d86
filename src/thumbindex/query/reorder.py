"""The stages that reorder candidates by words, contradictions, documents and the reranker."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import numpy as np

from thumbindex.compare.contradictions import contradiction
from thumbindex.compare.tokens import cut_suffix
from thumbindex.model import Candidate, Chunk, ChunkId, Document, DocumentId
from thumbindex.ports import Matrix, inner_products
from thumbindex.query.copies import near_copies
from thumbindex.query.in_force import find_retirements
from thumbindex.query.match_names import is_path_or_link, split_name_matches
from thumbindex.query.rank import sort_candidates
from thumbindex.query.retrieve import chunk_ids_of
from thumbindex.query.stage import Search, Tools
from thumbindex.text import words
from thumbindex.visible_text import embedded_text

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


_MAX_SHORT = 5
"""Maximum words of a short query, without function words."""


def all_words(search: Search, tools: Tools) -> Search:
    """Raise chunks with all words of a short query close together, if the best note has none.

    The more notes have such a chunk, the less each is raised.
    """
    known = [term for term in search.terms if tools.snapshot.keyword.phrase_frequency(term.text)]
    if search.other_phrasings or not 2 <= len(known) <= _MAX_SHORT:
        return search
    complete = _complete_chunks(search)
    documents = {candidate.document for candidate in search.candidates if candidate.id in complete}
    if not documents or search.candidates[0].document in documents:
        return search
    stems = frozenset(cut_suffix(word) for term in known for word in words(term.text))
    raised = (
        candidate.with_score(
            candidate.score
            + (1 - candidate.score) * _closeness(candidate.chunk, stems) / len(documents)
        )
        if candidate.id in complete
        else candidate
        for candidate in search.candidates
    )
    return replace(search, candidates=sort_candidates(raised))


def _complete_chunks(search: Search) -> AbstractSet[ChunkId]:
    """Return the chunks that no other chunk surpasses in words and whole identifiers."""
    has_identifier = any(term.weight > 1 for term in search.identifiers)
    names = ("search_keyword", "search_code") if has_identifier else ("search_keyword",)
    complete = []
    for hits in (search.lists[name].hits for name in names if name in search.lists):
        most = max((hit.coverage for hit in hits), default=0.0)
        complete.append({hit.chunk for hit in hits if hit.coverage >= most})
    return set.intersection(*complete) if complete else set()


def _closeness(chunk: Chunk, stems: AbstractSet[str]) -> float:
    """Return the number of stems divided by the words of the shortest run with all of them.

    If a stem is missing, return 0.
    """
    last: dict[str, int] = {}
    shortest = math.inf
    for at, word in enumerate(words(" ".join((*chunk.heading_path, chunk.text)))):
        if (stem := cut_suffix(word)) in stems:
            last[stem] = at
            if len(last) == len(stems):
                shortest = min(shortest, at + 1 - min(last.values()))
    return len(stems) / shortest


def shared(search: Search, tools: Tools) -> Search:
    """Put text that many notes share last, unless no other chunk has as many of the query's words.

    Navigation and footers say nothing about their note. So if a note has no other text, its name
    alone does not put it first, but its path or a link to it does.
    """
    selection = tools.snapshot.duplicates.shared()
    if selection is None:
        return search
    found = search.lists.get("search_keyword")
    coverage = {hit.chunk: hit.coverage for hit in found.hits} if found else {}
    shares = [coverage.get(candidate.id, 0.0) for candidate in search.candidates]
    is_shared = selection.among([candidate.id for candidate in search.candidates]).tolist()
    most = max((share for share, at in zip(shares, is_shared, strict=True) if not at), default=-1.0)
    order = sorted(range(len(shares)), key=lambda at: is_shared[at] and shares[at] <= most)

    def says_nothing(document: DocumentId) -> bool:
        chunks = chunk_ids_of(document, tools)
        highest = max((coverage.get(n, 0.0) for n in chunks), default=0.0)
        return highest <= most and bool(selection.among(chunks).all())

    names = search.reference_matches
    if most > 0 and not is_path_or_link(search.query.text):
        names = {n: match for n, match in names.items() if not says_nothing(n)}
    ordered = apply_order(search.candidates, order)
    return replace(search, candidates=ordered, reference_matches=names)


MIN_SERIES = 4
"""A text with at least this many contradictions is in a series, such as release notes."""


def contradict(search: Search, tools: Tools) -> Search:
    """Put contradicting near copies next to each other, and set `disagrees` of both."""
    candidates, documents = search.candidates, tools.snapshot.catalog.documents
    differences: dict[int, dict[int, str]] = defaultdict(dict)
    notes = {candidate.document for candidate in candidates}
    retired = find_retirements(notes, search.query.filters.until, tools)
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        is_retired = first.document in retired or second.document in retired
        if not is_retired and _may_contradict(first, second, documents):
            for one, other in ((a, b), (b, a)):
                differs = contradiction(candidates[one].chunk, candidates[other].chunk)
                if differs:
                    differences[one][other] = differs
    series = {at for at, others in differences.items() if len(others) >= MIN_SERIES}
    if not differences.keys() - series:
        return search
    marked = []
    for at, candidate in enumerate(candidates):
        others = () if at in series else sorted(differences.get(at, {}).items())
        disagrees = tuple((candidates[n].id, differs) for n, differs in others if n not in series)
        marked.append(replace(candidate, disagrees=disagrees))
    return replace(search, candidates=_pair_contradictions(marked))


def _may_contradict(first: Candidate, second: Candidate, documents: Sequence[Document]) -> bool:
    """Return whether a difference between two chunks may be a contradiction."""
    document, other = documents[first.document], documents[second.document]
    return document is not other and not are_in_series(document.path, other.path)


_NUMBER = re.compile(r"\d+")


def are_in_series(path: str, other: str) -> bool:
    """Return whether two notes are parts of a series, such as days or releases.

    Both file names contain a number, and the numbers in the paths differ.
    """
    names = (note_path.rpartition("/")[2].rpartition(".")[0] for note_path in (path, other))
    return all(map(_NUMBER.search, names)) and _NUMBER.findall(path) != _NUMBER.findall(other)


def _pair_contradictions(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Move the second candidate of each contradicting pair directly after the first.

    If the second has a lower score, it gets the score of the first.
    """
    if not any(candidate.disagrees for candidate in candidates):
        return tuple(candidates)
    ordered = group_partners(
        candidates, lambda each: each.id, lambda each: {n for n, _ in each.disagrees}
    )
    paired: list[Candidate] = []
    for candidate in ordered:
        score = candidate.score
        if paired and any(n == paired[-1].id for n, _ in candidate.disagrees):
            score = max(score, paired[-1].score)
        paired.append(candidate.with_score(score))
    return tuple(paired)


def group_partners(
    items: Sequence[_Item],
    key: Callable[[_Item], _Key],
    partners: Callable[[_Item], AbstractSet[_Key]],
) -> list[_Item]:
    """Return the items in order, but each directly followed by its partners.

    No item is repeated.
    """
    by_key = {key(item): item for item in items}
    ordered: dict[_Key, _Item] = {}
    for item_key, item in by_key.items():
        if item_key not in ordered:
            partner_keys = partners(item)
            ordered[item_key] = item
            ordered |= {
                other: partner
                for other, partner in by_key.items()
                if other in partner_keys and other not in ordered
            }
    return list(ordered.values())


def diversify(search: Search, tools: Tools) -> Search:
    """Rank additional chunks of a document lower.

    The method is a discount or maximal marginal relevance.
    """
    settings = tools.settings.diversify
    named, others = split_name_matches(search.candidates)
    if settings.method == "mmr":
        vectors = tools.snapshot.vector.vectors([candidate.id for candidate in others])
        order = _mmr_order([candidate.score for candidate in others], vectors, settings.relevance)
    else:
        order = discounted_order(
            others, settings.discount, Counter(candidate.document for candidate in named)
        )
    return replace(search, candidates=(*named, *_pair_contradictions(apply_order(others, order))))


def discounted_order(
    candidates: Sequence[Candidate], discount: float, shown: Mapping[DocumentId, int]
) -> list[int]:
    """Return the positions sorted by score · discount^n.

    n is the number of earlier chunks of the same document, including the number in `shown`.
    """
    counts, scores = Counter(shown), list[float]()
    for candidate in candidates:
        scores.append(candidate.score * discount ** counts[candidate.document])
        counts[candidate.document] += 1
    return sorted(range(len(scores)), key=lambda at: -scores[at])


def _mmr_order(relevance: Sequence[float], vectors: Matrix, weight: float) -> list[int]:
    """Return the positions by maximal marginal relevance (Carbonell & Goldstein, SIGIR 1998).

    Each next item maximizes weight · relevance − (1 − weight) · cosine. The cosine is the highest
    with any earlier item. `vectors` has shape (items, dimensions), and NaN for a missing vector.
    """
    scores = np.array(relevance, dtype=np.float64)
    cosines = np.nan_to_num(inner_products(vectors, vectors), nan=0.0)
    nearest = np.zeros(len(scores))
    remaining = np.ones(len(scores), dtype=np.bool_)
    order: list[int] = []
    for _ in scores:
        gain = np.where(remaining, weight * scores - (1 - weight) * nearest, -np.inf)
        best = int(np.argmax(gain))
        order.append(best)
        remaining[best] = False
        nearest = np.maximum(nearest, cosines[best])
    return order


def apply_order(candidates: Sequence[Candidate], order: Sequence[int]) -> tuple[Candidate, ...]:
    """Reorder candidates, and lower scores so that sorting by score keeps the order."""
    ordered = [candidates[at] for at in order]
    scores = accumulate((candidate.score for candidate in ordered), min)
    return tuple(
        candidate.with_score(score) for candidate, score in zip(ordered, scores, strict=True)
    )


def rerank(search: Search, tools: Tools) -> Search:
    """Rescore the best candidates with the reranker, if there is one."""
    settings = tools.settings.rerank
    named, others = split_name_matches(search.candidates)
    top, below = others[: settings.top], others[settings.top :]
    if tools.reranker is None or not top:
        return search
    scores = tools.reranker.score(
        search.text,
        [embedded_text(candidate.chunk.heading_path, candidate.chunk.text) for candidate in top],
    )
    return replace(
        search,
        candidates=(*named, *_pair_contradictions(blend(top, scores, below, settings.weight))),
    )


def blend(
    top: Sequence[Candidate], scores: Sequence[float], below: Sequence[Candidate], weight: float
) -> tuple[Candidate, ...]:
    """Rescore the top candidates by (1 − weight) · score + weight · the reranker's score.

    The candidates in `below` follow in their old order. The reranker's scores are not rescaled, so
    that the best of several irrelevant candidates does not get a high score.
    """
    blended = sort_candidates(
        replace(
            candidate,
            score=(1 - weight) * candidate.score + weight * min(max(score, 0.0), 1.0),
            reranked=score,
        )
        for candidate, score in zip(top, scores, strict=True)
    )
    lowest = blended[-1].score
    return (*blended, *(candidate.with_score(min(candidate.score, lowest)) for candidate in below))
