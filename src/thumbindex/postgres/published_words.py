"""Words of a published folder: the disk's own index over segments whose postings are read from the
database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thumbindex.index.analysis import DOCUMENT_FIELDS
from thumbindex.index.bm25f import Column
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.segments import Segment
from thumbindex.index.words import NOWHERE, OpenedSegments, TermColumns, WhooshKeywordIndex
from thumbindex.ports import Positions
from thumbindex.postgres.published_store import PublishedStore

POSTING_BYTES = 128 << 20
"""Maximum bytes of postings that are kept of a folder: a word that stands in a million chunks takes
some million.
"""

DELETED = "deleted"
"""The part of a segment that says which of its rows are deleted."""

T = TypeVar("T")


class Span(NamedTuple):
    """A piece of a part of a segment."""

    segment: str
    name: str
    start: int
    size: int


class Postings:
    """Reads pieces of segments, which never change, and keeps them until they are too many."""

    def __init__(self, store: PublishedStore) -> None:
        self._store = store
        self._kept: dict[Span, bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def read(self, spans: Collection[Span]) -> dict[Span, bytes]:
        """Return pieces; those that are not kept come in one statement."""
        with self._lock:
            found = {span: self._kept[span] for span in spans if span in self._kept}
        if lacking := [span for span in spans if span not in found]:
            rows = self._store.fetch(_PIECES, *map(list, zip(*lacking, strict=True)))
            new = {lacking[n - 1]: bytes(data) for n, data in rows}
            with self._lock:
                if self._size > POSTING_BYTES:
                    self._kept, self._size = {}, 0
                self._kept.update(new)
                self._size += sum(map(len, new.values()))
            found.update(new)
        return found


_PIECES = (
    "SELECT w.n::int, substring(p.data FROM w.start + 1 FOR w.size)"
    " FROM (SELECT * FROM parts WHERE folder = %s) AS p"
    " JOIN unnest(%s::text[], %s::text[], %s::int[], %s::int[]) WITH ORDINALITY"
    " AS w (segment, name, start, size, n) ON p.segment = w.segment AND p.name = w.name"
)


class StoredPart:
    """A part of a segment that is read piece by piece, as the bytes that it stands for."""

    def __init__(self, postings: Postings, segment: str, name: str, size: int) -> None:
        self._postings, self._segment, self._name, self._size = postings, segment, name, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> bytes:
        span = self.span(piece)
        return self._postings.read([span])[span]

    def span(self, piece: slice) -> Span:
        """Return where a piece is found."""
        return Span(self._segment, self._name, piece.start, piece.stop - piece.start)


def read_segments(
    store: PublishedStore, postings: Postings, last: Iterable[Segment] = ()
) -> OpenedSegments:
    """Open what is published of a folder's segments; those of `last` stay open."""
    sql = "SELECT segment, data FROM parts WHERE folder = %s AND name = %s AND segment <> ''"
    deleted: dict[str, bytes] = dict(store.fetch(f"{sql} ORDER BY segment", DELETED))
    held = {segment.id: segment for segment in last}
    parts: dict[str, dict[str, Any]] = {name: {} for name in deleted if name not in held}
    sql = (
        "SELECT segment, name, length(data), CASE WHEN name !~ '[.](runs|places)$' THEN data END"
        " FROM parts WHERE folder = %s AND segment = ANY(%s)"
    )
    for segment, name, size, data in store.fetch(sql, list(parts)) if parts else ():
        parts[segment][name] = (
            StoredPart(postings, segment, name, size) if data is None else memoryview(data)
        )
    return [
        (held.get(name) or Segment(name, parts[name]), np.frombuffer(data, dtype=np.uint32))
        for name, data in deleted.items()
    ]


class _Wanted:
    """Notes which postings a question asks for, and whether their places too; gives none."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self.spans: dict[Span, None] = {}

    def column(self, name: str, stem: str) -> Column:
        self._note(name, stem, with_places=False)
        return NOWHERE[name in DOCUMENT_FIELDS]

    def phrase(self, name: str, stems: Sequence[str]) -> Positions:
        for stem in stems:
            self._note(name, stem, with_places=True)
        return np.zeros(0, dtype=np.int64)

    def _note(self, name: str, stem: str, *, with_places: bool) -> None:
        for segment in self._segments:
            for part, piece in segment.field(name).spans(stem, with_places=with_places):
                self.spans[part.span(piece)] = None


class PublishedKeywordIndex(WhooshKeywordIndex):
    """KeywordIndex over published segments: what a question needs is read in one statement."""

    def __init__(self, opened: OpenedSegments, catalog: StoreCatalog, postings: Postings) -> None:
        super().__init__(opened, catalog)
        self._postings = postings

    def _ask(self, ask: Callable[[TermColumns], T]) -> T:
        wanted = _Wanted(self.segments)
        ask(TermColumns(self.languages, wanted.column, wanted.phrase))
        self._postings.read(wanted.spans)
        return super()._ask(ask)
