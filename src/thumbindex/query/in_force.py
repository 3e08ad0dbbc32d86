"""Stage in_force: rank retired notes behind their successors and behind notes in force.

A note is retired if a successor supersedes it, if its last day is over, by its status or folder, or
if it is a conflict copy of another note.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import accumulate
from typing import NamedTuple, TypeVar

from thumbindex.conflict_copies import conflict_original
from thumbindex.dates import find_dates
from thumbindex.globs import matches_glob
from thumbindex.model import Candidate, ChunkId, DocumentId, Passage, iso_day
from thumbindex.query.rank import sort_candidates
from thumbindex.query.stage import Search, Tools
from thumbindex.text import fold_line

_Item = TypeVar("_Item")

_UNAPPROVED = frozenset(
    "draft wip proposed pending review rejected withdrawn unfinished stub".split()
) | {"in review"}
"""A note with such a status retires no other note, unless that note says so, too."""

_MAX_LAST = 5
"""Maximum last successors of a note; the newest are kept."""

_YEAR = re.compile(r"(?<![\w./-])(?:19|20)\d\d(?![\w/-]|\.\d)")


class Retirement(NamedTuple):
    """Why a note is retired, and the last notes of its chains of successors, newest first."""

    reason: str  # such as "superseded" or "expired on 2026-01-31"
    successors: tuple[DocumentId, ...] = ()


Retirements = Mapping[DocumentId, Retirement]


def in_force(search: Search, tools: Tools) -> Search:
    """Lower the scores of retired notes, and place their successors before them.

    A query for retired notes, or with a year or date, changes nothing.
    """
    lowered = lowered_notes(search, tools)
    if not lowered:
        return search
    factor = tools.settings.in_force.factor
    least = tools.settings.confidence.minimum_relevance  # a retired note may be the only answer
    candidates = sort_candidates(
        candidate.with_score(max(candidate.score * factor, min(candidate.score, least)))
        if candidate.document in lowered
        else candidate
        for candidate in search.candidates
    )
    ordered = _successors_first(candidates, lambda candidate: candidate.document, lowered)
    return replace(search, candidates=_raise_scores(ordered))


# ------------------------------------------------------------------ which notes are retired


def lowered_notes(search: Search, tools: Tools, others: Iterable[ChunkId] = ()) -> Retirements:
    """Return the retired notes that rank lower: none if the query asks for a day or retired notes.

    Covers the notes of the candidates, of their copies, and of the chunks in `others`.
    """
    is_lifted = (
        not tools.settings.runs("in_force")
        or search.query.retired
        or search.listed is not None
        or bool(_YEAR.search(search.text))
        or any(find_dates(fold_line(search.text)))
    )
    if is_lifted:
        return {}
    chunks = {n for each in search.candidates for n in (each.id, *each.also_in)}.union(others)
    documents = map(tools.snapshot.catalog.document_of, chunks)
    return find_retirements(documents, search.query.filters.until, tools)


def find_retirements(
    documents: Iterable[DocumentId],
    until: date | None,
    tools: Tools,
    hidden: Collection[tuple[str, str]] = (),
) -> Retirements:
    """Return which of the documents are retired today, or on the day `until`.

    Notes in `hidden`, by folder and path, retire no note.
    """
    documents, settings = set(documents), tools.settings.in_force
    last, day = _last_successors(documents, until, tools, hidden), until or tools.today
    retirements: dict[DocumentId, Retirement] = {}
    notes = {n: tools.snapshot.catalog.documents[n] for n in documents}
    places = {(note.folder, note.path): n for n, note in notes.items()}
    for n, note in notes.items():
        original = places.get((note.folder, conflict_original(note.path)))
        if original is not None:
            retirements[n] = Retirement("a conflict copy, superseded", (original,))
        elif last.get(n):
            retirements[n] = Retirement("superseded", tuple(last[n]))
        elif n in last and note.status == "superseded":
            continue  # only by notes of a cycle
        elif day and note.valid_until and note.valid_until < day.isoformat():
            retirements[n] = Retirement(f"expired on {note.valid_until}")
        elif until is None and note.status in settings.statuses:
            retirements[n] = Retirement(note.status)
        elif until is None and any(matches_glob(glob, note.path) for glob in settings.folders):
            retirements[n] = Retirement("archived")
    return retirements


def reached_successors(documents: Iterable[DocumentId], tools: Tools) -> set[DocumentId]:
    """Return the documents, and all notes that chains of successors lead to."""
    successors, queue = tools.snapshot.catalog.successors, list(documents)
    reached = set(queue)
    while queue:
        new = successors.get(queue.pop(), {}).keys() - reached
        reached |= new
        queue += new
    return reached


def _last_successors(
    documents: Iterable[DocumentId],
    until: date | None,
    tools: Tools,
    hidden: Collection[tuple[str, str]],
) -> Mapping[DocumentId, Sequence[DocumentId]]:
    """Return the last notes of each chain of successors, newest first; none for a cycle."""
    catalog = tools.snapshot.catalog
    reached = reached_successors(documents, tools)

    def counts(n: DocumentId) -> bool:
        note, ordinal = catalog.documents[n], int(catalog.ordinal_days[n])
        is_dated = until is None or 0 < ordinal <= until.toordinal()
        return is_dated and (note.folder, note.path) not in hidden

    counted = {n for n in reached if counts(n)}
    approved = {n for n in counted if catalog.documents[n].status not in _UNAPPROVED}
    older: dict[DocumentId, list[DocumentId]] = defaultdict(list)
    superseded: set[DocumentId] = set()
    for old in reached:
        for new, is_stated in catalog.successors.get(old, {}).items():
            if new in (counted if is_stated else approved):
                older[new].append(old)
                superseded.add(old)
    # from each last note back to the notes before it: a note that has enough newer ones stops it,
    # because the notes before it have them too
    last = {old: list[DocumentId]() for old in superseded}
    ends = older.keys() - superseded
    for end in sorted(ends, key=lambda n: (-int(catalog.ordinal_days[n]), n)):
        queue = [end]
        while queue:
            for old in older.get(queue.pop(), ()):
                if len(last[old]) < _MAX_LAST and end not in last[old]:
                    last[old].append(end)
                    queue.append(old)
    return last


# ------------------------------------------------------------------ order and marks

_Group = tuple[list[Candidate], bool]
"""The candidates of a passage, best first, and whether the passage is full."""


def passages_of_successors_first(groups: list[_Group], lowered: Retirements) -> list[_Group]:
    """Put a passage of each successor before those of the note it retires, unless it is named."""
    if not lowered:
        return groups
    named = {group[0].document for group, _ in groups if group[0].name_kind}
    retirements = {n: retirement for n, retirement in lowered.items() if n not in named}
    placed = _successors_first(groups, lambda item: item[0][0].document, retirements)
    best = _raise_scores([group[0] for group, _ in placed])
    return [
        ([first, *group[1:]], is_full) for first, (group, is_full) in zip(best, placed, strict=True)
    ]


def _successors_first(
    items: Iterable[_Item], document_of: Callable[[_Item], DocumentId], retirements: Retirements
) -> list[_Item]:
    """Move the first item of each successor before the first item of the note that it retires."""
    ordered = list(items)
    for n in dict.fromkeys(map(document_of, ordered)):
        for successor in retirements[n].successors if n in retirements else ():
            documents = list(map(document_of, ordered))
            if successor in documents and documents.index(successor) > documents.index(n):
                item = ordered.pop(documents.index(successor))
                ordered.insert(documents.index(n), item)
    return ordered


def _raise_scores(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Raise scores so that sorting by score keeps the order."""
    scores = [*accumulate((candidate.score for candidate in reversed(candidates)), max)]
    return tuple(
        candidate if candidate.score == score else candidate.with_score(score)
        for candidate, score in zip(candidates, reversed(scores), strict=True)
    )


def mark_retired(
    passages: Sequence[Passage],
    documents: Sequence[DocumentId],
    search: Search,
    tools: Tools,
    hidden: Collection[tuple[str, str]] = (),
) -> tuple[Passage, ...]:
    """Set whether the note of each passage is in force. `documents` has the passages' notes."""
    retirements = find_retirements(documents, search.query.filters.until, tools, hidden)
    marked = []
    for passage, n in zip(passages, documents, strict=True):
        retirement = retirements.get(n, Retirement(""))
        successor, day = last_successor(retirement, tools)
        marked.append(
            replace(
                passage,
                in_force=n not in retirements,
                retired=retirement.reason,
                successor=successor,
                successor_date=day,
            )
        )
    return tuple(marked)


def last_successor(retirement: Retirement, tools: Tools) -> tuple[str, str]:
    """Return path and ISO day of the newest last successor; empty if there is none or no day."""
    if not retirement.successors:
        return "", ""
    n, catalog = retirement.successors[0], tools.snapshot.catalog
    ordinal = int(catalog.ordinal_days[n])
    return catalog.documents[n].path, iso_day(date.fromordinal(ordinal) if ordinal else None)
