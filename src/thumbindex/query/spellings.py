"""Spellings of a query's words in the notes: corrected, or with other apostrophes or separators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import combinations, groupby, pairwise

import numpy as np

from thumbindex.ports import KeywordIndex, Snapshot
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import OtherForm
from thumbindex.symbols import joined_codes
from thumbindex.text import STOP_WORDS, fold, has_cjk, words

_MIN_LETTERS, _MAX_LETTERS = 3, 30
"""Words with fewer or more letters get no other spelling."""

_MAX_LETTERS_TWO_APOSTROPHES = 12
"""Longer words get at most one apostrophe, because the spellings to look up are too many."""

_LETTER_BESIDE_DIGIT = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")

_MIN_TYPED_WITH_TYPO = 4
"""A typed word with fewer letters must begin a word without a typo."""

_MIN_LETTERS_SURE = 6
"""Shorter words are similar to many others, so their corrections need more support.

Only from this length may the first letter be corrected, if it is not swapped with the second.
"""

_NEEDED_SHARE = 0.4
"""The share of the other words, by idf, that must be in one chunk with a doubtful correction."""

_MAX_CONTEXT = 40
"""At most this many words of a query support corrections, because each is looked up."""

# ------------------------------------------------------------------ corrections


def find_corrections(
    unknown: Sequence[str], content: Sequence[str], names: Collection[str], snapshot: Snapshot
) -> dict[str, str]:
    """Return corrections of a query's unknown words that the rest of the query supports.

    `content` are all content words of the query, and `names` the words in names or code. A likely
    slip in a long word that is no name needs no support. Other corrections need some of the other
    words in one chunk with them, if there are others. In short words and names, only likely slips
    are corrected: `getItem` is not `setItem`, and `Sentry` is not `entry`.
    """
    likely, doubtful = dict[str, str](), set[str]()
    for word in unknown:
        other = find_correction(word, snapshot.keyword)
        is_long = len(word) >= _MIN_LETTERS_SURE and word not in names
        is_slip = other is not None and _is_slip(word, other)
        if other and (is_long or is_slip):
            likely[word] = other
            if not (is_long and is_slip):
                doubtful.add(word)
    context = {word: likely.get(word, word) for word in content[:_MAX_CONTEXT]}

    def is_supported(word: str) -> bool:
        others = {other for w, other in context.items() if w != word} - {likely[word]}
        is_sure = word not in doubtful or not others
        return is_sure or _shared_context(likely[word], others, snapshot) >= _NEEDED_SHARE

    return {word: other for word, other in likely.items() if is_supported(word)}


def _is_slip(word: str, correction: str) -> bool:
    """Return whether a word has letters swapped, doubled or left out, as typing mistakes mostly do.

    A missing last letter is more often another form, or another language: processo, processor.
    """
    return (
        (len(correction) == len(word) + 1 and not correction.startswith(word))
        or sorted(correction) == sorted(word)
        or _without_doubles(correction) == _without_doubles(word)
    )


def _without_doubles(word: str) -> str:
    return "".join(letter for letter, _ in groupby(word))


def _shared_context(word: str, others: Collection[str], snapshot: Snapshot) -> float:
    """Return how many of `others`, weighted by idf, a chunk with `word` has at most.

    1 is as many as any chunk has. 0 if the notes have none of them.
    """
    weights = np.zeros(len(snapshot.catalog))
    for other in sorted(others):
        if chunks := snapshot.keyword.chunks_with_all_words(other, KEYWORD_FIELDS):
            weights += math.log(1 + len(weights) / len(chunks)) * chunks.mask
    most = float(weights.max(initial=0.0))
    chunks = snapshot.keyword.chunks_with_all_words(word, KEYWORD_FIELDS)
    return float(weights[chunks.mask].max(initial=0.0)) / most if most else 0.0


def find_correction(word: str, keyword: KeywordIndex) -> str | None:
    """Return the correction of a word, or None.

    A word is not corrected if its stem is in a note, or if a note spells it with an apostrophe.
    """
    if keyword.chunks_with_all_words(word, KEYWORD_FIELDS) or apostrophe_spellings(word, keyword):
        return None
    return closest_word(word, keyword.lexicon, keyword.chunk_frequency)


def closest_word(
    word: str, lexicon: Callable[[range], Collection[str]], frequency: Callable[[str], int]
) -> str | None:
    """Return the best word that one edit makes (optimal string alignment, Damerau 1964), or None.

    Ties go to a likely slip, then to a word with an equal first letter, then to the most frequent
    word. `lexicon` returns the words of the given lengths, `frequency` the number of chunks with a
    word.
    """
    similar = list(lexicon(range(len(word) - 1, len(word) + 2)))
    if len(word) < _MIN_LETTERS_SURE:
        swapped = word[1::-1] + word[2:]
        similar = [other for other in similar if other[0] == word[0] or other == swapped]
    # Imported here: few queries need it.
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    matches = extract(
        word, similar, scorer=OSA.distance, processor=None, score_cutoff=1, limit=None
    )
    # the lexicon may contain words of deleted chunks, whose frequency is 0
    ranked = (
        (not _is_slip(word, other), other[0] != word[0], -count, other)
        for other, _, _ in matches
        if (count := frequency(other))
    )
    *_, best = min(ranked, default=(False, False, 0, None))
    return best


def words_begun_by(typed: str, vocabulary: Iterable[str]) -> frozenset[str]:
    """Return the words that begin with the typed letters, or with one typo in at least four."""
    from rapidfuzz.distance import OSA

    lengths = range(len(typed) - 1, len(typed) + 2) if len(typed) >= _MIN_TYPED_WITH_TYPO else ()
    return frozenset(
        word
        for word in vocabulary
        if word[0] == typed[0]
        and (
            word.startswith(typed)
            or any(OSA.distance(typed, word[:n], score_cutoff=1) <= 1 for n in lengths)
        )
    )


# ------------------------------------------------------------------ apostrophes and separators


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
