"""How an index grows: a row a day, kept beside it.

Nothing is lost with it but a picture, so that what cannot be read is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from thumbindex.errors import StorageError
from thumbindex.index.files import Places, read_shared, size_of, size_of_file, write_whole
from thumbindex.model import GrowthDay

MOST_DAYS = 1_100
"""Rows that are kept: three years."""


def read_days(places: Places) -> tuple[GrowthDay, ...]:
    """Return the rows, the oldest first."""
    try:
        written = read_shared(places.growth).decode("utf-8", "replace")
    except OSError:
        return ()
    days = {each.day: each for each in _rows(written.splitlines())}
    return tuple(days[day] for day in sorted(days))[-MOST_DAYS:]


def keep_day(places: Places, now: GrowthDay) -> bool:
    """Keep a row of today, once; tell whether one was written."""
    before = read_days(places)
    if before and before[-1].day >= now.day:
        return False
    rows = [
        [each.day, each.documents, each.chunks, each.size] for each in (*before, now)[-MOST_DAYS:]
    ]
    with suppress(StorageError):
        write_whole(places.growth, "".join(f"{json.dumps(each)}\n" for each in rows))
        return True
    return False


def _rows(lines: Sequence[str]) -> Iterator[GrowthDay]:
    for line in lines:
        try:
            day, documents, chunks, size = json.loads(line)
        except (ValueError, TypeError):
            continue
        if isinstance(day, str) and all(
            isinstance(each, int) for each in (documents, chunks, size)
        ):
            yield GrowthDay(day, documents, chunks, size)


def sizes_of(places: Places) -> tuple[tuple[str, int], ...]:
    """Return bytes on disk by part, the largest first; without vectors, which all folders share."""
    made = places.made
    database = sum(size_of_file(path) for path in made.glob("index.sqlite3*"))
    keyword, whole = size_of(places.keyword), size_of(places.folder)
    parts = {
        "texts, links and dates": database,
        "words": keyword,
        "the rest": max(0, whole - database - keyword),
    }
    return tuple(
        sorted(((name, size) for name, size in parts.items() if size), key=lambda each: -each[1])
    )
