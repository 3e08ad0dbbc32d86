"""A segment of the index of words: its rows, their lengths, terms and postings, as columns in one
of Whoosh's compound files.

A row is a chunk or a document. A term's run holds for each of its rows how far it is from the one
before, doubled, plus one where the term stands there more than once; then, for those, how often
less two. Its places stand apart, for only phrases ask for them: each counted from the one before in
its row. All of these are varints: seven bits a byte, the lowest first, the last byte below 128.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import secrets
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from whoosh.filedb.compound import CompoundStorage
from whoosh.filedb.filestore import FileStorage

from thumbindex.index.analysis import CHUNK_FIELDS, DOCUMENT_FIELDS, MARK, RowWords
from thumbindex.index.files import fsync_folder

Numbers = npt.NDArray[np.int64]

Narrow = npt.NDArray[np.uint32]
"""Numbers while there are many of them."""

SUFFIX = ".seg"

FIELDS = (*CHUNK_FIELDS, *DOCUMENT_FIELDS)

_AT_ONCE = 1 << 18
"""Occurrences that are sorted and written, or postings that are read at once: each takes a hundred
bytes meanwhile.
"""

_BLOCK = 1 << 20

_BITS, _MORE = 7, 0x80

_FEW = 24
"""Bytes that are read quicker one by one than by a dozen calls of NumPy: a rare term's."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentFile:
    """A segment as the store lists it: its file, and which of its rows are deleted."""

    name: str
    rows: int
    size: int  # bytes
    checksum: int
    deleted: Narrow = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.uint32))

    @property
    def live(self) -> int:
        """How many rows are not deleted."""
        return self.rows - len(self.deleted)

    def without(self, numbers: Numbers) -> SegmentFile:
        """Return the segment with more rows deleted."""
        return replace(self, deleted=np.union1d(self.deleted, numbers).astype(np.uint32))


def checksum_of(path: Path) -> int:
    """Return the checksum of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum


class Segment:
    """One segment, open for reading.

    It never changes: which rows are deleted stands in the store. Safe to use from several threads.
    """

    def __init__(self, name: str, parts: Mapping[str, Any]) -> None:
        """Take the parts that `SegmentWriter` has written, by name, as bytes or what gives them."""
        self.id, self.parts = name, parts
        self._fields: dict[str, Field] = {}
        self._lengths: dict[str, npt.NDArray[np.float32]] = {}
        self.row_ids: Numbers = np.frombuffer(self._part("row"), dtype=">i8").astype(np.int64)

    @classmethod
    def open(cls, folder: Path, name: str) -> Segment:
        """Open a file."""
        storage = FileStorage(str(folder))
        with closing(CompoundStorage(storage.open_file(name), use_mmap=False)) as file:
            places = {part: file.range(part) for part in file.list()}
        with (folder / name).open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        parts = {part: data[begin : begin + size] for part, (begin, size) in places.items()}
        return cls(name, parts)

    def field(self, name: str) -> Field:
        """Return a field, whose terms are read when it is first asked for; one that holds no words
        has none.
        """
        if name not in self._fields:
            self._fields[name] = Field(*(self._part(f"{name}.{part}") for part in Field.PARTS))
        return self._fields[name]

    def lengths(self, name: str) -> npt.NDArray[np.float32]:
        """Return a field's length in words, a value a row."""
        if name not in self._lengths:
            lengths = np.zeros(len(self.row_ids), dtype=np.float32)
            held = np.frombuffer(self._part(f"{name}.length"), dtype=">i4")
            lengths[: len(held)] = held
            self._lengths[name] = lengths
        return self._lengths[name]

    @cached_property
    def words(self) -> Mapping[str, int]:
        """Every word form with the number of rows that hold it."""
        code = self.field("code")
        return {
            word: size
            for word, size in zip(code.texts(), code.sizes, strict=True)
            if word.isalpha()
        }

    @cached_property
    def languages(self) -> frozenset[str]:
        """The languages beside English in which words were stemmed."""
        found = set()
        for field in map(self.field, ("body", "headings", "title")):
            start = MARK  # a language's terms stand together: one look behind each finds the next
            while field.text(number := field.closest(start.encode())).startswith(MARK.encode()):
                language = field.text(number).decode().split(MARK)[1]
                found.add(language)
                start = f"{MARK}{language}{chr(ord(MARK) + 1)}"
        return frozenset(found)

    def _part(self, name: str) -> Any:
        return self.parts.get(name, b"")


class Field:
    """A segment's field: its terms in order, and the postings of each, those of deleted rows
    too.
    """

    PARTS = ("terms", "facts", "runs", "places")

    def __init__(self, terms: Any, facts: Any, runs: Any, places: Any) -> None:
        self._texts, self._run_bytes, self._place_bytes = bytes(terms), runs, places
        lengths, sizes, *bounds = decode_numbers(facts).reshape(4 if places else 3, -1)
        self.sizes = array("I", sizes.astype(np.uint32).tobytes())  # rows that hold each term
        self._bounds, self._runs, *self._places = map(_bounds, (lengths, *bounds))

    def text(self, number: int) -> bytes:
        """Return a term; behind the last one nothing."""
        if number < len(self.sizes):
            return self._texts[self._bounds[number] : self._bounds[number + 1]]
        return b""

    def texts(self, some: slice = slice(None)) -> list[str]:
        """Return some of the terms."""
        return [self.text(number).decode() for number in range(*some.indices(len(self.sizes)))]

    def closest(self, text: bytes) -> int:
        """Return the number of a term, or of the next one where it is none."""
        texts, bounds, low, high = self._texts, self._bounds, 0, len(self.sizes)
        # bisect's key would be called for each, and this is half of what a rare term costs
        while low < high:
            middle = (low + high) // 2
            if texts[bounds[middle] : bounds[middle + 1]] < text:
                low = middle + 1
            else:
                high = middle
        return low

    def postings(self, term: str) -> tuple[Numbers, Numbers]:
        """Return the rows that hold a term, ascending, and how often it stands in each."""
        number = self._find(term)
        return (np.zeros(0, dtype=np.int64),) * 2 if number is None else self._run(number)

    def spans(self, term: str, *, with_places: bool) -> Iterator[tuple[Any, slice]]:
        """Yield what is read for a term: bytes, and which of them."""
        number = self._find(term)
        if number is not None:
            yield self._run_bytes, self._run_span(number)
            if with_places and self._places:
                yield self._place_bytes, self._place_span(number)

    def phrase_rows(self, phrase: Sequence[str]) -> Numbers:
        """Return the rows in which terms stand one after the other, ascending."""
        numbers = [number for number in map(self._find, phrase) if number is not None]
        found = None
        for after, number in enumerate(numbers if len(numbers) == len(phrase) else ()):
            if found is not None and not len(found):
                break
            rows, counts = self._run(number)
            places = decode_places(self._place_bytes[self._place_span(number)], counts)
            # row and place as one number: where the phrase would begin
            starts = (np.repeat(rows, counts) << 32) + places - after
            found = starts if found is None else found[np.isin(found, starts)]
        return np.zeros(0, dtype=np.int64) if found is None else np.unique(found >> 32)

    def columns(self) -> Iterator[tuple[list[str], Columns]]:
        """Yield terms and all of their postings, some at a time."""
        for some in slices(np.array(self.sizes, dtype=np.int64)):
            bounds = [each[some.start : some.stop + 1] for each in (self._runs, *self._places)]
            facts = np.array([self.sizes[some], *map(np.diff, bounds)], dtype=np.int64)
            data = [
                part[each[0] : each[-1]]
                for part, each in zip((self._run_bytes, self._place_bytes), bounds, strict=False)
            ]
            yield (
                self.texts(some),
                decode_postings(Postings(facts, data[0], data[1] if self._places else b"")),
            )

    def _find(self, term: str) -> int | None:
        text = term.encode()
        number = self.closest(text)
        return number if self.text(number) == text else None

    def _run(self, number: int) -> tuple[Numbers, Numbers]:
        return decode_run(self._run_bytes[self._run_span(number)], self.sizes[number])

    def _run_span(self, number: int) -> slice:
        return slice(self._runs[number], self._runs[number + 1])

    def _place_span(self, number: int) -> slice:
        return slice(self._places[0][number], self._places[0][number + 1])


def _bounds(lengths: Numbers) -> array[int]:
    """Return where each of some parts begins, and the last one ends; as an array, whose single
    items are had twice as fast as NumPy's.
    """
    return array("Q", np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64).tobytes())


class SegmentWriter:
    """Gathers rows and the rows of other segments, and writes them as one segment."""

    def __init__(self) -> None:
        self._row_ids = array("q")
        self._lengths = {name: array("i") for name in FIELDS}
        self._fields = {name: _Occurrences(with_places=name != "code") for name in FIELDS}
        self._merged: list[tuple[Segment, Numbers]] = []

    def add(self, row_id: int, words: RowWords) -> None:
        """Add a row by its id, and what it is found by; rows come before segments."""
        for name, (terms, places) in words.fields.items():
            self._fields[name].add(len(self._row_ids), terms, places)
        for name, lengths in self._lengths.items():
            lengths.append(words.lengths.get(name, 0))
        self._row_ids.append(row_id)

    def merge(self, segment: Segment, deleted: Narrow) -> None:
        """Add a segment's rows but for those that are deleted; their words are read a field at a
        time when all is written.
        """
        live = np.delete(np.arange(len(segment.row_ids)), deleted)
        numbers = np.full(len(segment.row_ids), -1, dtype=np.int64)
        numbers[live] = len(self._row_ids) + np.arange(len(live))
        self._merged.append((segment, numbers))
        self._row_ids.frombytes(segment.row_ids[live].tobytes())
        for name, lengths in self._lengths.items():
            lengths.frombytes(segment.lengths(name)[live].astype(np.int32).tobytes())

    def write(self, folder: Path) -> list[SegmentFile]:
        """Write one file; return it, or nothing if there are no rows.

        It is on the disk before the store's transaction lists it.
        """
        if not self._row_ids:
            return []
        # a name that no file had before: readers may still have those open
        path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
        file = FileStorage(str(folder)).create_file(path.name)
        try:
            self._write(file)
        finally:
            if not file.is_closed:
                file.close()
        with path.open("r+b") as written:
            os.fsync(written.fileno())
        fsync_folder(folder)
        size, checksum = path.stat().st_size, checksum_of(path)
        return [SegmentFile(path.name, len(self._row_ids), size, checksum)]

    def _write(self, file: Any) -> None:
        directory: dict[str, dict[str, int]] = {}

        def put(name: str, data: bytes) -> None:
            if data:
                directory[name] = {"offset": file.tell(), "length": len(data)}
                file.write(data)

        file.write_long(0)  # where the directory stands: written last
        file.write_int(0)
        # rows and lengths are as Whoosh's NumericColumn has them, zeros at the end left out
        put("row", np.array(self._row_ids, dtype=">i8").tobytes())
        for name in FIELDS:
            put(
                f"{name}.length",
                np.trim_zeros(np.array(self._lengths[name], dtype=">i4"), "b").tobytes(),
            )
            field = self._fields.pop(name)
            for segment, numbers in self._merged:
                for texts, columns in segment.field(name).columns():
                    field.add_columns(texts, columns, numbers)
            for part, data in zip(Field.PARTS, field.encoded(), strict=False):
                put(f"{name}.{part}", data)
        CompoundStorage.write_dir(file, 0, directory)


class _Occurrences:
    """A field's words as columns, a number an occurrence, until they are sorted all at once."""

    def __init__(self, *, with_places: bool) -> None:
        # of terms, in the order in which they come
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._with_places = with_places
        self._terms, self._places = array("I"), array("I")
        # rows, and how many of the occurrences are in each
        self._rows, self._counts = array("I"), array("I")

    def add(self, row: int, terms: Sequence[str], places: Iterable[int]) -> None:
        """Add a row's terms, each as often as it stands there; rows come in ascending order."""
        self._terms.extend(map(self._numbers.__getitem__, terms))
        if self._with_places:
            self._places.extend(places)
        self._rows.append(row)
        self._counts.append(len(terms))

    def add_columns(self, texts: Sequence[str], columns: Columns, numbers: Numbers) -> None:
        """Add a segment's postings, whose rows have other numbers now, or none."""
        rows = numbers[columns.rows]
        kept = rows >= 0
        held, which = np.unique(columns.terms[kept], return_inverse=True)
        terms = np.array([self._numbers[texts[number]] for number in held], dtype=np.uint32)
        counts = columns.counts[kept]
        _extend(self._terms, np.repeat(terms[which], counts))
        _extend(self._rows, rows[kept])
        _extend(self._counts, counts)
        if columns.places is not None:
            _extend(self._places, columns.places[np.repeat(kept, columns.counts)])

    def encoded(self) -> tuple[bytes, ...]:
        """Return the parts of a segment's field; none where there are no terms."""
        texts = [term.encode() for term in self._numbers]
        if not texts:
            return ()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(texts), dtype=np.uint32)
        rank[order] = np.arange(len(texts), dtype=np.uint32)
        terms, places, rows, counts = (
            np.frombuffer(each, dtype=np.uint32)
            for each in (self._terms, self._places, self._rows, self._counts)
        )
        terms, rows = rank[terms], np.repeat(rows, counts)
        parts = []
        for some in slices(np.bincount(terms, minlength=len(texts))):
            those = (
                slice(None)
                if some.stop - some.start == len(texts)
                else np.flatnonzero((terms >= some.start) & (terms < some.stop))
            )
            columns = sort_columns(
                terms[those] - np.uint32(some.start),
                rows[those],
                places[those] if self._with_places else None,
            )
            parts.append(encode_postings(columns))
        lengths = np.array([len(texts[number]) for number in order], dtype=np.int64)
        facts = np.vstack([lengths, np.hstack([part.facts for part in parts])])
        ordered = b"".join(texts[number] for number in order)
        return (
            ordered,
            encode_numbers(facts.ravel())[0],
            b"".join(part.data for part in parts),
            b"".join(part.places for part in parts),
        )


def _extend(values: array[int], numbers: Numbers | Narrow) -> None:
    values.frombytes(numbers.astype(np.uint32).tobytes())


# ---------------------------------------------------------------- postings as columns, and as bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """Postings in the order of terms, then of rows: a term's number, a row's, how often; and all of
    the places one after the other.
    """

    terms: Numbers | Narrow
    rows: Numbers | Narrow
    counts: Numbers
    places: Numbers | Narrow | None  # None where a field keeps none


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings in bytes, and the facts of each term: how many rows hold it, bytes of its run, and
    bytes of its places where the field keeps any.
    """

    facts: Numbers  # shape (2 or 3, terms)
    data: bytes | memoryview
    places: bytes | memoryview


def sort_columns(terms: Narrow, rows: Narrow, places: Narrow | None) -> Columns:
    """Make postings of a value an occurrence, in the order of rows for each term."""
    # 16 bits are sorted by counting
    order = np.argsort(
        terms.astype(np.uint16) if len(terms) and terms.max() < 1 << 16 else terms, kind="stable"
    )
    terms, rows = terms[order], rows[order]
    first = np.flatnonzero(_differs(terms) | _differs(rows))
    counts = np.diff(first, append=len(terms))
    return Columns(terms[first], rows[first], counts, None if places is None else places[order])


def encode_postings(columns: Columns) -> Postings:
    """Write postings of terms 0, 1, 2 and so on, none of them without a row."""
    starts = np.flatnonzero(_differs(columns.terms))
    sizes = np.diff(starts, append=len(columns.terms))
    often = columns.counts > 1
    tails = _sums(often.astype(np.int64), starts)
    numbers = np.zeros(len(columns.terms) + int(tails.sum()), dtype=np.int64)
    ends = np.cumsum(sizes + tails)
    heads = _heads(ends, tails)
    numbers[heads] = _steps(columns.rows, starts) << 1 | often
    numbers[~heads] = columns.counts[often] - 2
    data, lengths = encode_numbers(numbers)
    run_lengths = _sums(lengths, ends - sizes - tails)
    if columns.places is None:
        return Postings(np.stack([sizes, run_lengths]), data, b"")
    firsts = np.cumsum(columns.counts) - columns.counts
    places, lengths = encode_numbers(_steps(columns.places, firsts))
    return Postings(np.stack([sizes, run_lengths, _sums(lengths, firsts[starts])]), data, places)


def decode_postings(postings: Postings) -> Columns:
    """Read the postings of all terms."""
    sizes, lengths = postings.facts[:2]
    last_bytes = np.flatnonzero(np.frombuffer(postings.data, dtype=np.uint8) < _MORE)
    ends = np.searchsorted(last_bytes, np.cumsum(lengths))
    heads = _heads(ends, np.diff(ends, prepend=0) - sizes)
    numbers = decode_numbers(postings.data)
    counts = _counts(numbers[heads], numbers[~heads])
    rows = _walk(numbers[heads] >> 1, np.cumsum(sizes) - sizes, sizes)
    places = decode_places(postings.places, counts) if len(postings.facts) > 2 else None
    return Columns(np.repeat(np.arange(len(sizes)), sizes), rows, counts, places)


def decode_run(data: bytes | memoryview, size: int) -> tuple[Numbers, Numbers]:
    """Read one term's rows and how often it stands in each."""
    numbers = decode_numbers(data)
    heads = numbers[:size]
    return np.cumsum(heads >> 1), _counts(heads, numbers[size:])


def decode_places(data: bytes | memoryview, counts: Numbers) -> Numbers:
    """Read places, those of a row after those of another."""
    return _walk(decode_numbers(data), np.cumsum(counts) - counts, counts)


def slices(sizes: Numbers) -> Iterator[slice]:
    """Yield ranges of items that come to about as much as is worked on at once."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    bounds = [0, *cuts.tolist(), len(sizes)] if len(sizes) else []
    yield from (slice(*bounds[n : n + 2]) for n in range(len(bounds) - 1))


def _counts(heads: Numbers, tails: Numbers) -> Numbers:
    counts = np.ones(len(heads), dtype=np.int64)
    if len(tails):
        counts[np.flatnonzero(heads & 1)] = tails + 2
    return counts


def _heads(ends: Numbers, tails: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which numbers of runs are rows: of each run, all but so many at its end."""
    found = np.ones(int(ends[-1]) if len(ends) else 0, dtype=np.bool_)
    before = np.cumsum(tails) - tails
    found[np.repeat(ends - tails - before, tails) + np.arange(int(tails.sum()))] = False
    return found


def _steps(values: Numbers | Narrow, starts: Numbers) -> Numbers:
    """Return how far each number is from the one before it, and the first of each group as it
    is.
    """
    numbers = values.astype(np.int64)
    steps = np.diff(numbers, prepend=0)
    steps[starts] = numbers[starts]
    return steps


def _walk(steps: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the numbers of groups that are given as steps."""
    sums = np.cumsum(steps)
    return sums - np.repeat(sums[starts] - steps[starts], lengths)


def _differs(numbers: Numbers | Narrow) -> npt.NDArray[np.bool_]:
    """Tell which numbers are not the one before; the first is not."""
    found = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=found[1:])
    return found


def _sums(numbers: Numbers, starts: Numbers) -> Numbers:
    return np.add.reduceat(numbers, starts) if len(starts) else starts


# ------------------------------------------------------------------ varints, a column at a time


def encode_numbers(numbers: Numbers) -> tuple[bytes, Numbers]:
    """Write numbers that are not negative; return the bytes, and how many each number takes."""
    sizes = np.ones(len(numbers), dtype=np.int64)
    while len(longer := np.flatnonzero(numbers >> _BITS * sizes)):
        sizes[longer] += 1
    ends = np.cumsum(sizes)
    found = np.zeros(ends[-1] if len(ends) else 0, dtype=np.uint8)
    starts, left, rest = ends - sizes, numbers, sizes
    while len(left):
        more = rest > 1
        found[starts] = left & (_MORE - 1) | more * _MORE
        starts, left, rest = starts[more] + 1, left[more] >> _BITS, rest[more] - 1
    return found.tobytes(), sizes


def decode_numbers(data: bytes | memoryview) -> Numbers:
    """Read numbers."""
    if len(data) < _FEW:
        few, number, shift = [], 0, 0
        for byte in data:
            number |= (byte & (_MORE - 1)) << shift
            shift += _BITS
            if byte < _MORE:
                few.append(number)
                number = shift = 0
        return np.array(few, dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw < _MORE)
    if len(ends) == len(raw):
        return raw.astype(np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    found = (raw[starts] & (_MORE - 1)).astype(np.int64)
    for place in range(1, int(sizes.max()) + 1):
        longer = np.flatnonzero(sizes >= place)
        found[longer] |= (raw[starts[longer] + place] & (_MORE - 1)).astype(
            np.int64
        ) << _BITS * place
    return found
