"""Read the keyword segments of a published folder, and open them like those on disk."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from tempfile import TemporaryFile

import numpy as np

from thumbindex.index.segments import OpenSegments, Segment
from thumbindex.postgres.published_store import PublishedStore

DELETED = "deleted"
"""Name of the part that holds a segment's tombstones."""


def read_segments(store: PublishedStore, last: Iterable[Segment] = ()) -> OpenSegments:
    """Open the published segments of a folder. Those that are in `last` are reused."""
    sql = "SELECT segment, data FROM parts WHERE folder = %s AND name = %s AND segment <> ''"
    deleted: dict[str, bytes] = dict(store.fetch(f"{sql} ORDER BY segment", DELETED))
    opened = {segment.id: segment for segment in last}
    return [
        (opened.get(name) or _read_segment(store, name), np.frombuffer(data, dtype=np.uint32))
        for name, data in deleted.items()
    ]


def _read_segment(store: PublishedStore, segment: str) -> Segment:
    """Copy a segment to a temporary file, which the system reads as needed and then deletes."""
    names = "SELECT name FROM parts WHERE folder = %s AND segment = %s AND name <> %s"
    sizes = dict[str, int]()
    with TemporaryFile() as file:
        for (name,) in store.fetch(names, segment, DELETED):
            sql = "SELECT data FROM parts WHERE folder = %s AND segment = %s AND name = %s"
            ((data,),) = store.fetch(sql, segment, name)
            sizes[name] = file.write(data)
        file.flush()
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    parts, start = dict[str, memoryview](), 0
    for name, size in sizes.items():
        parts[name] = content[start : start + size]
        start += size
    return Segment(segment, parts)
