"""Search operators in a query: `tag:x`, `#x`, `path:x`, `title:x`, `"a phrase"` and `-word`.

An operator that no note meets, code, text in backquotes and text of several lines are words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from thumbindex.model import Candidate, FilterField, Filters, TypedFilter, UnmetFilter
from thumbindex.ports import Catalog, KeywordIndex, Selection, Snapshot
from thumbindex.query.match_names import find_by_name
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.understand import is_identifier, tokens
from thumbindex.text import fold, words

_OPERATOR = re.compile(
    r"`[^`]*`|\[\[[^\[\]]*\]\]"  # code and links stay as they are
    r"|(?<!\S)(?P<minus>-?)(?:(?P<field>tag|path|file|title):(?=\S)|(?P<hash>\#)|)"
    r'(?:["“„＂](?P<phrase>[^"“”„＂]+)["”“＂](?![^\s).,;:!?])|(?P<value>[^\s"“”„＂`]+))',
    re.IGNORECASE,
)
_TAG = re.compile(r"#?([\w/\-\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u200d]+)")
_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]+(?:-[^\W\d_]+)*")
_CODE = re.compile(r"[$<>{}=|\\]")
"""What a phrase in quotes does not hold, and a piece of a program does."""

_FLAG = re.compile(r"--[A-Za-z][\w-]*|-\w")
"""A command-line flag: beside one, any `-word` may be a flag."""

_TRAILING = ",;:!?)."
"""Punctuation behind an operator that is no part of it."""

_MAX_OPERATORS = 16
"""Maximum operators of a query; further ones are words."""

_MIN_PROSE_LETTERS = 4
"""Minimum letters of an excluded word that no note holds."""


class _ParsedQuery(NamedTuple):
    """A query without its operators, their conditions, and those that no note meets."""

    text: str
    filters: tuple[TypedFilter, ...] = ()
    unmet: tuple[UnmetFilter, ...] = ()


class _Operator(NamedTuple):
    """A part of a query that may be an operator."""

    start: int
    end: int
    condition: TypedFilter
    is_hash: bool = False
    is_quoted: bool = False


def parse_filters(text: str, snapshot: Snapshot) -> _ParsedQuery:
    """Parse the operators of a query. A note's name and text of several lines have none."""
    operators = list(_operators(text)) if "\n" not in text.strip() else []
    asked = list(dict.fromkeys(operator.condition for operator in operators))[:_MAX_OPERATORS]
    phrases = [each for each in asked if each.field == "words" and not each.excludes]
    taken = [
        operator
        for operator in operators
        if operator.condition in asked and operator.condition not in phrases
    ]
    catalog, keyword = snapshot.catalog, snapshot.keyword
    called = find_by_name(text.strip(), catalog) if taken else {}
    if any(not claim.distance for claim in called.values()):
        return _ParsedQuery(text)
    others = _remove_operators(text, taken)
    alone = not words(others)

    def nearest(condition: TypedFilter) -> tuple[str, ...] | None:
        if condition.field == "words" or catalog.has_match(condition):
            return None
        return catalog.similar_values(condition.field, condition.value)

    suggestions = {condition: nearest(condition) for condition in asked}
    # an idle one leaves out nothing
    read, idle, unmet = list[_Operator](), list[_Operator](), list[UnmetFilter]()
    for operator in taken:
        each, names = operator.condition, suggestions[operator.condition]
        if each.field == "words":
            if _occurs(operator, keyword):
                read += [] if _is_flag(text, operator, keyword) else [operator]
            elif operator.is_quoted or (
                len(each.value) >= _MIN_PROSE_LETTERS and _is_prose(text, others)
            ):
                idle.append(operator)
            continue
        as_words = names is not None and not each.excludes and (operator.is_hash or not alone)
        if names is not None and (names or not operator.is_hash):
            unmet.append(UnmetFilter(each.field, each.value, names, as_words))
        read += [] if as_words else [operator]
    taken = [*read, *idle] if read or not alone else []
    held = [keyword.chunks_with_phrase(phrase.value) for phrase in phrases]
    unmet += [
        UnmetFilter("words", each.value, as_words=True)
        for each, found in zip(phrases, held, strict=True)
        if not found
    ]
    together = phrases if held and _intersect_all(held) else []
    rest = _remove_operators(text, taken) if taken else text
    conditions = dict.fromkeys(
        operator.condition
        for operator in sorted(
            [*taken, *(operator for operator in operators if operator.condition in together)]
        )
    )
    return _ParsedQuery(
        rest if words(rest) else "" if conditions else text,
        tuple(conditions),
        tuple(dict.fromkeys(unmet)),
    )


def _operators(text: str) -> Iterator[_Operator]:
    for match in _OPERATOR.finditer(text):
        excludes, phrase, value = bool(match["minus"]), match["phrase"], match["value"] or ""
        bare = value.rstrip(_TRAILING)
        is_words = phrase or (excludes and _WORD.fullmatch(bare))
        end = match.end() - len(value) + len(bare)
        value = phrase or bare
        field: FilterField | None = None
        if match["hash"] or (match["field"] or "").lower() == "tag":
            tag = _TAG.fullmatch(value)
            if tag and tag[1].strip("0123456789/-_"):
                field, value = "tag", tag[1].strip("/")
        elif match["field"]:
            if words(value) and not value.startswith("//"):
                field = _FIELDS[match["field"].lower()]
        elif is_words and words(value) and not _CODE.search(phrase or ""):
            field = "words"
        if field:
            yield _Operator(
                match.start(),
                end,
                TypedFilter(field, value, excludes),
                bool(match["hash"]),
                bool(phrase),
            )


_FIELDS: Mapping[str, FilterField] = {"path": "path", "file": "file", "title": "title"}


def _remove_operators(text: str, operators: Sequence[_Operator]) -> str:
    for operator in sorted(operators, reverse=True):
        text = f"{text[: operator.start]} {text[operator.end :]}"
    return " ".join(text.split())


def _occurs(operator: _Operator, keyword: KeywordIndex) -> bool:
    """Return whether a note holds the excluded word or phrase."""
    value = operator.condition.value
    if operator.is_quoted:
        return bool(keyword.chunks_with_phrase(value))
    return bool(keyword.chunks_with_all_words(value, KEYWORD_FIELDS))


def _intersect_all(held: Sequence[Selection]) -> Selection:
    """Return the intersection of several selections."""
    found = held[0]
    for each in held[1:]:
        found = found & each
    return found


def _is_flag(text: str, operator: _Operator, keyword: KeywordIndex) -> bool:
    """Return whether `-word` is a command-line flag: the query has another one, or a note has
    it with its dash.
    """
    return not operator.is_quoted and (
        _has_flag(text)
        or bool(keyword.chunks_with_all_words(f"-{fold(operator.condition.value)}", ("code",)))
    )


def _has_flag(text: str) -> bool:
    return any(_FLAG.fullmatch(token) for token in text.split())


def _is_prose(text: str, others: str) -> bool:
    """Return whether no token of a query, filters aside, looks like code."""
    return not (
        _has_flag(text)
        or _CODE.search(others)
        or any("/" in token or "`" in token or is_identifier(token) for token in tokens(others))
    )


# ------------------------------------------------------------------ which chunks they let through


def select_chunks(conditions: Sequence[TypedFilter], snapshot: Snapshot) -> Selection | None:
    """Return the chunks that meet the conditions, None without conditions. A phrase is looked up
    in the chunk, everything else in its note.
    """
    within: Selection | None = None
    for condition in conditions:
        if condition.field != "words":
            held = snapshot.catalog.chunks_matching(condition)
        elif condition.excludes and len(words(condition.value)) == 1:
            held = snapshot.keyword.chunks_with_all_words(
                condition.value, KEYWORD_FIELDS
            ).of_documents()
        else:
            held = snapshot.keyword.chunks_with_phrase(condition.value)
            held = held.of_documents() if condition.excludes else held
        if condition.excludes:
            within = (snapshot.catalog.everything() if within is None else within) - held
        else:
            within = intersect(within, held)
    return within


def newest_candidates(
    within: Selection | None, limit: int, catalog: Catalog
) -> tuple[tuple[Candidate, ...], int]:
    """Return the first chunk of each of the newest documents in a selection, and the number of
    documents.
    """
    best, count = catalog.newest(within, limit)
    chunks = catalog.chunks(best)
    return tuple(
        Candidate(n, catalog.document_of(n), chunks[n], 1.0) for n in best if n in chunks
    ), count


def count_undated(filters: Filters, conditions: Sequence[TypedFilter], snapshot: Snapshot) -> int:
    """Count the documents that `since` or `until` excludes because they have no date."""
    if filters.since is None and filters.until is None:
        return 0
    return snapshot.catalog.undated(
        intersect(
            snapshot.catalog.select(replace(filters, since=None, until=None)),
            select_chunks(conditions, snapshot),
        )
    )


def intersect(first: Selection | None, second: Selection | None) -> Selection | None:
    """Return the intersection of two selections; None is everything."""
    return second if first is None else first if second is None else first & second


# ------------------------------------------------------------------ what no note meets


def unmet_filters(
    filters: Filters,
    similar_values: Callable[[FilterField, str], tuple[str, ...]],
    has_match: Callable[[Filters], bool],
) -> tuple[UnmetFilter, ...]:
    """Return the tags and globs that no note meets, with similar ones."""
    asked: list[tuple[FilterField, str, Filters]] = [
        ("tag", tag.lstrip("#"), Filters(tag=(tag,))) for tag in filters.tag
    ]
    asked += [("path", glob, Filters(path=(glob,))) for glob in filters.path]
    return tuple(
        UnmetFilter(field, value, similar_values(field, value))
        for field, value, one in dict.fromkeys(asked)
        if not has_match(one)
    )
