"""Search operators in a query: `tag:x`, `#x`, `path:x`, `title:x`, `"a phrase"` and `-word`.

Conditions on properties are operators too: `status:doing`, `rating>=4`, `has:due`. Code, text in
backquotes and queries of several lines have no operators. Most operators that no note matches are
searched as plain words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import NamedTuple

from thumbindex.model import Candidate, FilterField, Filters, TypedFilter, UnmetFilter
from thumbindex.ports import PHRASE_FIELDS, Catalog, KeywordIndex, Selection, Snapshot
from thumbindex.query.match_names import find_by_name
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.understand import QUOTATION_MARK, is_identifier, tokens
from thumbindex.symbols import typed_symbols
from thumbindex.text import fold, tag_name, words

_OPERATOR = re.compile(
    r"`[^`]*`|\[\[[^\[\]]*\]\]"  # code and links stay as they are
    r"|(?<!\S)(?P<minus>-?)(?:(?P<field>tag|path|file|title):(?=\S)|(?P<hash>\#)"
    r"|(?P<key>[^\W\d_][\w.-]*+)(?P<sign>[:=]|[<>]=?+)(?=[^\s:/\\<>=])|)"
    r'(?:["“„＂](?P<phrase>[^"“”„＂]+)["”“＂](?![^\s).,;:!?])'
    r'|(?P<value>\[\[[^\[\]\n]++\]\]|[^\s"“”„＂`]+))',
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]+(?:-[^\W\d_]+)*")
_CODE = re.compile(r"[$<>{}=|\\]")
"""A symbol that marks a text as code, such as `=`."""

_FLAG = re.compile(r"--[A-Za-z][\w-]*|-\w")
"""A command-line flag, such as `--all` or `-x`."""

_TRAILING = ",;:!?)."
"""Punctuation that is removed from the end of an operator's value."""

_MAX_OPERATORS = 16
"""Maximum operators in a query. Further operators are searched as plain words."""

_MIN_PROSE_LETTERS = 4
"""If no note contains the word, `-word` is a filter only if it has at least this many letters."""


class _ParsedQuery(NamedTuple):
    """A query's text without operators, the conditions, and the conditions that no note matches."""

    text: str
    filters: tuple[TypedFilter, ...] = ()
    unmet: tuple[UnmetFilter, ...] = ()


class _Operator(NamedTuple):
    """The span and the condition of a possible operator in a query."""

    start: int
    end: int
    condition: TypedFilter
    is_hash: bool = False
    is_quoted: bool = False


def parse_filters(text: str, snapshot: Snapshot) -> _ParsedQuery:
    """Parse the operators of a query.

    A query that is a note's name or has several lines has no operators.
    """
    catalog, keyword = snapshot.catalog, snapshot.keyword
    operators = list(_operators(text)) if "\n" not in text.strip() else []
    operators = [operator for operator in operators if _may_filter(operator.condition, catalog)]
    conditions = list(dict.fromkeys(operator.condition for operator in operators))[:_MAX_OPERATORS]
    phrases = [
        condition
        for condition in conditions
        if condition.field == "words" and not condition.excludes
    ]
    filters = [
        operator
        for operator in operators
        if operator.condition in conditions and operator.condition not in phrases
    ]
    named = find_by_name(text.strip(), catalog) if filters else {}
    if any(not match.distance for match in named.values()):
        return _ParsedQuery(text)
    others = _remove_operators(text, filters)
    is_filters_alone = not words(others)

    def nearest(condition: TypedFilter) -> tuple[str, ...] | None:
        if condition.field == "words" or catalog.has_match(condition):
            return None
        return catalog.similar_values(condition)

    suggestions = {condition: nearest(condition) for condition in conditions}
    # operators in `without_effect` exclude words that no note contains
    effective, without_effect = list[_Operator](), list[_Operator]()
    unmet = list[UnmetFilter]()
    for operator in filters:
        condition, similar = operator.condition, suggestions[operator.condition]
        if condition.field == "words":
            if keyword.chunks_with_phrase(condition.value, _fields_of(condition)):
                effective += [] if _is_flag(text, operator, keyword) else [operator]
            elif operator.is_quoted or (
                len(condition.value) >= _MIN_PROSE_LETTERS and _is_prose(text, others)
            ):
                without_effect.append(operator)
            continue
        if condition.field == "property" and similar is not None and not _is_prose(text, others):
            continue
        as_words = (
            similar is not None
            and not condition.excludes
            and (operator.is_hash or not is_filters_alone or not _has_key(condition, catalog))
        )
        if similar is not None and (similar or not operator.is_hash):
            unmet.append(UnmetFilter(condition.field, condition.condition, similar, as_words))
        effective += [] if as_words else [operator]
    filters = [*effective, *without_effect] if effective or not is_filters_alone else []
    selections = [keyword.chunks_with_phrase(phrase.value) for phrase in phrases]
    unmet += [
        UnmetFilter("words", phrase.value, as_words=True)
        for phrase, chunks in zip(phrases, selections, strict=True)
        if not chunks
    ]
    required = phrases if selections and _intersect_all(selections) else []
    remaining = _remove_operators(text, filters) if filters else text
    if phrases and not required:
        remaining = QUOTATION_MARK.sub(" ", remaining)
    applied = dict.fromkeys(
        operator.condition
        for operator in sorted(
            [*filters, *(operator for operator in operators if operator.condition in required)]
        )
    )
    return _ParsedQuery(
        remaining if words(remaining) or _has_symbols(remaining) else "" if applied else text,
        tuple(applied),
        tuple(dict.fromkeys(unmet)),
    )


def _has_key(condition: TypedFilter, catalog: Catalog) -> bool:
    """Return whether a note has the key of a condition on a property. Else return True."""
    return condition.field != "property" or catalog.has_match(condition.on_key())


def _may_filter(condition: TypedFilter, catalog: Catalog) -> bool:
    """Return whether a note has the key of a condition, or the key may be misspelled.

    If no note has the key or a similar one, `key:value` and `key>4` are prose or code.
    """
    is_known = _has_key(condition, catalog) or condition.operator == "has"
    return is_known or bool(catalog.similar_values(condition))


def _has_symbols(text: str) -> bool:
    """Return whether a text has symbols or runs of signs. A single sign is punctuation."""
    return any(len(signs) > 1 or not signs.isascii() for signs in typed_symbols(text))


def _operators(text: str) -> Iterator[_Operator]:
    for match in _OPERATOR.finditer(text):
        excludes, phrase, value = bool(match["minus"]), match["phrase"], match["value"] or ""
        bare = value.rstrip(_TRAILING)
        is_words = phrase or (excludes and _WORD.fullmatch(bare))
        end = match.end() - len(value) + len(bare)
        value = phrase or bare
        field: FilterField | None = None
        condition: TypedFilter | None = None
        if match["hash"] or (match["field"] or "").lower() == "tag":
            tag = re.fullmatch(f"#?({tag_name()})", value)
            if tag and tag[1].strip("0123456789/-_"):
                field, value = "tag", tag[1].strip("/")
        elif match["field"]:
            if words(value) and not value.startswith("//"):
                field = _FIELDS[match["field"].lower()]
        elif match["key"]:
            if value.strip() and (value.startswith("[[") or not _CODE.search(value)):
                parts = match["key"], match["sign"], value.strip()
                condition = TypedFilter.on_property(*parts, excludes)
        elif is_words and words(value) and not _CODE.search(phrase or ""):
            field = "words"
        if field:
            condition = TypedFilter(field, value, excludes)
        if condition:
            yield _Operator(match.start(), end, condition, bool(match["hash"]), bool(phrase))


_FIELDS: Mapping[str, FilterField] = {"path": "path", "file": "file", "title": "title"}


def _remove_operators(text: str, operators: Sequence[_Operator]) -> str:
    for operator in sorted(operators, reverse=True):
        text = f"{text[: operator.start]} {text[operator.end :]}"
    return " ".join(text.split())


def _fields_of(condition: TypedFilter) -> Sequence[str]:
    """Return the fields in which a word or phrase is looked up. `-word` looks in all fields."""
    is_word = condition.excludes and len(words(condition.value)) == 1
    return KEYWORD_FIELDS if is_word else PHRASE_FIELDS


def _intersect_all(selections: Sequence[Selection]) -> Selection:
    return reduce(and_, selections)


def _is_flag(text: str, operator: _Operator, keyword: KeywordIndex) -> bool:
    """Return whether `-word` is a flag: the query has a clear flag, or a note contains `-word`."""
    return not operator.is_quoted and (
        _has_flag(text)
        or bool(keyword.chunks_with_all_words(f"-{fold(operator.condition.value)}", ("code",)))
    )


def _has_flag(text: str) -> bool:
    return any(_FLAG.fullmatch(token) for token in text.split())


def _is_prose(text: str, others: str) -> bool:
    """Return whether nothing in a query looks like code. `others` is the query without filters."""
    return not (
        _has_flag(text)
        or _CODE.search(others)
        or any("/" in token or "`" in token or is_identifier(token) for token in tokens(others))
    )


# ------------------------------------------------------------------ selections


def select_chunks(conditions: Sequence[TypedFilter], snapshot: Snapshot) -> Selection | None:
    """Return the chunks that match all conditions; None without conditions.

    A required phrase applies to each chunk. All other conditions apply to the chunk's document.
    """
    selection: Selection | None = None
    for condition in conditions:
        if condition.field != "words":
            matching = snapshot.catalog.chunks_matching(condition)
        else:
            fields = _fields_of(condition)
            matching = snapshot.keyword.chunks_with_phrase(condition.value, fields)
            matching = matching.of_documents() if condition.excludes else matching
        if condition.excludes:
            everything = snapshot.catalog.everything() if selection is None else selection
            selection = everything - matching
        else:
            selection = intersect(selection, matching)
    return selection


def newest_candidates(
    within: Selection | None, limit: int, catalog: Catalog
) -> tuple[tuple[Candidate, ...], int]:
    """Return the first chunk of each of the newest documents, up to the limit.

    The second value is the number of all documents in the selection.
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
    """Return the intersection of two selections. None stands for all chunks."""
    return second if first is None else first if second is None else first & second


# ------------------------------------------------------------------ filters without a match


def unmet_filters(
    filters: Filters,
    similar_values: Callable[[TypedFilter], tuple[str, ...]],
    has_match: Callable[[Filters], bool],
) -> tuple[UnmetFilter, ...]:
    """Return the tags, globs and conditions that no note matches, with similar existing ones."""
    parts = [(TypedFilter("tag", tag.lstrip("#")), Filters(tag=(tag,))) for tag in filters.tag]
    parts += [(TypedFilter("path", glob), Filters(path=(glob,))) for glob in filters.path]
    conditions = (replace(condition, excludes=False) for condition in filters.where)
    parts += [(condition, Filters(where=(condition,))) for condition in conditions]
    return tuple(
        UnmetFilter(condition.field, condition.condition, similar_values(condition))
        for condition, part in dict.fromkeys(parts)
        if not has_match(part)
    )
