"""What a query's text asks the word indexes for: words, quoted phrases and identifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from thumbindex.language import function_words
from thumbindex.model import Term
from thumbindex.text import STOP_WORDS, composed, identifiers, spaced, split_identifier, words

QUOTED = re.compile(r'["“„＂]([^"“”„＂]+)["”“＂]')
"""A phrase between straight, curly or wide double quotes."""

_IDENTIFIER = re.compile(
    r"^--?[A-Za-z][\w-]*$"  # --flag
    r"|\w_\w|^_+\w|::|->|\w\(\)|://|[{}]|^[$@]\w|\\\w"  # snake_case, a::b, a->b, call(), scheme://, {%, $x, @x
    r"|^\.?[^\W\d]\w+(?:\.\w{2,})+$|^\.[A-Za-z]\w+$"  # dotted.name, .suffix; not e.g. or U.S.
    r"|^[a-z]{2,}\d*[A-Z][a-z]"  # camelCase; not iPhone or macOS
    r"|^(?:[A-Z]+[a-z]+\d*){3,}$"  # PascalCase of three words; not GitHub
    r"|^v?\d+(?:\.\d++)++(?:[-+.]?\w++)*+$|^v\d+$"  # versions
    r"|^0x[0-9A-Fa-f]+$|^[A-Z]{1,5}-?\d{3,}$"  # error codes
)
_PARTICLE = re.compile("(?<![가-힣])([가-힣])[은는을를이가의에도로와과만](?![가-힣])")
"""A Korean word of one syllable with its particle: 책을 and 책이 have no pair in common."""

ENGLISH_STOPS = dict.fromkeys(STOP_WORDS, 0.0)
"""What words weigh that carry no subject, where a query is asked in no other language."""

BARE_NOUN = 0.5
"""Weight of that syllable: the two may be a word as well, as 종이 is."""

_PUNCTUATION = "\"'“”‘’`,;:!?()[]<>…、。「」『』【】《》〈〉・"


def read_terms(text: str, whole: float, languages: Collection[str] = ()) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the terms for search_keyword and those for search_code, where a whole identifier weighs `whole`.

    Function words of English are left out, and those of the other language of some that the query is asked in.
    """
    stops = stops_of(text, languages)
    return lookup_terms(text, stops), code_terms(text, whole, stops)


def stops_of(text: str, languages: Collection[str]) -> Mapping[str, float]:
    """Return what the function words of a query weigh, those in quotes left out; any other word weighs 1."""
    return function_words(dict.fromkeys(words(QUOTED.sub(" ", text))), languages)


def lookup_terms(text: str, stops: Mapping[str, float] = ENGLISH_STOPS) -> tuple[Term, ...]:
    """Return each word once and each quoted phrase once; stop words only where nothing else is left."""
    phrases = dict.fromkeys(" ".join(found) for phrase in QUOTED.findall(text) if (found := words(phrase)))
    plain = dict.fromkeys(words(QUOTED.sub(" ", text)))
    kept = [word for word in plain if stops.get(word, 1.0)] or ([] if phrases else list(plain))
    nouns = dict.fromkeys(_PARTICLE.findall(composed(QUOTED.sub(" ", text))))
    bare = (Term(noun, BARE_NOUN) for noun in nouns if noun not in kept)
    return (*(Term(word, stops.get(word) or 1.0) for word in kept), *bare, *(Term(phrase, phrase=True) for phrase in phrases))


def code_terms(text: str, whole: float, stops: Mapping[str, float] = ENGLISH_STOPS) -> tuple[Term, ...]:
    """Return whole identifiers, their parts, and plain words, each once at its highest weight."""
    weights: dict[str, float] = {}
    stopped: list[str] = []
    for token, parts in identifiers(text):
        if not parts and not stops.get(token, 1.0):
            stopped.append(token)
            continue
        weights[token] = max(weights.get(token, 0.0), whole if parts or is_identifier(token) else stops.get(token, 1.0))
        for part in parts:  # all parts together weigh what one word does: they must not outrank the whole
            weights[part] = max(weights.get(part, 0.0), 1.0 / len(parts))
    return tuple(Term(token, weight) for token, weight in (weights or dict.fromkeys(stopped, 1.0)).items())


def tokens(text: str) -> list[str]:
    """Return what stands between white space, and where a script without it ends, punctuation around it taken off; an empty call `()` stays."""
    found = []
    for token in spaced(text).split():
        bare = token.strip(_PUNCTUATION + ".") if not token.startswith(".") else token.strip(_PUNCTUATION)
        found.append(f"{bare}()" if bare and f"{bare}()" in token else bare)
    return [token for token in found if token]


def is_identifier(token: str) -> bool:
    """Tell whether a token can only be code: shapes that brands have too (GitHub, iPhone, MP3) do not count."""
    return bool(_IDENTIFIER.search(token))


def is_mixed_case(token: str) -> bool:
    """Tell whether a token has capitals inside it, as class names and brands have; a plural such as PDFs has not."""
    return bool(re.search(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]", token)) and not re.fullmatch(r"[A-Z\d]+s", token) and len(split_identifier(token)) > 1


def folded(text: str) -> str:
    """Return a text's folded words joined by one space: how names are compared."""
    return " ".join(words(text))
