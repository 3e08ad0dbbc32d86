"""Stage headings: of a document's chunks, those under headings that hold the query's words come first; documents stay where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache

from thumbindex.language import function_words
from thumbindex.model import Candidate, DocumentId
from thumbindex.ports import Mask
from thumbindex.query.guards import stem
from thumbindex.query.stage import Search, Tools
from thumbindex.text import words

HEADINGS = 8192
"""Headings whose words are remembered."""

NOWHERE: Mapping[str, Mask] = {}
"""What the index adds where all that it holds is English."""


def headings(search: Search, tools: Tools) -> Search:
    """Raise chunks by the share of the query's words in the headings above them; each document's best chunk takes what its best one had."""
    found = words(search.text)
    stops = function_words(dict.fromkeys(found), tools.snapshot.keyword.languages)
    asked = {word: stem(word) for word in found if stops.get(word, 1.0)}
    if not asked:
        return search
    settings = tools.settings
    held = held_above(asked, tools)
    family: dict[DocumentId, list[Candidate]] = defaultdict(list)
    for each in search.candidates:
        family[each.document].append(each)
    stemmed = frozenset(asked.values())
    scored = [each for own in family.values() for each in raised(own, stemmed, settings.headings.weight, settings.fuse.spread, held)]
    return replace(search, candidates=tuple(sorted(scored, key=lambda each: (-each.score, each.id))))


def raised(
    candidates: Collection[Candidate], asked: frozenset[str], weight: float, spread: float, held: Mapping[str, Mask] = NOWHERE
) -> list[Candidate]:
    """Score a document's chunks anew: as fusion did, by their share of the best one's, but the headings count in it."""
    best = max(each.score for each in candidates)
    if best <= 0:
        return list(candidates)
    also = (frozenset(each for each, mask in held.items() if mask[candidate.id]) for candidate in candidates)
    covered = [coverage(each.chunk.heading_path[1:], asked, more) for each, more in zip(candidates, also, strict=True)]
    if not any(covered):
        return list(candidates)
    shares = [(each.score / best) ** (1 / spread) if spread else 1.0 for each in candidates]
    totals = [share + weight * covers for share, covers in zip(shares, covered, strict=True)]
    highest = max(totals)
    return [each.scored(best * (total / highest) ** spread) for each, total in zip(candidates, totals, strict=True)]


def held_above(asked: Mapping[str, str], tools: Tools) -> Mapping[str, Mask]:
    """Return above which chunks the index finds the words, by their stems here: it knows endings of other languages than English."""
    keyword = tools.snapshot.keyword
    return {own: keyword.holding(word, ("headings",)) for word, own in asked.items()} if keyword.languages else NOWHERE


def coverage(headings: Collection[str], asked: frozenset[str], held: frozenset[str] = frozenset()) -> float:
    """Return which share of the words that are asked for stands in any of the headings, endings aside; `held` are known to."""
    return len(asked & frozenset[str]().union(held, *map(stems, headings))) / len(asked)


@lru_cache(maxsize=HEADINGS)
def stems(heading: str) -> frozenset[str]:
    """Return a heading's words without their endings, remembered: the same headings come with one question after the other."""
    return frozenset(map(stem, words(heading)))
