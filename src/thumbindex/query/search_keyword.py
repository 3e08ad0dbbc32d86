"""Stage search_keyword: the chunks and documents that hold the query's words, by BM25F over stemmed fields."""

from __future__ import annotations

from dataclasses import replace

from thumbindex.ports import KeywordWeights
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import SearchKeywordSettings

FIELDS = ("title", "headings", "keywords", "description", "tags", "aliases", "author", "path", "body")


def search_keyword(search: Search, tools: Tools) -> Search:
    """Find chunks by words; the more of them a chunk holds the better, quoted phrases must be there."""
    settings = tools.settings.search_keyword
    if not search.terms:
        return search
    found = tools.snapshot.keyword.search(search.terms, field_weights(settings), settings.limit, search.mask)
    return replace(search, lists={**search.lists, "search_keyword": found})


def field_weights(settings: SearchKeywordSettings) -> KeywordWeights:
    """Return the fields with their boosts, those at zero left out."""
    boosts = {name: boost for name in FIELDS if (boost := getattr(settings, name))}
    return KeywordWeights(boosts, settings.k1, settings.b, settings.coverage)
