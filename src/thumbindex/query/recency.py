"""Stage recency: newer documents gain a little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from thumbindex.model import Candidate, Document
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import RecencySettings

_EPOCH = date(1970, 1, 1).toordinal()
_SECONDS = 86_400


def recency(search: Search, tools: Tools) -> Search:
    """Raise scores by age, counted from the newest document: the same corpus gives the same answer on any day."""
    documents = tools.snapshot.catalog.documents
    newest = max(map(day_of, documents), default=0.0)
    raised = (raise_score(each, newest - day_of(documents[each.document]), tools.settings.recency) for each in search.candidates)
    return replace(search, candidates=best_first(raised))


def raise_score(candidate: Candidate, age: float, settings: RecencySettings) -> Candidate:
    """Multiply a score by 1 + bias · 2^(−age / half-life), age in days."""
    return replace(candidate, score=candidate.score * (1 + settings.bias * 2 ** (-age / settings.half_life_days)))


def best_first(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Sort by score, ties by path, then line."""
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.id)))


def day_of(document: Document) -> float:
    """Return a document's day since year 1: front matter's date, else the modified time (UTC)."""
    try:
        return float(date.fromisoformat(document.date[:10]).toordinal())
    except ValueError:
        return _EPOCH + document.modified / _SECONDS
