"""Segments of the keyword index: row ids, field lengths, terms and their occurrences in a Whoosh
compound file.

A segment's rows are chunks and documents. The document id of a row is the row's position in the
segment, even if the row is a chunk. `row_ids` maps document ids to row ids of the store.

Each part is a column of fixed-width numbers. The columns `rows` and `positions` have one number per
occurrence of a term, sorted by term, document id and position.
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

_BLOCK = 1 << 20

_MAX_POSITION = 0xFFFF
"""Positions are 16-bit numbers. Chunks are much shorter than this."""


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
        """The number of occurrences of each unstemmed word."""
        code = self.field("code")
        return {
            word: count
            for word, count in zip(code.terms(), code.counts, strict=True)
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
    """A field of a segment: the sorted terms, and their occurrences in all rows, even deleted."""

    PARTS = ("terms", "lengths", "counts", "rows", "positions")

    def __init__(self, terms: Any, lengths: Any, counts: Any, rows: Any, positions: Any) -> None:
        self._term_bytes = bytes(terms)
        self.counts = array("I", bytes(counts))  # occurrences of each term
        self._term_offsets, self._offsets = (
            _offsets(np.frombuffer(column, dtype=np.uint32)) for column in (lengths, counts)
        )
        row_size = len(rows) // max(self._offsets[-1], 1) or 2  # bytes
        self._rows: Any = np.frombuffer(rows, dtype=f"<u{row_size}")
        self._positions: Any = np.frombuffer(positions, dtype="<u2")

    def term(self, number: int) -> bytes:
        """Return a term by its number, or b"" if the number is too high."""
        if number < len(self.counts):
            return self._term_bytes[self._term_offsets[number] : self._term_offsets[number + 1]]
        return b""

    def terms(self) -> list[str]:
        """Return all terms."""
        return [self._term_bytes[start:end].decode() for start, end in pairwise(self._term_offsets)]

    def lower_bound(self, text: bytes) -> int:
        """Return the number of the first term that is not less than a text."""
        terms, offsets, low, high = self._term_bytes, self._term_offsets, 0, len(self.counts)
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
        span = self._span(term)
        if span.start == span.stop:  # most fields lack most terms
            return (np.zeros(0, dtype=np.int64),) * 2
        rows = self._rows[span]
        first = np.flatnonzero(_group_starts(rows))
        return rows[first].astype(np.int64), np.diff(first, append=len(rows))

    def phrase_matches(self, phrase: Sequence[str]) -> IntArray:
        """Return the document ids of the rows that contain a phrase, ascending."""
        matches = None
        for after, span in enumerate(map(self._span, phrase)):
            # document id and start of the phrase in one number
            starts = self._rows[span].astype(np.int64) << 32
            starts += self._positions[span].astype(np.int64) - after
            matches = starts if matches is None else matches[np.isin(matches, starts)]
            if not len(matches):
                break
        return np.zeros(0, dtype=np.int64) if matches is None else np.unique(matches >> 32)

    def columns(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the term number, document id and position of all occurrences."""
        return np.repeat(np.arange(len(self.counts)), self.counts), self._rows, self._positions

    def _span(self, term: str) -> slice:
        """Return the range of a term's occurrences."""
        text = term.encode()
        number = self.lower_bound(text)
        end = self._offsets[number + (self.term(number) == text)]
        return slice(self._offsets[number], end)


def _offsets(lengths: UintArray) -> array[int]:
    """Return the offsets of adjacent parts with these `lengths`, and the end of the last part."""
    # reading a single item is faster than from a NumPy array
    return array("Q", np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64).tobytes())


class SegmentWriter:
    """Collects new rows, then rows of other segments, and writes one segment."""

    def __init__(self) -> None:
        self._row_ids = array("q")
        self._lengths = {name: array("i") for name in FIELDS}
        self._fields = {name: _Occurrences() for name in FIELDS}
        self._merged: list[tuple[Segment, IntArray]] = []

    def add(self, row_id: int, words: AnalyzedFields) -> None:
        """Add a row with its terms. Call this before `merge`."""
        for name, (terms, positions) in words.fields.items():
            self._fields[name].add(len(self._row_ids), terms, positions)
        for name, lengths in self._lengths.items():
            lengths.append(words.lengths.get(name, 0))
        self._row_ids.append(row_id)

    def merge(self, segment: Segment, deleted: UintArray) -> None:
        """Add the live rows of a segment. Their occurrences are read later, by `write`."""
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
                field.merge(segment.field(name), new_ids)
            for part, data in zip(SegmentField.PARTS, field.encoded(), strict=True):
                put(f"{name}.{part}", data)
        CompoundStorage.write_dir(file, 0, directory)


class _Occurrences:
    """The occurrences of a field's terms, sorted by document id."""

    def __init__(self) -> None:
        # each term's number, assigned in order of first occurrence
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._terms, self._rows, self._positions = array("I"), array("I"), array("I")

    def add(self, doc_id: int, terms: Sequence[str], positions: Sequence[int]) -> None:
        """Add the terms of a row, in order of occurrence. Add rows in order of document ids."""
        self._terms.extend(map(self._numbers.__getitem__, terms))
        self._rows.extend(array("I", (doc_id,)) * len(terms))
        self._positions.extend(positions)

    def merge(self, field: SegmentField, new_ids: IntArray) -> None:
        """Add the occurrences in a segment.

        `new_ids` maps the segment's document ids to new ones, or to -1 if the row is deleted.
        """
        numbers, rows, positions = field.columns()
        live = new_ids[rows] >= 0
        terms, used = field.terms(), np.unique(numbers[live])
        new_numbers = np.zeros(len(terms), dtype=np.uint32)
        new_numbers[used] = [self._numbers[terms[number]] for number in used.tolist()]
        _extend(self._terms, new_numbers[numbers[live]])
        _extend(self._rows, new_ids[rows[live]])
        if len(positions):
            _extend(self._positions, positions[live])

    def encoded(self) -> tuple[bytes, ...]:
        """Return the parts of a `SegmentField`."""
        texts = [term.encode() for term in self._numbers]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(texts), dtype=np.min_scalar_type(len(texts)))
        rank[order] = np.arange(len(texts))
        terms, rows, positions = (
            np.frombuffer(column, dtype=np.uint32)
            for column in (self._terms, self._rows, self._positions)
        )
        terms = rank[terms]
        by_term = np.argsort(terms, kind="stable")
        size = "<u2" if not len(rows) or rows.max() <= 0xFFFF else "<u4"
        return (
            b"".join(texts[number] for number in order),
            np.array([len(texts[number]) for number in order], dtype=np.uint32).tobytes(),
            np.bincount(terms, minlength=len(texts)).astype(np.uint32).tobytes(),
            rows[by_term].astype(size).tobytes(),
            np.minimum(positions[by_term], _MAX_POSITION).astype("<u2").tobytes()
            if len(positions)
            else b"",
        )


def _extend(values: array[int], numbers: IntArray | UintArray) -> None:
    values.frombytes(numbers.astype(np.uint32).tobytes())


def _group_starts(numbers: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the first number in each run of equal numbers."""
    mask = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=mask[1:])
    return mask


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
