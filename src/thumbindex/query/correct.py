"""Stage correct: a word that no document holds becomes the closest one that some do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice

from thumbindex.model import ChunkId, Term
from thumbindex.ports import KeywordWeights
from thumbindex.query.search_keyword import FIELDS
from thumbindex.query.stage import Search, Tools
from thumbindex.query.terms import QUOTED, is_identifier, read_terms, stops_of
from thumbindex.text import STOP_WORDS, fold, has_cjk

_TOKEN = re.compile(rf"{QUOTED.pattern}|`[^`]*`|\[\[.*?\]\]|\S+")
_WORD = re.compile(r"([(‘']*)([^\W\d_]+)((?:['’]s)?[)’'.,;:!?…]*)")
_ANYWHERE = KeywordWeights(dict.fromkeys(FIELDS, 1.0))
_BODY = KeywordWeights({"body": 1.0})
_FIRST_LETTER_UNSURE = 6
"""The fewest letters of a word whose first one may be wrong: shorter ones have too many neighbors."""

_DERIVED = 2
"""The letters that a derived word has more than its root (strange, strangers): that is no mistake."""

_HALF = 4
"""The fewest letters of each half of a word that is taken apart."""

_COMPARED = 3
"""The chunks by whose equal scores two words are seen to be one to stemming."""

_MOST = 20
"""The unknown words that are corrected: each is compared with the whole lexicon, and a text of many is no question."""

_FREQUENT = 5
"""The fewest chunks that hold each half of a word that is taken apart: two rare halves are a coincidence."""


def correct(search: Search, tools: Tools) -> Search:
    """Correct the spelling of what is searched for, in every retriever; the query stays as it was asked."""
    shortest = tools.settings.correct.shortest
    stops = stops_of(search.text, tools.snapshot.keyword.languages)
    unknown = (word for word in dict.fromkeys(correctable(search.text, shortest)) if word not in stops and not is_word(word, tools))
    corrections = {word: correction(word, tools) for word in islice(unknown, _MOST)}
    text = correct_text(search.text, corrections.get, shortest)
    if text == search.text:
        return search
    terms, identifiers = read_terms(text, tools.settings.search_code.whole, tools.snapshot.keyword.languages)
    return replace(search, text=text, terms=terms, identifiers=identifiers)


def is_word(word: str, tools: Tools) -> bool:
    """Tell whether a text holds a word, or the model knows it: `baby` is spelled right where all notes say `infant`."""
    return tools.snapshot.keyword.frequency(word) > 0 or (tools.embedder is not None and tools.embedder.knows(word))


def correct_text(text: str, correction: Callable[[str], str | None], shortest: int) -> str:
    """Replace each plain word that has a correction; quotes, code, links, numbers and short words stay."""

    def corrected(match: re.Match[str]) -> str:
        parts = _parts(match[0], text, shortest)
        found = correction(fold(parts[2])) if parts else None
        return f"{parts[1]}{found}{parts[3]}" if parts and found is not None else match[0]

    return _TOKEN.sub(corrected, text)


def correctable(text: str, shortest: int) -> Iterator[str]:
    """Yield the words, folded, that `correct_text` asks a correction for."""
    found = (_parts(match[0], text, shortest) for match in _TOKEN.finditer(text))
    return (fold(parts[2]) for parts in found if parts)


def _parts(token: str, text: str, shortest: int) -> re.Match[str] | None:
    """Return what stands before a word, the word, and what stands after it; None for what is left alone."""
    parts = _WORD.fullmatch(token)
    return parts if parts and is_correctable(parts[2], text, shortest) else None


def is_correctable(token: str, text: str, shortest: int) -> bool:
    """Tell whether a token is a word: not short, not code, not an acronym in a text that is not all capitals."""
    acronym = token.isupper() and not text.isupper()
    word = token[0].isascii() and not has_cjk(token) and not is_identifier(token)
    return len(token) >= shortest and word and not acronym and fold(token) not in STOP_WORDS


def correction(word: str, tools: Tools) -> str | None:
    """Return what a word should be: nothing where a text holds it, or where headings, front matter or stemming find it rightly."""
    if tools.snapshot.keyword.frequency(word):
        return None
    keyword = tools.snapshot.keyword
    found = closest(word, keyword.words(), tools.settings.correct.two_edits_from, keyword.frequency)
    if found is None or not _found_by(word, _ANYWHERE, tools):
        return found
    # stemming forgives some mistakes (independeent), an embedding model does not; another ending is none
    hits = _found_by(word, _BODY, tools)
    return found if hits and found[-1] == word[-1] and hits == _found_by(found, _BODY, tools) else None


def closest(word: str, lexicon: Mapping[str, int], two_edits_from: int, frequency: Callable[[str], int] | None = None) -> str | None:
    """Return the nearest word by optimal string alignment (Damerau 1964), then first letter, frequency and alphabet; else two words.

    A lexicon may count what was deleted, too: `frequency` says how many chunks hold a word now, and is asked for the nearest alone.
    """
    frequency = frequency or (lambda known: lexicon.get(known, 0))
    limit = 2 if len(word) >= two_edits_from else 1
    near = [known for known in lexicon if -limit <= len(known) - len(word) <= limit]
    if len(word) < _FIRST_LETTER_UNSURE:
        near = [known for known in near if known[0] == word[0]]
    # Imported here: only for a word that no text holds.
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    found = extract(word, near, scorer=OSA.distance, processor=None, score_cutoff=limit, limit=None)
    ranked = sorted((int(distance), known[0] != word[0], known) for known, distance, _ in found)
    for (distance, _), equals in groupby(ranked, key=lambda each: each[:2]):
        held = [(-count, known) for *_, known in equals if (count := frequency(known))]
        if held:
            _, best = min(held)
            return None if distance == _DERIVED and word.startswith(best) else best
    return _taken_apart(word, lexicon, frequency)


def _taken_apart(word: str, lexicon: Mapping[str, int], frequency: Callable[[str], int]) -> str | None:
    cuts = ((word[:at], word[at:]) for at in range(_HALF, len(word) - _HALF + 1))
    known = ((left, right) for left, right in cuts if min(lexicon.get(left, 0), lexicon.get(right, 0)) >= _FREQUENT)
    counted = ((min(frequency(left), frequency(right)), f"{left} {right}") for left, right in known)
    held, best = max(counted, key=lambda pair: (pair[0], pair[1]), default=(0, ""))
    return best if held >= _FREQUENT else None


def _found_by(word: str, weights: KeywordWeights, tools: Tools) -> tuple[tuple[ChunkId, float], ...]:
    return tuple((hit.chunk, hit.score) for hit in tools.snapshot.keyword.search([Term(word)], weights, _COMPARED).hits)
