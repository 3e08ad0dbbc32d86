"""Stage equate: what the corpus calls by another form as well counts as what was asked: SSO as single sign-on, side bar as sidebar."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from thumbindex.model import Abbreviation, Passage, Term
from thumbindex.ports import Embedder, KeywordIndex
from thumbindex.query.search_keyword import FIELDS
from thumbindex.query.stage import Equal, Search, Tools, once_a_catalog
from thumbindex.query.terms import QUOTED, is_identifier, stops_of
from thumbindex.settings import EquateSettings
from thumbindex.text import STOP_WORDS, fold, form_key, visible, words

_CODE = re.compile(r"`[^`]*`|\[\[[^\[\]]*\]\]")
_BREAK = re.compile(r"[|,;:!?()\[\]{}<>/\n]|\.(?=\s|$)")
_PLURAL = re.compile(r"\b([A-Z\d]{2,})s\b")

_LONGEST = 8
"""Words of a form that is looked for in a query."""

_MOST = 40
"""Words of a query that are looked at: a text of more is no question."""


def equate(search: Search, tools: Tools) -> Search:
    """Let each word be found by its other form too, at a lower weight; the query's text stays as it was asked."""
    settings, runs = tools.settings.equate, list(plain_runs(search.text))
    found: list[Equal] = []
    if settings.abbreviations:
        catalog = tools.snapshot.catalog
        found += other_forms(search.text, runs, _forms(catalog))
    if settings.compounds:
        keyword = tools.snapshot.keyword
        stops = stops_of(search.text, keyword.languages)
        found += [*joined(runs, keyword, settings, stops), *split(runs, keyword, settings, stops)]
    terms = tuple(with_others(term, found, settings.weight) for term in search.terms)
    identifiers = tuple(with_others(term, [each for each in found if " " not in each.other], settings.weight) for term in search.identifiers)
    counted = {other.text for term in (*terms, *identifiers) for other in term.others}
    # Of a word that is not searched for, as "it" is not where IT is defined, no other form counts.
    equated = tuple(each for each in found if each.other in counted)
    if not equated:
        return search
    return replace(search, terms=terms, identifiers=identifiers, meaning=spelled_out(search.text, equated, tools.embedder), equated=equated)


def plain_runs(text: str) -> Iterator[list[str]]:
    """Yield the words that stand together, folded; quoted phrases, code and punctuation part them."""
    plain = _CODE.sub(" | ", QUOTED.sub(" | ", text))
    tokens = ("|" if is_identifier(token.strip(".,;:!?")) else token for token in plain.split()[:_MOST])
    yield from (run for part in _BREAK.split(" ".join(tokens)) if (run := words(part)))


# ------------------------------------------------------------------ abbreviations


class Forms(NamedTuple):
    """Every form that documents define, short ones as they are and long ones by their keys, with how many give each other form for it."""

    short: Mapping[str, Counter[str]]
    long: Mapping[str, Counter[str]]


def both_ways(defined: Mapping[Abbreviation, int]) -> Forms:
    """Return the forms of some abbreviations; of long ones that differ in their writing alone the most frequent stands for all."""
    short: dict[str, Counter[str]] = {}
    long: dict[str, Counter[str]] = {}
    written: dict[str, str] = {}
    for each, count in sorted(defined.items(), key=lambda item: (-item[1], item[0])):
        key = form_key(each.long)
        short.setdefault(each.short, Counter())[written.setdefault(key, each.long)] += count
        long.setdefault(key, Counter())[each.short] += count
    return Forms(short, long)


def other_forms(text: str, runs: Sequence[Sequence[str]], forms: Forms) -> list[Equal]:
    """Return the other form of each one in a query: what most documents give; none where as many give another one."""
    grams = {" ".join(run[at:end]) for run in runs for at in range(len(run)) for end in range(at + 1, min(at + _LONGEST, len(run)) + 1)}
    plurals = {f"{fold(short)}s": fold(short) for short in _PLURAL.findall(text)}
    found = [(gram, forms.short.get(gram) or forms.short.get(plurals.get(gram, "")) or forms.long.get(form_key(gram))) for gram in sorted(grams)]
    chosen = [(asked, clear_winner(votes)) for asked, votes in found if votes]
    return [Equal(asked, other) for asked, other in chosen if other and other not in grams]


def clear_winner(votes: Counter[str]) -> str | None:
    """Return what has most votes; None where something else has as many."""
    (best, most), *rest = votes.most_common(2)
    return None if rest and rest[0][1] == most else best


def spelled_out(text: str, found: Sequence[Equal], embedder: Embedder | None) -> str:
    """Return a text with the long form of each short one that the model does not know; empty where it knows all."""
    short = (each for each in found if " " not in each.asked and len(each.other) > len(each.asked))
    added = [each.other for each in short if embedder is not None and not embedder.knows(each.asked)]
    return f"{text} ({', '.join(added)})" if added else ""


# ------------------------------------------------------------------ compounds


def joined(runs: Sequence[Sequence[str]], keyword: KeywordIndex, settings: EquateSettings, stops: Mapping[str, float]) -> Iterator[Equal]:
    """Yield neighbors that texts write as one word at least as often: side bar, sidebar; rarer ones are names in code, as electronApp is."""
    for left, right in dict.fromkeys(pair for run in runs for pair in pairwise(run)):
        if is_half(left, settings.half, stops) and is_half(right, settings.half, stops):
            often = keyword.frequency(left + right)
            if often and keyword.adjacent(f"{left} {right}") <= often:
                yield Equal(f"{left} {right}", left + right)


def split(runs: Sequence[Sequence[str]], keyword: KeywordIndex, settings: EquateSettings, stops: Mapping[str, float]) -> Iterator[Equal]:
    """Yield words that no text holds and that some write as two; `correct` has left those alone that the model knows: dropdown, drop-down."""
    for word in dict.fromkeys(word for run in runs for word in run):
        if len(word) >= 2 * settings.half and word.isalpha() and not keyword.frequency(word) and not keyword.holding(word, FIELDS).any():
            cuts = ((word[:at], word[at:]) for at in range(settings.half, len(word) - settings.half + 1))
            halves = (f"{left} {right}" for left, right in cuts if is_half(left, settings.half, stops) and is_half(right, settings.half, stops))
            known = (both for both in halves if all(map(keyword.frequency, both.split())))
            found = next((both for both in known if keyword.adjacent(both)), None)
            if found:
                yield Equal(word, found)


def is_half(word: str, least: int, stops: Mapping[str, float]) -> bool:
    """Tell whether a word may be a half of a compound; `stops` are the query's own function words, in its language."""
    return len(word) >= least and word.isalpha() and word not in STOP_WORDS and bool(stops.get(word, 1.0))


# ------------------------------------------------------------------ what becomes of it


def with_others(term: Term, found: Sequence[Equal], weight: float) -> Term:
    """Return a term with the forms that count as it: those of itself, and of the phrase that it is a word of."""
    others = [each.other for each in found if not term.phrase and term.text in each.asked.split()]
    return replace(term, others=tuple(Term(other, weight, " " in other) for other in dict.fromkeys(others))) if others else term


def as_searched(search: Search, passages: Sequence[Passage] | None = None) -> str | None:
    """Return what was searched for where that is not what was asked; of other forms those that brought one of some passages, or all."""
    told = [each.other for each in search.equated if passages is None or any(_brought(each, passage) for passage in passages)]
    if not told:
        return search.text if search.text != search.query.text else None
    return f"{search.text} (also: {', '.join(dict.fromkeys(told))})"


def _brought(each: Equal, passage: Passage) -> bool:
    """Tell whether a passage has the other form and not the one that was asked for."""
    text = " ".join(words(visible("\n".join((passage.title, *passage.heading_path, passage.text)))))
    return f" {each.other}" in f" {text}" and f" {each.asked}" not in f" {text}"


_forms = once_a_catalog(lambda catalog: both_ways(catalog.abbreviations))
