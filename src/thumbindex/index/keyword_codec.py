"""How Whoosh writes the keyword index: its own format on disk, without the work that only its own scoring needs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from whoosh.codec.whoosh3 import W3Codec, W3FieldWriter, W3PostingsWriter
from whoosh.writing import PostingPool, SegmentWriter

Posting = tuple[str, bytes, int, float, bytes | None]
"""Field, word, document number, weight, places; None comes from segments that are merged, where a field keeps none."""

_TUPLE_BYTES = 160
"""What a posting takes in memory beside its word and its places, about."""


class LeanWriter(SegmentWriter):  # type: ignore[misc]
    """Whoosh's writer with a codec and a pool that check no types: a quarter of its time."""

    def __init__(self, index: Any, megabytes: int, timeout: float) -> None:
        super().__init__(index, timeout=timeout, limitmb=megabytes, codec=LeanCodec())
        self.pool = _LeanPool(self.temp_storage(), self.newsegment, limitmb=megabytes)


class _LeanPool(PostingPool):  # type: ignore[misc]
    """Gathers postings to be sorted; on disk those that memory has no place for."""

    def add(self, posting: Posting) -> None:
        """Take in a posting."""
        self.currentsize += _TUPLE_BYTES + len(posting[1]) + len(posting[4] or b"")
        if self.currentsize > self.limit:
            self.save()
        self.current.append(posting)


class LeanCodec(W3Codec):  # type: ignore[misc]
    """Whoosh's codec without lengths beside each posting: BM25F reads them from columns of ours."""

    length_stats = False

    def postings_writer(self, dbfile: Any, byteids: bool = False) -> Any:
        """Return what writes the postings of a word."""
        return _LeanPostings(dbfile, self._blocklimit, byteids, self._compression, self._inlinelimit)

    def field_writer(self, storage: Any, segment: Any) -> Any:
        """Return what writes the postings of a segment."""
        return _LeanFieldWriter(self, storage, segment)


class _LeanFieldWriter(W3FieldWriter):  # type: ignore[misc]
    def add_postings(self, schema: Any, lengths: None, postings: Iterable[Posting]) -> None:
        """Write sorted postings, word by word."""
        for name, of_field in groupby(postings, itemgetter(0)):
            self.start_field(name, schema[name])
            for word, of_word in groupby(of_field, itemgetter(1)):
                self.start_term(word)
                for _, _, number, weight, places in of_word:
                    self.add(number, weight, places or b"", 0)
                self.finish_term()
            self.finish_field()


class _LeanPostings(W3PostingsWriter):  # type: ignore[misc]
    _maxweight: float

    def add_posting(self, number: int, weight: float, places: bytes, length: int | None = None) -> None:
        """Add a posting to the block; where that is full, begin another one."""
        if len(self._ids) >= self._blocklimit:
            self._write_block()
        self._ids.append(number)
        self._weights.append(weight)
        if weight > self._maxweight:
            self._maxweight = weight
        if places:
            self._values.append(places)
