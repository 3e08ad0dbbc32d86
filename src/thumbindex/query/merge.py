"""What all deduplicating stages do with what they found: the survivor keeps its place and answers for its copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from thumbindex.model import Candidate, Dropped
from thumbindex.query.stage import Search, Tools


@dataclass(frozen=True, slots=True)
class Copy:
    """Where a copy's survivor stands among the candidates, and what makes it a copy."""

    of: int
    why: str


def greedy(alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]) -> dict[int, int]:
    """Return each copy's survivor: in order, an item is a copy of the first kept one that is alike and not kept apart.

    `alike` has shape (items, items); no survivor is a copy of another, and the first item always survives.
    """
    kept = np.zeros(len(alike), dtype=np.bool_)
    copies: dict[int, int] = {}
    for item in range(len(alike)):
        near = np.flatnonzero(alike[item] & kept)
        survivor = next((int(n) for n in near if apart(item, int(n)) is None), None)
        if survivor is None:
            kept[item] = True
        else:
            copies[item] = survivor
    return copies


def merge(search: Search, tools: Tools, copies: Mapping[int, Copy]) -> Search:
    """Take the copies out; each survivor keeps its place and score, and counts and names what it stands for."""
    candidates = search.candidates
    merged: dict[int, list[Candidate]] = {}
    for at, copy in sorted(copies.items()):
        merged.setdefault(copy.of, []).append(candidates[at])
    kept = tuple(_with_copies(each, merged.get(at, [])) for at, each in enumerate(candidates) if at not in copies)
    gone = tuple(_dropped(candidates[at], candidates[copy.of], copy.why, tools) for at, copy in sorted(copies.items()))
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def _with_copies(survivor: Candidate, copies: list[Candidate]) -> Candidate:
    also_in = (*survivor.also_in, *(n for each in copies for n in (each.id, *each.also_in)))
    return replace(survivor, also_in=also_in, cluster_size=survivor.cluster_size + sum(each.cluster_size for each in copies))


def _dropped(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> Dropped:
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return Dropped(documents[copy.document].path, copy.chunk.start_line, reason)
