"""Text analysis: folded and stemmed terms of prose, identifiers whole and in parts; and the spans
of a text that match a query's terms.
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
_LANGUAGE_SAMPLE = 300
"""Characters of a chunk that its language is detected from."""

LANGUAGE_MARK = ":"
"""First character of a stem that is not English: such terms are adjacent in a segment."""

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
"""Elided articles and pronouns of French and Italian, written together with a word."""

# endings that the stemmers know only with accents, and plurals that they do not know
_ACCENTED_ENDINGS = {
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
    """Return a word's stem: Russian for Cyrillic, else English."""
    return str(_russian.stem(word) if "а" <= word[0] <= "я" else porter2(word))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def language_stem(word: str, language: str) -> str:
    """Return a folded word's stem in a language of `SUFFIXED`, marked with the language: stems of
    two languages may be spelled alike.
    """
    bare = _ELIDED.sub("", word) if "'" in word else word
    for ending, written in _ACCENTED_ENDINGS.get(language, ()):
        bare = ending.sub(written, bare)
    found = fold(str(_snowball[language].stem(bare))) or bare
    if language == "nl":  # huizen, huis; brieven, brief
        found = found[:-1] + {"z": "s", "v": "f"}.get(found[-1], found[-1])
    return f"{LANGUAGE_MARK}{language}{LANGUAGE_MARK}{found}"


def stems(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return the terms of a word: its English stem and, in Latin script, its stems in some
    languages.
    """
    if word[0].isascii() and word[0].isalpha():
        return (stem(word), *(language_stem(word, language) for language in languages))
    return (stem(word),)


@dataclass(frozen=True, slots=True)
class AnalyzedFields:
    """The terms of a chunk or a document by field, in order and with their positions, and the
    number of words by field. Code has no positions.
    """

    fields: Mapping[str, tuple[Sequence[str], Sequence[int]]]
    lengths: Mapping[str, int]


def analyze_chunk(chunk: Chunk, language: str = "") -> AnalyzedFields:
    """Return the terms of a chunk, without empty fields; `language` is its document's."""
    body = strip_markup(chunk.text)
    own = "" if chunk.kind is BlockKind.CODE else language_of_prose((body[:_LANGUAGE_SAMPLE],))
    found = _stemmed({"body": body, "headings": "\n".join(chunk.heading_path[1:])}, own or language)
    code = _code_terms("\n".join((*chunk.heading_path, chunk.text)))
    if code:
        return AnalyzedFields(
            {**found.fields, "code": (code, ())}, {**found.lengths, "code": len(code)}
        )
    return found


def analyze_document(document: Document) -> AnalyzedFields:
    """Return the terms of a document's own fields, which count for all of its chunks."""
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


def _code_terms(value: str) -> list[str]:
    """Return whole identifiers, their parts, and plain words (no stop words), folded."""
    return list(chain.from_iterable(map(_forms, code_tokens(value))))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _forms(token: str) -> tuple[str, ...]:
    return tuple(
        form
        for whole, parts in token_parts(token)
        for form in (() if whole in STOP_WORDS else (whole,)) + parts
    )


def _stemmed(texts: Mapping[str, str], language: str) -> AnalyzedFields:
    """Return the stems of texts with their positions, and the number of words, by field.

    A text of another language has English stems too: such texts are full of English names, and a
    wrongly detected language loses nothing.
    """
    languages = (language,) if language in INFLECTED_LANGUAGES else ()
    found: dict[str, tuple[Sequence[str], Sequence[int]]] = {}
    lengths = {}
    for name, text in texts.items():
        terms, positions = words_with_positions(text)
        if terms:
            lengths[name] = positions[-1] + 1
            found[name] = list(map(stem, terms)), positions
            if languages:
                both = [
                    (stemmed, place)
                    for word, place in zip(terms, positions, strict=True)
                    for stemmed in stems(word, languages)
                ]
                found[name] = [stemmed for stemmed, _ in both], [place for _, place in both]
    return AnalyzedFields(found, lengths)


# -------------------------------------------------------------- highlighting

CharSpan = tuple[int, int]
"""Start and end of a match in a text, in characters."""


def highlight_spans(
    text: str, terms: Collection[Term], languages: Collection[str]
) -> tuple[CharSpan, ...]:
    """Return the spans of a text that match terms, by their stems; the words of a phrase must be
    adjacent.
    """
    forms = [words(each.text) for term in terms for each in (term, *term.forms)]
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
    found: list[CharSpan] = []
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


def _joined(spans: Sequence[CharSpan]) -> Iterator[CharSpan]:
    """Yield spans in order, overlapping ones merged."""
    last: CharSpan | None = None
    for start, end in sorted(spans):
        if last and start < last[1]:
            last = (last[0], max(last[1], end))
        else:
            if last:
                yield last
            last = (start, end)
    if last:
        yield last
