"""Stage contradict: two texts that say almost the same but for a number, version, date or negation are shown as a pair."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar

from thumbindex.model import Candidate, ChunkId
from thumbindex.query.alike import near_copies
from thumbindex.query.guards import is_variant, reading
from thumbindex.query.stage import Search, Tools
from thumbindex.text import STOP_WORDS

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

_NUMBER = re.compile(r"[$€£¥]?v?\d.*")
_DATES = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday thursday friday saturday"
    " sunday zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty ninety hundred thousand once twice"
    " half double triple first second third daily weekly monthly yearly".split()
)
_NEGATIONS = frozenset("not no none never neither nor nothing nobody without cannot unless except".split())
_OPPOSITES = frozenset(
    "only must shall should may required optional true false yes before after always minimum maximum least most above below more less fewer"
    " increase decrease enable disable enabled disabled allow deny allowed denied on off".split()
)
_NEGATING = ("un", "non", "in", "im", "dis", "ir", "il")


def contradict(search: Search, tools: Tools) -> Search:
    """Put near copies that disagree next to each other, each naming the other and the words; the pair has the better one's score."""
    candidates = search.candidates
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for a, b in near_copies(candidates, tools):
        for mine, other in ((a, b), (b, a)):
            if differs := contradiction(candidates[mine].chunk.text, candidates[other].chunk.text):
                found[mine][other] = differs
    few = without_series(found, tools.settings.contradict.most)
    named = tuple(
        replace(each, disagrees=tuple((candidates[other].id, differs) for other, differs in sorted(few.get(at, {}).items())))
        for at, each in enumerate(candidates)
    )
    return replace(search, candidates=in_pairs(named))


def contradiction(first: str, second: str) -> str:
    """Name the numbers, versions, dates or negations of one Markdown text against those of the other; empty where they do not disagree.

    Texts that each have other words of their own, or another identifier or name, have different subjects; a number that only one has is a detail.
    """
    left, right = reading(first), reading(second)
    mine, yours = own_tokens(left.tokens, right.tokens)
    claims, others = [token for token in mine if is_claim(token, yours)], [token for token in yours if is_claim(token, mine)]
    subjects = [set(tokens) - set(said) - STOP_WORDS for tokens, said in ((mine, claims), (yours, others))]
    if all(subjects) or (subjects[0] | subjects[1]) & (left.marked | right.marked):
        return ""
    denied = (set(claims) | set(others)) & _NEGATIONS or any(token.endswith("n't") for token in (*claims, *others))
    return f"{_quoted(claims)} against {_quoted(others)}" if denied or (claims and others) else ""


def own_tokens(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what each of two lists has more of than the other, in order; a word and its other ending or spelling are one."""
    mine, yours = list((Counter(first) - Counter(second)).elements()), list((Counter(second) - Counter(first)).elements())
    for word in list(mine):
        like = None if is_claim(word, yours) else next((other for other in yours if not is_claim(other, mine) and is_variant(word, other)), None)
        if like is not None:
            mine.remove(word)
            yours.remove(like)
    return mine, yours


def is_claim(token: str, others: Sequence[str]) -> bool:
    """Tell whether a word that the other text lacks is what one can disagree on, and no subject: a number, a date, a negation, an opposite."""
    if _NUMBER.fullmatch(token) or token in _DATES or token in _NEGATIONS or token in _OPPOSITES or token.endswith("n't"):
        return True
    return any(f"{prefix}{token}" in others or (token.startswith(prefix) and token[len(prefix) :] in others) for prefix in _NEGATING)


def numbers(markdown: str) -> Counter[str]:
    """Count the numbers, versions and dates of a text."""
    return Counter(token for token in reading(markdown).tokens if _NUMBER.fullmatch(token))


def without_series(found: Mapping[int, Mapping[int, str]], most: int) -> dict[int, Mapping[int, str]]:
    """Leave out texts that disagree with so many others that they are a series, as release notes are; and what disagrees with those only."""
    series = {at for at, others in found.items() if len(others) >= most}
    kept = {at: {other: differs for other, differs in others.items() if other not in series} for at, others in found.items() if at not in series}
    return {at: others for at, others in kept.items() if others}


def in_pairs(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates with each partner right behind the first of a pair, with the first one's score; the others keep their order."""
    ordered = together(candidates, lambda each: each.id, lambda each: {n for n, _ in each.disagrees})
    raised: list[Candidate] = []
    for each in ordered:
        least = raised[-1].score if raised and any(n == raised[-1].id for n, _ in each.disagrees) else each.score
        raised.append(replace(each, score=max(each.score, least)))
    return tuple(raised)


def together(items: Sequence[Item], key: Callable[[Item], Key], partners: Callable[[Item], AbstractSet[Key]]) -> list[Item]:
    """Return the items in order, but each followed directly by those of its partners that have not come yet."""
    ordered: list[Item] = []
    taken: set[Key] = set()
    for item in items:
        if key(item) not in taken:
            waiting = [item, *(other for other in items if key(other) in partners(item) and key(other) not in taken)]
            ordered += waiting
            taken.update(key(each) for each in waiting)
    return ordered


def of_pair(candidate: Candidate, kept: AbstractSet[ChunkId]) -> bool:
    """Tell whether one that a candidate disagrees with is kept."""
    return any(n in kept for n, _ in candidate.disagrees)


def _quoted(tokens: Sequence[str]) -> str:
    return ", ".join(f"`{token}`" for token in dict.fromkeys(tokens)) or "nothing"
