"""Stage recency: newer documents gain a little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from weakref import WeakKeyDictionary

from thumbindex.model import Candidate, Document
from thumbindex.ports import Catalog
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import RecencySettings

_AHEAD = 366
"""Days that a date may lie after every modified time: an archive may give all its files one time, older than what they say."""

_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1).toordinal()

_days: WeakKeyDictionary[Catalog, list[int]] = WeakKeyDictionary()
"""Of the documents of each catalog that is in use: to read them all for each query would take as long as searching them."""


def recency(search: Search, tools: Tools) -> Search:
    """Raise scores by age, counted from the newest document: the same corpus gives the same answer on any day."""
    catalog = tools.snapshot.catalog
    if catalog not in _days:
        _days[catalog] = days(catalog.documents)
    day = _days[catalog]
    newest = max(day, default=0)
    raised = (raise_score(each, newest - day[each.document], tools.settings.recency) for each in search.candidates)
    return replace(search, candidates=best_first(raised))


def days(documents: Sequence[Document]) -> list[int]:
    """Return each document's day as a number (UTC); where that is far after all modified times it is a mistake, and the document's own one counts."""
    modified = [_EPOCH + int(each.modified // _DAY_SECONDS) for each in documents]
    written = [_ordinal(each.date) or day for each, day in zip(documents, modified, strict=True)]
    latest = max(modified, default=0) + _AHEAD
    if min(written, default=latest) > latest:
        return written  # images of systems keep no modified times: nothing to tell a mistake by
    return [day if own > latest else own for own, day in zip(written, modified, strict=True)]


@lru_cache(maxsize=4096)
def _ordinal(written: str) -> int:
    """Return the day of a document's own date; 0 where it has none."""
    try:
        return date.fromisoformat(written[:10]).toordinal()
    except ValueError:
        return 0


def raise_score(candidate: Candidate, age: float, settings: RecencySettings) -> Candidate:
    """Multiply a score by 1 + bias · 2^(−age / half-life), age in days."""
    return replace(candidate, score=candidate.score * (1 + settings.bias * 2 ** (-age / settings.half_life_days)))


def best_first(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Sort by score, ties by path, then line."""
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.id)))
