"""Postings as they are published: a row a term, field and segment, self-contained, as columns in
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thumbindex.index.analysis import CHUNK_FIELDS, DOCUMENT_FIELDS
from thumbindex.index.catalog import StoreCatalog, positions_of
from thumbindex.index.postgres.ids import NO_ROWS, Rows
from thumbindex.index.postgres.view import looked_up
from thumbindex.index.segments import FIELDS, Columns, Segment, encode_numbers
from thumbindex.index.words import WhooshKeywordIndex

_HEADER = struct.Struct("<IH")
"""Of a term's postings: how many there are, and how wide each column is, two bits a column."""

_KINDS = ("<u1", "<u2", "<u4", "<u8")


# ------------------------------------------------------------------ postings as bytes


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """One term's postings in one field, by document, then by chunk: a number a posting in each
    column.
    """

    documents: Rows  # their rows
    # of a chunks' field the chunk's place in its document, of a documents' field how many chunks
    # that has
    ordinals: Rows
    frequencies: Rows
    lengths: Rows  # of the field in that chunk, or document, in words
    document_lengths: Rows  # of the field in all chunks of the document


def encode_postings(postings: Postings) -> bytes:
    """Write one term's postings."""
    (data,) = _encoded(columns_of(postings), np.array([0, len(postings.documents)]))
    return data


def decode_postings(data: bytes) -> Postings:
    """Read one term's postings."""
    size, widths = _HEADER.unpack_from(data)
    at, columns = _HEADER.size, []
    for n in range(5):
        kind = _KINDS[widths >> 2 * n & 3]
        columns.append(np.frombuffer(data, dtype=kind, count=size, offset=at).astype(np.int64))
        at += size * int(kind[-1])
    return Postings(*columns)


def columns_of(postings: Postings) -> tuple[Rows, ...]:
    """Return postings as columns."""
    return (
        postings.documents,
        postings.ordinals,
        postings.frequencies,
        postings.lengths,
        postings.document_lengths,
    )


def steps_of(places: Rows, counts: Rows) -> Rows:
    """Return how far each place is from the one before it, and the first of each posting as it
    is.
    """
    firsts = np.cumsum(counts) - counts
    steps = np.diff(places, prepend=0)
    steps[firsts] = places[firsts]
    return steps


def _encoded(columns: Sequence[Rows], bounds: Rows) -> Iterator[bytes]:
    """Write the postings of many terms, each from one bound to the next: most stand once, and NumPy
    is not asked for each of them.
    """
    starts, ends = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(ends > starts)
    widths = np.zeros((len(columns), len(starts)), dtype=np.int64)
    for n, column in enumerate(columns):
        largest = np.maximum.reduceat(column, starts[filled]) if len(filled) else NO_ROWS
        widths[n, filled] = np.searchsorted([1 << 8, 1 << 16, 1 << 32], largest, side="right")
    written: list[list[bytes]] = []
    for column, needed in zip(columns, widths, strict=True):
        used = [bool((needed == code).any()) for code in range(len(_KINDS))]
        written.append(
            [
                column.astype(kind).tobytes() if is_used else b""
                for kind, is_used in zip(_KINDS, used, strict=True)
            ]
        )
    for start, end, *own in zip(starts.tolist(), ends.tolist(), *widths.tolist(), strict=True):
        parts = (written[n][code][start << code : end << code] for n, code in enumerate(own))
        packed_widths = sum(code << 2 * n for n, code in enumerate(own))
        yield _HEADER.pack(end - start, packed_widths) + b"".join(parts)


# ------------------------------------------------------------------ what is published of a segment


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRows:
    """What the rows of a segment are, a number a row in each column."""

    # row of the document that it is, or is a part of; -1 where it is not to be published
    document: Rows
    ordinal: Rows  # the chunk's place in its document, or how many chunks a document has
    # by field of chunks: its length in all chunks of the document
    document_lengths: Mapping[str, Rows]


def segment_rows(segment: Segment, known: PublishedRows) -> Iterator[tuple[int, str, bytes, bytes]]:
    """Yield field, term, postings and places, in bytes, of every term of a segment; of a term whose
    rows are all left out nothing.
    """
    for number, name in enumerate(FIELDS):
        lengths = segment.lengths(name).astype(np.int64)
        whole = lengths if name in DOCUMENT_FIELDS else known.document_lengths[name]
        for texts, columns in segment.field(name).columns():
            yield from (
                (number, *each) for each in _published(texts, columns, known, lengths, whole)
            )


def _published(
    texts: Sequence[str], columns: Columns, known: PublishedRows, lengths: Rows, whole: Rows
) -> Iterator[tuple[str, bytes, bytes]]:
    rows = columns.rows.astype(np.int64)
    documents, ordinals = known.document[rows], known.ordinal[rows]
    order = np.lexsort((ordinals, documents, columns.terms))
    order = order[documents[order] >= 0]
    terms, rows, counts = columns.terms[order].astype(np.int64), rows[order], columns.counts[order]
    held, starts = np.unique(terms, return_index=True)
    bounds = np.append(starts, len(terms))
    data = _encoded((documents[order], ordinals[order], counts, lengths[rows], whole[rows]), bounds)
    places = (
        _encoded_places(columns, order, bounds)
        if columns.places is not None
        else (b"" for _ in held)
    )
    for term, postings, stood in zip(held.tolist(), data, places, strict=True):
        yield looked_up(texts[term]), postings, stood


def _encoded_places(columns: Columns, order: Rows, bounds: Rows) -> Iterator[bytes]:
    """Write the places of postings in an order, those of a term from one bound to the next."""
    assert columns.places is not None
    counts = columns.counts[order]
    ends = np.cumsum(counts)
    begun = (np.cumsum(columns.counts) - columns.counts)[order]
    at = np.repeat(begun - ends + counts, counts) + np.arange(int(counts.sum()))
    data, sizes = encode_numbers(steps_of(columns.places[at].astype(np.int64), counts))
    cuts = np.append(0, np.cumsum(sizes))[np.append(0, ends)[bounds]].tolist()
    return (data[cuts[n] : cuts[n + 1]] for n in range(len(cuts) - 1))


def at_positions(values: Rows, positions: Rows) -> Rows:
    """Return values by position; -1 where that is -1."""
    found: Rows = np.append(values, -1)[positions]
    return found


class SegmentLengths:
    """Of which documents and chunks the rows of an index's segments are, and how long their fields
    are, each and all together.
    """

    def __init__(self, keyword: WhooshKeywordIndex, catalog: StoreCatalog) -> None:
        self._segments, self._catalog = keyword.segments, catalog
        first = np.searchsorted(catalog.document_ids, np.arange(len(catalog.document_rows) + 1))
        self._first, self._sizes = first[:-1], np.diff(first)
        self._at = [self._positions(segment.row_ids) for segment in keyword.segments]
        self._whole = {name: self._by_document(name) for name in CHUNK_FIELDS}

    def _positions(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return for each row the position of its document (-1 where it is not there any more) and
        of its chunk (-1 for a document's).
        """
        chunks = np.where(rows > 0, self._catalog.chunk_positions(np.abs(rows)), -1)
        documents = np.where(rows > 0, -1, positions_of(self._catalog.document_rows, -rows))
        return np.where(
            chunks >= 0, at_positions(self._catalog.document_ids, chunks), documents
        ), chunks

    def _by_document(self, name: str) -> Rows:
        total = np.zeros(len(self._sizes), dtype=np.int64)
        for segment, (documents, chunks) in zip(self._segments, self._at, strict=True):
            live = chunks >= 0
            total += np.bincount(
                documents[live], weights=segment.lengths(name)[live], minlength=len(total)
            ).astype(np.int64)
        return total

    def rows(self, at: int) -> PublishedRows:
        """Return what the rows of a segment are."""
        documents, chunks = self._at[at]
        live = documents >= 0
        ordinal = np.where(
            chunks >= 0,
            chunks - at_positions(self._first, documents),
            at_positions(self._sizes, documents),
        )
        whole = {
            name: np.where(live, at_positions(total, documents), 0)
            for name, total in self._whole.items()
        }
        return PublishedRows(
            at_positions(self._catalog.document_rows, documents), np.where(live, ordinal, 0), whole
        )

    def sums(self, name: str) -> dict[str, int]:
        """Return what a field's lengths come to and how many there are above 0, of chunks and of
        whole documents, or of documents alone.
        """
        of_chunks = name in CHUNK_FIELDS
        parts = [
            segment.lengths(name)[(chunks >= 0) if of_chunks else ((documents >= 0) & (chunks < 0))]
            for segment, (documents, chunks) in zip(self._segments, self._at, strict=True)
        ]
        lengths = np.concatenate([np.zeros(0), *parts])
        total = self._whole[name] if of_chunks else lengths
        return {
            "sum": int(lengths.sum()),
            "count": int(np.count_nonzero(lengths)),
            "document_sum": int(total.sum()),
            "document_count": int(np.count_nonzero(total)),
        }
