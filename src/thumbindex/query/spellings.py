"""Spellings of a query's words in the notes: corrected, or with other apostrophes or separators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
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

_MIN_LETTERS_SURE = 6
"""Shorter words are similar to many others, so their corrections need more support.

Only from this length may the first letter be corrected.
"""

_MIN_LETTERS_TWO_EDITS = 8
"""Minimum letters of a word that may be corrected by two edits."""

_SUFFIX_EDITS = 2
"""Corrections that only cut this many final letters are rejected: "strangers" to "strange"."""

_MAX_CONTEXT = 40
"""At most this many words of a query support corrections, because each is looked up."""

# ------------------------------------------------------------------ corrections


def find_corrections(
    unknown: Sequence[str], content: Sequence[str], names: Collection[str], snapshot: Snapshot
) -> dict[str, str]:
    """Return corrections of a query's unknown words that the rest of the query supports.

    `content` are all content words of the query, and `names` the words that may be names. A likely
    slip needs no support. The more doubtful a correction is, the more of the other words must be in
    one chunk with it. If there are no other words, only doubtful corrections are rejected.
    """
    closest = {w: other for w in unknown if (other := find_correction(w, snapshot.keyword))}
    doubts = {word: _doubt(word, other) + (word in names) for word, other in closest.items()}
    likely = {word: other for word, other in closest.items() if doubts[word] <= _LIKELY}
    context = {word: likely.get(word, word) for word in content[:_MAX_CONTEXT]}

    def is_supported(word: str) -> bool:
        others = {other for w, other in context.items() if w != word} - {closest[word]}
        needed = _NEEDED_SHARES[doubts[word]]
        if not needed or not others:
            return word in likely
        return _shared_context(closest[word], others, snapshot) >= needed

    return {
        word: other
        for word, other in closest.items()
        if doubts[word] < len(_NEEDED_SHARES) and is_supported(word)
    }


_NEEDED_SHARES = (0.0, 0.4, 1.0)
"""By doubt: the share of the other words, by idf, that must be in one chunk with a correction.

1 is as many as any chunk has. A correction with a higher doubt is rejected.
"""

_LIKELY = 1
"""Maximum doubt of a correction that supports others, and that is made if there are no others."""


def _doubt(word: str, correction: str) -> int:
    """Return 0 for a slip in a long word, and more for a word that may be another one."""
    # Imported here: few queries need it.
    from rapidfuzz.distance import OSA

    edits = int(OSA.distance(word, correction))
    is_short = len(word) < _MIN_LETTERS_SURE
    return edits - 1 + (not _is_slip(word, correction)) + is_short


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
    """Return the nearest word by optimal string alignment (Damerau 1964), or None.

    Ties go to a word with an equal first letter, then to a likely slip, then to the most frequent
    word. `lexicon` returns the words of the given lengths, `frequency` the number of chunks with a
    word.
    """
    limit = 2 if len(word) >= _MIN_LETTERS_TWO_EDITS else 1
    similar = list(lexicon(range(len(word) - limit, len(word) + limit + 1)))
    if len(word) < _MIN_LETTERS_SURE:
        similar = [other for other in similar if other[0] == word[0]]
    # Imported here: few queries need it.
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    matches = extract(
        word, similar, scorer=OSA.distance, processor=None, score_cutoff=limit, limit=None
    )
    # the lexicon may contain words of deleted chunks, whose frequency is 0
    ranked = (
        (int(distance), other[0] != word[0], not _is_slip(word, other), -count, other)
        for other, distance, _ in matches
        if (count := frequency(other))
    )
    distance, *_, best = min(ranked, default=(0, False, False, 0, ""))
    return None if distance == _SUFFIX_EDITS and word.startswith(best) else best or None


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
