"""Stage in_force: rank retired notes behind their successors and behind notes in force.

A note is retired if a successor supersedes it, if its last day is over, or by its status or folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import accumulate
from typing import NamedTuple, TypeVar

from thumbindex.dates import find_dates
from thumbindex.globs import matches_glob
from thumbindex.model import Candidate, Document, DocumentId, Passage, iso_day
from thumbindex.query.rank import sort_candidates
from thumbindex.query.stage import Search, Tools
from thumbindex.text import fold_line

_Item = TypeVar("_Item")

_UNAPPROVED = frozenset(
    "draft wip proposed pending review rejected withdrawn unfinished stub".split()
) | {"in review"}
"""A note with such a status retires no other note, unless that note says so, too."""

_MAX_CHAIN = 100
"""A chain of successors is followed over this many notes."""

_YEAR = re.compile(r"(?<![\w./-])(?:19|20)\d\d(?![\w/-]|\.\d)")


class Retirement(NamedTuple):
    """Why a note is retired, and the notes at the end of its chain of successors, newest first."""

    reason: str  # such as "superseded" or "expired on 2026-01-31"
    successors: tuple[DocumentId, ...] = ()


def in_force(search: Search, tools: Tools) -> Search:
    """Lower the scores of retired notes, and place their successors before them.

    A query for retired notes, or with a year or date, changes nothing.
    """
    retired = demoted_documents(search, tools)
    if not retired:
        return search
    settings = tools.settings
    least = settings.confidence.minimum_relevance  # a retired note may be the only one that answers
    lowered = sort_candidates(
        candidate.with_score(
            max(candidate.score * settings.in_force.factor, min(candidate.score, least))
        )
        if candidate.document in retired
        else candidate
        for candidate in search.candidates
    )
    ordered = successors_first(
        lowered, lambda candidate: candidate.document, retired, search, tools
    )
    return replace(search, candidates=raise_scores(ordered))


def successors_first(
    items: Iterable[_Item],
    document_of: Callable[[_Item], DocumentId],
    retired: Collection[DocumentId],
    search: Search,
    tools: Tools,
) -> list[_Item]:
    """Move the first item of each successor before the first item of the note that it retires."""
    ordered = list(items)
    for n in dict.fromkeys(map(document_of, ordered)):
        retirement = find_retirement(n, search.query.filters.until, tools) if n in retired else None
        for successor in retirement.successors if retirement else ():
            documents = list(map(document_of, ordered))
            if successor in documents and documents.index(successor) > documents.index(n):
                item = ordered.pop(documents.index(successor))
                ordered.insert(documents.index(n), item)
    return ordered


_Group = tuple[list[Candidate], bool]
"""The candidates of a passage, best first, and whether the passage is full."""


def passages_of_successors_first(
    groups: list[_Group], retired: Collection[DocumentId], search: Search, tools: Tools
) -> list[_Group]:
    """Put a passage of each successor before those of the note it retires, unless it is named."""
    if not retired:
        return groups
    named = {group[0].document for group, _ in groups if group[0].name_kind}
    placed = successors_first(
        groups, lambda item: item[0][0].document, set(retired) - named, search, tools
    )
    best = raise_scores([group[0] for group, _ in placed])
    return [
        ([first, *group[1:]], is_full) for first, (group, is_full) in zip(best, placed, strict=True)
    ]


def raise_scores(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Raise scores so that sorting by score keeps the order."""
    scores = [*accumulate((candidate.score for candidate in reversed(candidates)), max)]
    return tuple(
        candidate if candidate.score == score else candidate.with_score(score)
        for candidate, score in zip(candidates, reversed(scores), strict=True)
    )


def demoted_documents(search: Search, tools: Tools) -> frozenset[DocumentId]:
    """Return the notes of candidates and their copies that rank lower because they are retired."""
    chunks = (n for each in search.candidates for n in (each.id, *each.also_in))
    documents = set(map(tools.snapshot.catalog.document_of, chunks))
    return frozenset(n for n in documents if is_demoted(n, search, tools))


def is_demoted(document: DocumentId, search: Search, tools: Tools) -> bool:
    """Return whether a note ranks lower because it is retired."""
    if not tools.settings.runs("in_force") or search.query.retired or search.listed is not None:
        return False
    return bool(
        find_retirement(document, search.query.filters.until, tools)
    ) and not _asks_about_day(search.text)


def _asks_about_day(text: str) -> bool:
    return bool(_YEAR.search(text)) or any(find_dates(fold_line(text)))


def find_retirement(
    document: DocumentId,
    until: date | None,
    tools: Tools,
    hidden: Collection[tuple[str, str]] = (),
) -> Retirement | None:
    """Return why a note is retired today, or on the day `until`; None if it is not.

    Notes in `hidden`, by folder and path, retire no note.
    """
    day = until or tools.today
    note, settings = tools.snapshot.catalog.documents[document], tools.settings.in_force
    if successors := _last_successors(document, until, hidden, tools):
        return Retirement("superseded", successors)
    if day and note.valid_until and note.valid_until < day.isoformat():
        return Retirement(f"expired on {note.valid_until}")
    if until is None and note.status in settings.statuses:
        return Retirement(note.status)
    if until is None and any(matches_glob(glob, note.path) for glob in settings.folders):
        return Retirement("archived")
    return None


def _last_successors(
    document: DocumentId,
    until: date | None,
    hidden: Collection[tuple[str, str]],
    tools: Tools,
) -> tuple[DocumentId, ...]:
    """Return the ends of a note's chains of successors. A cycle has no end."""
    catalog = tools.snapshot.catalog

    def is_in_force(n: DocumentId, is_stated: bool) -> bool:
        """Return whether a successor counts. `is_stated`: the retired note names it."""
        successor, ordinal = catalog.documents[n], int(catalog.ordinal_days[n])
        return (
            (successor.folder, successor.path) not in hidden
            and (is_stated or successor.status not in _UNAPPROVED)
            and (until is None or 0 < ordinal <= until.toordinal())
        )

    ends, seen, queue = list[DocumentId](), {document}, [document]
    while queue and len(seen) < _MAX_CHAIN:
        at = queue.pop()
        following = [
            n for n, stated in catalog.successors.get(at, {}).items() if is_in_force(n, stated)
        ]
        if not following and at != document:
            ends.append(at)
        queue += [n for n in following if n not in seen]
        seen.update(following)
    return tuple(sorted(ends, key=lambda n: (-int(catalog.ordinal_days[n]), n)))


def all_successors(document: DocumentId, tools: Tools) -> Iterator[Document]:
    """Yield all notes that a chain of successors leads to."""
    catalog, seen = tools.snapshot.catalog, {document}
    queue = [document]
    while queue and len(seen) < _MAX_CHAIN:
        new = catalog.successors.get(queue.pop(), {}).keys() - seen
        yield from (catalog.documents[n] for n in new)
        seen |= new
        queue += new


def mark_all_retired(
    passages: Sequence[Passage], groups: Sequence[_Group], search: Search, tools: Tools
) -> tuple[Passage, ...]:
    """Mark the passages of retired notes. `groups` has the candidates of each passage."""
    return tuple(
        mark_retired(passage, group[0].document, search, tools)
        for passage, (group, _) in zip(passages, groups, strict=True)
    )


def mark_retired(
    passage: Passage,
    document: DocumentId,
    search: Search,
    tools: Tools,
    hidden: Collection[tuple[str, str]] = (),
) -> Passage:
    """Set the fields of a passage that say whether its note is in force."""
    retirement = find_retirement(document, search.query.filters.until, tools, hidden)
    if retirement is None:
        return replace(passage, in_force=True, retired="", successor="", successor_date="")
    catalog = tools.snapshot.catalog
    successor, day = "", ""
    if retirement.successors:
        note = catalog.documents[retirement.successors[0]]
        successor, day = note.path, note_day(retirement.successors[0], tools)
    return replace(
        passage,
        in_force=False,
        retired=retirement.reason,
        successor=successor,
        successor_date=day,
    )


def note_day(document: DocumentId, tools: Tools) -> str:
    """Return the ISO day of a note's last update; empty if unknown."""
    ordinal = int(tools.snapshot.catalog.ordinal_days[document])
    return iso_day(date.fromordinal(ordinal) if ordinal else None)
