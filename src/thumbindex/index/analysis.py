"""How text becomes the words that Whoosh keeps: folded and stemmed for prose, whole and in parts
for code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from whoosh.lang.porter2 import stem as porter2
from whoosh.lang.snowball.dutch import DutchStemmer
from whoosh.lang.snowball.french import FrenchStemmer
from whoosh.lang.snowball.german import GermanStemmer
from whoosh.lang.snowball.italian import ItalianStemmer
from whoosh.lang.snowball.portugese import PortugueseStemmer
from whoosh.lang.snowball.russian import RussianStemmer
from whoosh.lang.snowball.spanish import SpanishStemmer
from whoosh.lang.snowball.swedish import SwedishStemmer

from thumbindex.language import INFLECTED_LANGUAGES, language_of_prose
from thumbindex.model import BlockKind, Chunk, Document, Term
from thumbindex.text import (
    STOP_WORDS,
    WORD_CACHE_SIZE,
    code_tokens,
    fold,
    strip_markup,
    token_parts,
    word_spans,
    words,
    words_with_positions,
)

CHUNK_FIELDS = ("body", "headings", "code")
DOCUMENT_FIELDS = ("title", "keywords", "description", "tags", "aliases", "author", "path")
_TELLS = 300
"""The characters of a chunk that are read for its language."""

MARK = ":"
"""Begins a stem that is not English's; no word holds it.

What is marked stands together among terms: one look tells whether there is any.
"""

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

_ELIDED = re.compile(
    r"^(?:[cdjlmnstv]|qu|un|jusqu|lorsqu|puisqu|quelqu|(?:de|a|ne|su|da|que|be)ll|sant|tutt|quest)"
    r"'(?=[a-z])"
)
"""What French and Italian write before a vowel, together with the word that is meant."""

# endings that the stemmers know with accents alone; plurals that they leave to their words
_UNFOLDED = {
    "es": ((re.compile(r"(?<=[au])cion$"), "ción"),),
    "fr": (
        (re.compile(r"ions$"), "ion"),
        (re.compile(r"ee(?=s?$)"), "ée"),
        (re.compile(r"iere(?=s?$)"), "ière"),
    ),
    "pt": (
        (re.compile(r"(?:o|a)es$"), "ao"),
        (re.compile(r"ais$"), "al"),
        (re.compile(r"(?<=v)eis$"), "el"),
        (re.compile(r"cao$"), "ção"),
    ),
}


@lru_cache(maxsize=WORD_CACHE_SIZE)
def stem(word: str) -> str:
    """Return a word's stem: Russian's for Cyrillic, which nothing else is written in that has
    another stemmer here, else English's.
    """
    return str(_russian.stem(word) if "а" <= word[0] <= "я" else porter2(word))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def marked_stem(word: str, language: str) -> str:
    """Return a folded word's stem in one of the languages of `SUFFIXED`, marked with it: an English
    word's may be spelled as another's.
    """
    bare = _ELIDED.sub("", word) if "'" in word else word
    for ending, written in _UNFOLDED.get(language, ()):
        bare = ending.sub(written, bare)
    found = fold(str(_snowball[language].stem(bare))) or bare
    if language == "nl":  # huizen, huis; brieven, brief
        found = found[:-1] + {"z": "s", "v": "f"}.get(found[-1], found[-1])
    return f"{MARK}{language}{MARK}{found}"


def stems(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return what a word is kept under, English's stem first, and those of some languages; scripts
    without them have none.
    """
    if word[0].isascii() and word[0].isalpha():
        return (stem(word), *(marked_stem(word, language) for language in languages))
    return (stem(word),)


@dataclass(frozen=True, slots=True)
class RowWords:
    """What a chunk or a document is found by: by field the terms in order with the place of each,
    and how many words there are.

    Code keeps no places.
    """

    fields: Mapping[str, tuple[Sequence[str], Sequence[int]]]
    lengths: Mapping[str, int]


def chunk_words(chunk: Chunk, language: str = "") -> RowWords:
    """Return what a chunk is found by, nothing of a field that is empty; `language` is its
    document's.
    """
    body = strip_markup(chunk.text)
    own = "" if chunk.kind is BlockKind.CODE else language_of_prose((body[:_TELLS],))
    found = _stemmed({"body": body, "headings": "\n".join(chunk.heading_path[1:])}, own or language)
    code = code_words("\n".join((*chunk.heading_path, chunk.text)))
    if code:
        return RowWords({**found.fields, "code": (code, ())}, {**found.lengths, "code": len(code)})
    return found


def document_words(document: Document) -> RowWords:
    """Return what a document itself is found by: its own fields, which stand on each of its
    chunks.
    """
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


def code_words(value: str) -> list[str]:
    """Return whole identifiers, their parts, and plain words (no stop words), folded."""
    return list(chain.from_iterable(map(_forms, code_tokens(value))))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _forms(token: str) -> tuple[str, ...]:
    return tuple(
        form
        for whole, parts in token_parts(token)
        for form in (() if whole in STOP_WORDS else (whole,)) + parts
    )


def _stemmed(texts: Mapping[str, str], language: str) -> RowWords:
    """Return the stems of texts with their places, by field, and how many words there are.

    English's stems stay in a text of another language: such texts are full of English names, and a
    language told wrongly loses nothing.
    """
    languages = (language,) if language in INFLECTED_LANGUAGES else ()
    found: dict[str, tuple[Sequence[str], Sequence[int]]] = {}
    lengths = {}
    for name, text in texts.items():
        terms, places = words_with_positions(text)
        if terms:
            lengths[name] = places[-1] + 1
            found[name] = list(map(stem, terms)), places
            if languages:
                both = [
                    (stemmed, place)
                    for word, place in zip(terms, places, strict=True)
                    for stemmed in stems(word, languages)
                ]
                found[name] = [stemmed for stemmed, _ in both], [place for _, place in both]
    return RowWords(found, lengths)


# -------------------------------------------------------------- where a text is found by some terms

Span = tuple[int, int]
"""Where something begins and ends in a text, in characters."""


def marks(text: str, terms: Collection[Term], languages: Collection[str]) -> tuple[Span, ...]:
    """Return where the words stand by which a text is found: endings are no difference, words of a
    phrase stand one after the other.
    """
    forms = [words(each.text) for term in terms for each in (term, *term.others)]
    initials = {word[0] for form in forms for word in form}
    wanted = [[set(stems(word, languages)) for word in form] for form in forms if form]
    stood = list(word_spans(text))
    # A stem begins as its word does: most words of a text need none.
    own = {
        word: set(stems(word, languages))
        for word in {word for word, *_ in stood}
        if word[0] in initials or "'" in word
    }
    begun = {word: [form for form in wanted if form[0] & stemmed] for word, stemmed in own.items()}
    found: list[Span] = []
    for at, (word, start, _) in enumerate(stood):
        for form in begun.get(word, ()):
            following = stood[at : at + len(form)]
            if len(following) == len(form) and all(
                stemmed & own.get(other, set())
                for stemmed, (other, *_) in zip(form, following, strict=True)
            ):
                found.append((start, following[-1][2]))
    whole = [re.escape(term.text) for term in terms if not term.phrase and not term.text.isalnum()]
    if whole:
        pattern = rf"(?<!\w)(?:{'|'.join(whole)})(?!\w)"
        found += (match.span() for match in re.finditer(pattern, text, re.IGNORECASE))
    return tuple(_joined(found))


def _joined(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield spans in order, those that overlap as one."""
    last: Span | None = None
    for start, end in sorted(spans):
        if last and start < last[1]:
            last = (last[0], max(last[1], end))
        else:
            if last:
                yield last
            last = (start, end)
    if last:
        yield last
