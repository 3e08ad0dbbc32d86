"""How text becomes the words that Whoosh keeps: folded and stemmed for prose, whole and in parts for code."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from whoosh import columns, fields, formats
from whoosh.lang.porter2 import stem as porter2
from whoosh.lang.snowball.russian import RussianStemmer

from thumbindex.model import Chunk, Document
from thumbindex.text import STOP_WORDS, identifiers, placed_words, visible

VIEW_VERSION = "5"
"""Changes when the analysis or the files' format changes: a view of another version is built anew."""

CHUNK_FIELDS = ("body", "headings", "code")
DOCUMENT_FIELDS = ("title", "keywords", "description", "tags", "aliases", "author", "path")
_STEMMED = (*CHUNK_FIELDS[:2], *DOCUMENT_FIELDS)

_russian = RussianStemmer()


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return a word's stem: Russian's for Cyrillic, which nothing else is written in that has another stemmer here, else English's."""
    return str(_russian.stem(word) if "а" <= word[0] <= "я" else porter2(word))


class Places(formats.Positions):  # type: ignore[misc]
    """Where a word stands in a field: four bytes a place, which is quicker to write and to read than Whoosh's own pickled list."""

    def encode(self, places: Any) -> bytes:
        """Pack places, ascending."""
        return array("I", places).tobytes()

    def decode_positions(self, value: bytes) -> list[int]:
        """Unpack places."""
        return array("I", value).tolist()

    def decode_frequency(self, value: bytes) -> int:
        """Count the places."""
        return len(value) // array("I").itemsize


class StemmedWords(fields.FieldType):  # type: ignore[misc]
    """A field that is given as the places of each stem; lengths are kept beside it, for Whoosh's own scoring is not used."""

    def __init__(self) -> None:
        super().__init__(Places(), analyzer=None)

    def index(self, value: Mapping[str, Any], **_: Any) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield a posting a stem: as bytes, how often, its weight and where."""
        for word, places in value.items():
            yield word.encode(), len(places), float(len(places)), places.tobytes()


class CodeWords(fields.FieldType):  # type: ignore[misc]
    """A field that is given as how often each form stands in it; no places."""

    def __init__(self) -> None:
        super().__init__(formats.Existence(), analyzer=None)

    def index(self, value: Mapping[str, int], **_: Any) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield a posting a form: as bytes, how often, its weight and nothing more."""
        for word, count in value.items():
            yield word.encode(), count, float(count), b""


def schema() -> Any:
    """Return the fields of the keyword index; lengths beside them, in words."""
    length = {f"length_{name}": fields.COLUMN(columns.NumericColumn("i")) for name in (*CHUNK_FIELDS, *DOCUMENT_FIELDS)}
    return fields.Schema(
        row=fields.COLUMN(columns.NumericColumn("q")),  # chunk's row id, or minus the document's
        code=CodeWords(),
        **{name: StemmedWords() for name in _STEMMED},
        **length,
    )


def chunk_words(chunk: Chunk) -> dict[str, Any]:
    """Return the values of a chunk's fields and their lengths; nothing of a field that is empty."""
    found = _stemmed({"body": visible(chunk.text), "headings": "\n".join(chunk.heading_path[1:])})
    if code := list(code_words("\n".join((*chunk.heading_path, chunk.text)))):
        found["code"], found["length_code"] = Counter(code), len(code)
    return found


def document_words(document: Document) -> dict[str, Any]:
    """Return the values of a document's own fields and their lengths, which stand on each of its chunks."""
    return _stemmed(
        {
            "title": document.title,
            "keywords": "\n".join(document.keywords),
            "description": document.description,
            "tags": "\n".join(document.tags),
            "aliases": "\n".join(document.aliases),
            "author": "\n".join((document.author, document.category, document.type)),
            "path": document.path.rpartition(".")[0],
        }
    )


def code_words(value: str) -> Iterator[str]:
    """Yield whole identifiers, their parts, and plain words (no stop words), folded."""
    for whole, parts in identifiers(value):
        if whole not in STOP_WORDS:
            yield whole
        yield from parts


def _stemmed(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the places of each stem, by field, and how many words there are."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        places: dict[str, array[int]] = {}
        last = -1
        for last, word in placed_words(text):
            stemmed = stem(word)
            if stemmed in places:
                places[stemmed].append(last)
            else:
                places[stemmed] = array("I", (last,))
        if places:
            found[name], found[f"length_{name}"] = places, last + 1
    return found
