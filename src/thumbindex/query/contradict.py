"""Stage contradict: two texts that say almost the same but for a number, version, date or negation are shown as a pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar

from thumbindex.compare.differences import disagreement
from thumbindex.model import Candidate, ChunkId
from thumbindex.query.copies import near_copies
from thumbindex.query.stage import Search, Tools

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def contradict(search: Search, tools: Tools) -> Search:
    """Put near copies that disagree next to each other, each naming the other and the words; the pair has the better one's score."""
    candidates = search.candidates
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for a, b in near_copies(candidates, tools):
        if are_parallel(candidates[a], candidates[b]):
            continue
        for mine, other in ((a, b), (b, a)):
            if differs := disagreement(candidates[mine].chunk.text, candidates[other].chunk.text):
                found[mine][other] = differs
    if not found:
        return search
    few = without_series(found, tools.settings.contradict.most)
    named = tuple(
        replace(each, disagrees=tuple((candidates[other].id, differs) for other, differs in sorted(few.get(at, {}).items())))
        for at, each in enumerate(candidates)
    )
    return replace(search, candidates=in_pairs(named))


def are_parallel(first: Candidate, second: Candidate) -> bool:
    """Tell whether two chunks are parallel passages of one document, under headings of their own: an author who says otherwise of something else."""
    return first.document == second.document and first.chunk.heading_path != second.chunk.heading_path


def without_series(found: Mapping[int, Mapping[int, str]], most: int) -> dict[int, Mapping[int, str]]:
    """Leave out texts that disagree with so many others that they are a series, as release notes are; and what disagrees with those only."""
    series = {at for at, others in found.items() if len(others) >= most}
    kept = {at: {other: differs for other, differs in others.items() if other not in series} for at, others in found.items() if at not in series}
    return {at: others for at, others in kept.items() if others}


def in_pairs(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates with each partner right behind the first of a pair, with the first one's score; the others keep their order."""
    if not any(each.disagrees for each in candidates):
        return tuple(candidates)
    ordered = together(candidates, lambda each: each.id, lambda each: {n for n, _ in each.disagrees})
    raised: list[Candidate] = []
    for each in ordered:
        least = raised[-1].score if raised and any(n == raised[-1].id for n, _ in each.disagrees) else each.score
        raised.append(each.scored(max(each.score, least)))
    return tuple(raised)


def together(items: Sequence[Item], key: Callable[[Item], Key], partners: Callable[[Item], AbstractSet[Key]]) -> list[Item]:
    """Return the items in order, but each followed directly by those of its partners that have not come yet."""
    by_key = {key(item): item for item in items}
    ordered: dict[Key, Item] = {}
    for own, item in by_key.items():
        if own not in ordered:
            wanted = partners(item)
            ordered |= {own: item, **{other: each for other, each in by_key.items() if other in wanted and other not in ordered}}
    return list(ordered.values())


def of_pair(candidate: Candidate, kept: AbstractSet[ChunkId]) -> bool:
    """Tell whether one that a candidate disagrees with is kept."""
    return any(n in kept for n, _ in candidate.disagrees)
