"""Stage search_vector: the chunks whose vectors are nearest to the query's."""

from __future__ import annotations

from dataclasses import replace

from thumbindex.model import RankedList
from thumbindex.query.stage import Search, Tools


def search_vector(search: Search, tools: Tools) -> Search:
    """Find chunks by meaning; without a model or vectors, find nothing."""
    settings = tools.settings.search_vector
    if tools.embedder is None or not len(tools.snapshot.vector):
        return search
    vector = tools.embedder.embed_query(search.meaning or search.text)
    hits = tools.snapshot.vector.search(vector, settings.limit, search.mask)
    return replace(search, vector=vector, lists={**search.lists, "search_vector": RankedList(hits)})
