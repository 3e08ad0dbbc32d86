"""Decide what two alike texts are to each other: a number, version, unit, name or negation that
differs keeps them apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import takewhile

from thumbindex.compare.likeness import similarity
from thumbindex.compare.tokens import (
    CODE,
    DATE,
    LANGUAGES,
    NAME,
    NEGATING,
    NEGATIONS,
    NUMBER,
    OTHER_WORDS,
    POLAR,
    READINGS,
    STATE,
    STATES,
    SYNONYMS,
    UNIT,
    WORD,
    Reading,
    fence_language,
    reading,
    without_code,
)
from thumbindex.language import FUNCTION_WORDS, language_of
from thumbindex.model import BlockKind, Chunk, Judgment
from thumbindex.settings import DuplicatesSettings
from thumbindex.text import STOP_WORDS, fold, has_cjk, looks_like_code, visible, words

_SPELLED = 8
"""The fewest letters of words in which a spelling mistake is seen: many shorter ones are one letter
from another word (upload, unload).
"""

STEMS = 20_000
"""Words whose stems are remembered: most words of a question's candidates were those of the last
one's.
"""

_ENDINGS = ("ing", "ed", "es", "ly", "s", "d", "e")

_ARTICLES = frozenset(("a", "an", "the"))

_LIKENESS = 0.65
"""The least share of tokens that texts have in common, in order, for a difference to be a
contradiction.
"""

_ROUNDING = 1e-9

_VALUES = frozenset((NUMBER, UNIT, DATE, STATE))

_STEM = 3
"""The fewest letters that forms of a word have in common, and the most that they have not."""

_SHORT_NEGATION = 4
"""Words with a negation that one text has more than the other: beyond so many they say something of
their own.
"""


def kept_apart(first: Chunk, second: Chunk) -> str | None:
    """Say why two chunks are not copies of each other whatever their similarity; None where nothing
    speaks against it.
    """
    if first.kind is not second.kind:
        return f"{first.kind} against {second.kind}"
    if first.text == second.text and first.language == second.language:
        return None
    return other_language(first, second) or differing(first.text, second.text)


def other_language(first: Chunk, second: Chunk) -> str | None:
    """Say in which languages two chunks are written, people's or code's; None where they are in
    one, or it is not known.
    """
    if first.kind is BlockKind.CODE and second.kind is BlockKind.CODE:
        mine, yours = fence_language(first.language), fence_language(second.language)
    elif first.text == second.text:
        return None
    else:
        mine, yours = _language(first.text), _language(second.text)
    return f"{mine} against {yours}" if mine and yours and mine != yours else None


def differing(first: str, second: str) -> str | None:
    """Say which number, version, unit, identifier, name, negation or word differs between two
    Markdown texts; None where none does.

    A text may have more words than the other, spell them in another way or use a synonym; that each
    has words of its own is a replaced subject: parallel passages ("notes are placed", "attachments
    are placed") are more alike than copies. In a language whose negations are not known any word
    may be one.
    """
    if first == second:
        return None
    left, right = reading(first), reading(second)
    found = (
        _marks_apart(left, right)
        or _code_apart(left, right)
        or _anchors_apart(left, right)
        or _replaced(left.content, right.content)
    )
    if not found and left.content != right.content and _unknown(first, second):
        found = only_in_one(first, second)
    # a negation that stands elsewhere denies something else
    return found or contradiction(first, second) or None


def equal(first: str, second: str) -> bool:
    """Tell whether two Markdown texts say the same in the same words: only markup, line breaks and
    typography differ.
    """
    if first == second:
        return True
    left, right = reading(first), reading(second)
    if (
        not left.tokens
        or len(left.tokens) != len(right.tokens)
        or (left.tables, left.anchors) != (right.tables, right.anchors)
    ):
        return False
    return all(map(_agree, _pairs(left), _pairs(right))) and _code_apart(left, right) is None


def same_wording(first: str, second: str) -> bool:
    """Tell whether two texts differ in no more than articles and endings; a spelling mistake may be
    another word (protected, projected).
    """
    mine, yours = (
        [each for each in _pairs(reading(text)) if each[1] not in _ARTICLES]
        for text in (first, second)
    )
    if len(mine) != len(yours):
        return False
    pairs = zip(mine, yours, strict=True)
    return all(
        a == b or (a[0] == b[0] == WORD and without_ending(a[1]) == without_ending(b[1]))
        for a, b in pairs
    )


def only_in_one(first: str, second: str) -> str:
    """Say which words one text has and the other has not, or that they stand in another order."""
    left, right = Counter(reading(first).folded), Counter(reading(second).folded)
    more = (left - right) + (right - left)
    told = " ".join(
        dict.fromkeys(
            token for token in reading(first).folded + reading(second).folded if token in more
        )
    )
    return f"only one says `{told}`" if told else "the same words in another order"


def contradiction(first: str, second: str) -> str:
    """Name the numbers, versions, dates and negations in which two near-duplicates contradict each
    other; empty where they do not.

    Texts that speak of other things (another identifier, name or subject) contradict each other in
    nothing, and nor do texts of which one has a sentence more.
    """
    left, right = reading(first), reading(second)
    if not _may_contradict(left, right) or not _are_like(_outline(first), _outline(second)):
        return ""
    negations = _negations(_language(first) or _language(second))
    denied = [sum(token in negations for token in each.folded) for each in (left, right)]
    matcher = SequenceMatcher(None, left.folded, right.folded, autojunk=False)
    found = []
    for operation, *ends in matcher.get_opcodes():
        if operation != "equal":
            if _other_subject(
                _cut(left, *ends[:2]), _cut(right, *ends[2:]), denied[0] != denied[1]
            ):
                return ""
            found += _disagreements(left, right, ends, negations)
    return ", ".join(dict.fromkeys(found))


def word_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the sets of words of two texts, 0 to 1: equal vectors do not
    make equal texts.
    """
    left, right = set(words(visible(first))), set(words(visible(second)))
    return len(left & right) / len(left | right) if left | right else 1.0


@lru_cache(maxsize=4096)
def is_variant(first: str, second: str) -> bool:
    """Tell whether two words are one with another ending, or one of some length with a spelling
    mistake.
    """
    if first[:1] != second[:1] or not first.isalpha() or not second.isalpha():
        return False
    if without_ending(first) == without_ending(second):
        return True
    if min(len(first), len(second)) < _SPELLED or has_cjk(first):  # there a letter is a word
        return False
    # Imported here: few questions come so far.
    from rapidfuzz.distance import OSA

    return OSA.distance(first, second) <= 1


@lru_cache(maxsize=STEMS)
def without_ending(word: str) -> str:
    """Return a word without its ending; a function word as it is."""
    ending = next(
        (each for each in _ENDINGS if word.endswith(each) and len(word) - len(each) > 2), ""
    )
    return word.removesuffix(ending) if word not in STOP_WORDS else word


def _are_synonyms(first: str, second: str) -> bool:
    """Tell whether one word may stand for another, whatever their endings."""
    return any(
        not SYNONYMS.get(each, frozenset()).isdisjoint((second, without_ending(second)))
        for each in (first, without_ending(first))
    )


@lru_cache(maxsize=512)
def _language(text: str) -> str:
    return language_of(without_code(text))


@cache
def _negations(language: str) -> frozenset[str]:
    """Return the words that deny in a language: those of all of them but for what is another word
    there.
    """
    return NEGATIONS - OTHER_WORDS.get(language, frozenset())


def _unknown(*texts: str) -> bool:
    """Tell whether a text is in a language whose negations are not known."""
    return any(language and language not in LANGUAGES for language in map(_language, texts))


# ------------------------------------------------------------------ what must be equal

_Token = tuple[str, str]
"""What a token is, and the token."""


def _marks_apart(left: Reading, right: Reading) -> str | None:
    """Say which marked tokens differ, the first ones."""
    if left.tables != right.tables:
        return "tables of another shape"
    wanted = {fold(token) for _, token in (*_marked(left), *_marked(right))} | _negated(left, right)
    mine, yours = (
        [token for token in _pairs(each) if fold(token[1]) in wanted] for each in (left, right)
    )
    at = next(
        (n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if not _agree(a, b)),
        min(len(mine), len(yours)),
    )
    if at == len(mine) == len(yours):
        return None
    more, less = (mine[at:], yours[at:]) if len(mine) >= len(yours) else (yours[at:], mine[at:])
    # a token that only one has, as `not`, stands against nothing
    if len(more) > len(less) and all(map(_agree, more[1:3], less)):
        more, less = more[:1], []
    told = more[:2], less[:2]
    return " against ".join(map(_quoted, told if len(mine) >= len(yours) else told[::-1]))


def _marked(each: Reading) -> list[_Token]:
    return [token for token in _pairs(each) if token[0] != WORD]


def _pairs(each: Reading) -> list[_Token]:
    return list(zip(each.sorts, each.tokens, strict=True))


def _agree(first: _Token, second: _Token) -> bool:
    """Tell whether tokens are the same: code to the letter, but a word that is code in one text
    only may have another case.
    """
    if CODE in (first[0], second[0]) and first[0] != second[0]:
        code = first[1] if first[0] == CODE else second[1]
        return first[1] == second[1] or (
            fold(first[1]) == fold(second[1]) and not looks_like_code(code)
        )
    return first[1] == second[1]


def _code_apart(left: Reading, right: Reading) -> str | None:
    """Say where code differs in more than its words; texts of which one has no markup for code are
    compared by their words.
    """
    if len(left.blocks) == len(right.blocks):
        if any(a and b and a != b for a, b in zip(left.languages, right.languages, strict=True)):
            return "code in another language"
        if left.blocks != right.blocks:
            return "another code block"
    if len(left.spans) == len(right.spans):
        return next(
            (
                f"`{a}` against `{b}`"
                for a, b in zip(left.spans, right.spans, strict=True)
                if a != b
            ),
            None,
        )
    return None


def _anchors_apart(left: Reading, right: Reading) -> str | None:
    """Say which place on another page only one text links to."""
    mine, yours = Counter(left.anchors), Counter(right.anchors)
    sides = [
        " ".join(f"`#{anchor}`" for anchor in side) or "nothing"
        for side in (mine - yours, yours - mine)
    ]
    return " against ".join(sides) if mine != yours else None


def _negated(left: Reading, right: Reading) -> set[str]:
    """Return the words of which one text has the opposite: supported, unsupported."""
    mine, yours = set(left.folded), set(right.folded)
    mine, yours = mine - yours, yours - mine
    words_of = {
        prefix + word: word for some in (mine, yours) for word in some for prefix in NEGATING
    }
    opposites = {
        word: words_of[word]
        for word in mine | yours
        if words_of.get(word) in (yours if word in mine else mine)
    }
    return {*opposites, *opposites.values()}


def _replaced(left: Counter[str], right: Counter[str]) -> str | None:
    """Say which word of one text stands for which of the other; None where only one has words of
    its own.
    """
    mine, yours = sorted(left - right), sorted(right - left)
    for word in list(mine):
        variant = next(
            (other for other in yours if is_variant(word, other) or _are_synonyms(word, other)),
            None,
        )
        if variant is not None:
            mine.remove(word)
            yours.remove(variant)
    return f"`{mine[0]}` against `{yours[0]}`" if mine and yours else None


# ------------------------------------------------------------------ what contradicts


def _may_contradict(left: Reading, right: Reading) -> bool:
    """Tell whether there is anything in two texts that could: values in both, or a word that turns
    a sentence round.

    Most near copies have none.
    """
    mine, yours = set(left.sorts), set(right.sorts)
    if (mine & _VALUES and yours & _VALUES) or not (mine | yours).isdisjoint((POLAR, STATE)):
        return True
    return not (left.opposites.isdisjoint(right.tokens) and right.opposites.isdisjoint(left.tokens))


@lru_cache(maxsize=READINGS)
def _outline(text: str) -> tuple[str, ...]:
    """Return the stems with one for all values, words that turn a sentence round left out: what
    texts share that contradict each other.
    """
    pairs = _pairs(reading(text))
    return tuple(
        "\0" if sort in _VALUES else without_ending(fold(token))
        for sort, token in pairs
        if sort != POLAR and token not in STOP_WORDS
    )


def _are_like(mine: Sequence[str], yours: Sequence[str]) -> bool:
    """Tell whether texts have enough in common, in order; what is in common at the most, which
    costs a tenth, rules out most.
    """
    if not mine and not yours:
        return True
    # Imported here: few questions come so far.
    from rapidfuzz.distance import Indel

    at_most = Indel.normalized_similarity(mine, yours, score_cutoff=_LIKENESS - _ROUNDING)
    return at_most > 0 and SequenceMatcher(None, mine, yours, autojunk=False).ratio() >= _LIKENESS


def _cut(each: Reading, start: int, end: int) -> list[_Token]:
    return _pairs(each)[start:end]


def _other_subject(mine: Sequence[_Token], yours: Sequence[_Token], one_denies: bool) -> bool:
    """Tell whether a replacement is of an identifier, a name or a subject; a negation may ask for
    another article or ending (`pas de`, `plików`).
    """
    if not mine or not yours:
        return False
    small = FUNCTION_WORDS if one_denies else STOP_WORDS

    def subjects_in(side: Sequence[_Token]) -> list[str]:
        return [t for s, t in side if s in (CODE, NAME) or (s == WORD and fold(t) not in small)]

    left, right = subjects_in(mine), subjects_in(yours)
    if one_denies:
        left, right = _not_inflected(left, right), _not_inflected(right, left)
    if not left or not right:
        return False
    replaced = _replaced(Counter(map(fold, left)), Counter(map(fold, right)))
    return replaced is not None and not _opposite(left, right)


def _not_inflected(side: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the words of which the other side has no inflected form."""
    return [word for word in side if not any(_inflected(word, other) for other in others)]


def _inflected(first: str, second: str) -> bool:
    """Tell whether two words may be one with different endings, in any language: `pliki` and
    `plików`.
    """
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )
    return (
        first.isalpha()
        and second.isalpha()
        and shared >= _STEM
        and max(len(first), len(second)) - shared <= _STEM
    )


def _opposite(left: Sequence[str], right: Sequence[str]) -> bool:
    return any(
        prefix + a == b or prefix + b == a for a in left for b in right for prefix in NEGATING
    )


def _disagreements(
    left: Reading, right: Reading, ends: Sequence[int], negations: Set[str]
) -> list[str]:
    """Name what contradicts in one replacement, removal or addition."""
    mine, yours = _cut(left, *ends[:2]), _cut(right, *ends[2:])
    values = [[token for token in side if token[0] in _VALUES] for side in (mine, yours)]
    if all(values):
        return [f"{_quoted(_whole(left, *ends[:2]))} against {_quoted(_whole(right, *ends[2:]))}"]
    polar = [[token for token in side if token[0] in (POLAR, STATE)] for side in (mine, yours)]
    denies = all(polar) or any(
        kind == STATE or token in negations for side in polar for kind, token in side
    )
    if all(polar) and _inflected(polar[0][0][1], polar[1][0][1]):
        return []
    if denies and max(len(mine), len(yours)) <= _SHORT_NEGATION:
        return [f"{_quoted(polar[0])} against {_quoted(polar[1])}"]
    if _opposite([token for _, token in mine], [token for _, token in yours]):
        return [f"{_quoted(mine)} against {_quoted(yours)}"]
    return []


def _whole(each: Reading, start: int, end: int) -> list[_Token]:
    """Return the values of a stretch, each number with its unit: the unit is the same where only
    the number differs.
    """
    while start and each.sorts[start] == UNIT:
        start -= 1
    if end < len(each.sorts) and each.sorts[end] == UNIT:
        end += 1
    return [token for token in _cut(each, start, end) if token[0] in _VALUES]


def _quoted(tokens: Sequence[_Token]) -> str:
    if not tokens:
        return "nothing"
    has_unit = len(tokens) > 1 and tokens[1][0] == UNIT
    is_whole = has_unit or tokens[0][0] in (NUMBER, DATE)
    shown = tokens if is_whole else tokens[:1]
    return f"`{' '.join(STATES.get(token, token) for _, token in shown)}`"


_PAIRS = 1024
"""Pairs of texts whose contradiction is remembered."""


@lru_cache(maxsize=_PAIRS)
def disagreement(first: str, second: str) -> str:
    """Name what one text says against the other, remembered for who asks again; empty where they do
    not disagree.
    """
    return contradiction(first, second)


def same_form(first: str, second: str) -> bool:
    """Tell whether two texts are one form filled in: lines with the same labels, or the same words
    around other values.
    """
    mine, yours = (tuple(fold(label) for label in _LABEL.findall(text)) for text in (first, second))
    return mine == yours if mine and yours else _are_like(_outline(first), _outline(second))


def leans(text: str) -> bool:
    """Tell whether a text leans on its page for what it speaks of: each of its lines, items and
    rows is short ("Desk: 12", "Joined in 2019.").
    """
    return all(
        sum(word not in STOP_WORDS for word in words(line)) < _LEANING
        for line in _NEW_LINE.split(text)
    )


_LABEL = re.compile(r"(?m)^[^\w\n]*([^\W\d][^:|\n]{0,30}?)[*_ \t]*[:|]")
_NEW_LINE = re.compile(r"\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)]|\n|[^\W\d][^:|\n]{0,30}:))")

_LEANING = 8
"""Texts with fewer words lean on their heading for what they speak of: "Optional, 30 by default."
says another thing under another one.
"""

_OVERLAP = 0.5
"""The least share of words in common of texts that are worth reading: the others are alike in
meaning or in their headings only.
"""

_FEW = 12
"""Texts of no more words are always read: there one word is a large share."""


def judge(
    first: Chunk, second: Chunk, cosine: float | None, settings: DuplicatesSettings
) -> Judgment:
    """Judge two chunks by their texts, the cosine of their vectors (None where one has none) and
    the guards (spec/dedup.md, section 4).

    A vector stands for the headings as well, and for no more than the model's window: whole texts
    decide what is the same, and a copy under other headings is alike by its 3-grams where its
    cosine is not.
    """
    shared = 1.0 if first.text == second.text else _shared(first.text, second.text)
    if shared < _OVERLAP and (cosine or 0.0) < settings.grey:
        return Judgment("distinct", "not alike")
    languages = other_language(first, second)
    if languages:
        return Judgment("distinct", f"another language: {languages}")
    if shared < _OVERLAP:
        return Judgment("grey", f"cosine {cosine:.2f}, in other words")
    leaning = _leaning(first, second)
    if equal(first.text, second.text):
        guard = _other_kind(first, second) or leaning
        if guard:
            return Judgment("grey", guard)
        return Judgment(
            "same", "equal text" if first.text == second.text else "equal but for markup"
        )
    found = _judge_alike(first, second, cosine or 0.0, settings)
    return Judgment("distinct", leaning) if leaning and found.zone == "grey" else found


def _judge_alike(
    first: Chunk, second: Chunk, cosine: float, settings: DuplicatesSettings
) -> Judgment:
    """Judge texts that have words in common and are not equal."""
    grams = similarity(first.text, second.text)
    alike = max(cosine, grams)
    if alike < settings.grey:
        return Judgment("distinct", "not alike")
    how = f"cosine {cosine:.2f}" if cosine >= grams else f"3-gram similarity {grams:.2f}"
    guard = _other_kind(first, second) or differing(first.text, second.text)
    if guard:
        return Judgment(
            "grey",
            f"{how}, but {guard}",
            "" if _other_headings(first, second) else contradiction(first.text, second.text),
        )
    if same_wording(first.text, second.text):
        return Judgment("same" if alike >= settings.same else "grey", f"{how}, in the same words")
    return Judgment("grey", f"{how}, but {only_in_one(first.text, second.text)}")


def _other_kind(first: Chunk, second: Chunk) -> str | None:
    return f"{first.kind} against {second.kind}" if first.kind is not second.kind else None


def _leaning(first: Chunk, second: Chunk) -> str | None:
    """Say under which headings two short texts stand, where these name other things."""
    if sum(word not in STOP_WORDS for word in words(first.text)) >= _LEANING:
        return None
    mine, yours = (" > ".join(each.heading_path) for each in (first, second))
    if mine and yours and differing(mine, yours):
        return f"a short text under `{mine}` and under `{yours}`"
    return None


def _other_headings(first: Chunk, second: Chunk) -> bool:
    """Tell whether two chunks stand under headings, titles aside, that have no word in common."""
    if len(first.heading_path) < 2 or len(second.heading_path) < 2:
        return False
    mine, yours = set(words(first.heading_path[-1])), set(words(second.heading_path[-1]))
    return bool(mine and yours) and not mine & yours


def _shared(first: str, second: str) -> float:
    """Return the Jaccard similarity of the words in the source of two texts: a first look, cheaper
    than reading them.
    """
    left, right = (set(words(unicodedata.normalize("NFC", text))) for text in (first, second))
    return len(left & right) / len(left | right) if min(len(left), len(right)) > _FEW else 1.0
