"""The stages `classify` and `correct`, and the parser of a query's terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from unicodedata import category

from thumbindex.language import (
    FUNCTION_WORDS,
    blank_function_words,
    function_word_weights,
    question_language,
    reads_language,
)
from thumbindex.model import QueryKind, Term
from thumbindex.query.spellings import find_corrections
from thumbindex.query.stage import Search, Tools
from thumbindex.symbols import typed_symbols
from thumbindex.text import (
    STOP_WORDS,
    fold,
    has_cjk,
    identifiers,
    normalize_letters,
    space_cjk,
    words,
)

QUOTED = re.compile(r'["“„＂]([^"“”„＂]+)["”“＂]')
"""A phrase between straight, curly or full-width double quotes."""

QUOTATION_MARK = re.compile('["“”„＂]')
"""A straight, curly or full-width double quotation mark."""

_IDENTIFIER = re.compile(
    r"^--?[A-Za-z][\w-]*$"  # --flag
    # snake_case, a::b, a->b, call(), scheme://, {%, $x, @x
    r"|\w_\w|^_+\w|::|->|\w\(\)|://|[{}]|^[$@]\w|\\\w"
    r"|^\.?[^\W\d]\w+(?:\.\w{2,})+$|^\.[A-Za-z]\w+$"  # dotted.name, .suffix; not e.g. or U.S.
    r"|^[a-z]{2,}\d*[A-Z][a-z]"  # camelCase; not iPhone or macOS
    r"|^(?:[A-Z]+[a-z]+\d*){3,}$"  # PascalCase of three words; not GitHub
    r"|^v?\d+(?:\.\d++)++(?:[-+.]?\w++)*+$|^v\d+$"  # versions
    r"|^0x[0-9A-Fa-f]+$|^[A-Z]{1,5}-?\d{3,}$"  # error codes
)
_PARTICLE = re.compile("(?<![가-힣])([가-힣])[은는을를이가의에도로와과만](?![가-힣])")
"""A Korean word of one syllable with a particle, such as 책을."""

_Frequency = Callable[[str], int]
"""Returns the number of chunks with a word."""

_ENGLISH_STOPS = dict.fromkeys(STOP_WORDS, 0.0)
"""English function words, with weight 0."""

_BARE_NOUN_WEIGHT = 0.5
"""Weight of a Korean syllable without its particle. It is low because the word may have no
particle: the 이 in 종이 is part of the noun.
"""

_PUNCTUATION = "\"'“”‘’`,;:!?()[]<>…、。「」『』【】《》〈〉・"


def parse_terms(text: str, tools: Tools) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the terms for search_keyword and the terms for search_code.

    Both omit function words of English and of the query's language. They also omit Chinese and
    Japanese bigrams that span two words.
    """
    keyword = tools.snapshot.keyword
    stops = stop_weights(text, keyword.languages, keyword.chunk_frequency)
    return keyword_terms(text, stops), code_terms(text, tools.settings.search_code.whole, stops)


def stop_weights(
    text: str, languages: Collection[str], frequency: _Frequency | None = None
) -> Mapping[str, float]:
    """Return the weights of function words, and of bigrams that span two words.

    All other words have weight 1. Without `frequency`, bigrams are not checked.
    """
    plain = QUOTED.sub(" ", text)
    bigrams = (
        _joining_bigrams(blank_function_words(plain), frequency)
        if frequency and has_cjk(plain)
        else ()
    )
    return {**function_word_weights(plain, languages), **dict.fromkeys(bigrams, 0.0)}


def _joining_bigrams(text: str, frequency: _Frequency) -> Iterator[str]:
    """Yield the Chinese or Japanese bigrams that span two words.

    No chunk contains these bigrams, but some chunk contains a neighboring bigram.
    """
    for run in map(words, filter(has_cjk, space_cjk(text).split())):
        occurs = [frequency(bigram) > 0 for bigram in run]
        yield from (
            bigram
            for bigram, occurs_itself, before, after in zip(
                run, occurs, [False, *occurs], [*occurs[1:], False], strict=False
            )
            if (before or after) and not occurs_itself
        )


def keyword_terms(text: str, stops: Mapping[str, float] = _ENGLISH_STOPS) -> tuple[Term, ...]:
    """Return the words and quoted phrases of a text, each once.

    Stop words are returned only if there is nothing else.
    """
    phrases = dict.fromkeys(
        " ".join(parts) for phrase in QUOTED.findall(text) if (parts := words(phrase))
    )
    plain = dict.fromkeys(words(QUOTED.sub(" ", text)))
    content = [word for word in plain if stops.get(word, 1.0)] or ([] if phrases else list(plain))
    nouns = dict.fromkeys(_PARTICLE.findall(normalize_letters(QUOTED.sub(" ", text))))
    bare = (Term(noun, _BARE_NOUN_WEIGHT) for noun in nouns if noun not in content)
    return (
        *(Term(word, stops.get(word) or 1.0) for word in content),
        *bare,
        *(Term(phrase, phrase=True) for phrase in phrases),
    )


def code_terms(
    text: str, whole_weight: float, stops: Mapping[str, float] = _ENGLISH_STOPS
) -> tuple[Term, ...]:
    """Return whole identifiers, parts of identifiers, plain words and symbols, each once.

    A whole identifier has the weight `whole_weight`. All parts of an identifier together weigh as
    much as a word.
    """
    weights: dict[str, float] = {}
    stopped: list[str] = []
    for token, parts in identifiers(text):
        if not parts and not stops.get(token, 1.0):
            stopped.append(token)
            continue
        weights[token] = max(
            weights.get(token, 0.0),
            whole_weight if parts or is_identifier(token) else stops.get(token, 1.0),
        )
        # together, the parts must not outrank the whole
        for part in parts:
            weights[part] = max(weights.get(part, 0.0), 1.0 / len(parts))
    weights |= dict.fromkeys(typed_symbols(text), 1.0 if weights else whole_weight)
    return tuple(
        Term(token, weight) for token, weight in (weights or dict.fromkeys(stopped, 1.0)).items()
    )


def tokens(text: str) -> list[str]:
    """Split a text at spaces and between scripts, and strip punctuation, except `()` of a call."""
    parts = []
    for token in space_cjk(text).split():
        around = _PUNCTUATION if token.startswith(".") else _PUNCTUATION + "."
        bare = token.strip(around)
        parts.append(f"{bare}()" if bare and f"{bare}()" in token else bare)
    return [part for part in parts if part]


def is_identifier(token: str) -> bool:
    """Return whether a token can only be code. Names such as GitHub, iPhone and MP3 are not."""
    return bool(_IDENTIFIER.search(token))


def _is_number(token: str) -> bool:
    """Return whether a token is a number or date of at least three digits."""
    return bool(_NUMBER.fullmatch(token)) and sum(map(str.isdigit, token)) >= _MIN_DIGITS


_NUMBER = re.compile(r"\d[\d.,:/'’-]*")
_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)
"""A year, such as 1999."""

_MIN_DIGITS = 3

_QUESTION = re.compile(
    r"^(?:how|why|what|when|who|can|could|should|is|are|do|does|did|will|would)\b", re.I
)
_DOC_PART_WORDS = frozenset(
    "guide docs documentation tutorial chapter handbook faq glossary changelog readme "
    "appendix".split()
)
"""Words that make a query navigational if the query is not a question."""

_DOC_PART_EDGE_WORDS = frozenset("page section reference manual introduction overview".split())
"""Words that make a query navigational only at the start or end of the query."""

_WEIGHT_FACTORS: Mapping[QueryKind, Mapping[str, float]] = {
    QueryKind.FACTUAL: {"search_keyword": 1.5, "search_code": 3.0, "search_vector": 0.75},
    QueryKind.NAVIGATIONAL: {"search_keyword": 1.5, "search_graph": 1.5},
    QueryKind.EXPLORATORY: {"search_vector": 1.3},
}
"""Factors for the retrievers' weights, by kind of query."""


def classify(search: Search, tools: Tools) -> Search:
    """Set the kind of the query, and the factors for the retrievers' weights."""
    kind = kind_of(search.text, named=bool(search.reference_matches))
    # a bare word that notes have is looked up; the shown kind must not tell that a note has it
    is_bare = len(search.terms) == 1 and not search.other_phrasings
    word = search.terms[0].text if is_bare else ""
    is_looked_up = kind is QueryKind.EXPLORATORY and tools.snapshot.keyword.chunk_frequency(word)
    factors = _WEIGHT_FACTORS[QueryKind.FACTUAL if is_looked_up else kind]
    return replace(search, kind=kind, weight_factors=factors)


def kind_of(text: str, named: bool) -> QueryKind:
    """Return the kind of a query. `named` is True if the query is a document's name."""
    if _is_factual(text):
        return QueryKind.FACTUAL
    return QueryKind.NAVIGATIONAL if named or _is_navigational(text) else QueryKind.EXPLORATORY


def _is_factual(text: str) -> bool:
    """Return whether a text contains an identifier, version, code, number or quoted phrase.

    So does a text of symbols alone.
    """
    if (
        QUOTED.search(text)
        or re.search(r"`[^`]+`", text)
        or (typed_symbols(text) and not words(text))
    ):
        return True
    # a year does not make a query factual, because it is mostly context
    return any(
        is_identifier(token) or (_is_number(token) and not _YEAR.fullmatch(token))
        for token in tokens(text)
    )


def _is_navigational(text: str) -> bool:
    """Return whether a text contains a wikilink, or a word for a part of documentation."""
    if "[[" in text:
        return True
    if _QUESTION.match(text.strip()):
        return False
    query_words = words(text)
    return not _DOC_PART_WORDS.isdisjoint(query_words) or not _DOC_PART_EDGE_WORDS.isdisjoint(
        (*query_words[:1], *query_words[-1:])
    )


_TOKEN = re.compile(rf"{QUOTED.pattern}|`[^`]*`|\[\[.*?\]\]|\S+")
_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?!['’](?!s\b)\w)")
"""The letters of a word: `arbre` in `(l'arbre's)`, but not `shouldn` in `shouldn't`."""

_PLAIN = re.compile(r"(?:[^\W\d_]|['’-])+")
"""A word that is not code."""

_MIN_LETTERS = 4
"""Minimum letters of a word that is corrected."""

_MAX_CORRECTIONS = 20
"""Only this many unknown words of a query are corrected, because each is compared with the whole
lexicon.
"""


def correct(search: Search, tools: Tools) -> Search:
    """Correct the spelling of the searched text, but not of a note's name.

    A question in a language that the notes lack is not corrected: all its words would be unknown.
    """
    languages = tools.snapshot.keyword.languages
    if search.reference_matches or question_language(search.text) not in ("", *languages):
        return search
    stops = FUNCTION_WORDS.union(stop_weights(search.text, languages))
    typed = dict[str, None]()
    correct_text(search.text, typed.setdefault)
    unknown = (word for word in typed if word not in stops and not _is_known(word, tools))
    corrections = find_corrections(
        list(islice(unknown, _MAX_CORRECTIONS)),
        [word for word in words(search.text) if word not in stops],
        _names_and_code_in(search.text),
        tools.snapshot,
    )
    text = correct_text(search.text, corrections.get)
    if text == search.text:
        return search
    terms, identifiers = parse_terms(text, tools)
    return replace(search, text=text, terms=terms, identifiers=identifiers)


def _names_and_code_in(text: str) -> frozenset[str]:
    """Return the folded words in code, or capitalized inside a text that is no title."""
    parts = tokens(text)
    is_title = not any(part[:1].islower() for part in parts if len(part) >= _MIN_LETTERS)
    names = [part for part in parts[1:] if part[:1].isupper() and not is_title]
    code = [part for part in parts if is_identifier(part) or not _PLAIN.fullmatch(part)]
    return frozenset(map(fold, _WORD.findall(" ".join(names + code))))


def _is_known(word: str, tools: Tools) -> bool:
    """Return whether a word is in a note, or in the vocabulary of a model for the notes' languages.

    `baby` is spelled correctly even if all notes use `infant`.
    """
    if tools.snapshot.keyword.chunk_frequency(word) > 0:
        return True
    embedder = tools.embedder
    return (
        embedder is not None and embedder.knows(word) and _model_covers_notes(embedder.knows, tools)
    )


def _model_covers_notes(knows: Callable[[str], bool], tools: Tools) -> bool:
    """Return whether the model knows the languages of at least half of the notes."""
    counts = tools.snapshot.catalog.languages
    covered = sum(n for language, n in counts.items() if reads_language(language, knows))
    return 2 * covered >= sum(counts.values())


def correct_text(text: str, correction: Callable[[str], str | None]) -> str:
    """Correct words, but not short words, acronyms, quotes, links, or tokens with digits."""

    def corrected(match: re.Match[str]) -> str:
        word = match[0]
        return (correction(fold(word)) or word) if _is_correctable(word, text) else word

    return _TOKEN.sub(
        lambda token: token[0] if _is_literal(token[0]) else _WORD.sub(corrected, token[0]), text
    )


_MAX_CJK_RUN = 200
"""A longer run of Chinese, Japanese or Korean without spaces in a query is cut to this length."""

_LONG_RUN = re.compile(rf"(\w{{{_MAX_CJK_RUN}}})\w++")


def truncate_cjk_runs(text: str) -> str:
    """Shorten long runs of Chinese, Japanese or Korean, because each bigram is looked up."""
    return _LONG_RUN.sub(lambda run: run[1] if has_cjk(run[0]) else run[0], text)


def _is_correctable(word: str, text: str) -> bool:
    """Return whether a word is no short word, acronym or function word."""
    is_acronym = word.isupper() and not text.isupper()
    is_plain = len(word) >= _MIN_LETTERS and not is_acronym and not has_cjk(word)
    return is_plain and fold(word) not in STOP_WORDS


def _is_literal(token: str) -> bool:
    """Return whether a token is quoted, a link, or has digits or combining marks."""
    has_marks = not token.isascii() and any(category(letter)[0] == "M" for letter in token)
    return has_marks or bool(re.search(rf"{QUOTATION_MARK.pattern}|`|\[\[|\d", token))
