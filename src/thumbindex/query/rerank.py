"""Stage rerank: a model reads the query with each of the first few candidates, and its score is blended with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thumbindex.model import Candidate
from thumbindex.query.contradict import in_pairs
from thumbindex.query.recency import best_first
from thumbindex.query.stage import Search, Tools
from thumbindex.text import embedded_text


def rerank(search: Search, tools: Tools) -> Search:
    """Score the first candidates again, in one call; without a reranker, leave them as they are."""
    settings = tools.settings.rerank
    top, rest = search.candidates[: settings.top], search.candidates[settings.top :]
    if tools.reranker is None or not top:
        return search
    scores = tools.reranker.score(search.text, [embedded_text(each.chunk.heading_path, each.chunk.text) for each in top])
    return replace(search, candidates=in_pairs(blend(top, scores, rest, settings.weight)))


def blend(top: Sequence[Candidate], scores: Sequence[float], rest: Sequence[Candidate], weight: float) -> tuple[Candidate, ...]:
    """Order the top by (1 − weight) · score + weight · the reranker's score; the rest keeps its order below it.

    Both scores are in 0 to 1 and taken as they are: stretching them to the range in the top would make a winner of nonsense.
    """
    blended = best_first(
        replace(each, score=(1 - weight) * each.score + weight * min(max(score, 0.0), 1.0), reranked=score)
        for each, score in zip(top, scores, strict=True)
    )
    lowest = blended[-1].score
    return (*blended, *(each.scored(min(each.score, lowest)) for each in rest))
