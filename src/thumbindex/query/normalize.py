"""Stage normalize: scores as shares of the highest that could be attained, never of the best that was."""

from __future__ import annotations

from dataclasses import replace

from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings


def normalize(search: Search, tools: Tools) -> Search:
    """Bring scores to 0 to 1 without stretching them: a weak best hit stays weak."""
    ceiling = attainable(tools.settings)
    return replace(search, candidates=tuple(each.scored(min(max(each.score / ceiling, 0.0), 1.0)) for each in search.candidates))


def attainable(settings: QuerySettings) -> float:
    """Return the highest score: fusion's weights sum to 1 with either method, recency adds its bias."""
    return 1.0 + (settings.recency.bias if settings.recency.enabled else 0.0)
