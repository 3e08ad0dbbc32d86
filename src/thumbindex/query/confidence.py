"""Stage confidence: how sure the answer is, and whether there is one, from cosine and coverage, never from fused ranks."""

from __future__ import annotations

from dataclasses import replace

from thumbindex.model import Candidate, Dropped
from thumbindex.ports import Calibration
from thumbindex.query.stage import Search, Tools

WORDS_ALONE = 0.49
"""The most that words alone can say: every word of a question may stand in a text that does not answer it."""


def confidence(search: Search, tools: Tools) -> Search:
    """Weigh the evidence, abstain where there is next to none, and drop candidates below the minimum relevance."""
    settings = tools.settings.confidence
    partial = len(tools.snapshot.vector) < len(tools.snapshot.catalog)
    sure = evidence(best_cosine(search), best_coverage(search), tools.snapshot.calibration, partial=partial)
    search = replace(search, confidence=sure, confidence_level="high" if sure >= settings.doubt else "low")
    if sure < settings.abstain:
        reason = f"confidence {sure:.2f} is below {settings.abstain:.2f}: nothing in the index answers this"
        return replace(_drop(search, search.candidates, reason, tools), candidates=(), answerable=False)
    weak = tuple(c for c in search.candidates if c.score < settings.minimum_relevance)
    search = _drop(search, weak, f"score below the minimum relevance of {settings.minimum_relevance:.2f}", tools)
    return replace(search, candidates=tuple(c for c in search.candidates if c.score >= settings.minimum_relevance))


def best_cosine(search: Search) -> float | None:
    """Return the highest cosine of any chunk; None where meaning was not searched."""
    found = search.lists.get("search_vector")
    return found.hits[0].score if found and found.hits else None


def best_coverage(search: Search) -> float:
    """Return the largest share of the query's idf that one of the first chunks by words holds."""
    return max(
        (hit.coverage for name in ("search_keyword", "search_code") if name in search.lists for hit in search.lists[name].hits[:10]), default=0.0
    )


def evidence(cosine: float | None, coverage: float, calibration: Calibration, *, partial: bool = False) -> float:
    """Return a confidence from 0 to 1: cosine on the index's own scale, helped by coverage; coverage alone without vectors.

    Where vectors are `partial`, coverage alone is enough: a low cosine may be that of other chunks.
    """
    if cosine is None:
        return min(coverage, WORDS_ALONE)
    span = max(calibration.signal_cosine - calibration.noise_cosine, 0.05)
    meaning = min(max((cosine - calibration.noise_cosine) / span, 0.0), 1.0)
    blended = 0.7 * meaning + 0.3 * coverage
    return max(blended, min(coverage, WORDS_ALONE)) if partial else blended


def _drop(search: Search, candidates: tuple[Candidate, ...], reason: str, tools: Tools) -> Search:
    documents = tools.snapshot.catalog.documents
    gone = tuple(Dropped(documents[c.document].path, c.chunk.start_line, reason) for c in candidates)
    return replace(search, dropped=(*search.dropped, *gone))
