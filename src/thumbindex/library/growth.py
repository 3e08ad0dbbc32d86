"""What the notes of a folder are by month and language, and how its index grew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from thumbindex.index.files import size_of
from thumbindex.index.growth import keep_day, read_days, sizes_of
from thumbindex.library.answering import folder_state
from thumbindex.library.reader import Reader
from thumbindex.model import Growth, GrowthDay, created_on, day_of

_LANGUAGES = 12

MOST_MONTHS = 240
"""Months of a folder's growth that are told of."""


def growth_of(reader: Reader) -> Growth:
    """Return what a folder's notes are by month and language, and how the index grew; no note is
    read.
    """
    documents = (
        [each for _, each in reader.snapshot().catalog.every_document()] if reader.indexed else []
    )
    written = Counter(day.isoformat()[:7] for each in documents if (day := created_on(each)))
    updated = Counter(day.isoformat()[:7] for each in documents if (day := day_of(each)))
    languages = Counter(each.language for each in documents)
    months = tuple(
        (month, written[month], updated[month]) for month in _months(sorted(written | updated))
    )
    undated = sum(day_of(each) is None for each in documents)
    places = reader.folder.places
    parts = sizes_of(places) if reader.indexed else ()
    return Growth(
        reader.folder.name,
        months,
        undated,
        tuple(languages.most_common(_LANGUAGES)),
        read_days(places),
        parts,
    )


def _months(found: Sequence[str]) -> list[str]:
    """Return every month from the first to the last, the last ones where those are too many: a date
    may be of any year.
    """
    if not found:
        return []
    (year, month), (last_year, last_month) = (
        map(int, each.split("-")) for each in (found[0], found[-1])
    )
    first = max(12 * year + month - 1, 12 * last_year + last_month - MOST_MONTHS)
    return [
        f"{each // 12:04}-{each % 12 + 1:02}" for each in range(first, 12 * last_year + last_month)
    ]


def keep_growth(reader: Reader, today: date) -> bool:
    """Keep a row of today of how large a folder's index is; tell whether there was none yet."""
    if not reader.indexed:
        return False
    state = folder_state(reader)
    return keep_day(
        reader.folder.places,
        GrowthDay(
            today.isoformat(), state.documents, state.chunks, size_of(reader.folder.places.folder)
        ),
    )
