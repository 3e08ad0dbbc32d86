"""Text analysis: stem prose, split identifiers into parts, and highlight matches."""

from __future__ import annotations

import re
from collections import defaultdict
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
from thumbindex.symbols import joined_codes, sign_runs, symbols
from thumbindex.text import (
    STOP_WORDS,
    WORD_CACHE_SIZE,
    code_tokens,
    fold,
    token_parts,
    word_spans,
    words,
    words_with_positions,
)
from thumbindex.visible_text import unescape_markdown

CHUNK_FIELDS = ("body", "headings", "code")
DOCUMENT_FIELDS = ("title", "keywords", "description", "tags", "aliases", "author", "path")
_LANGUAGE_SAMPLE = 300
"""Number of characters at the start of a chunk that are used to detect its language."""

LANGUAGE_MARK = ":"
"""First character of a stem in one of `INFLECTED_LANGUAGES`. The language code comes next, so that
all stems of a language are adjacent in the sorted terms of a segment.
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
"""An elided word before a French or Italian word, such as "l'" in "l'eau"."""

# endings that the stemmers recognize only with accents, and plurals that they miss
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


_ENGLISH_ENDINGS = tuple(
    "e s y ' al ll ful ed ing ic ant ent ism er ator sion tion li ogi enci anci iti".split()
)
"""All endings that `porter2` changes. Without one, a word is its own stem."""


@lru_cache(maxsize=2 * WORD_CACHE_SIZE)
def stem(word: str) -> str:
    """Stem a word, as Russian if it starts with a Cyrillic letter, otherwise as English."""
    if "а" <= word[0] <= "я":
        return str(_russian.stem(word))
    return str(porter2(word)) if word.endswith(_ENGLISH_ENDINGS) else word


@lru_cache(maxsize=WORD_CACHE_SIZE)
def language_stem(word: str, language: str) -> str:
    """Stem a folded word in `language`, and prefix the stem with the language code."""
    bare = _ELIDED.sub("", word) if "'" in word else word
    for ending, replacement in _ACCENTED_ENDINGS.get(language, ()):
        bare = ending.sub(replacement, bare)
    root = fold(str(_snowball[language].stem(bare))) or bare
    if language == "nl":  # huizen, huis; brieven, brief
        root = root[:-1] + {"z": "s", "v": "f"}.get(root[-1], root[-1])
    return f"{LANGUAGE_MARK}{language}{LANGUAGE_MARK}{root}"


def stems(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return the stem of a word and, for a word in Latin script, also its stems in `languages`."""
    if word[0].isascii() and word[0].isalpha():
        return (stem(word), *(language_stem(word, language) for language in languages))
    return (stem(word),)


@dataclass(frozen=True, slots=True)
class AnalyzedFields:
    """The terms, their positions and the number of words in each field of a chunk or document.

    The field "code" has no positions.
    """

    fields: Mapping[str, tuple[Sequence[str], Sequence[int]]]
    lengths: Mapping[str, int]


def analyze_chunk(chunk: Chunk, visible: str, language: str = "") -> AnalyzedFields:
    """Analyze the fields of a chunk.

    `visible` is its visible text. `language` is the language of the document. It is used if the
    language of the chunk cannot be detected.
    """
    sample = visible[:_LANGUAGE_SAMPLE]
    detected = "" if chunk.kind is BlockKind.CODE else language_of_prose((sample,))
    analyzed = _stemmed(chunk_texts(chunk, visible), detected or language)
    text = unescape_markdown("\n".join((*chunk.heading_path, chunk.text)))
    code = _code_terms(text)
    others = symbols(text) + sign_runs(text, is_code=chunk.kind is BlockKind.CODE)
    others += (code.joined for code in joined_codes(text))
    if code or others:
        # the others do not count in the length, so that the scores of words stay the same
        return AnalyzedFields(
            {**analyzed.fields, "code": (code + others, ())},
            {**analyzed.lengths, "code": len(code)},
        )
    return analyzed


def analyze_document(document: Document) -> AnalyzedFields:
    """Analyze the fields of a document.

    A match in these fields counts for every chunk of the document.
    """
    return _stemmed(document_texts(document), document.language)


def chunk_texts(chunk: Chunk, visible: str) -> dict[str, str]:
    """Return the text of each stemmed field of a chunk with this visible text."""
    return {"body": visible, "headings": "\n".join(chunk.heading_path[1:])}


def document_texts(document: Document) -> dict[str, str]:
    """Return the text of each field of a document."""
    return {
        "title": document.title,
        "keywords": "\n".join(document.keywords),
        "description": document.description,
        "tags": "\n".join(document.tags),
        "aliases": "\n".join(document.aliases),
        "author": "\n".join((document.author, document.category, document.type)),
        "path": document.path.rpartition(".")[0],
    }


def has_phrase(text: str, phrase: Sequence[str]) -> bool:
    """Return whether a text contains words side by side, as written: they are not stemmed."""
    occurrences: defaultdict[str, set[int]] = defaultdict(set)
    for word, position in zip(*words_with_positions(text), strict=True):
        for form in unstemmed_forms(word):
            occurrences[form].add(position)
    starts = (
        {position - at for position in occurrences.get(word, ())} for at, word in enumerate(phrase)
    )
    return bool(phrase) and bool(set.intersection(*starts))


def unstemmed_forms(word: str) -> tuple[str, ...]:
    """Return a word and, if it is elided (l'eau), the word without the elision."""
    bare = _ELIDED.sub("", word) if "'" in word else word
    return (word,) if bare == word else (word, bare)


def _code_terms(value: str) -> list[str]:
    """Return the folded words and identifiers in a text, and the parts of identifiers."""
    return list(chain.from_iterable(map(_forms, code_tokens(value))))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _forms(token: str) -> tuple[str, ...]:
    return tuple(
        form
        for name, parts in token_parts(token)
        for form in (() if name in STOP_WORDS else (name,)) + parts
    )


def _stemmed(texts: Mapping[str, str], language: str) -> AnalyzedFields:
    """Stem the text of each field as English, and also as `language` if it has a stemmer."""
    # also as English: texts contain English names, and `language` may be wrong
    languages = (language,) if language in INFLECTED_LANGUAGES else ()
    fields: dict[str, tuple[Sequence[str], Sequence[int]]] = {}
    lengths = {}
    for name, text in texts.items():
        terms, positions = words_with_positions(text)
        if terms:
            lengths[name] = positions[-1] + 1
            fields[name] = list(map(stem, terms)), positions
            if languages:
                pairs = [
                    (stemmed, position)
                    for word, position in zip(terms, positions, strict=True)
                    for stemmed in stems(word, languages)
                ]
                fields[name] = [stemmed for stemmed, _ in pairs], [n for _, n in pairs]
    return AnalyzedFields(fields, lengths)


# -------------------------------------------------------------- highlighting

_EXACT = "="
"""First character of an unstemmed word among stems."""

CharSpan = tuple[int, int]
"""Start and end of a match, as character offsets in a text."""


def highlight_spans(
    text: str, terms: Collection[Term], languages: Collection[str]
) -> tuple[CharSpan, ...]:
    """Return the spans of a text that match any of the terms or their forms.

    Words match by stem, but those of a phrase as they are written. The words of a phrase or form
    must be adjacent. A term with punctuation also matches literally, and a code without its
    separators. Where a name such as `foo.bar.baz` stands, or its end, its parts are not matched.
    """
    parts = {term.text for term in terms if term.weight < 1}
    names = {term.text: end for term in terms if (end := _standing_end(term, parts, text))}
    terms = [
        term
        for term in terms
        if term.phrase or not any(term.text in name and term.text != name for name in names)
    ]
    forms = [(words(form.text), term.phrase) for term in terms for form in (term, *term.forms)]
    initials = {word[0] for form, _ in forms for word in form}
    stemmed_forms = [
        [{_EXACT + word} if is_exact else set(stems(word, languages)) for word in form]
        for form, is_exact in forms
        if form
    ]
    spans = list(word_spans(text))
    # A stem starts with its word's first letter, so most words need not be stemmed. A stop word has
    # no stems of other languages: in German, `them` would be a form of `theme`.
    text_stems = {
        word: {
            *stems(word, () if word in STOP_WORDS else languages),
            *(_EXACT + form for form in unstemmed_forms(word)),
        }
        for word in {word for word, *_ in spans}
        if word[0] in initials or "'" in word
    }
    starting = {
        word: [form for form in stemmed_forms if form[0] & stemmed]
        for word, stemmed in text_stems.items()
    }
    matches: list[CharSpan] = []
    for at, (word, start, _) in enumerate(spans):
        for form in starting.get(word, ()):
            following = spans[at : at + len(form)]
            if len(following) == len(form) and all(
                stemmed & text_stems.get(next_word, set())
                for stemmed, (next_word, *_) in zip(form, following, strict=True)
            ):
                matches.append((start, following[-1][2]))
    written = {term.text for term in terms if not term.phrase and not term.text.isalnum()}
    literals = [_literal_pattern(text) for text in sorted(written.union(names.values()))]
    if literals:
        matches += (match.span() for match in re.finditer("|".join(literals), text, re.IGNORECASE))
    texts = {form.text for term in terms for form in (term, *term.forms)}
    matches += ((code.start, code.end) for code in joined_codes(text) if code.joined in texts)
    return tuple(_joined(matches))


_NAME_SEPARATOR = re.compile(r"(::|->|[./_])")


def _standing_end(term: Term, parts: Collection[str], text: str) -> str:
    """Return an identifier, or its longest end of several words, that stands in a text; or ""."""
    if term.phrase or term.weight <= 1:
        return ""
    pieces = _NAME_SEPARATOR.split(term.text)
    ends = {"".join(pieces[at:]): None for at in range(0, len(pieces), 2)}
    return next(
        (
            end
            for end in ends
            if end and end not in parts and re.search(_literal_pattern(end), text, re.IGNORECASE)
        ),
        "",
    )


def _literal_pattern(text: str) -> str:
    return rf"(?<!\w){re.escape(text)}(?!\w)" if words(text) else re.escape(text)


def _joined(spans: Sequence[CharSpan]) -> Iterator[CharSpan]:
    """Yield the spans in order, with overlapping ones merged."""
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
