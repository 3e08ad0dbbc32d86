"""Find statements that contradict each other: equal but for a value or a negation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple, TypeVar

from thumbindex.compare.tokens import (
    DATE,
    FENCE,
    FUNCTION,
    NEGATION,
    NEGATIONS,
    NUMBER,
    Token,
    language_of_text,
    quoted,
    tokenize,
)
from thumbindex.language import FUNCTION_WORDS
from thumbindex.model import BlockKind, Chunk
from thumbindex.text import fold, words
from thumbindex.visible_text import strip_markup

_MIN_SUBJECT_WORDS = 3
"""A statement with fewer words leaves its subject to the headings above it."""

_PART = r"[^\s()<>\]\[%]"
_NAME = re.compile(
    r"(?<!`)(?P<ticks>`++)(?:[^`]++|(?!(?P=ticks)(?!`))`++)*+(?P=ticks)"  # code
    r"|\{\{[^{}\n]{0,300}+\}\}|\{%[^{}%\n]{0,300}+%\}"  # template calls
    r"|<[^<>\n\d]*+\d[^<>\n]*+>"  # tags
    r"|\b[A-Za-z][A-Za-z0-9+.-]{0,30}+://[^\s<>()\]]++|\bwww\.[^\s<>()\]]++"
    rf"|(?<!{_PART})(?<!%){_PART}*+(?:%(?![0-9A-Fa-f]{{2}}){_PART}*+)*+%(?:%|{_PART})++"  # 2%20b
    r"|(?<=\[)[^\]\[\n\d]*+\d[^\]\[\n]*+(?=\](?:[(\[]|\]))"  # the text of a link
    r"|#\d++\b"  # an issue
)
"""A name: its numbers and negations state nothing."""

_LETTERS = str.maketrans("0123456789", "ghijklmnop")

_NEW_LINE = re.compile(r"\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)]|\n|[^\W\d][^:|\n]{0,30}:))")
"""A line break before a list item, table row, heading or label, or at the end of a paragraph."""

_NEW_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]]*\s+(?=[^\sa-z])|(?<=[。！？；])")

_POSITION = re.compile(r"\A\W*(?:[^\W\d]+ )?\d+(?:\.\d+)*\s*[.:)\]-](?:\s+|\Z)")
"""The position of a statement in a series: `Step 2: `."""

_ORDINAL = re.compile(r"\d+ ?(?:st|nd|rd|th)")
_THOUSANDS = re.compile(r"[.,](?=\d{3}\b)")
"""What may separate thousands: some languages write `1.000`."""

_IS_STATEMENT = re.compile(r"[.!。！][\"')\]]*\Z|\A[^\W\d][^:]{0,30}: *[^\s:]")
"""The end of a sentence, or the start of a line with a label: `Desk: 12`."""

_IS_QUESTION = re.compile(r"[?？][\"')\]]*\Z")
_IS_INTRODUCTION = re.compile(r"[:：][\"')\]]*\Z")


class _Statement(NamedTuple):
    form: tuple[Token, ...]  # stems, with the unit of each value in its place
    values: tuple[str, ...]
    content: tuple[str, ...]  # stems, without function words and negations
    negations: tuple[str, ...]
    subject_words: int


@lru_cache(maxsize=1024)
def contradiction(first: Chunk, second: Chunk) -> str:
    """Return the values and negations that differ between the statements of two similar chunks.

    A statement is a sentence or a list item. Two statements contradict each other if they are equal
    but for numbers of the same unit, versions or dates, or but for a negation.
    """
    required = _required_subject_words(first.heading_path, second.heading_path)
    subjects, others = tokenize(first.text).subjects, tokenize(second.text).subjects
    if (
        required is None
        or first.text == second.text
        or {first.kind, second.kind} & {BlockKind.CODE, BlockKind.TABLE}
        or (subjects - others and others - subjects)
    ):
        return ""
    sides = [
        [each for each in _statements(chunk.text) if each.subject_words >= required]
        for chunk in (first, second)
    ]
    values, other_values = (_claims((each.form, each.values) for each in side) for side in sides)
    differences: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((one,), (other,))
        for form, mine in values.items()
        for one, other in zip(mine, other_values.get(form, mine), strict=True)
        if _THOUSANDS.sub("", one) != _THOUSANDS.sub("", other)
    ]
    denials, other_denials = (
        _claims((each.content, each.negations) for each in side) for side in sides
    )
    differences += [
        (mine, yours)
        for content, mine in denials.items()
        if bool(yours := other_denials.get(content, mine)) != bool(mine)
    ]
    return ", ".join(dict.fromkeys(f"{quoted(one)} vs. {quoted(two)}" for one, two in differences))


def _required_subject_words(mine: Sequence[str], yours: Sequence[str]) -> int | None:
    """Return how many words a statement under these headings must have to name its subject.

    None if the headings name two subjects: `Install on Linux` and `Install on BSD`.
    """
    title, other_title = (set(words(" ".join(path[:1]))) for path in (mine, yours))
    below, other_below = (set(words(" ".join(path[1:]))) for path in (mine, yours))
    are_parallel = title & other_title and title - other_title and other_title - title
    if are_parallel or (below - other_below and other_below - below):
        return None
    return 1 if (title, below) == (other_title, other_below) else _MIN_SUBJECT_WORDS


_Subject = TypeVar("_Subject", bound=Hashable)
_Claim = TypeVar("_Claim", bound=Hashable)


def _claims(statements: Iterable[tuple[_Subject, _Claim]]) -> dict[_Subject, _Claim]:
    """Return the claim about each subject. A text with several claims about one is a series."""
    claims: dict[_Subject, set[_Claim]] = defaultdict(set)
    for subject, claim in statements:
        claims[subject].add(claim)
    return {subject: next(iter(found)) for subject, found in claims.items() if len(found) == 1}


@lru_cache(maxsize=512)
def _statements(markdown: str) -> tuple[_Statement, ...]:
    """Return the statements of a text. Numbers and negations in names, tables and code are none."""
    text = _NAME.sub(lambda name: _as_word(name[0]), FENCE.sub("\n\n", markdown))
    lines = (line for line in _NEW_LINE.split(text) if not line.lstrip(" \t>").startswith("|"))
    sentences = (
        sentence
        for line in lines
        for sentence in _NEW_SENTENCE.split(" ".join(strip_markup(line).split()))
    )
    listed = NEGATIONS.get(language_of_text(markdown) or "en", frozenset())
    negations = {(NEGATION, word) for word in listed}
    return tuple(
        _statement(_POSITION.sub("", sentence), negations)
        for sentence in sentences
        if not _IS_QUESTION.search(sentence)
    )


def _as_word(name: str) -> str:
    """Return one word of letters that no other name has."""
    return name.encode().hex().translate(_LETTERS)


def _statement(sentence: str, negations: AbstractSet[Token]) -> _Statement:
    stems = tokenize(sentence).stems
    values = [
        (kind, token)
        for kind, token in stems
        if kind in (NUMBER, DATE) and not _ORDINAL.fullmatch(token)
    ]
    # without a sentence, a bare number is part of a name: `Heading 2`
    is_statement = (
        any(kind == FUNCTION for kind, _ in stems)
        or any(not token.replace(".", "").isdecimal() for _, token in values)
        or _IS_STATEMENT.search(sentence)
    )
    subject = {
        word for word in words(sentence) if word.isalpha() and fold(word) not in FUNCTION_WORDS
    }
    form = tuple(
        (kind, token.partition(" ")[2] if (kind, token) in values else token)
        for kind, token in stems
    )
    content = tuple(token for kind, token in stems if kind not in (FUNCTION, NEGATION))
    denials = tuple(token for kind, token in stems if (kind, token) in negations)
    if _IS_INTRODUCTION.search(sentence):  # `if it is found:` and `if it is not found:`
        content, denials = (), ()
    return _Statement(
        form,
        tuple(token.replace(",", ".") for _, token in values),
        content,
        denials,
        len(subject) if is_statement else 0,
    )
