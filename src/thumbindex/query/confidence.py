"""Stage confidence: how sure the answer is, and whether there is one, from cosines and words, never from fused ranks.

Three things speak for an answer, and each of them alone is fooled: that a text means what is asked (a page of the same subject does, too), that
its page holds the words that are asked for (a long page holds many), and that the texts which hold the rarest of these words are among
those that mean it (docs/evaluation.md has each one's measure).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thumbindex.model import Candidate, ChunkId, Dropped
from thumbindex.ports import Calibration, Mask, Vector
from thumbindex.query.retrieve import field_weights
from thumbindex.query.stage import Search, Tools

WORDS_ALONE = 0.49
"""The most that words alone can say: every word of a question may stand in a text that does not answer it."""

MEANING, HELD, GROUNDED = 0.4, 0.3, 0.3
"""Shares of the evidence: nearly equal ones, for weights that were fitted to one corpus were no better on the other."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerm:
    """A word, phrase or whole identifier of a query: how much it says, and which chunks hold it."""

    idf: float
    holding: Mask


def confidence(search: Search, tools: Tools) -> Search:
    """Weigh the evidence, abstain where there is next to none, and drop candidates below the minimum relevance."""
    settings = tools.settings.confidence
    sure = 1.0 if any(each.name_kind for each in search.candidates) else weigh(search, tools)
    search = replace(search, confidence=sure, confidence_level="high" if sure >= settings.doubt else "low")
    if sure < settings.abstain:
        reason = f"confidence {sure:.2f} is below {settings.abstain:.2f}: nothing in the index answers this"
        return replace(_drop(search, search.candidates, reason, tools), candidates=(), answerable=False)
    weak = tuple(c for c in search.candidates if c.score < settings.minimum_relevance)
    search = _drop(search, weak, f"score below the minimum relevance of {settings.minimum_relevance:.2f}", tools)
    return replace(search, candidates=tuple(c for c in search.candidates if c.score >= settings.minimum_relevance))


def weigh(search: Search, tools: Tools) -> float:
    """Return a confidence from 0 to 1.

    Without vectors, coverage alone counts; where vectors are not complete, it is enough: a low cosine may be that of other chunks.
    """
    words_alone = min(best_coverage(search), WORDS_ALONE)
    by_meaning = search.lists.get("search_vector")
    if by_meaning is None or not by_meaning.hits or search.vector is None:
        return words_alone
    found = sorted({hit.chunk for ranked in search.lists.values() for hit in ranked.hits})
    cosines = np.nan_to_num(tools.snapshot.vector.vectors(found) @ search.vector, nan=0.0)
    asked = query_terms(search, tools)
    held = held_by_page(found[int(cosines.argmax())], asked, tools)
    sure = evidence(on_scale(by_meaning.hits[0].score, tools.snapshot.calibration), held, grounding(found, cosines, asked))
    return max(sure, words_alone) if len(tools.snapshot.vector) < len(tools.snapshot.catalog) else sure


def evidence(meaning: float, held: float, grounded: float) -> float:
    """Return a confidence from 0 to 1, of three shares from 0 to 1."""
    return MEANING * meaning + HELD * held + GROUNDED * grounded


def best_coverage(search: Search) -> float:
    """Return the largest share of the query's idf that one of the first chunks by words holds."""
    return max(
        (hit.coverage for name in ("search_keyword", "search_code") if name in search.lists for hit in search.lists[name].hits[:10]), default=0.0
    )


def on_scale(cosine: float, calibration: Calibration) -> float:
    """Return where a cosine lies between what off-topic questions reach in this index and what its own titles reach, 0 to 1."""
    span = max(calibration.signal_cosine - calibration.noise_cosine, 0.05)
    return min(max((cosine - calibration.noise_cosine) / span, 0.0), 1.0)


def query_terms(search: Search, tools: Tools) -> tuple[QueryTerm, ...]:
    """Return the words that a query asks for, and its identifiers as wholes: their parts may stand anywhere."""
    keyword = tools.snapshot.keyword
    fields = tuple(field_weights(tools.settings.search_keyword).fields)
    words = {term.text: tuple(other.text for other in term.others) for term in search.terms}
    masks = [np.logical_or.reduce([keyword.holding(form, fields) for form in (text, *others)]) for text, others in sorted(words.items())]
    masks += [keyword.holding(term.text, ("code",)) for term in search.identifiers if term.weight > 1 and term.text not in words]
    return tuple(QueryTerm(_idf(int(np.count_nonzero(mask)), len(mask)), mask) for mask in masks)


def held_by_page(nearest: ChunkId, asked: Sequence[QueryTerm], tools: Tools) -> float:
    """Return the share of what is asked, by idf, that the page of the nearest chunk holds."""
    page = tools.snapshot.catalog.chunk_ids(tools.snapshot.catalog.document_of(nearest))
    whole = sum(each.idf for each in asked)
    return sum(each.idf for each in asked if each.holding[page.start : page.stop].any()) / whole if whole else 0.0


def grounding(found: Sequence[ChunkId], cosines: Vector, asked: Sequence[QueryTerm]) -> float:
    """Return how near, against the best chunk, those come to the query that hold its words; 0 for a word that none holds.

    The square of a word's idf is its weight: the rarest word says most about what is asked.
    """
    best, whole = max(float(cosines.max(initial=0.0)), 0.0), sum(each.idf**2 for each in asked)
    if not (best and whole):
        return 0.0
    nearest = (float(cosines[each.holding[found]].max(initial=0.0)) for each in asked)
    return sum(each.idf**2 * cosine / best for each, cosine in zip(asked, nearest, strict=True)) / whole


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def _drop(search: Search, candidates: tuple[Candidate, ...], reason: str, tools: Tools) -> Search:
    documents = tools.snapshot.catalog.documents
    gone = tuple(Dropped(documents[c.document].path, c.chunk.start_line, reason) for c in candidates)
    return replace(search, dropped=(*search.dropped, *gone))
