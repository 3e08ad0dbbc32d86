"""What keeps two alike texts apart: a number, version, unit, identifier, name, negation or word that differs, another kind or table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import OSA

from thumbindex.model import BlockKind, Chunk
from thumbindex.text import STOP_WORDS, fold, looks_like_code, visible, words

_QUOTES = str.maketrans("‘’‚‛“”„‟′″–—−‐‑\u00a0", "''''\"\"\"\"'\"-----\u0020")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d])-[ \t]*\n[ \t>]*(?=[^\W\d_])")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_FENCE = re.compile(r"(?ms)^([ \t>]*)(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t>]*\2[`~]*[ \t]*$|\Z)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_ESCAPE = re.compile(r"\\(?=[_\W])")
_BLOCK_ID = re.compile(r"(?m)(?:^|[ \t])\^[\w-]+$")
_HELD = re.compile("\ue000(\\d+)\ue001")
_TOKEN = re.compile(
    r"[$€£¥]?\d+(?:[.,:/]\d+)*(?:[ -]?(?:%|°[CF]?|[A-Za-zµ]+(?!\w)))?"  # numbers with what follows
    r"|--?[A-Za-z][\w-]*"  # flags
    r"|[^\W\d][\w$]*(?:(?:\.|::|->|-|/|')[^\W\d_][\w$]*)*(?:\(\))?"  # words, names, dotted and hyphenated ones
)
_NUMBER = re.compile(r"(v?[$€£¥]?\d+(?:[.,:/]\d+)*)[ -]?(.*)")
_UNITS = frozenset(
    "b kb mb gb tb pb kib mib gib tib bit bits byte bytes kbps mbps gbps ns us µs ms s sec secs second seconds min mins minute minutes h hr hrs"
    " hour hours day days week weeks month months year years px em rem pt dpi hz khz mhz ghz mg g kg lb lbs oz mm cm m km in inch inches ft mile"
    " miles v mv w kw mw a ma c f k percent usd eur gbp dollar dollars euro euros times user users file files request requests rps qps core"
    " cores".split()
)
_COUNTS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty ninety hundred thousand million billion"
    " once twice half double triple first second third".split()
)
_POLARITY = frozenset(
    "not no none never neither nor nothing nobody without cannot except unless only must should shall may required optional true false yes"
    " before after always minimum maximum least most above below more less fewer increase decrease enable disable enabled disabled allow deny"
    " allowed denied deprecated".split()
)
_SPELLED = 5
"""The fewest letters of words that are compared by spelling: shorter ones have too many neighbors."""

_ENDING = 3
"""The most letters that an ending adds."""

_NEGATING = ("un", "non", "in", "im", "dis", "ir", "il")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as guards see it."""

    tokens: tuple[str, ...]  # folded, numbers with their units, in order
    marked: frozenset[str]  # those that must stand in the other text too, at the same place among their like
    words: Counter[str]  # all others that carry a subject


def kept_apart(first: Chunk, second: Chunk) -> str | None:
    """Say why two chunks are not copies of each other whatever their similarity; None where nothing speaks against it."""
    if first.kind is not second.kind:
        return f"{first.kind} against {second.kind}"
    if first.language.casefold() != second.language.casefold():
        return f"{first.language or 'no language'} against {second.language or 'no language'}"
    if first.kind is BlockKind.TABLE and table_shape(first.text) != table_shape(second.text):
        return "tables of another shape"
    return differing(first.text, second.text)


def differing(first: str, second: str) -> str | None:
    """Say which number, version, unit, identifier, name, negation or word differs between two Markdown texts; None where none does.

    A text may have more words than the other, or spell them in another way; that each has words of its own is a replaced subject:
    parallel passages ("notes are placed", "attachments are placed") are more alike than copies.
    """
    left, right = reading(first), reading(second)
    marked = left.marked | right.marked | _negated(left, right)
    mine = [token for token in left.tokens if token in marked]
    yours = [token for token in right.tokens if token in marked]
    if mine == yours:
        return "tables of another shape" if table_shape(first) != table_shape(second) else _replaced(left.words, right.words)
    at = next((n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b), min(len(mine), len(yours)))
    return f"{_at(mine, at)} against {_at(yours, at)}"


def table_shape(markdown: str) -> tuple[int, int]:
    """Return the rows and columns of the tables in a text, counted by lines that begin with a bar; (0, 0) without one."""
    rows = [line.strip() for line in markdown.splitlines() if line.lstrip(" >").startswith("|")]
    return len(rows), max((row.replace("\\|", "").strip("|> ").count("|") + 1 for row in rows), default=0)


@lru_cache(maxsize=8192)
def reading(markdown: str) -> Reading:
    """Read a text: what is visible of it, code as it stands, quotes and broken words mended."""
    text, code = comparable(markdown)
    found = [_token(match[0]) for match in _TOKEN.finditer(text.replace("\n", " "))]
    folded = tuple(part for _, parts in found for part in parts)
    marked = {part for token, parts in found if _is_marked(token) for part in parts}
    in_code = {part for piece in code for match in _TOKEN.finditer(piece) for part in _token(match[0])[1]}
    plain = Counter(word for word in words(_HYPHEN.sub("", text)) if word not in STOP_WORDS)
    return Reading(folded, frozenset(marked | in_code | {fold(name) for name in _names(text)}), plain)


@lru_cache(maxsize=8192)
def comparable(markdown: str) -> tuple[str, tuple[str, ...]]:
    """Return the visible text with code verbatim in it, and the pieces of code."""
    code: list[str] = []

    def hold(piece: str) -> str:
        code.append(piece)
        return f"\ue000{len(code) - 1}\ue001"

    mended = _BROKEN_WORD.sub("-", markdown.translate(_QUOTES))
    held = _SPAN.sub(lambda match: hold(match[2]), _FENCE.sub(lambda match: f"{match[1]}{hold(match[3])}\n", mended))
    text = _ESCAPE.sub("", _BLOCK_ID.sub("", visible(held)))
    return _HELD.sub(lambda match: code[int(match[1])], text), tuple(code)


def word_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the sets of words of two texts, 0 to 1: equal vectors do not make equal texts."""
    left, right = set(words(visible(first))), set(words(visible(second)))
    return len(left & right) / len(left | right) if left | right else 1.0


def _token(token: str) -> tuple[str, tuple[str, ...]]:
    """Return a token and its folded parts: a number takes its unit along, a word that is no unit stays a word."""
    number = _NUMBER.fullmatch(token)
    if number is None:
        return token, (fold(token.removesuffix("()").removesuffix("'s")),)
    attached = not re.search(r"[ -]", token)
    if attached or not number[2] or fold(number[2]) in _UNITS:
        return token, (f"{fold(number[1])}{fold(number[2])}",)
    return token, (fold(number[1]), fold(number[2]))


def _is_marked(token: str) -> bool:
    word = fold(token)
    negating = word in _POLARITY or word in _COUNTS or word.endswith("n't")
    return negating or any(c.isdigit() for c in token) or looks_like_code(token)


def _names(text: str) -> list[str]:
    """Return the words with a capital inside a sentence: names of people, products and systems."""
    return re.findall(r"(?<=[a-z,;] )[A-Z][\w]+", text)


def _negated(left: Reading, right: Reading) -> frozenset[str]:
    """Return the words of which one text has the opposite: supported, unsupported."""
    mine, yours = set(left.tokens) - set(right.tokens), set(right.tokens) - set(left.tokens)
    pairs = (
        (word, prefix + word) for some, others in ((mine, yours), (yours, mine)) for word in some for prefix in _NEGATING if prefix + word in others
    )
    return frozenset(word for pair in pairs for word in pair)


def _replaced(left: Counter[str], right: Counter[str]) -> str | None:
    """Say which word of one text stands for which of the other; None where only one has words of its own."""
    mine, yours = sorted(left - right), sorted(right - left)
    for word in list(mine):
        variant = next((other for other in yours if is_variant(word, other)), None)
        if variant is not None:
            mine.remove(word)
            yours.remove(variant)
    return f"`{mine[0]}` against `{yours[0]}`" if mine and yours else None


def is_variant(first: str, second: str) -> bool:
    """Tell whether two words are one with another ending or a spelling mistake: close, of some length, with the same first letter."""
    shortest = min(len(first), len(second))
    if first[0] != second[0] or shortest < _SPELLED:
        return first.removesuffix("s") == second.removesuffix("s")
    same_stem = first[: shortest - 1] == second[: shortest - 1] and abs(len(first) - len(second)) <= _ENDING
    return same_stem or OSA.distance(first, second) <= 1


def _at(found: Sequence[str], at: int) -> str:
    return f"`{found[at]}`" if at < len(found) else "nothing"
