"""Stage recency: newer documents gain a little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta

from thumbindex.model import Candidate, Document, day_modified, day_of
from thumbindex.query.stage import Search, Tools, once_a_catalog
from thumbindex.settings import RecencySettings

_AHEAD = timedelta(days=366)
"""How far a date may lie after every modified time: an archive may give all its files one time, older than what they say."""


def recency(search: Search, tools: Tools) -> Search:
    """Raise scores by age, counted from the newest document: the same corpus gives the same answer on any day."""
    catalog = tools.snapshot.catalog
    day, newest = _days(catalog)
    raised = (raise_score(each, (newest - day[each.document]).days, tools.settings.recency) for each in search.candidates)
    return replace(search, candidates=best_first(raised))


def days(documents: Sequence[Document]) -> list[date]:
    """Return each document's day; where that is far after all modified times it is a mistake, and the document's own one counts."""
    written = list(map(day_of, documents))
    latest = max(map(day_modified, documents), default=date.min) + _AHEAD
    if min(written, default=latest) > latest:
        return written  # images of systems keep no modified times: nothing to tell a mistake by
    return [day_modified(document) if day > latest else day for document, day in zip(documents, written, strict=True)]


def raise_score(candidate: Candidate, age: float, settings: RecencySettings) -> Candidate:
    """Multiply a score by 1 + bias · 2^(−age / half-life), age in days."""
    return candidate.scored(candidate.score * (1 + settings.bias * 2 ** (-age / settings.half_life_days)))


def best_first(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Sort by score, ties by path, then line."""
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.id)))


def _with_newest(found: Sequence[date]) -> tuple[Sequence[date], date]:
    return found, max(found, default=date.min)


_days = once_a_catalog(lambda catalog: _with_newest(days(catalog.documents)))
