"""The keyword index of a published folder: segments whose postings stay in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thumbindex.index.bm25f import PostingList
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.keyword_index import SegmentKeywordIndex, TermPostings, empty_posting_list
from thumbindex.index.segments import OpenSegments, Segment
from thumbindex.ports import IntArray
from thumbindex.postgres.published_store import PublishedStore

POSTING_BYTES = 128 << 20
"""A folder's cache of postings is emptied when it holds more bytes than this."""

DELETED = "deleted"
"""Name of the part that holds a segment's tombstones."""

_T = TypeVar("_T")


class ByteRange(NamedTuple):
    """A range of bytes in a part of a segment."""

    segment: str
    name: str
    start: int
    size: int


class PostingsCache:
    """Reads byte ranges of segments, and caches them, since segments never change."""

    def __init__(self, store: PublishedStore) -> None:
        self._store = store
        self._cache: dict[ByteRange, bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def read(self, spans: Collection[ByteRange]) -> dict[ByteRange, bytes]:
        """Return the data of byte ranges. All uncached ranges are read with one SQL statement."""
        with self._lock:
            data_of = {span: self._cache[span] for span in spans if span in self._cache}
        if missing := [span for span in spans if span not in data_of]:
            rows = self._store.fetch(_PIECES, *map(list, zip(*missing, strict=True)))
            new = {missing[n - 1]: bytes(data) for n, data in rows}
            with self._lock:
                if self._size > POSTING_BYTES:
                    self._cache, self._size = {}, 0
                self._cache.update(new)
                self._size += sum(map(len, new.values()))
            data_of.update(new)
        return data_of


_PIECES = (
    "SELECT w.n::int, substring(p.data FROM w.start + 1 FOR w.size)"
    " FROM (SELECT * FROM parts WHERE folder = %s) AS p"
    " JOIN unnest(%s::text[], %s::text[], %s::int[], %s::int[]) WITH ORDINALITY"
    " AS w (segment, name, start, size, n) ON p.segment = w.segment AND p.name = w.name"
)


class LazyPart:
    """A part of a segment that is read from the database slice by slice, when it is needed."""

    def __init__(self, postings: PostingsCache, segment: str, name: str, size: int) -> None:
        self._postings, self._segment, self._name, self._size = postings, segment, name, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> bytes:
        span = self.span(piece)
        return self._postings.read([span])[span]

    def span(self, piece: slice) -> ByteRange:
        return ByteRange(self._segment, self._name, piece.start, piece.stop - piece.start)


def read_segments(
    store: PublishedStore, postings: PostingsCache, last: Iterable[Segment] = ()
) -> OpenSegments:
    """Open the published segments of a folder. Those that are in `last` are reused."""
    sql = "SELECT segment, data FROM parts WHERE folder = %s AND name = %s AND segment <> ''"
    deleted: dict[str, bytes] = dict(store.fetch(f"{sql} ORDER BY segment", DELETED))
    opened = {segment.id: segment for segment in last}
    parts: dict[str, dict[str, Any]] = {name: {} for name in deleted if name not in opened}
    sql = (
        "SELECT segment, name, length(data),"
        " CASE WHEN name !~ '[.](rows|positions)$' THEN data END"
        " FROM parts WHERE folder = %s AND segment = ANY(%s)"
    )
    for segment, name, size, data in store.fetch(sql, list(parts)) if parts else ():
        parts[segment][name] = (
            LazyPart(postings, segment, name, size) if data is None else memoryview(data)
        )
    return [
        (opened.get(name) or Segment(name, parts[name]), np.frombuffer(data, dtype=np.uint32))
        for name, data in deleted.items()
    ]


class _PostingsPlan:
    """Records the byte ranges of the postings that a query needs.

    The postings that its methods return are empty.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self.byte_ranges: dict[ByteRange, None] = {}

    def posting_list(self, field: str, stem: str) -> PostingList:
        self._add(field, stem, with_positions=False)
        return empty_posting_list(field)

    def match_phrase(self, field: str, stems: Sequence[str]) -> IntArray:
        for stem in stems:
            self._add(field, stem, with_positions=True)
        return np.zeros(0, dtype=np.int64)

    def _add(self, field: str, stem: str, *, with_positions: bool) -> None:
        for segment in self._segments:
            ranges = segment.field(field).byte_ranges(stem, with_positions=with_positions)
            for part, piece in ranges:
                self.byte_ranges[part.span(piece)] = None


class PublishedKeywordIndex(SegmentKeywordIndex):
    """KeywordIndex over published segments. Reads all postings of a query in one SQL statement."""

    def __init__(
        self, opened: OpenSegments, catalog: StoreCatalog, postings: PostingsCache
    ) -> None:
        super().__init__(opened, catalog)
        self._postings = postings

    def _locked(self, read: Callable[[TermPostings], _T]) -> _T:
        plan = _PostingsPlan(self.segments)
        read(TermPostings(self.languages, plan.posting_list, plan.match_phrase))
        self._postings.read(plan.byte_ranges)
        return super()._locked(read)
