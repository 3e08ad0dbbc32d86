"""Find numbers and codes in groups, emoji, and runs of signs, which are no words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from thumbindex.text import fold, words

_SPACE = " \u00a0\u2007\u2009\u202f"
_DASH = r"/\u2010-\u2013\u2212\uff0d_\-"  # and a slash
_POINT = ".,:'’"
_DIGIT = r"0-9\u0660-\u0669\uff10-\uff19"  # also Arabic and full-width
_LETTER_OR_DIGIT = f"{_DIGIT}A-Za-z"  # no CJK, which has no spaces
_GROUP = rf"(?=[A-Za-z]{{0,8}}+[{_DIGIT}])[{_LETTER_OR_DIGIT}]{{1,40}}+"
_CODE = re.compile(  # it starts at a digit, because this is fast
    rf"[{_DIGIT}][{_LETTER_OR_DIGIT}]{{0,40}}+(?:"
    rf"(?:[{_POINT}]|[{_SPACE}]?[{_DASH}()]?[{_SPACE}]?(?<![{_LETTER_OR_DIGIT}])){_GROUP}"
    # groups of letters, in GB29-NWBK or GB29 NWBK 6016
    rf"|[{_DASH}](?:[A-Z]{{1,5}}+|[a-f]{{4}})(?![{_LETTER_OR_DIGIT}])"
    rf"|[{_SPACE}][A-Z]{{1,5}}+(?=[{_SPACE}]{_GROUP})"
    r")++"
)
"""A number or code in groups, such as 030/555-0182, from its first digit."""

_LETTERS_BEFORE = re.compile(
    rf"(?<![{_LETTER_OR_DIGIT}])(?:[A-Za-z]{{1,8}}[{_DASH}])?[A-Za-z]{{0,8}}\Z"
)
"""The letters of a code before its first digit, as in DE89 3704 or INV-2023-0017."""

_BETWEEN_SPACES = re.compile(rf"[^{_SPACE}]++")
_GROUPS = re.compile(r"[^\W_]++")
_THOUSANDS = re.compile(
    rf"\d{{1,3}}(?:([.'’{_SPACE}])\d{{3}}(?:\1\d{{3}})*+|(?:,\d\d\d?)*,\d{{3}})([.,]\d\d?)?"
)
"""A number with separated thousands, such as 1,250.75 or 12,34,567."""

_HAS_POINT = re.compile(f"[{_POINT}]")
_IN_POINTS = re.compile(r"(?=.{10})(?!v\d)[^\W_]{2,}([.:])[^\W_]{2,}(?:\1[^\W_]{2,})+")
"""A code such as 01.23.45.67.89, but not a time, or a version such as 3.10.2."""

_DATE = re.compile(
    r"(?<![\w./-])(?:(?:19|20)\d\d[./-]\d\d?(?:[./-]\d\d?)?|\d\d?[./-]\d\d?[./-](?:19|20)?\d\d)"
    r"(?![\d./-])"
)
_MIN_WRITTEN = 5
"""Minimum characters of a code with its separators: 1,250."""

_MIN_LENGTH, _MAX_LENGTH = 6, 40
"""Limits of the characters of a code without its separators: 20-24 is not 2024."""


class Code(NamedTuple):
    """A number or code without separators and in lower case, and its place in a text."""

    joined: str
    start: int
    end: int


def joined_codes(text: str) -> Iterator[Code]:
    """Yield the numbers and codes of a text that consist of several groups.

    `1,250` gives 1250. Dates, times, versions and short codes are left out.
    """
    for match in _CODE.finditer(text):
        start, end = match.span()
        if end - start < _MIN_WRITTEN:
            continue
        before = _LETTERS_BEFORE.search(text, max(start - 18, 0), start)
        if not before:
            continue
        whole = (before.start(), end)
        parts = (part.span() for part in _BETWEEN_SPACES.finditer(text, *whole))
        for start, end in dict.fromkeys((whole, *parts)):
            yield from (Code(code, start, end) for code in _without_separators(text[start:end]))


def _without_separators(written: str) -> list[str]:
    groups = _GROUPS.findall(written)
    joined = fold("".join(groups))
    if number := _THOUSANDS.fullmatch(written):
        if not number[2]:
            return [joined]
        whole = joined[: 1 - len(number[2])]
        return [whole, f"{whole}.{number[2][1:]}"]
    is_code = (
        _MIN_LENGTH <= len(joined) <= _MAX_LENGTH
        and sum(any(map(str.isdigit, group)) for group in groups) > 1
        and not (_HAS_POINT.search(written) and not _IN_POINTS.fullmatch(written))
        and not _DATE.search(written)
    )
    return [joined] if is_code else []


_SYMBOL = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}"  # a flag
    "|[^\\w\\s\x00-\x7f\u2500-\u259f]"  # no frames of tables
)


def symbols(text: str) -> list[str]:
    """Return the emoji and other symbols of a text, without their variants and skin tones."""
    if text.isascii():
        return []
    return [c for c in _SYMBOL.findall(text) if unicodedata.category(c[0]) in ("So", "Sm", "Sc")]


_SIGN = r"!#$%&*+\-./:<=>?@\\^|~"
_CODE_TEXT = re.compile(r"`([^`]++)`")
_SIGNS_AS_CODE = re.compile(r"` ?([^\w\s`]{1,8}+) ?`")
_RUN = re.compile(rf"[{_SIGN}]{{2,}}+")
_RUN_APART = re.compile(rf" [{_SIGN}](?<=\S .)[{_SIGN}]++(?!\S)")
_MARKUP = re.compile(r" (?:[-:|]++|\*++|_++|#++|~++|=++|\.++|\$++|%++|\+++)")
"""Dashes and markup, which may stand between spaces."""

_MAX_SIGNS = 8
_QUOTES = str.maketrans(dict.fromkeys("`\"'“”„‘’", " "))


def sign_runs(markdown: str, is_code: bool) -> list[str]:
    """Return the runs of signs in code and between spaces, such as `=>`, each once.

    `is_code` is True if the whole text is code.
    """
    has_code = is_code or "`" in markdown
    code = markdown if is_code else "\n".join(_CODE_TEXT.findall(markdown)) if has_code else ""
    runs = {*_RUN.findall(code), *_runs_apart(markdown)}
    runs.update(_SIGNS_AS_CODE.findall(markdown) if has_code else ())
    return sorted(run for run in runs if len(run) <= _MAX_SIGNS)


def _runs_apart(text: str) -> list[str]:
    """Return the runs of signs between spaces, such as <->, but no dash and no markup."""
    return [run[1:] for run in _RUN_APART.findall(text) if not _MARKUP.fullmatch(run)]


def _is_signs(text: str) -> bool:
    return 0 < len(text) <= _MAX_SIGNS and not any(c.isalnum() or c.isspace() for c in text)


def typed_symbols(query: str) -> list[str]:
    """Return the symbols of a query, and its signs between spaces.

    If the query has words, its single signs and markup are left out.
    """
    text = query.translate(_QUOTES)
    signs = (
        _runs_apart(f"x {text}")
        if words(query)
        else [part for part in text.split() if part.isascii() and _is_signs(part)]
    )
    return list(dict.fromkeys((*symbols(query), *signs)))
