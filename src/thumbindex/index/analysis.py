"""How text becomes the words that Whoosh keeps: folded and stemmed for prose, whole and in parts for code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from whoosh import columns, fields
from whoosh.analysis import Analyzer, Token
from whoosh.lang.porter2 import stem as porter2

from thumbindex.model import Document
from thumbindex.text import STOP_WORDS, identifiers, words

VIEW_VERSION = "3"
"""Changes when the analysis changes: a view of another version is built anew."""

CHUNK_FIELDS = ("body", "headings", "code")
DOCUMENT_FIELDS = ("title", "keywords", "description", "tags", "aliases", "author", "path")
_STEMMED = (*CHUNK_FIELDS[:2], *DOCUMENT_FIELDS)

stem = lru_cache(maxsize=100_000)(porter2)


class StemmedWords(Analyzer):  # type: ignore[misc]
    """Folded words, stemmed (Porter 2); positions count every word."""

    def __call__(self, value: str, positions: bool = False, start_pos: int = 0, **_: Any) -> Iterator[Any]:
        """Yield a token a word."""
        token = Token(positions=True, boost=1.0, stopped=False)
        for position, word in enumerate(words(value), start_pos):
            token.text, token.pos = stem(word), position
            yield token


class CodeWords(Analyzer):  # type: ignore[misc]
    """Whole identifiers, their parts, and plain words as they are written."""

    def __call__(self, value: str, **_: Any) -> Iterator[Any]:
        """Yield a token a form."""
        token = Token(boost=1.0, stopped=False)
        for word in code_words(value):
            token.text = word
            yield token


def code_words(value: str) -> Iterator[str]:
    """Yield whole identifiers, their parts, and plain words (no stop words), folded."""
    for whole, parts in identifiers(value):
        if whole not in STOP_WORDS:
            yield whole
        yield from parts


def schema() -> Any:
    """Return the fields of the keyword index; lengths beside them, in words."""
    length = {f"length_{name}": fields.COLUMN(columns.NumericColumn("i")) for name in (*CHUNK_FIELDS, *DOCUMENT_FIELDS)}
    text = {name: fields.TEXT(analyzer=StemmedWords(), phrase=True) for name in _STEMMED}
    return fields.Schema(
        key=fields.ID(unique=True),
        row=fields.COLUMN(columns.NumericColumn("q")),  # chunk's row id, or minus the document's
        code=fields.TEXT(analyzer=CodeWords(), phrase=False),
        **text,
        **length,
    )


def document_texts(document: Document) -> dict[str, str]:
    """Return a document's own fields, which stand on each of its chunks."""
    return {
        "title": document.title,
        "keywords": "\n".join(document.keywords),
        "description": document.description,
        "tags": "\n".join(document.tags),
        "aliases": "\n".join(document.aliases),
        "author": "\n".join((document.author, document.category, document.type)),
        "path": document.path.rpartition(".")[0],
    }
