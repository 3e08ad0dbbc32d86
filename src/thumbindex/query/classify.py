"""Stage classify: what kind of answer a query asks for, and so how much each retriever counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from thumbindex.model import Document, QueryKind
from thumbindex.query.stage import Search, Tools, once_a_catalog
from thumbindex.query.terms import QUOTED, folded, is_identifier, is_mixed_case, tokens
from thumbindex.settings import ClassifySettings
from thumbindex.text import composed, words

_QUESTION = re.compile(r"^(?:how|why|what|when|who|can|could|should|is|are|do|does|did|will|would)\b", re.I)
_NAMED = frozenset("guide docs documentation tutorial chapter handbook faq glossary changelog readme appendix".split())
"""Words that name a part of the documentation wherever they stand."""

_PLACED = frozenset("page section reference manual introduction overview".split())
"""Words that name one only at the end of a query, or before one of `_ABOUT`; elsewhere they are things that people work with."""

_ABOUT = frozenset("about on for to of in".split())
_INDEFINITE = frozenset("a an my your each every any another one".split())
_KEYWORDS = 3
"""The most words of a query that is keywords, not a sentence: a mixed-case word in a sentence is rather a brand."""


def classify(search: Search, tools: Tools) -> Search:
    """Set the query's kind and the factors of the retrievers that follow from it."""
    catalog = tools.snapshot.catalog
    kind = kind_of(search.text, _names(catalog))
    return replace(search, kind=kind, weights=factors(kind, tools.settings.classify))


class Names:
    """What documents are called, titles and aliases, by the number of characters: a query is compared with those that it may be.

    Those of a length are folded when they are first compared with: all of a hundred thousand would take a snapshot's first query half a second.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._written: dict[int, list[str]] = {}
        self._folded: dict[int, frozenset[str]] = {}
        for document in documents:
            for name in (document.title, *document.aliases):
                self._written.setdefault(len(name), []).append(name)

    def of(self, length: int) -> frozenset[str]:
        """Return the names of so many characters, folded."""
        if length not in self._written:
            return frozenset()
        if length not in self._folded:
            self._folded[length] = frozenset(map(folded, self._written[length]))
        return self._folded[length]


def kind_of(text: str, names: Names) -> QueryKind:
    """Return factual, navigational or exploratory: the first whose signs the text shows, else exploratory."""
    if is_factual(text):
        return QueryKind.FACTUAL
    return QueryKind.NAVIGATIONAL if is_navigational(text) or is_name(text, names) else QueryKind.EXPLORATORY


def factors(kind: QueryKind, settings: ClassifySettings) -> Mapping[str, float]:
    """Return the factor of each retriever that counts otherwise than usual."""
    if kind is QueryKind.FACTUAL:
        return {"search_keyword": settings.factual_keyword, "search_code": settings.factual_code, "search_vector": settings.factual_vector}
    if kind is QueryKind.NAVIGATIONAL:
        return {"search_keyword": settings.navigational_keyword, "search_graph": settings.navigational_graph}
    return {"search_vector": settings.exploratory_vector}


def is_factual(text: str) -> bool:
    """Tell whether a text holds something to be found as it is written: an identifier, a version, code or a quoted phrase."""
    if QUOTED.search(text) or re.search(r"`[^`]+`", text):
        return True
    found = tokens(text)
    return any(is_identifier(token) for token in found) or (len(found) <= _KEYWORDS and any(is_mixed_case(token) for token in found))


def is_navigational(text: str) -> bool:
    """Tell whether a text asks for a place: a wikilink, or words for a part of the documentation."""
    if "[[" in text:
        return True
    if _QUESTION.match(text.strip()):
        return False
    found = words(text)
    return any(word in _NAMED or (word in _PLACED and _is_placed(found, at)) for at, word in enumerate(found))


def is_name(text: str, names: Names) -> bool:
    """Tell whether a text is a document's title or alias, punctuation and case aside."""
    text = composed(text)
    wanted = folded(text)
    lengths = range(min(len(wanted), len(text)), len(text) + len(wanted))
    return bool(wanted) and any(wanted in names.of(length) for length in lengths)


def _is_placed(found: Sequence[str], at: int) -> bool:
    if _INDEFINITE.intersection(found[max(0, at - 2) : at]):
        return False
    return at == len(found) - 1 or found[at + 1] in _ABOUT


_names = once_a_catalog(lambda catalog: Names(catalog.documents))
