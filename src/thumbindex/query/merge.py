"""What all deduplicating stages do with what they found: the survivor keeps its place and answers for its copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from thumbindex.model import Candidate, Chunk, ChunkId, Document, Dropped, day_of
from thumbindex.ports import Duplicates
from thumbindex.query.guards import kept_apart
from thumbindex.query.stage import Search, Tools

PAIRS = 1024
"""Pairs of chunks of which it is remembered what keeps them apart: the next query finds the same ones."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Where a copy's survivor stands among the candidates, and what makes it a copy."""

    of: int
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates that become one: where they stand, which text is shown, in whose place, and what makes them one."""

    members: tuple[int, ...]  # positions, ascending: what is shown takes the place and the score of the first
    shown: Candidate  # one of them, or a chunk that was no candidate
    why: str
    beside: tuple[ChunkId, ...] = ()  # places that are named, too, though they are no candidates


def greedy(alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]) -> dict[int, int]:
    """Return each copy's survivor: in order, an item is a copy of the first kept one that is alike and not kept apart.

    `alike` has shape (items, items); no survivor is a copy of another, and the first item always survives.
    """
    near: dict[int, list[int]] = {}
    for item, other in np.argwhere(np.tril(alike, -1)).tolist():
        near.setdefault(item, []).append(other)
    copies: dict[int, int] = {}
    for item, others in near.items():
        survivor = next((other for other in others if other not in copies and apart(item, other) is None), None)
        if survivor is not None:
            copies[item] = survivor
    return copies


def told_apart(first: Candidate, second: Candidate, duplicates: Duplicates) -> str | None:
    """Say why two candidates are not copies of each other: their owner's word, else a guard's; None where nothing speaks against it."""
    if duplicates.verdict(first.id, second.id) == "apart":
        return "their owner keeps them apart"
    return _kept_apart(first.chunk, second.chunk)


@lru_cache(maxsize=PAIRS)
def _kept_apart(first: Chunk, second: Chunk) -> str | None:
    return kept_apart(first, second)


def newness(document: Document) -> tuple[int, float]:
    """Return what the newer of two documents has more of: its own date, else the time of its file."""
    return day_of(document).toordinal(), 0.0 if document.date else document.modified


def merge(search: Search, tools: Tools, copies: Mapping[int, Copy]) -> Search:
    """Take the copies out; each survivor keeps its place and score, and counts and names what it stands for."""
    candidates = search.candidates
    merged: dict[int, list[Candidate]] = {}
    for at, copy in sorted(copies.items()):
        merged.setdefault(copy.of, []).append(candidates[at])
    kept = tuple(_with_copies(each, merged[at]) if at in merged else each for at, each in enumerate(candidates) if at not in copies)
    gone = tuple(_dropped(candidates[at], candidates[copy.of], copy.why, tools) for at, copy in sorted(copies.items()))
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def gather(search: Search, tools: Tools, groups: Sequence[Group]) -> Search:
    """Make one candidate of each group: at its best member's place, with that one's score and all members' ranks."""
    candidates = search.candidates
    shown = {group.members[0]: _shown(group, candidates) for group in groups}
    members = {at: group for group in groups for at in group.members}
    kept = tuple(shown.get(at, each) for at, each in enumerate(candidates) if at in shown or at not in members)
    gone = (_dropped(candidates[at], group.shown, group.why, tools) for at, group in sorted(members.items()) if candidates[at].id != group.shown.id)
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def _shown(group: Group, candidates: Sequence[Candidate]) -> Candidate:
    members = [candidates[at] for at in group.members]
    sources = {name: min(each.sources[name] for each in members if name in each.sources) for each in members for name in each.sources}
    first = replace(group.shown, score=members[0].score, sources=sources)
    return _with_places(first, (n for each in members for n in (each.id, *each.also_in)), group.beside)


def _with_copies(survivor: Candidate, copies: Sequence[Candidate]) -> Candidate:
    return _with_places(survivor, (n for each in copies for n in (each.id, *each.also_in)))


def _with_places(survivor: Candidate, *places: Iterable[ChunkId]) -> Candidate:
    """Name further places, each once."""
    named = dict.fromkeys((*survivor.also_in, *(n for each in places for n in each)))
    named.pop(survivor.id, None)
    return replace(survivor, also_in=tuple(named), cluster_size=1 + len(named))


def _dropped(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> Dropped:
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return Dropped(documents[copy.document].path, copy.chunk.start_line, reason)
