"""Segments of the keyword index: row ids, field lengths, terms and postings in a Whoosh compound
file.

A segment's rows are chunks and documents. The document id of a row is the row's position in the
segment, even if the row is a chunk. `row_ids` maps document ids to row ids of the store.

A posting list starts with the document ids. Each id is stored as twice the gap to the previous id,
plus 1 if the term occurs more than once in the row. The frequencies above 1 follow, each minus 2.
Positions are stored separately, as gaps within a row, because only phrases need positions. All
numbers are varints: seven bits per byte, lowest bits first, and the last byte is below 128.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import secrets
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from whoosh.filedb.compound import CompoundStorage
from whoosh.filedb.filestore import FileStorage

from thumbindex.errors import IndexDamagedError
from thumbindex.index.analysis import CHUNK_FIELDS, DOCUMENT_FIELDS, LANGUAGE_MARK, AnalyzedFields
from thumbindex.index.files import fsync_folder
from thumbindex.ports import IntArray

UintArray = npt.NDArray[np.uint32]
"""Type of large arrays. An `IntArray` would take twice as much memory."""

SUFFIX = ".seg"

FIELDS = (*CHUNK_FIELDS, *DOCUMENT_FIELDS)

_BATCH = 1 << 18
"""Number of occurrences sorted, or postings read, at once. Each takes about 100 bytes of memory."""

_BLOCK = 1 << 20

_VARINT_BITS, _CONTINUED = 7, 0x80

_SHORT = 24
"""`decode_numbers` uses a Python loop for fewer bytes than this, because NumPy would be slower."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentFile:
    """A segment as listed in the store, with its tombstones."""

    name: str
    rows: int
    size: int  # bytes
    checksum: int
    # tombstones: document ids of deleted rows
    deleted: UintArray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.uint32))

    @property
    def live_rows(self) -> int:
        """The number of rows that are not deleted."""
        return self.rows - len(self.deleted)

    def with_deleted(self, doc_ids: IntArray) -> SegmentFile:
        """Return a copy with more rows deleted."""
        return replace(self, deleted=np.union1d(self.deleted, doc_ids).astype(np.uint32))


def file_checksum(path: Path) -> int:
    """Return the checksum of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum


class Segment:
    """An open segment. It is immutable and thread-safe; its tombstones are in the store."""

    def __init__(self, name: str, parts: Mapping[str, Any]) -> None:
        """`parts` maps the name of each part to the bytes that `SegmentWriter` wrote."""
        self.id, self.parts = name, parts
        self._fields: dict[str, SegmentField] = {}
        self._lengths: dict[str, npt.NDArray[np.float32]] = {}
        self.row_ids: IntArray = np.frombuffer(self._part("row"), dtype=">i8").astype(np.int64)

    @classmethod
    def open(cls, folder: Path, name: str) -> Segment:
        """Open a segment file."""
        storage = FileStorage(str(folder))
        with closing(CompoundStorage(storage.open_file(name), use_mmap=False)) as file:
            ranges = {part: file.range(part) for part in file.list()}
        with (folder / name).open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        parts = {part: data[begin : begin + size] for part, (begin, size) in ranges.items()}
        return cls(name, parts)

    def field(self, name: str) -> SegmentField:
        """Return a field. It is read on first use."""
        if name not in self._fields:
            self._fields[name] = SegmentField(
                *(self._part(f"{name}.{part}") for part in SegmentField.PARTS)
            )
        return self._fields[name]

    def lengths(self, name: str) -> npt.NDArray[np.float32]:
        """Return the number of words in a field, indexed by document id."""
        if name not in self._lengths:
            lengths = np.zeros(len(self.row_ids), dtype=np.float32)
            stored = np.frombuffer(self._part(f"{name}.length"), dtype=">i4")
            lengths[: len(stored)] = stored
            self._lengths[name] = lengths
        return self._lengths[name]

    @cached_property
    def words(self) -> Mapping[str, int]:
        """The number of rows that contain each unstemmed word."""
        code = self.field("code")
        return {
            word: size
            for word, size in zip(code.terms(), code.sizes, strict=True)
            if word.isalpha()
        }

    @cached_property
    def languages(self) -> frozenset[str]:
        """The languages of the stems, except English."""
        languages = set()
        for field in map(self.field, ("body", "headings", "title")):
            start = LANGUAGE_MARK  # terms of a language are adjacent: skip to the next language
            while field.term(number := field.lower_bound(start.encode())).startswith(
                LANGUAGE_MARK.encode()
            ):
                language = field.term(number).decode().split(LANGUAGE_MARK)[1]
                languages.add(language)
                start = f"{LANGUAGE_MARK}{language}{chr(ord(LANGUAGE_MARK) + 1)}"
        return frozenset(languages)

    def _part(self, name: str) -> Any:
        return self.parts.get(name, b"")


class SegmentField:
    """A field of a segment: the sorted terms, and the postings of all rows, even deleted rows."""

    PARTS = ("terms", "stats", "postings", "positions")

    def __init__(self, terms: Any, stats: Any, postings: Any, positions: Any) -> None:
        self._term_bytes, self._posting_bytes, self._position_bytes = (
            bytes(terms),
            postings,
            positions,
        )
        lengths, sizes, *part_lengths = decode_numbers(stats).reshape(4 if positions else 3, -1)
        self.sizes = array("I", sizes.astype(np.uint32).tobytes())  # document frequencies
        self._term_offsets, self._posting_offsets, *self._position_offsets = map(
            _offsets, (lengths, *part_lengths)
        )

    def term(self, number: int) -> bytes:
        """Return a term by its number, or b"" if the number is too high."""
        if number < len(self.sizes):
            return self._term_bytes[self._term_offsets[number] : self._term_offsets[number + 1]]
        return b""

    def terms(self, some: slice = slice(None)) -> list[str]:
        """Return the terms with the numbers in a slice, by default all."""
        first, last, _ = some.indices(len(self.sizes))
        offsets = self._term_offsets[first : last + 1]
        return [self._term_bytes[start:end].decode() for start, end in pairwise(offsets)]

    def lower_bound(self, text: bytes) -> int:
        """Return the number of the first term that is not less than a text."""
        terms, offsets, low, high = self._term_bytes, self._term_offsets, 0, len(self.sizes)
        # faster than bisect with a key function; the lookup of a rare term mostly consists of this
        while low < high:
            middle = (low + high) // 2
            if terms[offsets[middle] : offsets[middle + 1]] < text:
                low = middle + 1
            else:
                high = middle
        return low

    def postings(self, term: str) -> tuple[IntArray, IntArray]:
        """Return the posting list of a term: ascending document ids, and frequencies."""
        number = self._find(term)
        return (np.zeros(0, dtype=np.int64),) * 2 if number is None else self._posting_list(number)

    def byte_ranges(self, term: str, *, with_positions: bool) -> Iterator[tuple[Any, slice]]:
        """Yield the byte ranges that a lookup of `term` reads, each as a buffer and a slice."""
        number = self._find(term)
        if number is not None:
            yield self._posting_bytes, self._posting_range(number)
            if with_positions and self._position_offsets:
                yield self._position_bytes, self._position_range(number)

    def phrase_matches(self, phrase: Sequence[str]) -> IntArray:
        """Return the document ids of the rows that contain a phrase, ascending."""
        numbers = [number for number in map(self._find, phrase) if number is not None]
        matches = None
        for after, number in enumerate(numbers if len(numbers) == len(phrase) else ()):
            if matches is not None and not len(matches):
                break
            doc_ids, counts = self._posting_list(number)
            positions = decode_positions(self._position_bytes[self._position_range(number)], counts)
            # document id and start of the phrase in one number
            starts = (np.repeat(doc_ids, counts) << 32) + positions - after
            matches = starts if matches is None else matches[np.isin(matches, starts)]
        return np.zeros(0, dtype=np.int64) if matches is None else np.unique(matches >> 32)

    def posting_columns(self) -> Iterator[tuple[list[str], PostingColumns]]:
        """Yield batches of terms with all their postings."""
        for some in batches(np.array(self.sizes, dtype=np.int64)):
            offsets = [
                part[some.start : some.stop + 1]
                for part in (self._posting_offsets, *self._position_offsets)
            ]
            stats = np.array([self.sizes[some], *map(np.diff, offsets)], dtype=np.int64)
            data = [
                part[bounds[0] : bounds[-1]]
                for part, bounds in zip(
                    (self._posting_bytes, self._position_bytes), offsets, strict=False
                )
            ]
            yield (
                self.terms(some),
                decode_postings(
                    EncodedPostings(stats, data[0], data[1] if self._position_offsets else b"")
                ),
            )

    def _find(self, term: str) -> int | None:
        text = term.encode()
        number = self.lower_bound(text)
        return number if self.term(number) == text else None

    def _posting_list(self, number: int) -> tuple[IntArray, IntArray]:
        return decode_posting_list(
            self._posting_bytes[self._posting_range(number)], self.sizes[number]
        )

    def _posting_range(self, number: int) -> slice:
        return slice(self._posting_offsets[number], self._posting_offsets[number + 1])

    def _position_range(self, number: int) -> slice:
        return slice(self._position_offsets[0][number], self._position_offsets[0][number + 1])


def _offsets(lengths: IntArray) -> array[int]:
    """Return the offsets of adjacent parts with these `lengths`, and the end of the last part."""
    # reading a single item is faster than from a NumPy array
    return array("Q", np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64).tobytes())


class SegmentWriter:
    """Collects new rows, then rows of other segments, and writes one segment."""

    def __init__(self) -> None:
        self._row_ids = array("q")
        self._lengths = {name: array("i") for name in FIELDS}
        self._fields = {name: _PostingsBuffer(with_positions=name != "code") for name in FIELDS}
        self._merged: list[tuple[Segment, IntArray]] = []

    def add(self, row_id: int, words: AnalyzedFields) -> None:
        """Add a row with its terms. Call this before `merge`."""
        for name, (terms, positions) in words.fields.items():
            self._fields[name].add(len(self._row_ids), terms, positions)
        for name, lengths in self._lengths.items():
            lengths.append(words.lengths.get(name, 0))
        self._row_ids.append(row_id)

    def merge(self, segment: Segment, deleted: UintArray) -> None:
        """Add the live rows of a segment. Their postings are read later, by `write`."""
        live = np.delete(np.arange(len(segment.row_ids)), deleted)
        new_ids = np.full(len(segment.row_ids), -1, dtype=np.int64)
        new_ids[live] = len(self._row_ids) + np.arange(len(live))
        self._merged.append((segment, new_ids))
        self._row_ids.frombytes(segment.row_ids[live].tobytes())
        for name, lengths in self._lengths.items():
            lengths.frombytes(segment.lengths(name)[live].astype(np.int32).tobytes())

    def write(self, folder: Path) -> list[SegmentFile]:
        """Write the segment's file durably. Return a list with its `SegmentFile`.

        If there are no rows, write nothing and return an empty list.
        """
        if not self._row_ids:
            return []
        # a new name, because readers may have old files open
        path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
        file = FileStorage(str(folder)).create_file(path.name)
        try:
            self._write(file)
        finally:
            if not file.is_closed:
                file.close()
        with path.open("r+b") as segment_file:
            os.fsync(segment_file.fileno())
        fsync_folder(folder)
        size, checksum = path.stat().st_size, file_checksum(path)
        return [SegmentFile(path.name, len(self._row_ids), size, checksum)]

    def _write(self, file: Any) -> None:
        directory: dict[str, dict[str, int]] = {}

        def put(name: str, data: bytes) -> None:
            if data:
                directory[name] = {"offset": file.tell(), "length": len(data)}
                file.write(data)

        file.write_long(0)  # for the directory's offset
        file.write_int(0)
        # Whoosh's NumericColumn format, without trailing zeros
        put("row", np.array(self._row_ids, dtype=">i8").tobytes())
        for name in FIELDS:
            put(
                f"{name}.length",
                np.trim_zeros(np.array(self._lengths[name], dtype=">i4"), "b").tobytes(),
            )
            field = self._fields.pop(name)
            for segment, new_ids in self._merged:
                for terms, columns in segment.field(name).posting_columns():
                    field.add_columns(terms, columns, new_ids)
            for part, data in zip(SegmentField.PARTS, field.encoded(), strict=False):
                put(f"{name}.{part}", data)
        CompoundStorage.write_dir(file, 0, directory)


class _PostingsBuffer:
    """The unsorted occurrences of a field's terms, in columns."""

    def __init__(self, *, with_positions: bool) -> None:
        # each term's number, assigned in order of first occurrence
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._with_positions = with_positions
        self._terms, self._positions = array("I"), array("I")
        # document ids, and the number of occurrences in each row
        self._doc_ids, self._counts = array("I"), array("I")

    def add(self, doc_id: int, terms: Sequence[str], positions: Iterable[int]) -> None:
        """Add the terms of a row, in order of occurrence. Add rows in order of document ids."""
        self._terms.extend(map(self._numbers.__getitem__, terms))
        if self._with_positions:
            self._positions.extend(positions)
        self._doc_ids.append(doc_id)
        self._counts.append(len(terms))

    def add_columns(self, terms: Sequence[str], columns: PostingColumns, new_ids: IntArray) -> None:
        """Add the postings of a segment.

        `new_ids` maps the segment's document ids to new ones, or to -1 if the row is deleted.
        """
        doc_ids = new_ids[columns.doc_ids]
        live = doc_ids >= 0
        live_terms = columns.terms[live]
        is_first = _group_starts(live_terms)
        numbers = np.array(
            [self._numbers[terms[n]] for n in live_terms[is_first].tolist()], dtype=np.uint32
        )
        counts = columns.counts[live]
        _extend(self._terms, np.repeat(numbers[np.cumsum(is_first) - 1], counts))
        _extend(self._doc_ids, doc_ids[live])
        _extend(self._counts, counts)
        if columns.positions is not None:
            _extend(self._positions, columns.positions[np.repeat(live, columns.counts)])

    def encoded(self) -> tuple[bytes, ...]:
        """Return the encoded parts of a `SegmentField`, or () if there are no terms."""
        texts = [term.encode() for term in self._numbers]
        if not texts:
            return ()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(texts), dtype=np.uint32)
        rank[order] = np.arange(len(texts), dtype=np.uint32)
        terms, positions, doc_ids, counts = (
            np.frombuffer(column, dtype=np.uint32)
            for column in (self._terms, self._positions, self._doc_ids, self._counts)
        )
        terms, doc_ids = rank[terms], np.repeat(doc_ids, counts)
        parts = []
        for batch in batches(np.bincount(terms, minlength=len(texts))):
            selected = (
                slice(None)
                if batch.stop - batch.start == len(texts)
                else np.flatnonzero((terms >= batch.start) & (terms < batch.stop))
            )
            columns = sort_postings(
                terms[selected] - np.uint32(batch.start),
                doc_ids[selected],
                positions[selected] if self._with_positions else None,
            )
            parts.append(encode_postings(columns))
        lengths = np.array([len(texts[number]) for number in order], dtype=np.int64)
        stats = np.vstack([lengths, np.hstack([part.stats for part in parts])])
        ordered = b"".join(texts[number] for number in order)
        return (
            ordered,
            encode_numbers(stats.ravel())[0],
            b"".join(part.data for part in parts),
            b"".join(part.positions for part in parts),
        )


def _extend(values: array[int], numbers: IntArray | UintArray) -> None:
    values.frombytes(numbers.astype(np.uint32).tobytes())


# ---------------------------------------------------------------- listed segments

OpenSegments = Sequence[tuple[Segment, UintArray]]
"""Segments with their tombstones."""


def open_segments(
    folder: Path, listed: Sequence[SegmentFile], last: Iterable[Segment] = ()
) -> OpenSegments:
    """Verify and open the listed segments, reusing those of `last`. Raises IndexDamagedError."""
    already_open = {segment.id: segment for segment in last}
    verify_segments(folder, listed)
    with _damage(folder):
        return [
            (already_open.get(file.name) or Segment.open(folder, file.name), file.deleted)
            for file in listed
        ]


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IndexDamagedError(
            f"The keyword index in {folder} cannot be opened ({error}): run `thumbindex index` to "
            "rebuild it.",
            reason=str(error),
        ) from error


_verified: dict[Path, dict[str, tuple[int, int, int]]] = {}
"""Inode, size and mtime of the files that this process has verified, keyed by folder and name."""


def verify_segments(
    folder: Path, listed: Sequence[SegmentFile], *, from_disk: bool = False
) -> None:
    """Check the sizes and checksums of listed files. Raises IndexDamagedError.

    Skips files that have not changed since this process verified them. If `from_disk` is True,
    checks all files.
    """
    before, verified = _verified.get(folder, {}), dict[str, tuple[int, int, int]]()
    with _damage(folder):
        for file in listed:
            path = folder / file.name
            stat = path.stat()
            verified[file.name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            is_new = from_disk or before.get(file.name) != verified[file.name]
            if is_new and (stat.st_size, file_checksum(path)) != (file.size, file.checksum):
                raise OSError(f"{file.name} is corrupted")
    _verified[folder] = verified


# ---------------------------------------------------------------- encoding of postings


@dataclass(frozen=True, slots=True)
class PostingColumns:
    """Decoded postings, sorted by term and document id.

    Each column has one value per posting, but `positions` has one per occurrence.
    """

    terms: IntArray | UintArray
    doc_ids: IntArray | UintArray
    counts: IntArray
    positions: IntArray | UintArray | None  # None if the field has none


@dataclass(frozen=True, slots=True)
class EncodedPostings:
    """Encoded postings of several terms."""

    # shape (2 or 3, terms): document frequencies, bytes of posting lists, bytes of any positions
    stats: IntArray
    data: bytes | memoryview
    positions: bytes | memoryview


def sort_postings(
    terms: UintArray, doc_ids: UintArray, positions: UintArray | None
) -> PostingColumns:
    """Group occurrences into postings. Occurrences must be sorted by document id."""
    # NumPy sorts 16-bit numbers faster, by radix sort
    order = np.argsort(
        terms.astype(np.uint16) if len(terms) and terms.max() < 1 << 16 else terms, kind="stable"
    )
    terms, doc_ids = terms[order], doc_ids[order]
    first = np.flatnonzero(_group_starts(terms) | _group_starts(doc_ids))
    counts = np.diff(first, append=len(terms))
    return PostingColumns(
        terms[first], doc_ids[first], counts, None if positions is None else positions[order]
    )


def encode_postings(columns: PostingColumns) -> EncodedPostings:
    """Encode the postings of terms 0, 1, 2 and so on. Each term must have postings."""
    starts = np.flatnonzero(_group_starts(columns.terms))
    sizes = np.diff(starts, append=len(columns.terms))
    often = columns.counts > 1
    tails = _group_sums(often.astype(np.int64), starts)
    numbers = np.zeros(len(columns.terms) + int(tails.sum()), dtype=np.int64)
    ends = np.cumsum(sizes + tails)
    heads = _doc_id_mask(ends, tails)
    numbers[heads] = _deltas(columns.doc_ids, starts) << 1 | often
    numbers[~heads] = columns.counts[often] - 2
    data, lengths = encode_numbers(numbers)
    list_lengths = _group_sums(lengths, ends - sizes - tails)
    if columns.positions is None:
        return EncodedPostings(np.stack([sizes, list_lengths]), data, b"")
    firsts = np.cumsum(columns.counts) - columns.counts
    positions, lengths = encode_numbers(_deltas(columns.positions, firsts))
    return EncodedPostings(
        np.stack([sizes, list_lengths, _group_sums(lengths, firsts[starts])]), data, positions
    )


def decode_postings(postings: EncodedPostings) -> PostingColumns:
    """Decode the postings of all terms."""
    sizes, lengths = postings.stats[:2]
    last_bytes = np.flatnonzero(np.frombuffer(postings.data, dtype=np.uint8) < _CONTINUED)
    ends = np.searchsorted(last_bytes, np.cumsum(lengths))
    heads = _doc_id_mask(ends, np.diff(ends, prepend=0) - sizes)
    numbers = decode_numbers(postings.data)
    counts = _counts(numbers[heads], numbers[~heads])
    doc_ids = _from_deltas(numbers[heads] >> 1, np.cumsum(sizes) - sizes, sizes)
    positions = decode_positions(postings.positions, counts) if len(postings.stats) > 2 else None
    return PostingColumns(np.repeat(np.arange(len(sizes)), sizes), doc_ids, counts, positions)


def decode_posting_list(data: bytes | memoryview, size: int) -> tuple[IntArray, IntArray]:
    """Decode one posting list into document ids and frequencies."""
    numbers = decode_numbers(data)
    heads = numbers[:size]
    return np.cumsum(heads >> 1), _counts(heads, numbers[size:])


def decode_positions(data: bytes | memoryview, counts: IntArray) -> IntArray:
    """Decode positions, grouped by document id."""
    return _from_deltas(decode_numbers(data), np.cumsum(counts) - counts, counts)


def batches(sizes: IntArray) -> Iterator[slice]:
    """Yield ranges of items whose sizes add up to about one batch."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _BATCH)) + 1
    bounds = [0, *cuts.tolist(), len(sizes)] if len(sizes) else []
    yield from (slice(*bounds[n : n + 2]) for n in range(len(bounds) - 1))


def _counts(heads: IntArray, tails: IntArray) -> IntArray:
    counts = np.ones(len(heads), dtype=np.int64)
    if len(tails):
        counts[np.flatnonzero(heads & 1)] = tails + 2
    return counts


def _doc_id_mask(ends: IntArray, tails: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask over the values in several posting lists that is True for document ids.

    `ends` are the positions at which the lists end. `tails` contains the number of frequencies in
    each list. The frequencies follow the list's document ids.
    """
    mask = np.ones(int(ends[-1]) if len(ends) else 0, dtype=np.bool_)
    before = np.cumsum(tails) - tails
    mask[np.repeat(ends - tails - before, tails) + np.arange(int(tails.sum()))] = False
    return mask


def _deltas(values: IntArray | UintArray, starts: IntArray) -> IntArray:
    """Return the gaps between numbers. The numbers at `starts` begin a group and do not change."""
    numbers = values.astype(np.int64)
    deltas = np.diff(numbers, prepend=0)
    deltas[starts] = numbers[starts]
    return deltas


def _from_deltas(deltas: IntArray, starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers with these gaps: the inverse of `_deltas`."""
    sums = np.cumsum(deltas)
    return sums - np.repeat(sums[starts] - deltas[starts], lengths)


def _group_starts(numbers: IntArray | UintArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the first number in each run of equal numbers."""
    mask = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=mask[1:])
    return mask


def _group_sums(numbers: IntArray, starts: IntArray) -> IntArray:
    return np.add.reduceat(numbers, starts) if len(starts) else starts


# ------------------------------------------------------------------ varints


def encode_numbers(numbers: IntArray) -> tuple[bytes, IntArray]:
    """Encode nonnegative numbers as varints. Return all bytes, and the length of each varint."""
    sizes = np.ones(len(numbers), dtype=np.int64)
    while len(longer := np.flatnonzero(numbers >> _VARINT_BITS * sizes)):
        sizes[longer] += 1
    ends = np.cumsum(sizes)
    encoded = np.zeros(ends[-1] if len(ends) else 0, dtype=np.uint8)
    at, remainders, lengths = ends - sizes, numbers, sizes
    while len(remainders):
        more = lengths > 1
        encoded[at] = remainders & (_CONTINUED - 1) | more * _CONTINUED
        at, lengths = at[more] + 1, lengths[more] - 1
        remainders = remainders[more] >> _VARINT_BITS
    return encoded.tobytes(), sizes


def decode_numbers(data: bytes | memoryview) -> IntArray:
    """Decode varints."""
    if len(data) < _SHORT:
        numbers, number, shift = [], 0, 0
        for byte in data:
            number |= (byte & (_CONTINUED - 1)) << shift
            shift += _VARINT_BITS
            if byte < _CONTINUED:
                numbers.append(number)
                number = shift = 0
        return np.array(numbers, dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw < _CONTINUED)
    if len(ends) == len(raw):
        return raw.astype(np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    decoded = (raw[starts] & (_CONTINUED - 1)).astype(np.int64)
    for n in range(1, int(sizes.max()) + 1):
        longer = np.flatnonzero(sizes >= n)
        decoded[longer] |= (raw[starts[longer] + n] & (_CONTINUED - 1)).astype(
            np.int64
        ) << _VARINT_BITS * n
    return decoded
