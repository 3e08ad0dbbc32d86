"""The index of words: BM25F over the columns of Whoosh's segments, and the writer that keeps them
equal to the store's rows.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from thumbindex.errors import IndexDamagedError
from thumbindex.index.analysis import DOCUMENT_FIELDS, chunk_words, document_words, stems
from thumbindex.index.bm25f import Column, Lengths, Scorer, either, merged
from thumbindex.index.catalog import StoreCatalog, positions_of
from thumbindex.index.files import as_storage_errors
from thumbindex.index.segments import (
    Narrow,
    Segment,
    SegmentFile,
    SegmentWriter,
    checksum_of,
)
from thumbindex.index.store import Store
from thumbindex.model import Chunk, ChunkId, Document, DocumentId, Hit, IdleTime, RankedList, Term
from thumbindex.ports import KeywordWeights, Mask, Positions, Selection
from thumbindex.text import words

_T = TypeVar("_T")

Stems = tuple[str, ...]
"""Under what a word is kept: English's stem first, then that of each other language which the index
holds; a form of code alone.
"""

PHRASE_FIELDS = ("body", "headings", "title", "aliases")
"""Where the words of a phrase must stand."""

NOWHERE = tuple(
    Column(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), whole)
    for whole in (False, True)
)
"""The columns of words that stand nowhere: most do not in most fields."""

COLUMNS_KEPT = 2_000
"""Terms whose columns one snapshot keeps: composing one again from its segments' postings takes
well under a millisecond.
"""

FEW_SEGMENTS, MOST_SEGMENTS = 3, 32
"""Segments that are left alone when there is time to merge, for eleven slow a question by a fifth,
and those from which on a commit merges some.
"""

MERGED_AT_ONCE = 8
"""Segments that a commit merges, so that the next ones need not."""

ROWS: dict[IdleTime, int] = {"short": 16_000, "long": 100_000}
"""Maximum rows of a merge between two commits."""


class TermColumns:
    """Makes columns of the words that a question asks for, of whatever an index has by field and
    stem.

    `postings` gives a stem's column in a field, `phrase` the positions at which stems stand there
    one after the other.
    """

    def __init__(
        self,
        languages: Collection[str],
        postings: Callable[[str, str], Column],
        phrase: Callable[[str, Sequence[str]], Positions],
    ) -> None:
        self._languages = sorted(languages)
        self._postings, self._phrase = postings, phrase
        self._columns: dict[tuple[str, tuple[Stems, ...]], Column] = {}

    def of_terms(
        self, terms: Sequence[Term], fields: Collection[str]
    ) -> Iterator[tuple[Term, dict[str, Column]]]:
        """Yield each word of terms that is not yet among them, with the term that it is of and its
        columns by field.
        """
        added = set()
        for term in terms:
            for own in self.analyzed(term.text, fields):
                if own not in added:
                    added.add(own)
                    yield term, {name: self._with_others(name, own, term) for name in fields}

    def analyzed(self, text: str, fields: Collection[str]) -> Sequence[Stems]:
        """Return the words of a text as they are kept in some fields: code as it is written."""
        return [(text,)] if "code" in fields else self._stems(text)

    def column(self, name: str, own: Stems) -> Column:
        """Return the column of a word in a field."""
        return self._kept(name, [own], lambda: either([self._postings(name, each) for each in own]))

    def form(self, name: str, form: str) -> Column:
        """Return the column of a word, or of words that stand one after the other; code is kept
        without places, and has no such.
        """
        found = self.analyzed(form, (name,))
        if len(found) == 1:
            return self.column(name, found[0])

        def phrase() -> Column:
            rows = np.unique(self._positions(name, found))
            return Column(rows, np.ones(len(rows), dtype=np.float32), name in DOCUMENT_FIELDS)

        return self._kept(name, found, phrase)

    def phrase(self, text: str) -> dict[str, Positions]:
        """Return where the words of a text stand one after the other, by field."""
        asked = self._stems(text)
        return {name: self._positions(name, asked) for name in PHRASE_FIELDS}

    def _stems(self, text: str) -> list[Stems]:
        return [stems(word, self._languages) for word in words(text)]

    def _with_others(self, name: str, own: Stems, term: Term) -> Column:
        """Return a term's column, the postings of its other forms in it, each by its weight."""
        others = [(self.form(name, other.text), other.weight) for other in term.others]
        if others:
            return merged([(self.column(name, own), 1.0), *others])
        return self.column(name, own)

    def _positions(self, name: str, phrase: Sequence[Stems]) -> Positions:
        """Return where the chunks or documents stand that hold a phrase in a field: a text has one
        language for all of its words.
        """
        most = max(map(len, phrase), default=0)
        variants = {
            tuple(each[n] if n < len(each) else each[0] for each in phrase) for n in range(most)
        }
        found = [self._phrase(name, variant) for variant in variants]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _kept(self, name: str, phrase: Sequence[Stems], compose: Callable[[], Column]) -> Column:
        key = (name, tuple(phrase))
        if key not in self._columns:
            column = compose()
            if len(self._columns) >= COLUMNS_KEPT:
                del self._columns[next(iter(self._columns))]
            self._columns[key] = column
        return self._columns[key]


class _SegmentPostings:
    """The postings of segments at a catalog's positions; `position` has one for each of their rows,
    -1 where it does not count.
    """

    def __init__(
        self, segments: Sequence[Segment], offsets: Sequence[int], position: Positions
    ) -> None:
        self._parts, self._position = tuple(zip(segments, offsets, strict=False)), position

    def column(self, name: str, text: str) -> Column:
        """Make a term's column of its postings in all segments."""
        parts = ((offset, *segment.field(name).postings(text)) for segment, offset in self._parts)
        found = [
            (offset + numbers, counts.astype(np.float32))
            for offset, numbers, counts in parts
            if len(numbers)
        ]
        if not found:
            return NOWHERE[name in DOCUMENT_FIELDS]
        rows = self._position[np.concatenate([numbers for numbers, _ in found])]
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        return Column(
            rows[order].astype(np.int32),
            np.concatenate([frequencies for _, frequencies in found])[order],
            whole=name in DOCUMENT_FIELDS,
        )

    def phrase(self, name: str, phrase: Sequence[str]) -> Positions:
        """Return where terms stand one after the other."""
        rows = [offset + segment.field(name).phrase_rows(phrase) for segment, offset in self._parts]
        at: Positions = self._position[_joined(rows, np.int64)]
        return at[at >= 0]


class WhooshKeywordIndex:
    """KeywordIndex over one folder's inverted index, aligned with a catalog."""

    def __init__(self, opened: OpenedSegments, catalog: StoreCatalog) -> None:
        self._lock = threading.Lock()
        self.segments: tuple[Segment, ...] = tuple(segment for segment, _ in opened)
        self._offsets = (0, *accumulate(len(segment.row_ids) for segment in self.segments))
        rows = _joined([segment.row_ids for segment in self.segments], np.int64)
        self._is_chunk = rows > 0
        self._position: Positions = np.full(len(rows), -1, dtype=np.int64)
        self._position[self._is_chunk] = catalog.chunk_positions(rows[self._is_chunk])
        self._position[~self._is_chunk] = positions_of(
            catalog.document_rows, -rows[~self._is_chunk]
        )
        for (_, deleted), offset in zip(opened, self._offsets, strict=False):
            self._position[offset + deleted] = -1
        self._catalog = catalog
        self.languages = frozenset[str]().union(*(segment.languages for segment in self.segments))
        # of its own: what refers to itself is not freed at once
        postings = _SegmentPostings(self.segments, self._offsets, self._position)
        self._terms = TermColumns(self.languages, postings.column, postings.phrase)
        self._lengths: dict[str, Lengths] = {}
        self._words: Mapping[int, set[str]] | None = None

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Score chunks and documents by BM25F over the weighted fields; terms are ORed, phrases
        must match.
        """
        asked, phrases = self._ask(
            lambda columns: (
                list(columns.of_terms(terms, weights.fields)),
                [columns.phrase(term.text) for term in terms if term.phrase],
            )
        )
        documents = len(self._catalog.document_rows)
        scorer = Scorer(self._catalog.document_ids, documents, weights, self._length)
        for term, by_field in asked:
            scorer.add(term.weight, by_field)
        mask = None if within is None else within.mask
        for phrase in phrases:
            held = self._held(phrase)
            mask = held if mask is None else held & mask
        best = scorer.best_chunks(limit, mask)
        hits = tuple(
            Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), rank, score, share)
            for rank, (n, score, share) in enumerate(zip(*best, strict=True), 1)
        )
        return RankedList(hits, {DocumentId(n): score for n, score in scorer.documents(mask)})

    def holding(self, text: str, fields: Collection[str]) -> Selection:

        def columns_by_word(columns: TermColumns) -> list[dict[str, Any]]:
            return [
                {name: columns.column(name, word).rows for name in fields}
                for word in columns.analyzed(text, fields)
            ]

        found = [self._held(rows) for rows in self._ask(columns_by_word)]
        mask = np.logical_and.reduce(found) if found else np.zeros(len(self._catalog), dtype=bool)
        return self._catalog.selection(mask)

    def holding_phrase(self, text: str) -> Selection:
        return self._catalog.selection(self._held(self._ask(lambda columns: columns.phrase(text))))

    def frequency(self, word: str) -> int:
        return len(self._ask(lambda columns: columns.column("code", (word,))).rows)

    def adjacent(self, text: str) -> int:
        return len(self._ask(lambda columns: columns.form("body", text)).rows)

    def _held(self, found: Mapping[str, Any]) -> Mask:
        """Return the chunks that stand at positions by field, themselves or by their document."""
        chunks = np.zeros(len(self._catalog), dtype=np.bool_)
        documents = np.zeros(len(self._catalog.document_rows), dtype=np.bool_)
        for name, at in found.items():
            (documents if name in DOCUMENT_FIELDS else chunks)[at] = True
        return chunks | documents[self._catalog.document_ids] if documents.any() else chunks

    def __len__(self) -> int:
        """Count the chunks whose words are indexed."""
        return int(np.count_nonzero(self._is_chunk & (self._position >= 0)))

    def _ask(self, ask: Callable[[TermColumns], _T]) -> _T:
        with self._lock:
            return ask(self._terms)

    def words(self, lengths: range) -> Collection[str]:
        """Return the word forms of these lengths; those of deleted chunks too, until their segment
        is merged.
        """
        with self._lock:
            if self._words is None:
                by_length: defaultdict[int, set[str]] = defaultdict(set)
                for word in counted_words(self.segments):
                    by_length[len(word)].add(word)
                self._words = by_length
            return [word for length in lengths for word in self._words.get(length, ())]

    def _length(self, name: str) -> Lengths:
        with self._lock:
            return self._length_of(name)

    def _length_of(self, name: str) -> Lengths:
        if name not in self._lengths:
            whole = name in DOCUMENT_FIELDS
            lengths = np.zeros(
                len(self._catalog.document_rows if whole else self._catalog), dtype=np.float32
            )
            numbers = np.flatnonzero((self._position >= 0) & (self._is_chunk != whole))
            lengths[self._position[numbers]] = _joined(
                [segment.lengths(name) for segment in self.segments], np.float32
            )[numbers]
            ids = self._catalog.document_ids
            self._lengths[name] = (
                Lengths.of_documents(lengths)
                if whole
                else Lengths.of_chunks(lengths, ids, len(self._catalog.document_rows))
            )
        return self._lengths[name]


def counted_words(segments: Iterable[Segment]) -> Mapping[str, int]:
    """Return every word form with the number of chunks that hold it; those of deleted ones count
    until their segment is merged.
    """
    counted: Counter[str] = Counter()
    for segment in segments:
        counted.update(segment.words)
    return counted


class KeywordWriter:
    """Keeps the index of words equal to the store's rows, inside the store's transactions: a file
    counts when the store's commit lists it.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._folder = store, store.keyword

    def apply(
        self,
        removed: Sequence[int],
        documents: Iterable[tuple[int, Document]],
        chunks: Iterable[tuple[int, Chunk, str]],
    ) -> None:
        """Remove rows and add rows: chunks' row ids with their documents' languages, minus
        documents' row ids.
        """
        segments = self._store.segments()
        if removed:
            segments = [self._without(each, removed) for each in segments]
        writer = SegmentWriter()
        for row, document in documents:
            writer.add(row, document_words(document))
        for row, chunk, language in chunks:
            writer.add(row, chunk_words(chunk, language))
        # a merge costs five times as much as the commit of an edit: not while a text waits to
        # be found, unless segments have become many
        is_due = len(segments) >= MOST_SEGMENTS
        merged = sorted(segments, key=lambda segment: segment.live)[: is_due * MERGED_AT_ONCE]
        self._write(writer, segments, merged)

    def _without(self, segment: SegmentFile, rows: Sequence[int]) -> SegmentFile:
        numbers = np.flatnonzero(np.isin(Segment.open(self._folder, segment.name).row_ids, rows))
        return segment.without(numbers) if len(numbers) else segment

    def merge(self, idle: IdleTime) -> None:
        """Merge small segments, as many rows as there is time for."""
        segments = self._store.segments()
        merged = _smallest(segments, ROWS[idle]) if len(segments) > FEW_SEGMENTS else []
        if merged:
            with self._store.transaction():
                self._write(SegmentWriter(), segments, merged)

    def drop_deleted(self) -> None:
        """Write every segment anew that rows were removed from: their words are gone from the files
        then.
        """
        segments = self._store.segments()
        self._write(SegmentWriter(), segments, [each for each in segments if len(each.deleted)])

    def _write(
        self, writer: SegmentWriter, segments: list[SegmentFile], merged: list[SegmentFile]
    ) -> None:
        """Write a segment of what is new and of some segments, and list it."""
        with as_storage_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
            for segment in merged:
                writer.merge(Segment.open(self._folder, segment.name), segment.deleted)
            written = writer.write(self._folder)
        left = [each for each in segments if each not in merged]
        self._store.set_segments([*left, *written])

    def sweep(self) -> None:
        """Delete the files that the store does not list: a commit has replaced them, or a writer
        died before its commit.
        """
        keep = {each.name for each in self._store.segments()}
        for path in self._folder.glob("*"):
            if path.name not in keep:
                with suppress(OSError):  # somebody has it open (Windows): the next sweep takes it
                    path.unlink()


OpenedSegments = Sequence[tuple[Segment, Narrow]]
"""Segments, each with the numbers of its rows that are deleted."""


def open_segments(store: Store, last: Iterable[Segment] = ()) -> OpenedSegments:
    """Open the segments that the store lists, every byte verified; those of `last` stay open.

    Raises IndexDamagedError.
    """
    held = {segment.id: segment for segment in last}
    listed = verify_words(store)
    with _damage(store.keyword):
        return [
            (held.get(each.name) or Segment.open(store.keyword, each.name), each.deleted)
            for each in listed
        ]


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IndexDamagedError(
            f"The keyword index in {folder} cannot be opened ({error}): run `thumbindex index` to "
            "build it anew."
        ) from error


_verified: dict[Path, dict[str, tuple[int, int, int]]] = {}
"""Inode, size and time of each folder's files that this process has read, by name: an edit costs
the new ones only.
"""


def verify_words(store: Store, *, from_disk: bool = False) -> Sequence[SegmentFile]:
    """Return the segments that the store lists, if their files are as they were written; else raise
    IndexDamagedError.

    A file that this process has read is not read again while nobody has written it, unless it is
    to be read `from_disk`.
    """
    folder = store.keyword
    before, verified = _verified.get(folder, {}), dict[str, tuple[int, int, int]]()
    segments = store.segments()
    with _damage(folder):
        for each in segments:
            path = folder / each.name
            found = path.stat()
            verified[each.name] = (found.st_ino, found.st_size, found.st_mtime_ns)
            is_new = from_disk or before.get(each.name) != verified[each.name]
            if is_new and (found.st_size, checksum_of(path)) != (each.size, each.checksum):
                raise OSError(f"{each.name} is not as it was written")
    _verified[folder] = verified
    return segments


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    """Join arrays, none of them too."""
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def _smallest(segments: list[SegmentFile], rows: int) -> list[SegmentFile]:
    """Return the segments that are worth merging: each row comes to a segment of twice the size, so
    that it is written anew a few times in all.

    What was deleted is left behind and costs nothing: a segment is as large as what is left of it.
    """
    by_size = sorted(segments, key=lambda segment: segment.live)
    sums = list(accumulate((segment.live for segment in by_size), initial=0))
    count = sum(size <= rows for size in sums[1:])
    while count > 1 and sums[count] > 2 * sums[count - 1]:
        count -= 1
    return by_size[:count] if count > 1 else []
