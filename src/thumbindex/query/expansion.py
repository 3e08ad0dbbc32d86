"""The stages that add terms to a query: other forms of its words, and related terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from thumbindex.model import Abbreviation, Passage, Term
from thumbindex.ports import Embedder, KeywordIndex, Matrix, inner_products
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import OtherForm, Search, Tools
from thumbindex.query.understand import QUOTED, is_identifier
from thumbindex.settings import ExpandSettings
from thumbindex.text import STOP_WORDS, form_key, strip_markup, words

_CODE = re.compile(r"`[^`]*`|\[\[[^\[\]]*\]\]")
_BREAK = re.compile(r"[|,;:!?()\[\]{}<>/\n]|\.(?=\s|$)")

_OTHER_FORM_WEIGHT = 0.25
"""Weight of another form against the query's own."""

_MAX_COMPOUND_LETTERS = 60
"""Maximum letters of a word that is split: the time grows with their square."""

_MIN_PART_LETTERS = 3
"""Minimum letters of each half of a compound."""

_MAX_FORM_WORDS = 8
"""Maximum words of a form."""

_MAX_QUERY_WORDS = 40
"""Maximum words of a query that are expanded."""


def synonyms(search: Search, tools: Tools) -> Search:
    """Add other forms of the query's words, at a lower weight: abbreviations and compounds."""
    runs = list(word_runs(search.text))
    found = abbreviation_forms(runs, tools.snapshot.catalog.abbreviations_with)
    found += split_compounds(runs, tools.snapshot.keyword)
    terms = tuple(_add_forms(term, found) for term in search.terms)
    identifiers = tuple(
        _add_forms(term, [each for each in found if " " not in each.form])
        for term in search.identifiers
    )
    added = {other.text for term in (*terms, *identifiers) for other in term.forms}
    # a stop word has no other form: "it" does not mean IT
    forms = tuple(each for each in found if each.form in added)
    if not forms:
        return search
    return replace(
        search,
        terms=terms,
        identifiers=identifiers,
        embedding_text=spell_out_abbreviations(search.text, forms, tools.embedder),
        other_forms=forms,
    )


def word_runs(text: str) -> Iterator[list[str]]:
    """Yield runs of folded words, separated by quoted phrases, code and punctuation."""
    plain = _CODE.sub(" | ", QUOTED.sub(" | ", text))
    parts = (
        "|" if is_identifier(token.strip(".,;:!?")) else token
        for token in plain.split()[:_MAX_QUERY_WORDS]
    )
    yield from (run for part in _BREAK.split(" ".join(parts)) if (run := words(part)))


# ------------------------------------------------------------------ abbreviations


def abbreviation_forms(
    runs: Sequence[Sequence[str]],
    defined: Callable[[Collection[str]], Mapping[Abbreviation, int]],
) -> list[OtherForm]:
    """Return the other forms of abbreviations in a query, as most documents define them.

    `defined` returns abbreviations by their short forms and the keys of their long ones.
    """
    keys = {gram: form_key(gram) for run in runs for gram in _ngrams(run)}
    known = defined({*keys, *keys.values()})
    written: dict[str, str] = {}  # of spellings of one long form the most frequent
    for each in sorted(known, key=lambda each: (-known[each], each)):
        written.setdefault(form_key(each.long), each.long)
    found = []
    for gram, key in sorted(keys.items()):
        votes: Counter[str] = Counter()
        for each, count in known.items():
            if each.short in (gram, key):
                votes[written[form_key(each.long)]] += count
            elif form_key(each.long) == key:
                votes[each.short] += count
        other = _majority(votes)
        if other and other not in keys:
            found.append(OtherForm(gram, other))
    return found


def _ngrams(run: Sequence[str]) -> Iterator[str]:
    """Yield the n-grams of a run."""
    for at in range(len(run)):
        for end in range(at + 1, min(at + _MAX_FORM_WORDS, len(run)) + 1):
            yield " ".join(run[at:end])


def _majority(votes: Counter[str]) -> str | None:
    """Return the form with most votes; None on a tie or without votes."""
    first, second = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    return first[0] if first[1] > second[1] else None


def spell_out_abbreviations(
    text: str, found: Sequence[OtherForm], embedder: Embedder | None
) -> str:
    """Return a text with the long forms of abbreviations unknown to the model; empty if there
    are none.
    """
    short = (each for each in found if " " not in each.term and len(each.form) > len(each.term))
    added = [each.form for each in short if embedder is not None and not embedder.knows(each.term)]
    return f"{text} ({', '.join(added)})" if added else ""


def split_compounds(runs: Sequence[Sequence[str]], keyword: KeywordIndex) -> Iterator[OtherForm]:
    """Yield unknown words that notes write as two: dropdown, drop-down."""
    for word in dict.fromkeys(word for run in runs for word in run):
        if len(word) <= _MAX_COMPOUND_LETTERS and not keyword.chunks_with_all_words(
            word, KEYWORD_FIELDS
        ):
            cuts = ((word[:at], word[at:]) for at in range(_MIN_PART_LETTERS, len(word)))
            halves = (
                f"{left} {right}"
                for left, right in cuts
                if _is_compound_part(left) and _is_compound_part(right)
            )
            if found := next(filter(keyword.phrase_frequency, halves), None):
                yield OtherForm(word, found)


def _is_compound_part(word: str) -> bool:
    """Return whether a word may be a half of a compound."""
    return len(word) >= _MIN_PART_LETTERS and word.isalpha() and word not in STOP_WORDS


# ------------------------------------------------------------------ what becomes of it


def _add_forms(term: Term, found: Sequence[OtherForm]) -> Term:
    """Return a term with its other forms, and those of a phrase that it is a word of."""
    others = [each.form for each in found if not term.phrase and term.text in each.term.split()]
    forms = tuple(Term(other, _OTHER_FORM_WEIGHT, " " in other) for other in dict.fromkeys(others))
    return replace(term, forms=forms) if forms else term


def corrected_query(search: Search, passages: Sequence[Passage] | None = None) -> str | None:
    """Return the searched text if it differs from the query, with the other forms that matched one
    of `passages`, or all forms.
    """
    told = [
        other_form.form
        for other_form in search.other_forms
        if passages is None or any(_matched_by_form(other_form, passage) for passage in passages)
    ]
    if not told:
        return search.text if search.text != search.query.text else None
    return f"{search.text} (also: {', '.join(dict.fromkeys(told))})"


def _matched_by_form(each: OtherForm, passage: Passage) -> bool:
    """Return whether a passage holds the other form alone."""
    text = " ".join(
        words(strip_markup("\n".join((passage.title, *passage.heading_path, passage.text))))
    )
    return f" {each.form}" in f" {text}" and f" {each.term}" not in f" {text}"


def expand(search: Search, tools: Tools) -> Search:
    """Add the nearest terms of the corpus's vocabulary, at a lower weight."""
    if tools.snapshot.vocabulary is None:
        return search
    asked = [term.text for term in search.terms if not term.phrase]
    added = nearest_terms(asked, *tools.snapshot.vocabulary, tools.settings.expand)
    return replace(search, terms=(*search.terms, *added))


def nearest_terms(
    asked: Sequence[str], vocabulary: Sequence[str], matrix: Matrix, settings: ExpandSettings
) -> tuple[Term, ...]:
    """Return the nearest new terms of each word by cosine; ties in the vocabulary's order."""
    rows = {term: row for row, term in enumerate(vocabulary)}
    found = dict.fromkeys(asked)
    for row in [rows[word] for word in asked if word in rows]:
        cosines = inner_products(matrix, matrix[row])
        order = np.argsort(-cosines, kind="stable")
        near = [vocabulary[n] for n in order.tolist() if cosines[n] >= settings.similarity]
        fresh = [term for term in near if term not in found]
        found.update(dict.fromkeys(fresh[: settings.nearest]))
    added = list(found)[len(set(asked)) :]
    return tuple(Term(term, settings.weight) for term in added)
