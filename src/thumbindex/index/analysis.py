"""How text becomes the words that Whoosh keeps: folded and stemmed for prose, whole and in parts for code."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from whoosh import columns, fields, formats
from whoosh.lang.porter2 import stem as porter2
from whoosh.lang.snowball.dutch import DutchStemmer
from whoosh.lang.snowball.french import FrenchStemmer
from whoosh.lang.snowball.german import GermanStemmer
from whoosh.lang.snowball.italian import ItalianStemmer
from whoosh.lang.snowball.portugese import PortugueseStemmer
from whoosh.lang.snowball.russian import RussianStemmer
from whoosh.lang.snowball.spanish import SpanishStemmer
from whoosh.lang.snowball.swedish import SwedishStemmer

from thumbindex.language import SUFFIXED, prose_language
from thumbindex.model import BlockKind, Chunk, Document
from thumbindex.text import STOP_WORDS, fold, identifiers, placed_words, visible

VIEW_VERSION = "6"
"""Changes when the analysis or the files' format changes: a view of another version is built anew."""

CHUNK_FIELDS = ("body", "headings", "code")
DOCUMENT_FIELDS = ("title", "keywords", "description", "tags", "aliases", "author", "path")
_TELLS = 300
"""The characters of a chunk that are read for its language."""

_STEMMED = (*CHUNK_FIELDS[:2], *DOCUMENT_FIELDS)

MARK = ":"
"""Begins a stem that is not English's; no word holds it. What is marked stands together among terms: one look tells whether there is any."""

_russian = RussianStemmer()
_snowball = {
    "de": GermanStemmer(),
    "fr": FrenchStemmer(),
    "es": SpanishStemmer(),
    "it": ItalianStemmer(),
    "pt": PortugueseStemmer(),
    "nl": DutchStemmer(),
    "sv": SwedishStemmer(),
}

_ELIDED = re.compile(r"^(?:[cdjlmnstv]|qu|un|jusqu|lorsqu|puisqu|quelqu|(?:de|a|ne|su|da|que|be)ll|sant|tutt|quest)'(?=[a-z])")
"""What French and Italian write before a vowel, together with the word that is meant."""

_UNFOLDED = {  # endings that the stemmers know with accents alone; plurals that they leave to their words
    "es": ((re.compile(r"(?<=[au])cion$"), "ción"),),
    "fr": ((re.compile(r"ions$"), "ion"), (re.compile(r"ee(?=s?$)"), "ée"), (re.compile(r"iere(?=s?$)"), "ière")),
    "pt": (
        (re.compile(r"(?:o|a)es$"), "ao"),
        (re.compile(r"ais$"), "al"),
        (re.compile(r"(?<=v)eis$"), "el"),
        (re.compile(r"cao$"), "ção"),
    ),
}


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return a word's stem: Russian's for Cyrillic, which nothing else is written in that has another stemmer here, else English's."""
    return str(_russian.stem(word) if "а" <= word[0] <= "я" else porter2(word))


@lru_cache(maxsize=100_000)
def marked_stem(word: str, language: str) -> str:
    """Return a folded word's stem in one of the languages of `SUFFIXED`, marked with it: an English word's may be spelled as another's."""
    bare = _ELIDED.sub("", word) if "'" in word else word
    for ending, written in _UNFOLDED.get(language, ()):
        bare = ending.sub(written, bare)
    found = fold(str(_snowball[language].stem(bare))) or bare
    if language == "nl":  # huizen, huis; brieven, brief
        found = found[:-1] + {"z": "s", "v": "f"}.get(found[-1], found[-1])
    return f"{MARK}{language}{MARK}{found}"


def stems(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return what a word is kept under, English's stem first, and those of some languages; scripts without them have none."""
    return (stem(word), *(marked_stem(word, language) for language in languages)) if word[0].isascii() and word[0].isalpha() else (stem(word),)


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


def chunk_words(chunk: Chunk, language: str = "") -> dict[str, Any]:
    """Return the values of a chunk's fields and their lengths, nothing of a field that is empty; `language` is its document's."""
    body = visible(chunk.text)
    own = "" if chunk.kind is BlockKind.CODE else prose_language((body[:_TELLS],))
    found = _stemmed({"body": body, "headings": "\n".join(chunk.heading_path[1:])}, own or language)
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
        },
        document.language,
    )


def code_words(value: str) -> Iterator[str]:
    """Yield whole identifiers, their parts, and plain words (no stop words), folded."""
    for whole, parts in identifiers(value):
        if whole not in STOP_WORDS:
            yield whole
        yield from parts


def _stemmed(texts: Mapping[str, str], language: str) -> dict[str, Any]:
    """Return the places of each stem, by field, and how many words there are.

    English's stems stay in a text of another language: such texts are full of English names, and a language told wrongly loses nothing.
    """
    languages = (language,) if language in SUFFIXED else ()
    found: dict[str, Any] = {}
    for name, text in texts.items():
        places: dict[str, array[int]] = {}
        last = -1
        for last, word in placed_words(text):
            for stemmed in stems(word, languages) if languages else (stem(word),):
                if stemmed in places:
                    places[stemmed].append(last)
                else:
                    places[stemmed] = array("I", (last,))
        if places:
            found[name], found[f"length_{name}"] = places, last + 1
    return found
