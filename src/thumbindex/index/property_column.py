"""The values of one property in a folder's documents, and the comparisons of conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from thumbindex.dates import day_period
from thumbindex.model import ConditionOperator
from thumbindex.ports import IntArray, Mask
from thumbindex.text import fold_line

_NUMBER = re.compile(r"[+-]?+\d{1,15}+(?:\.\d{1,15})?")  # a longer one is an identifier
_WHOLE = re.compile(r"(-?+\d++)\.0++")
"""A decimal that equals an integer: `4.0` is 4. Other numbers with different digits differ, as in
versions (1.1, 1.10) and identifiers (7, 007).
"""
_WIKILINK = re.compile(r"\[\[([^\[\]]++)\]\]")
_LINK = re.compile(r"\[[^\[\]]*+\]\(<?([^()<>:]++)>?\)")
_SUFFIX = re.compile(r"\.(?:md|markdown|mdx)$")


class Value(NamedTuple):
    """A value as conditions compare it."""

    text: str  # folded
    path: str  # of the linked note, or else the text; without suffix
    is_link: bool
    number: float | None
    days: tuple[int, int] | None  # the first and last day, as ordinals

    @classmethod
    def of(cls, text: str) -> Value:
        """Read a value as written."""
        wikilink, link = _WIKILINK.fullmatch(text), _LINK.fullmatch(text)
        folded = fold_line(" ".join(text.split()))
        if whole := _WHOLE.fullmatch(folded):
            folded = whole[1]
        path = folded
        if wikilink or link:
            target = wikilink[1].partition("|")[0] if wikilink else unquote(link[1] if link else "")
            path = fold_line(target.partition("#")[0]).replace("\\", "/").lstrip("./").strip()
        path = _SUFFIX.sub("", path)
        name = path.rpartition("/")[2] if wikilink or link else folded
        days = day_period(name)
        return cls(
            folded,
            path,
            bool(wikilink or link),
            float(name) if _NUMBER.fullmatch(name) else None,
            (days[0].toordinal(), days[1].toordinal()) if days else None,
        )

    def names(self, other: Value) -> bool:
        """Return whether the texts are equal, or the values name the same note."""
        if not (self.is_link or other.is_link):
            return self.text == other.text
        short, long = sorted((f"/{self.path}", f"/{other.path}"), key=len)
        return long.endswith(short)

    def order(self) -> tuple[int, float, str]:
        """Return a key for sorting: numbers, then days, then texts."""
        if self.number is not None:
            return 0, self.number, ""
        return (1, self.days[0], "") if self.days else (2, 0, self.text)


class PropertyColumn:
    """The distinct values of a property, and the documents that have them."""

    def __init__(self, values: Iterable[tuple[int, str]]) -> None:
        positions, documents, texts = dict[str, int](), list[int](), list[int]()
        for n, text in values:
            documents.append(n)
            texts.append(positions.setdefault(text, len(positions)))
        self.texts: Sequence[str] = list(positions)  # as written
        self._documents: IntArray = np.array(documents, dtype=np.int64)
        self._text_of: IntArray = np.array(texts, dtype=np.int64)

    def documents(self, operator: ConditionOperator, text: str) -> IntArray:
        """Return the documents with a value that meets a condition."""
        if operator == "is":
            is_text = np.array([value == text for value in self.texts], dtype=np.bool_)
            return self._documents[is_text[self._text_of]]
        return self._documents[self._matching(operator, Value.of(text))[self._text_of]]

    def _matching(self, operator: ConditionOperator, value: Value) -> Mask:
        """Return a mask of the texts that meet a condition."""
        matching = np.full(len(self.texts), operator == "has", dtype=np.bool_)
        if operator == ":":
            name = value.path.rpartition("/")[2]
            matching[
                [at for at in self._by_name.get(name, ()) if self._values[at].names(value)]
            ] = 1
        elif value.number is not None:
            matching |= _compare(operator, self._numbers, self._numbers, value.number, value.number)
        if value.days:
            days = _compare(operator, *self._days, *value.days)
            matching |= days if value.number is None else days & np.isnan(self._numbers)
        return matching

    @cached_property
    def _values(self) -> Sequence[Value]:
        return list(map(Value.of, self.texts))

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[int]]:
        """Map the last part of a path, or a whole text, to positions of texts."""
        positions: dict[str, list[int]] = {}
        for at, value in enumerate(self._values):
            positions.setdefault(value.path.rpartition("/")[2], []).append(at)
        return positions

    @cached_property
    def _numbers(self) -> npt.NDArray[np.float64]:
        return np.array([np.nan if v.number is None else v.number for v in self._values])

    @cached_property
    def _days(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        days = [value.days or (np.nan, np.nan) for value in self._values]
        first, last = np.array(days, dtype=np.float64).reshape(-1, 2).T
        return first, last


def _compare(
    operator: ConditionOperator,
    first: npt.NDArray[np.float64],
    last: npt.NDArray[np.float64],
    low: float,
    high: float,
) -> Mask:
    """Compare ranges, from `first` to `last`, with the range from `low` to `high`.

    A range is less than another if all of it is; `:` means inside. NaN matches nothing.
    """
    if operator == "<":
        return last < low
    if operator == "<=":
        return last <= high
    if operator == ">":
        return first > high
    if operator == ">=":
        return first >= low
    return (first >= low) & (last <= high)
