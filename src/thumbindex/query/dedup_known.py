"""Stage dedup_known: copies that the index knew before anybody asked, or that its owner decided; the newest text is the one shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from thumbindex.model import Candidate, ChunkId
from thumbindex.query.merge import Group, gather, newness
from thumbindex.query.parallel import kinship
from thumbindex.query.stage import Search, Tools

MOST_COMPARED = 500
"""Copies of one text whose dates are compared: a footer that stands in thousands of notes is no news in any of them."""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Make one of known copies, in the best one's place; all their places are named, those that were not found, too."""
    known = {each.id: tools.snapshot.duplicates.copies(each.id) for each in search.candidates}
    if not any(known.values()):
        return search
    groups = [
        Group(members, _newest(members, others, search, tools), "a known copy", others)
        for members in copies_of_first([each.id for each in search.candidates], known)
        if (others := _beside(members, known, search.candidates)) or len(members) > 1
    ]
    return gather(search, tools, groups)


def copies_of_first(ids: Sequence[ChunkId], known: Mapping[ChunkId, tuple[ChunkId, ...]]) -> Iterator[tuple[int, ...]]:
    """Yield positions that are one: the first and what it is known to be a copy of; a copy of a copy may say something else."""
    taken: set[int] = set()
    for at, first in enumerate(ids):
        if at not in taken:
            copies = set(known[first])
            same = [n for n in range(at + 1, len(ids)) if n not in taken and (ids[n] in copies or first in known[ids[n]])]
            taken.update(same)
            yield at, *same


def _beside(members: Sequence[int], known: Mapping[ChunkId, tuple[ChunkId, ...]], candidates: Sequence[Candidate]) -> tuple[ChunkId, ...]:
    """Return the first one's copies that are no candidates."""
    held = {candidates[at].id for at in members}
    return tuple(n for n in known[candidates[members[0]].id] if n not in held)


def _newest(members: Sequence[int], others: Sequence[ChunkId], search: Search, tools: Tools) -> Candidate:
    """Return the newest text that may be shown, of equals the best; it may be one that was not found."""
    documents, mine = tools.snapshot.catalog.documents, [search.candidates[at] for at in members]
    best = max(mine, key=lambda each: newness(documents[each.document]))  # of equals the first
    found, of = {n for each in search.candidates for n in (each.id, *each.also_in)}, tools.snapshot.catalog.document_of
    newer = [n for n in others[:MOST_COMPARED] if n not in found and newness(documents[of(n)]) > newness(documents[best.document])]
    by_age = sorted(newer, key=lambda n: newness(documents[of(n)]), reverse=True)
    newest = next((n for n in by_age if _may_be_shown(n, best, search, tools)), None)
    if newest is None:
        return best
    chunk = tools.snapshot.catalog.chunks([newest]).get(newest)
    return best if chunk is None else Candidate(newest, tools.snapshot.catalog.document_of(newest), chunk, best.score)


def _may_be_shown(chunk: ChunkId, best: Candidate, search: Search, tools: Tools) -> bool:
    """Tell whether a chunk that was not found may stand for one that was: let through by filters, and no other version of the page."""
    catalog = tools.snapshot.catalog
    if search.mask is not None and not search.mask[chunk]:
        return False
    mine, other = catalog.documents[best.document], catalog.documents[catalog.document_of(chunk)]
    return mine is not other and kinship(mine.path, other.path) not in {"version", "language"}
