"""The stages that add terms to a query: other forms of the query's words, and related terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from thumbindex.language import FUNCTION_WORDS
from thumbindex.model import Abbreviation, Passage, Term
from thumbindex.ports import Embedder, KeywordIndex, Matrix, inner_products
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.spellings import apostrophe_spellings, code_spellings, found_codes
from thumbindex.query.stage import OtherForm, Search, Tools
from thumbindex.query.understand import QUOTED, is_identifier
from thumbindex.settings import ExpandSettings
from thumbindex.text import fold, form_key, word_spans, words
from thumbindex.visible_text import strip_markup

_CODE = re.compile(r"`[^`]*`|\[\[[^\[\]]*\]\]")
_BREAK = re.compile(r"[|,;:!?()\[\]{}<>/\n]|\.(?=\s|$)")

_OTHER_FORM_WEIGHT = 0.25
"""Weight of another form of a word, relative to the form in the query."""

_OTHER_SPELLING_WEIGHT = 0.8
"""Weight of another form if the notes have the word as typed, too."""

_MAX_COMPOUND_LETTERS = 60
"""Longer words are not split, because the time grows with the square of the length."""

_HYPHENATED = re.compile(r"(?<![\w-])[^\W\d_]+-[^\W\d_]+(?![\w-])")
"""A word of two parts with a hyphen."""

_MIN_PART_LETTERS = 3
"""Minimum letters of each part of a compound that is split."""

_MAX_FORM_WORDS = 8
"""Terms with up to this many words are looked up as abbreviations or long forms."""

_MAX_QUERY_WORDS = 40
"""Only this many words of a query, from its beginning, get other forms."""


def synonyms(search: Search, tools: Tools) -> Search:
    """Add abbreviations, their long forms and other spellings, at a lower weight."""
    runs, keyword = list(word_runs(search.text)), tools.snapshot.keyword
    candidates = abbreviation_forms(runs, tools.snapshot.catalog.abbreviations_with)
    unquoted = QUOTED.sub(" | ", search.text)
    plain = _CODE.sub(" | ", unquoted)
    candidates += split_compounds(plain, runs, keyword)
    candidates += join_compounds(plain, keyword)
    candidates += (
        OtherForm(word, spelling)
        for word in dict.fromkeys(word for run in runs for word in run)
        for spelling in apostrophe_spellings(word, keyword)
    )
    candidates += code_spellings(unquoted, keyword)
    codes = found_codes(unquoted, keyword)
    parts = {part for code_parts in codes.values() for part in code_parts}
    respelled = {
        form
        for form in candidates
        if form.form.replace(" ", "") == form.term and keyword.chunk_frequency(form.term)
    }
    terms = tuple(
        _add_forms(term, candidates, respelled)
        for term in search.terms
        if term.phrase or term.text not in parts
    )
    identifiers = (
        *(
            _add_forms(term, [form for form in candidates if " " not in form.form], respelled)
            for term in search.identifiers
            if term.text not in parts
        ),
        *(Term(code, tools.settings.search_code.whole) for code in codes),
    )
    added = {other.text for term in (*terms, *identifiers) for other in term.forms}
    # a stop word has no other form: "it" does not mean IT
    forms = tuple(candidate for candidate in candidates if candidate.form in added)
    if not forms and not codes:
        return search
    longer = [form for form in forms if form not in respelled]
    return replace(
        search,
        terms=terms,
        identifiers=identifiers,
        embedding_text=spell_out_abbreviations(search.text, longer, tools.embedder),
        other_forms=forms,
    )


def word_runs(text: str) -> Iterator[list[str]]:
    """Yield the runs of folded words between quoted phrases, code and punctuation."""
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
    """Return the long form of each abbreviation in `runs`, and the abbreviation of each long form.

    If documents define an abbreviation differently, the definition in most documents is used.
    `defined` takes short forms and keys of long forms. It returns the matching abbreviations, and
    the number of documents that define each of them.
    """
    keys = {gram: form_key(gram) for run in runs for gram in _ngrams(run)}
    counts = defined({*keys, *keys.values()})
    spellings: dict[str, str] = {}  # key of a long form -> its most frequent spelling
    for abbreviation in sorted(counts, key=lambda each: (-counts[each], each)):
        spellings.setdefault(form_key(abbreviation.long), abbreviation.long)
    forms = []
    for gram, key in sorted(keys.items()):
        votes: Counter[str] = Counter()
        for abbreviation, count in counts.items():
            if abbreviation.short in (gram, key):
                votes[spellings[form_key(abbreviation.long)]] += count
            elif form_key(abbreviation.long) == key:
                votes[abbreviation.short] += count
        other = _majority(votes)
        if other and other not in keys:
            forms.append(OtherForm(gram, other))
    return forms


def _ngrams(run: Sequence[str]) -> Iterator[str]:
    for at in range(len(run)):
        for end in range(at + 1, min(at + _MAX_FORM_WORDS, len(run)) + 1):
            yield " ".join(run[at:end])


def _majority(votes: Counter[str]) -> str | None:
    """Return the form with the most votes, or None if there is a tie or no vote."""
    first, second = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    return first[0] if first[1] > second[1] else None


def spell_out_abbreviations(
    text: str, forms: Sequence[OtherForm], embedder: Embedder | None
) -> str:
    """Append to `text` the long forms of abbreviations that are not in the model's vocabulary.

    Return "" if there are no such long forms.
    """
    short = (form for form in forms if " " not in form.term and len(form.form) > len(form.term))
    added = [form.form for form in short if embedder is not None and not embedder.knows(form.term)]
    return f"{text} ({', '.join(added)})" if added else ""


def split_compounds(
    text: str, runs: Sequence[Sequence[str]], keyword: KeywordIndex
) -> Iterator[OtherForm]:
    """Yield compounds that the notes write with a hyphen, or only as two words.

    `shebang` gives "she bang" if a note has "she-bang", and `dropdown` gives "drop down". Parts of
    a word with a hyphen are split only if no note has them.
    """
    hyphenated = set(words(" ".join(token for token in text.split() if "-" in token)))
    for word in dict.fromkeys(word for run in runs for word in run):
        if not word.isalpha() or len(word) > _MAX_COMPOUND_LETTERS:
            continue
        cuts = [(word[:at], word[at:]) for at in range(1, len(word))]
        cuts = [cut for cut in cuts if FUNCTION_WORDS.isdisjoint(cut)]
        halves = None
        if word not in hyphenated:
            halves = next((cut for cut in cuts if _has_hyphen(cut, keyword)), None)
        if halves is None and not keyword.chunks_with_all_words(word, KEYWORD_FIELDS):
            apart = (cut for cut in cuts if min(map(len, cut)) >= _MIN_PART_LETTERS)
            halves = next((cut for cut in apart if keyword.phrase_frequency(" ".join(cut))), None)
        if halves:
            yield OtherForm(word, " ".join(halves))


def _has_hyphen(parts: Sequence[str], keyword: KeywordIndex) -> bool:
    """Return whether at least half of the chunks with one word after the other have a hyphen."""
    count = keyword.chunk_frequency("-".join(parts))
    return count > 0 and 2 * count >= keyword.phrase_frequency(" ".join(parts))


def join_compounds(text: str, keyword: KeywordIndex) -> Iterator[OtherForm]:
    """Yield compounds with a hyphen that the notes write as one word: "drop-down"."""
    for compound in dict.fromkeys(_HYPHENATED.findall(text)):
        parts = words(compound)
        joined = "".join(parts)
        if keyword.chunks_with_all_words(joined, KEYWORD_FIELDS):
            # search_keyword has the words, search_code the whole compound
            yield from (OtherForm(sign.join(parts), joined) for sign in " -")


# ------------------------------------------------------------------ adding terms


def _add_forms(term: Term, forms: Sequence[OtherForm], respelled: Collection[OtherForm]) -> Term:
    """Return a term with its other forms, and the other forms of longer terms that contain it.

    Forms in `respelled` weigh more.
    """
    others = {
        form.form: _OTHER_SPELLING_WEIGHT if form in respelled else _OTHER_FORM_WEIGHT
        for form in forms
        if not term.phrase and term.text in form.term.split()
    }
    terms = tuple(Term(other, weight, " " in other) for other, weight in others.items())
    return replace(term, forms=terms) if terms else term


def corrected_query(search: Search, passages: Sequence[Passage] | None = None) -> str | None:
    """Return the searched text with the added forms, or None if nothing was changed.

    If `passages` is given, forms that matched no passage are left out.
    """
    forms = [
        other_form.form
        for other_form in search.other_forms
        if passages is None or any(_matched_by_form(other_form, passage) for passage in passages)
    ]
    if not forms and search.text == search.query.text:
        return None
    also = f" (also: {', '.join(dict.fromkeys(forms))})" if forms else ""
    return _as_written(f"{search.text}{also}", set(words(search.query.text)), passages or ())


def _as_written(text: str, typed: Collection[str], passages: Sequence[Passage]) -> str:
    """Write the words of a text that were not typed as the passages do, with accents."""
    written: dict[str, str] = {}
    for passage in passages:
        for word, start, stop in word_spans(passage.text):
            written.setdefault(word, passage.text[start:stop].lower())
    for word, start, stop in reversed(list(word_spans(text))):
        if word not in typed and fold(written.get(word, "")) == word:
            text = text[:start] + written[word] + text[stop:]
    return text


def _matched_by_form(other_form: OtherForm, passage: Passage) -> bool:
    text = " ".join(
        words(strip_markup("\n".join((passage.title, *passage.heading_path, passage.text))))
    )
    return f" {other_form.form}" in f" {text}" and f" {other_form.term}" not in f" {text}"


def expand(search: Search, tools: Tools) -> Search:
    """Add the terms of the notes' vocabulary that are nearest to the query's words."""
    if tools.snapshot.vocabulary is None:
        return search
    query_words = [term.text for term in search.terms if not term.phrase]
    added = nearest_terms(query_words, *tools.snapshot.vocabulary, tools.settings.expand)
    return replace(search, terms=(*search.terms, *added))


def nearest_terms(
    query_words: Sequence[str], vocabulary: Sequence[str], matrix: Matrix, settings: ExpandSettings
) -> tuple[Term, ...]:
    """Return the terms that are nearest to each word of the query by cosine.

    Words of the query are excluded. Ties are in the order of `vocabulary`.
    """
    rows = {term: row for row, term in enumerate(vocabulary)}
    terms = dict.fromkeys(query_words)
    for row in [rows[word] for word in query_words if word in rows]:
        cosines = inner_products(matrix, matrix[row])
        order = np.argsort(-cosines, kind="stable")
        near = [vocabulary[n] for n in order.tolist() if cosines[n] >= settings.similarity]
        new = [term for term in near if term not in terms]
        terms.update(dict.fromkeys(new[: settings.nearest]))
    added = list(terms)[len(set(query_words)) :]
    return tuple(Term(term, settings.weight) for term in added)
