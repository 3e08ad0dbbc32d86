"""Shorten an answer: to the limit of passages, or to those that stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thumbindex.model import Passage
from thumbindex.query.stage import Search

BACKGROUND_RANK = 10
"""Rank of the passage whose score is the background: many notes score as much by chance."""

_STRONG = 0.4
"""A passage is weaker if its score is below this share of the way from the background to the best
score.
"""

_MAX_LOW = 2
"""Maximum passages if the confidence is low."""


def shorten(search: Search, limit: int) -> Search:
    """Keep the first `limit` passages. Unless the query has a limit, leave out the weaker ones."""
    passages = _cut_to_limit(search.passages, limit)
    if search.query.limit is None and search.listed is None and search.found:
        return _leave_out_weaker(replace(search, passages=passages), _background(search.passages))
    return replace(search, passages=passages)


def _background(passages: Sequence[Passage]) -> float:
    return passages[BACKGROUND_RANK - 1].score if len(passages) >= BACKGROUND_RANK else 0.0


def _cut_to_limit(passages: Sequence[Passage], limit: int) -> tuple[Passage, ...]:
    """Return the first `limit` passages.

    If the limit splits a contradicting pair, keep both, and drop the passage before them.
    """
    last = limit - 1
    is_split = limit < len(passages) and _disagree(passages[last], passages[limit])
    if is_split and limit > 1 and not passages[last - 1].disagrees:
        return (*passages[: last - 1], *(replace(passages[n], rank=n) for n in (last, limit)))
    return tuple(passages[:limit])


def _leave_out_weaker(search: Search, background: float) -> Search:
    """Move the weaker passages to `weaker`. A contradicting pair stays together."""
    shown, weaker, is_low = list[Passage](), list[Passage](), search.confidence_level == "low"
    best = max((passage.score for passage in search.passages), default=0.0)
    for passage in search.passages:
        is_strong = passage.score >= background + _STRONG * (best - background)
        has_room = not is_low or len(shown) < _MAX_LOW
        if (is_strong and has_room) or (shown and _disagree(shown[-1], passage)):
            shown.append(replace(passage, rank=len(shown) + 1))
        else:
            weaker.append(passage)
    return replace(search, passages=tuple(shown), weaker=tuple(weaker))


def _disagree(passage: Passage, other: Passage) -> bool:
    return any(other.place.contains(pair) for pair in passage.disagrees)
