"""Stage search_code: the chunks that hold the query's identifiers, whole forms before parts, unstemmed."""

from __future__ import annotations

from dataclasses import replace

from thumbindex.ports import KeywordWeights
from thumbindex.query.stage import Search, Tools


def search_code(search: Search, tools: Tools) -> Search:
    """Find chunks by identifiers and words as they are written."""
    settings = tools.settings.search_code
    if not search.identifiers:
        return search
    weights = KeywordWeights({"code": 1.0}, settings.k1, settings.b)
    found = tools.snapshot.keyword.search(search.identifiers, weights, settings.limit, search.mask)
    return replace(search, lists={**search.lists, "search_code": found})
