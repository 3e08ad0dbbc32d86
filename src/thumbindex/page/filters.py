"""The filters of the Ask screen as chips: those in use, and those that would narrow the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from thumbindex.model import Answer, Document, Filters, Query, TypedFilter, day_of, is_filter_key
from thumbindex.page.visit import screen_address

_MAX_OFFERED: Mapping[str, int] = {"folder": 6, "tag": 4, "where": 3, "since": 3}
"""Maximum filters of each kind that an answer offers."""

_MAX_SHARE = 0.7
"""A filter that a larger share of the notes pass is not offered."""

_MAX_CONDITION_CHARS = 30
"""Longer conditions are not offered."""

_SHOWN_ELSEWHERE = frozenset(("title", "tags", "tag", "aliases", "alias"))
"""Properties that are not offered."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter in words, the address with or without it, and the notes that have it."""

    words: str
    href: str
    notes: int = 0


def filter_chips(screen: str, filters: Filters, parameters: Mapping[str, Any]) -> list[Chip]:
    """Return the filters of a screen, each with the screen's address without it."""
    chips = []
    for name, value in filters.as_pairs():
        values = parameters[name] if isinstance(parameters[name], tuple) else ()
        others = tuple(item for item in values if item != value)
        words = value if name == "where" else f"{name}: {value}"
        chips.append(Chip(words, screen_address(screen, **{**parameters, name: others})))
    return chips


def typed_chips(
    text: str, typed: Sequence[TypedFilter], parameters: dict[str, Any]
) -> Iterator[Chip]:
    """Yield the filters in a question's text, each with the address of the question without it.

    The address is empty for a filter that is spelled in another way in the text.
    """
    for condition in typed:
        form = next((s for s in (condition.as_typed, f"#{condition.value}") if s in text), "")
        shorter = " ".join(text.replace(form, " ").split()) if form else ""
        href = screen_address("ask", **parameters | {"q": shorter}) if form else ""
        yield Chip(condition.as_typed, href)


def offered_chips(
    documents: Sequence[Document], answer: Answer, query: Query, parameters: dict[str, Any]
) -> list[Chip]:
    """Return filters that some of the documents pass, the most frequent first."""
    used = {value for _, value in query.filters.as_pairs()}
    used |= {condition.condition for condition in answer.filters}
    counts = {
        "folder": Counter(document.folder for document in documents),
        "tag": Counter(tag for document in documents for tag in document.tags),
        "where": Counter(text for document in documents for text in _conditions_of(document)),
        "since": Counter(str(day.year) for document in documents if (day := day_of(document))),
    }
    chips = []
    for name, counter in counts.items():
        least = 1 if name == "folder" else 2
        most = len(documents) - 1 if name == "folder" else _MAX_SHARE * len(documents)
        values = [value for value, notes in counter.items() if least <= notes <= most]
        if name == "since" and (query.filters.since or query.filters.until):
            continue
        for value in sorted(values, key=lambda value: (-counter[value], value))[
            : _MAX_OFFERED[name]
        ]:
            if value not in used:
                narrowed = parameters | _parameters_of(name, value, parameters)
                words = {"tag": "#{}", "since": "in {}"}.get(name, "{}").format(value)
                chips.append(Chip(words, screen_address("ask", **narrowed), counter[value]))
    return chips


def _parameters_of(name: str, value: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if name == "since":
        year = int(value)
        return {"since": date(year, 1, 1).isoformat(), "until": date(year, 12, 31).isoformat()}
    return {name: (value,) if name == "folder" else (*parameters[name], value)}


def _conditions_of(document: Document) -> Iterable[str]:
    """Yield a condition for each property of a document that names something in a few words."""
    for key, texts in document.properties.items():
        if key not in _SHOWN_ELSEWHERE and is_filter_key(key):
            for text in texts:
                condition = TypedFilter.on_property(key, ":", text).condition
                is_word = any(map(str.isalpha, text)) and text.lower() not in ("true", "false")
                if is_word and len(condition) <= _MAX_CONDITION_CHARS and '"' not in text:
                    yield condition
