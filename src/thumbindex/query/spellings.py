"""Other spellings of a query's words in the notes: with and without apostrophes or separators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise

from thumbindex.ports import KeywordIndex
from thumbindex.query.stage import OtherForm
from thumbindex.symbols import joined_codes
from thumbindex.text import STOP_WORDS, fold, has_cjk, words

_MIN_LETTERS, _MAX_LETTERS = 3, 30
"""Words with fewer or more letters get no other spelling."""

_MAX_LETTERS_TWO_APOSTROPHES = 12
"""Longer words get at most one apostrophe, because the spellings to look up are too many."""

_LETTER_BESIDE_DIGIT = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


def apostrophe_spellings(word: str, keyword: KeywordIndex) -> list[str]:
    """Return the spellings of a word in the notes that differ only in apostrophes.

    `dont` gives don't, and `don't` gives dont. A word that the notes contain gets no other
    spelling, because `shell` is not she'll. But `cant` and `wont` are also can't and won't.
    """
    bare = word.replace("'", "")
    if not _MIN_LETTERS <= len(bare) <= _MAX_LETTERS or not bare.isalpha() or has_cjk(bare):
        return []
    negated = f"{bare[:-1]}'t" if bare.endswith("nt") else word
    groups = [[negated] if negated != word else [bare] if word.endswith("n't") else []]
    if not keyword.phrase_frequency(word):
        groups[0] += [bare, word.replace("'", " ")]
        groups += [_with_apostrophes(bare, 1)]
        groups += [_with_apostrophes(bare, 2)] if len(bare) <= _MAX_LETTERS_TWO_APOSTROPHES else []
    for group in groups:
        spellings = [
            spelling
            for spelling in dict.fromkeys(group)
            # words() removes a possessive
            if spelling != word
            and words(spelling) == spelling.split(" ")
            and keyword.phrase_frequency(spelling)
        ]
        if spellings:
            return spellings
    return []


def _with_apostrophes(word: str, count: int) -> list[str]:
    """Return all spellings of a word with this many apostrophes inside."""
    return [
        "'".join(word[start:end] for start, end in zip((0, *cuts), (*cuts, None), strict=True))
        for cuts in combinations(range(1, len(word)), count)
    ]


def found_codes(text: str, keyword: KeywordIndex) -> dict[str, frozenset[str]]:
    """Map each number or code in groups that the notes contain to its parts.

    `1,000` gives 1000, with the parts 1 and 000. The code is without separators.
    """
    return {
        code.joined: frozenset((*words(written), fold(written)))  # 1.250 is one identifier
        for code in joined_codes(text)
        if (written := text[code.start : code.end]) and keyword.chunk_frequency(code.joined)
    }


def code_spellings(text: str, keyword: KeywordIndex) -> Iterator[OtherForm]:
    """Yield the spellings of codes of letters and digits in the notes: 16 GB and 16GB."""
    text_words = words(text)
    for first, second in pairwise(text_words):
        is_code = first.isdigit() != second.isdigit() and STOP_WORDS.isdisjoint((first, second))
        if is_code and keyword.chunk_frequency(first + second):
            yield OtherForm(f"{first} {second}", first + second)
    for word in dict.fromkeys(text_words):
        apart = _LETTER_BESIDE_DIGIT.sub(" ", word)
        is_code = apart != word and _MIN_LETTERS <= len(word) <= _MAX_LETTERS
        if is_code and keyword.phrase_frequency(apart):
            yield OtherForm(word, apart)
