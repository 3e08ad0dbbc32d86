"""Judge whether two similar texts are duplicates, by the numbers, names and words that differ."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from thumbindex.compare.contradictions import contradiction
from thumbindex.compare.tokens import (
    FUNCTION,
    NEGATIONS,
    WORD,
    Token,
    TokenizedText,
    fence_language,
    language_of_text,
    quoted,
    tokenize,
)
from thumbindex.compare.trigrams import trigram_similarity
from thumbindex.model import BlockKind, Chunk, PairJudgment
from thumbindex.settings import DuplicatesSettings
from thumbindex.text import STOP_WORDS, words

_MAX_NAMED = 12
"""Maximum additional words that a reason names."""

_PLAIN = frozenset((WORD, FUNCTION))


def chunk_difference(first: Chunk, second: Chunk) -> str | None:
    """Return why two similar chunks are not copies of each other, or None."""
    if first.kind is not second.kind:
        return f"{first.kind} vs. {second.kind}"
    if first.text == second.text and first.language == second.language:
        return None
    return language_difference(first, second) or text_difference(first.text, second.text)


def language_difference(first: Chunk, second: Chunk) -> str | None:
    """Return the natural or programming languages of two chunks if both are known and differ."""
    if first.kind is BlockKind.CODE and second.kind is BlockKind.CODE:
        mine, yours = fence_language(first.language), fence_language(second.language)
    elif first.text == second.text:
        return None
    else:
        mine, yours = language_of_text(first.text), language_of_text(second.text)
    return f"{mine} vs. {yours}" if mine and yours and mine != yours else None


def text_difference(first: str, second: str) -> str | None:
    """Return the code, number, date, name, negation or word that differs between two texts.

    Additional plain words in one text count only if the language's negations are unknown.
    """
    if first == second:
        return None
    first_tokens, second_tokens = tokenize(first), tokenize(second)
    return (
        _code_difference(first_tokens, second_tokens)
        or _exact_token_difference(first_tokens, second_tokens)
        or _word_difference(first_tokens, second_tokens)
        or (
            _additional_words(first_tokens, second_tokens)
            if _has_unknown_negations(first, second)
            else None
        )
    )


def is_same_text(first: str, second: str) -> bool:
    """Return whether two texts differ only in markup, line breaks and typography."""
    if first == second:
        return True
    first_tokens, second_tokens = (tokenize(text) for text in (first, second))
    return (
        bool(first_tokens.tokens)
        and _token_texts(first_tokens.tokens) == _token_texts(second_tokens.tokens)
        and _code_difference(first_tokens, second_tokens) is None
    )


def is_same_wording(first: str, second: str) -> bool:
    """Return whether two texts differ only in articles and suffixes.

    Words with a similar spelling count as different (protected, projected).
    """
    return _token_texts(tokenize(first).stems) == _token_texts(tokenize(second).stems)


@lru_cache(maxsize=1024)
def difference(first: str, second: str) -> str:
    """Return words that differ between two versions of a text; empty if none matters."""
    if is_same_wording(first, second):
        return ""
    surplus = _additional_words(tokenize(first), tokenize(second))
    return text_difference(first, second) or surplus or ""


def _has_unknown_negations(*texts: str) -> bool:
    return any(language and language not in NEGATIONS for language in map(language_of_text, texts))


def _token_texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token for _, token in tokens)


# ------------------------------------------------------------------ differences


def _code_difference(first: TokenizedText, second: TokenizedText) -> str | None:
    """Return how the code blocks or spans of two texts differ, or None."""
    if first.blocks and second.blocks:
        languages = zip(first.blocks, second.blocks, strict=False)
        if any(mine and yours and mine != yours for (mine, _), (yours, _) in languages):
            return "code in different languages"
        if [code for _, code in first.blocks] != [code for _, code in second.blocks]:
            return "different code blocks"
    # spans that only one text has in addition are no difference
    mine, yours = Counter(first.spans), Counter(second.spans)
    if mine - yours and yours - mine:
        return f"`{min(mine - yours)}` vs. `{min(yours - mine)}`"
    return None


def _exact_token_difference(first: TokenizedText, second: TokenizedText) -> str | None:
    """Return the first difference between tokens that are not plain words."""
    exact = {token for kind, token in (*first.tokens, *second.tokens) if kind not in _PLAIN}
    exact |= first.code | second.code
    mine, yours = (
        [token for _, token in text.tokens if token in exact] for text in (first, second)
    )
    if mine == yours:
        return None
    matcher = SequenceMatcher(None, mine, yours, autojunk=False)
    _, a, b, c, d = next(opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal")
    return f"{quoted(mine[a:b][:1])} vs. {quoted(yours[c:d][:1])}"


def _word_difference(first: TokenizedText, second: TokenizedText) -> str | None:
    """Return a word from each text that the other lacks, or report a different order."""
    stems = [_token_texts(text.stems) for text in (first, second)]
    mine, yours = Counter(stems[0]), Counter(stems[1])
    if mine - yours and yours - mine:
        return f"`{min(mine - yours)}` vs. `{min(yours - mine)}`"
    # the order matters only if a text has numbers, names or other tokens besides plain words
    is_plain = all(kind in _PLAIN for kind, _ in (*first.stems, *second.stems))
    if is_plain or _is_subsequence(*sorted(stems, key=len)):
        return None
    return "the same words in a different order"


def _is_subsequence(part: Sequence[str], full_text: Sequence[str]) -> bool:
    remaining = iter(full_text)
    return all(word in remaining for word in part)


def _additional_words(first: TokenizedText, second: TokenizedText) -> str | None:
    """Return the words that only one text has. If there are none, report a different order."""
    mine, yours = _token_texts(first.tokens), _token_texts(second.tokens)
    if mine == yours:
        return None
    counts = Counter(mine), Counter(yours)
    surplus = (counts[0] - counts[1]) + (counts[1] - counts[0])
    extra = list(dict.fromkeys(token for token in (*mine, *yours) if token in surplus))
    if len(extra) > _MAX_NAMED:
        extra[_MAX_NAMED:] = ["…"]
    return f"only one contains {quoted(extra)}" if extra else "the same words in a different order"


# ------------------------------------------------------------------ judgment

_MIN_STANDALONE_WORDS = 8
"""Texts with fewer words, such as "Optional, 30 by default.", depend on their heading."""

_MIN_OVERLAP = 0.5
"""If two texts have a smaller fraction of words in common, only the cosine decides."""

_MAX_SHORT_WORDS = 12
"""If a text has at most this many distinct words, its wording is always compared.

In a short text, a single different word lowers the overlap too much.
"""


def _has_fewer_words(text: str, count: int) -> bool:
    return sum(word not in STOP_WORDS for word in words(text)) < count


def judge_pair(
    first: Chunk, second: Chunk, cosine: float | None, settings: DuplicatesSettings
) -> PairJudgment:
    """Judge whether two chunks are duplicates, by the texts and the cosine of the vectors.

    `cosine` is None if a chunk has no vector. The cosine alone does not suffice: a vector also
    depends on the headings, and covers only the beginning of a long text.
    """
    overlap = 1.0 if first.text == second.text else _word_overlap(first.text, second.text)
    if overlap < _MIN_OVERLAP and (cosine or 0.0) < settings.review_similarity:
        return PairJudgment("distinct", "not similar")
    languages = language_difference(first, second)
    if languages:
        return PairJudgment("distinct", f"different languages: {languages}")
    if overlap < _MIN_OVERLAP:
        return PairJudgment("grey", f"cosine {cosine:.2f}, different wording")
    headings = _heading_difference(first, second)
    if is_same_text(first.text, second.text):
        guard = _kind_difference(first, second) or headings
        if guard:
            return PairJudgment("grey", guard)
        return PairJudgment(
            "same", "identical text" if first.text == second.text else "identical except for markup"
        )
    judgment = _judge_unequal(first, second, cosine or 0.0, settings)
    return PairJudgment("distinct", headings) if headings and judgment.zone == "grey" else judgment


def _judge_unequal(
    first: Chunk, second: Chunk, cosine: float, settings: DuplicatesSettings
) -> PairJudgment:
    """Judge chunks whose texts are not identical but have words in common."""
    grams = trigram_similarity(first.text, second.text)
    similarity = max(cosine, grams)
    if similarity < settings.review_similarity:
        return PairJudgment("distinct", "not similar")
    measure = f"cosine {cosine:.2f}" if cosine >= grams else f"3-gram similarity {grams:.2f}"
    guard = _kind_difference(first, second) or text_difference(first.text, second.text)
    if guard:
        return PairJudgment("grey", f"{measure}, but {guard}", contradiction(first, second))
    if is_same_wording(first.text, second.text):
        return PairJudgment(
            "same" if similarity >= settings.merge_similarity else "grey",
            f"{measure}, same wording",
        )
    surplus = _additional_words(tokenize(first.text), tokenize(second.text))
    return PairJudgment("grey", f"{measure}, but {surplus}")


def _kind_difference(first: Chunk, second: Chunk) -> str | None:
    return f"{first.kind} vs. {second.kind}" if first.kind is not second.kind else None


def _heading_difference(first: Chunk, second: Chunk) -> str | None:
    """Return the headings of two short texts if `text_difference` tells the headings apart."""
    if not _has_fewer_words(first.text, _MIN_STANDALONE_WORDS):
        return None
    mine, yours = (" > ".join(chunk.heading_path) for chunk in (first, second))
    if mine and yours and text_difference(mine, yours):
        return f"short texts under different headings: `{mine}` and `{yours}`"
    return None


def _word_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the words of two Markdown texts; 1 if a text is short."""
    first_words, second_words = (
        set(words(unicodedata.normalize("NFC", text))) for text in (first, second)
    )
    return (
        len(first_words & second_words) / len(first_words | second_words)
        if min(len(first_words), len(second_words)) > _MAX_SHORT_WORDS
        else 1.0
    )
