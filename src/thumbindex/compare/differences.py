"""Judge two similar texts: a different number, version, unit, name or negation makes them
distinct.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from thumbindex.compare.tokens import (
    DATE,
    FUNCTION,
    NEGATION,
    NEGATIONS,
    NUMBER,
    WORD,
    Token,
    TokenizedText,
    fence_language,
    tokenize,
    without_code,
)
from thumbindex.compare.trigrams import trigram_similarity
from thumbindex.language import language_of
from thumbindex.model import BlockKind, Chunk, PairJudgment
from thumbindex.settings import DuplicatesSettings
from thumbindex.text import STOP_WORDS, words

_NEARLY_EQUAL = 0.8
"""Minimum share of common words of texts that contradict each other."""

_VALUES = frozenset((NUMBER, DATE))
_PLAIN = frozenset((WORD, FUNCTION))


def chunk_difference(first: Chunk, second: Chunk) -> str | None:
    """Return why two chunks cannot be copies of each other, however similar; None if they can."""
    if first.kind is not second.kind:
        return f"{first.kind} against {second.kind}"
    if first.text == second.text and first.language == second.language:
        return None
    return language_difference(first, second) or text_difference(first.text, second.text)


def language_difference(first: Chunk, second: Chunk) -> str | None:
    """Return the two natural or programming languages of two chunks; None if they are one, or
    unknown.
    """
    if first.kind is BlockKind.CODE and second.kind is BlockKind.CODE:
        mine, yours = fence_language(first.language), fence_language(second.language)
    elif first.text == second.text:
        return None
    else:
        mine, yours = _language(first.text), _language(second.text)
    return f"{mine} against {yours}" if mine and yours and mine != yours else None


def text_difference(first: str, second: str) -> str | None:
    """Return the code, number, date, name, negation or word that differs between two Markdown
    texts; None if only one of them has additional words, and these are plain.

    In a language with unknown negations any word may be one.
    """
    if first == second:
        return None
    left, right = tokenize(first), tokenize(second)
    return (
        _code_difference(left, right)
        or _exact_token_difference(left, right)
        or _word_difference(left, right)
        or (_additional_words(left, right) if _has_unknown_negations(first, second) else None)
    )


def is_same_text(first: str, second: str) -> bool:
    """Return whether two Markdown texts have the same words: only markup, line breaks and
    typography differ.
    """
    if first == second:
        return True
    left, right = (tokenize(text) for text in (first, second))
    return (
        bool(left.tokens)
        and _token_texts(left.tokens) == _token_texts(right.tokens)
        and _code_difference(left, right) is None
    )


def is_same_wording(first: str, second: str) -> bool:
    """Return whether two texts differ in articles and suffixes alone; a spelling mistake may be
    another word (protected, projected).
    """
    return _token_texts(tokenize(first).stems) == _token_texts(tokenize(second).stems)


@lru_cache(maxsize=1024)
def contradiction(first: str, second: str) -> str:
    """Name the numbers, versions, dates and negations in which two texts differ that are otherwise
    nearly equal; empty where they do not contradict each other.
    """
    left, right = tokenize(first), tokenize(second)
    mine, yours = left.subjects, right.subjects
    shared, joined = (mine & yours).total(), (mine | yours).total()
    if not shared or shared < _NEARLY_EQUAL * joined or (mine - yours and yours - mine):
        return ""
    negations = NEGATIONS.get(_language(first) or _language(second) or "en", frozenset())
    matcher = SequenceMatcher(
        None, _token_texts(left.stems), _token_texts(right.stems), autojunk=False
    )
    found = dict.fromkeys(
        _value_contradiction(left.stems[a:b], right.stems[c:d], negations)
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    )
    return ", ".join(each for each in found if each)


def _value_contradiction(
    mine: Sequence[Token], yours: Sequence[Token], negations: frozenset[str]
) -> str | None:
    """Name the values that stand for each other in one replacement, or a negation that one text
    lacks; None for anything else.
    """
    values = [[token for sort, token in side if sort in _VALUES] for side in (mine, yours)]
    if all(values):
        return " against ".join(map(_quoted, values))
    denials = [
        [token for sort, token in side if sort == NEGATION and token in negations]
        for side in (mine, yours)
    ]
    is_denial = all(sort in (NEGATION, FUNCTION) for sort, _ in (*mine, *yours))
    if is_denial and bool(denials[0]) != bool(denials[1]):
        return " against ".join(map(_quoted, denials))
    return None


def _quoted(tokens: Sequence[str]) -> str:
    return f"`{' '.join(tokens)}`" if tokens else "nothing"


@lru_cache(maxsize=512)
def _language(text: str) -> str:
    return language_of(without_code(text))


def _has_unknown_negations(*texts: str) -> bool:
    """Return whether a text is in a language with unknown negations."""
    return any(language and language not in NEGATIONS for language in map(_language, texts))


def _token_texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token for _, token in tokens)


# ------------------------------------------------------------------ what must be equal


def _code_difference(left: TokenizedText, right: TokenizedText) -> str | None:
    """Say where code differs in more than its words; a text without markup for code is compared by
    its words.
    """
    if left.blocks and right.blocks:
        languages = zip(left.blocks, right.blocks, strict=False)
        if any(mine and yours and mine != yours for (mine, _), (yours, _) in languages):
            return "code in another language"
        if [code for _, code in left.blocks] != [code for _, code in right.blocks]:
            return "another code block"
    mine, yours = Counter(left.spans), Counter(right.spans)
    if mine - yours and yours - mine:
        return f"`{min(mine - yours)}` against `{min(yours - mine)}`"
    return None


def _exact_token_difference(left: TokenizedText, right: TokenizedText) -> str | None:
    """Return the first tokens that differ and are no plain words."""
    exact = {token for sort, token in (*left.tokens, *right.tokens) if sort not in _PLAIN}
    exact |= left.code | right.code
    mine, yours = ([token for _, token in each.tokens if token in exact] for each in (left, right))
    if mine == yours:
        return None
    matcher = SequenceMatcher(None, mine, yours, autojunk=False)
    _, a, b, c, d = next(opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal")
    return f"{_quoted(mine[a:b][:1])} against {_quoted(yours[c:d][:1])}"


def _word_difference(left: TokenizedText, right: TokenizedText) -> str | None:
    """Say which word of one text stands for which of the other, or that they stand in another order
    around something exact.
    """
    stems = [_token_texts(each.stems) for each in (left, right)]
    mine, yours = Counter(stems[0]), Counter(stems[1])
    if mine - yours and yours - mine:
        return f"`{min(mine - yours)}` against `{min(yours - mine)}`"
    is_plain = all(sort in _PLAIN for sort, _ in (*left.stems, *right.stems))
    if is_plain or _is_subsequence(*sorted(stems, key=len)):
        return None
    return "the same words in another order"


def _is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether a text contains all words of another, in order."""
    rest = iter(whole)
    return all(word in rest for word in part)


def _additional_words(left: TokenizedText, right: TokenizedText) -> str | None:
    """Say which words one text has and the other has not, or that they stand in another order."""
    mine, yours = _token_texts(left.tokens), _token_texts(right.tokens)
    if mine == yours:
        return None
    counts = Counter(mine), Counter(yours)
    more = (counts[0] - counts[1]) + (counts[1] - counts[0])
    told = " ".join(dict.fromkeys(token for token in (*mine, *yours) if token in more))
    return f"only one says `{told}`" if told else "the same words in another order"


# ------------------------------------------------------------------ judgment

_NEW_LINE = re.compile(r"\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)]|\n|[^\W\d][^:|\n]{0,30}:))")

_SHORT = 8
"""Texts with fewer words need their heading: "Optional, 30 by default." means another thing under
another one.
"""

_FORM = 6
"""Texts whose lines all have fewer words are forms ("Desk: 12", "Joined in 2019.")."""

_MIN_OVERLAP = 0.5
"""Minimum share of common words to compare two texts; others resemble each other in meaning or
headings only.
"""

_FEW = 12
"""Texts of at most so many words are always compared: there one word is a large share."""


def is_form(text: str) -> bool:
    """Return whether all lines, items and rows of a text are short, as in a form: its subject is on
    the page around it.
    """
    return all(_has_fewer_words(line, _FORM) for line in _NEW_LINE.split(text))


def _has_fewer_words(text: str, count: int) -> bool:
    return sum(word not in STOP_WORDS for word in words(text)) < count


def judge_pair(
    first: Chunk, second: Chunk, cosine: float | None, settings: DuplicatesSettings
) -> PairJudgment:
    """Judge two chunks by their texts, the cosine of their vectors (None where one has none) and
    the guards (spec/dedup.md, section 4).

    A vector stands for the headings as well, and for no more than the model's window: whole texts
    decide what is the same, and a copy under other headings is alike by its 3-grams where its
    cosine is not.
    """
    shared = 1.0 if first.text == second.text else _word_overlap(first.text, second.text)
    if shared < _MIN_OVERLAP and (cosine or 0.0) < settings.review_similarity:
        return PairJudgment("distinct", "not alike")
    languages = language_difference(first, second)
    if languages:
        return PairJudgment("distinct", f"another language: {languages}")
    if shared < _MIN_OVERLAP:
        return PairJudgment("grey", f"cosine {cosine:.2f}, in other words")
    headings = _heading_difference(first, second)
    if is_same_text(first.text, second.text):
        guard = _kind_difference(first, second) or headings
        if guard:
            return PairJudgment("grey", guard)
        return PairJudgment(
            "same", "equal text" if first.text == second.text else "equal but for markup"
        )
    found = _judge_alike(first, second, cosine or 0.0, settings)
    return PairJudgment("distinct", headings) if headings and found.zone == "grey" else found


def _judge_alike(
    first: Chunk, second: Chunk, cosine: float, settings: DuplicatesSettings
) -> PairJudgment:
    """Judge texts that have words in common and are not equal."""
    grams = trigram_similarity(first.text, second.text)
    alike = max(cosine, grams)
    if alike < settings.review_similarity:
        return PairJudgment("distinct", "not alike")
    how = f"cosine {cosine:.2f}" if cosine >= grams else f"3-gram similarity {grams:.2f}"
    guard = _kind_difference(first, second) or text_difference(first.text, second.text)
    if guard:
        differs = (
            ""
            if _have_unrelated_headings(first, second)
            else contradiction(first.text, second.text)
        )
        return PairJudgment("grey", f"{how}, but {guard}", differs)
    if is_same_wording(first.text, second.text):
        return PairJudgment(
            "same" if alike >= settings.merge_similarity else "grey", f"{how}, in the same words"
        )
    more = _additional_words(tokenize(first.text), tokenize(second.text))
    return PairJudgment("grey", f"{how}, but {more}")


def _kind_difference(first: Chunk, second: Chunk) -> str | None:
    return f"{first.kind} against {second.kind}" if first.kind is not second.kind else None


def _heading_difference(first: Chunk, second: Chunk) -> str | None:
    """Return the headings of two short texts if these name different things."""
    if not _has_fewer_words(first.text, _SHORT):
        return None
    mine, yours = (" > ".join(each.heading_path) for each in (first, second))
    if mine and yours and text_difference(mine, yours):
        return f"a short text under `{mine}` and under `{yours}`"
    return None


def _have_unrelated_headings(first: Chunk, second: Chunk) -> bool:
    """Return whether the headings of two chunks, titles aside, have no word in common."""
    if len(first.heading_path) < 2 or len(second.heading_path) < 2:
        return False
    mine, yours = set(words(first.heading_path[-1])), set(words(second.heading_path[-1]))
    return bool(mine and yours) and not mine & yours


def _word_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the words of two Markdown texts, without tokenizing them."""
    left, right = (set(words(unicodedata.normalize("NFC", text))) for text in (first, second))
    return len(left & right) / len(left | right) if min(len(left), len(right)) > _FEW else 1.0
