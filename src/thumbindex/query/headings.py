"""Stage headings: of a document's chunks, those under headings that hold the query's words come first; documents stay where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from thumbindex.model import Candidate, DocumentId
from thumbindex.query.guards import stem
from thumbindex.query.stage import Search, Tools
from thumbindex.text import STOP_WORDS, words

HEADINGS = 8192
"""Headings whose words are remembered."""


def headings(search: Search, tools: Tools) -> Search:
    """Raise chunks by the share of the query's words in the headings above them; each document's best chunk takes what its best one had."""
    asked = frozenset(stem(word) for word in words(search.text) if word not in STOP_WORDS)
    if not asked:
        return search
    settings = tools.settings
    family: dict[DocumentId, list[Candidate]] = defaultdict(list)
    for each in search.candidates:
        family[each.document].append(each)
    scored = [each for own in family.values() for each in raised(own, asked, settings.headings.weight, settings.fuse.spread)]
    return replace(search, candidates=tuple(sorted(scored, key=lambda each: (-each.score, each.id))))


def raised(candidates: Collection[Candidate], asked: frozenset[str], weight: float, spread: float) -> list[Candidate]:
    """Score a document's chunks anew: as fusion did, by their share of the best one's, but the headings count in it."""
    best = max(each.score for each in candidates)
    if best <= 0:
        return list(candidates)
    covered = [coverage(each.chunk.heading_path[1:], asked) for each in candidates]
    if not any(covered):
        return list(candidates)
    shares = [(each.score / best) ** (1 / spread) if spread else 1.0 for each in candidates]
    totals = [share + weight * covers for share, covers in zip(shares, covered, strict=True)]
    return [replace(each, score=best * (total / max(totals)) ** spread) for each, total in zip(candidates, totals, strict=True)]


def coverage(headings: Collection[str], asked: frozenset[str]) -> float:
    """Return which share of the words that are asked for stands in any of the headings, endings aside."""
    return len(asked & frozenset[str]().union(*map(stems, headings))) / len(asked)


@lru_cache(maxsize=HEADINGS)
def stems(heading: str) -> frozenset[str]:
    """Return a heading's words without their endings, remembered: the same headings come with one question after the other."""
    return frozenset(map(stem, words(heading)))
