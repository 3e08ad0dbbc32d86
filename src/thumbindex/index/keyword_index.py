"""The keyword index: BM25F over segments, and the writer that keeps them equal to the store."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from thumbindex.index.analysis import DOCUMENT_FIELDS, analyze_chunk, analyze_document, stems
from thumbindex.index.bm25f import FieldLengths, PostingList, Scorer, max_union, weighted_union
from thumbindex.index.catalog import StoreCatalog, ids_of_rows
from thumbindex.index.files import as_storage_errors
from thumbindex.index.segments import (
    OpenSegments,
    Segment,
    SegmentFile,
    SegmentWriter,
)
from thumbindex.index.store import Store
from thumbindex.model import Chunk, ChunkId, Document, DocumentId, Hit, IdleTime, RankedList, Term
from thumbindex.ports import IntArray, KeywordWeights, Mask, Selection
from thumbindex.text import words

_T = TypeVar("_T")

Stems = tuple[str, ...]
"""The terms of a word: its English stem, then its stem in each other language of the index; an
identifier has one term.
"""

PHRASE_FIELDS = ("body", "headings", "title", "aliases")
"""The fields that are searched for phrases."""

NO_POSTINGS = tuple(
    PostingList(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), by_document)
    for by_document in (False, True)
)
"""Empty posting lists, of a chunk field and of a document field."""

CACHED_LISTS = 2_000
"""Posting lists that a snapshot caches: merging one again takes well under a millisecond."""

MIN_SEGMENTS, MAX_SEGMENTS = 3, 32
"""Up to the first number nothing is merged; from the second on a commit merges some."""

SEGMENTS_PER_MERGE = 8
"""Segments that a commit merges."""

MERGE_ROWS: dict[IdleTime, int] = {"short": 16_000, "long": 100_000}
"""Maximum rows of a merge between two commits, by the time there is."""


class TermPostings:
    """Looks up the posting lists of a query's terms, and caches them.

    `postings` returns the list of a stem in a field, `phrase` the ids of a sequence of stems.
    """

    def __init__(
        self,
        languages: Collection[str],
        postings: Callable[[str, str], PostingList],
        phrase: Callable[[str, Sequence[str]], IntArray],
    ) -> None:
        self._languages = sorted(languages)
        self._postings, self._phrase = postings, phrase
        self._columns: dict[tuple[str, tuple[Stems, ...]], PostingList] = {}

    def lookup(
        self, terms: Sequence[Term], fields: Collection[str]
    ) -> Iterator[tuple[Term, dict[str, PostingList]]]:
        """Yield each distinct word of terms, with its term and its posting lists by field."""
        added = set()
        for term in terms:
            for own in self.analyze(term.text, fields):
                if own not in added:
                    added.add(own)
                    yield term, {name: self._with_forms(name, own, term) for name in fields}

    def analyze(self, text: str, fields: Collection[str]) -> Sequence[Stems]:
        """Return the stems of a text's words; in the field of code, the text itself."""
        return [(text,)] if "code" in fields else self._stems(text)

    def posting_list(self, name: str, own: Stems) -> PostingList:
        """Return the posting list of a word in a field."""
        return self._cached(
            name, [own], lambda: max_union([self._postings(name, each) for each in own])
        )

    def form_postings(self, name: str, form: str) -> PostingList:
        """Return the posting list of a word or, except in the field of code, of a phrase."""
        found = self.analyze(form, (name,))
        if len(found) == 1:
            return self.posting_list(name, found[0])

        def phrase() -> PostingList:
            rows = np.unique(self._phrase_ids(name, found))
            return PostingList(rows, np.ones(len(rows), dtype=np.float32), name in DOCUMENT_FIELDS)

        return self._cached(name, found, phrase)

    def phrase(self, text: str) -> dict[str, IntArray]:
        """Return the ids of the texts that hold a phrase, by field."""
        asked = self._stems(text)
        return {name: self._phrase_ids(name, asked) for name in PHRASE_FIELDS}

    def _stems(self, text: str) -> list[Stems]:
        return [stems(word, self._languages) for word in words(text)]

    def _with_forms(self, name: str, own: Stems, term: Term) -> PostingList:
        """Return the posting list of a term with its other forms, weighted."""
        others = [(self.form_postings(name, other.text), other.weight) for other in term.others]
        if others:
            return weighted_union([(self.posting_list(name, own), 1.0), *others])
        return self.posting_list(name, own)

    def _phrase_ids(self, name: str, phrase: Sequence[Stems]) -> IntArray:
        """Return the ids of the texts that hold a phrase: its words are stemmed in one language."""
        most = max(map(len, phrase), default=0)
        variants = {
            tuple(each[n] if n < len(each) else each[0] for each in phrase) for n in range(most)
        }
        found = [self._phrase(name, variant) for variant in variants]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _cached(
        self, name: str, phrase: Sequence[Stems], compose: Callable[[], PostingList]
    ) -> PostingList:
        key = (name, tuple(phrase))
        if key not in self._columns:
            column = compose()
            if len(self._columns) >= CACHED_LISTS:
                del self._columns[next(iter(self._columns))]
            self._columns[key] = column
        return self._columns[key]


class _SegmentPostings:
    """The postings of all segments; `ids` has the catalog's id of each of their rows, or -1."""

    def __init__(self, segments: Sequence[Segment], offsets: Sequence[int], ids: IntArray) -> None:
        self._parts, self._ids = tuple(zip(segments, offsets, strict=False)), ids

    def posting_list(self, name: str, text: str) -> PostingList:
        """Return the posting list of a term over all segments."""
        parts = ((offset, *segment.field(name).postings(text)) for segment, offset in self._parts)
        found = [
            (offset + doc_ids, counts.astype(np.float32))
            for offset, doc_ids, counts in parts
            if len(doc_ids)
        ]
        if not found:
            return NO_POSTINGS[name in DOCUMENT_FIELDS]
        ids = self._ids[np.concatenate([doc_ids for doc_ids, _ in found])]
        order = np.argsort(ids, kind="stable")
        order = order[ids[order] >= 0]
        return PostingList(
            ids[order].astype(np.int32),
            np.concatenate([frequencies for _, frequencies in found])[order],
            by_document=name in DOCUMENT_FIELDS,
        )

    def phrase(self, name: str, phrase: Sequence[str]) -> IntArray:
        """Return the ids of a phrase."""
        found = [
            offset + segment.field(name).phrase_matches(phrase) for segment, offset in self._parts
        ]
        ids: IntArray = self._ids[_joined(found, np.int64)]
        return ids[ids >= 0]


class WhooshKeywordIndex:
    """KeywordIndex over one folder's segments, with the ids of a catalog."""

    def __init__(self, opened: OpenSegments, catalog: StoreCatalog) -> None:
        self._lock = threading.Lock()
        self.segments: tuple[Segment, ...] = tuple(segment for segment, _ in opened)
        self._offsets = (0, *accumulate(len(segment.row_ids) for segment in self.segments))
        rows = _joined([segment.row_ids for segment in self.segments], np.int64)
        self._is_chunk = rows > 0
        self._ids: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self._ids[self._is_chunk] = catalog.chunks_of_rows(rows[self._is_chunk])
        self._ids[~self._is_chunk] = ids_of_rows(catalog.document_rows, -rows[~self._is_chunk])
        for (_, deleted), offset in zip(opened, self._offsets, strict=False):
            self._ids[offset + deleted] = -1
        self._catalog = catalog
        self.languages = frozenset[str]().union(*(segment.languages for segment in self.segments))
        # an object of its own: a cycle of references is not freed at once
        postings = _SegmentPostings(self.segments, self._offsets, self._ids)
        self._terms = TermPostings(self.languages, postings.posting_list, postings.phrase)
        self._lengths: dict[str, FieldLengths] = {}
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
                list(columns.lookup(terms, weights.fields)),
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
        return RankedList(hits, {DocumentId(n): score for n, score in scorer.best_documents(mask)})

    def chunks_with_words(self, text: str, fields: Collection[str]) -> Selection:

        def columns_by_word(columns: TermPostings) -> list[dict[str, Any]]:
            return [
                {name: columns.posting_list(name, word).ids for name in fields}
                for word in columns.analyze(text, fields)
            ]

        found = [self._held(rows) for rows in self._ask(columns_by_word)]
        mask = np.logical_and.reduce(found) if found else np.zeros(len(self._catalog), dtype=bool)
        return self._catalog.selection(mask)

    def chunks_with_phrase(self, text: str) -> Selection:
        return self._catalog.selection(self._held(self._ask(lambda columns: columns.phrase(text))))

    def frequency(self, word: str) -> int:
        return len(self._ask(lambda columns: columns.posting_list("code", (word,))).ids)

    def count_adjacent(self, text: str) -> int:
        return len(self._ask(lambda columns: columns.form_postings("body", text)).ids)

    def _held(self, found: Mapping[str, Any]) -> Mask:
        """Return a mask of the chunks with these ids by field, their own or their document's."""
        chunks = np.zeros(len(self._catalog), dtype=np.bool_)
        documents = np.zeros(len(self._catalog.document_rows), dtype=np.bool_)
        for name, ids in found.items():
            (documents if name in DOCUMENT_FIELDS else chunks)[ids] = True
        return chunks | documents[self._catalog.document_ids] if documents.any() else chunks

    def __len__(self) -> int:
        """Return the number of indexed chunks."""
        return int(np.count_nonzero(self._is_chunk & (self._ids >= 0)))

    def _ask(self, ask: Callable[[TermPostings], _T]) -> _T:
        with self._lock:
            return ask(self._terms)

    def words(self, lengths: range) -> Collection[str]:
        """Return the word forms of these lengths; those of deleted chunks until their segment is
        merged.
        """
        with self._lock:
            if self._words is None:
                by_length: defaultdict[int, set[str]] = defaultdict(set)
                for word in word_counts(self.segments):
                    by_length[len(word)].add(word)
                self._words = by_length
            return [word for length in lengths for word in self._words.get(length, ())]

    def _length(self, name: str) -> FieldLengths:
        with self._lock:
            return self._length_of(name)

    def _length_of(self, name: str) -> FieldLengths:
        if name not in self._lengths:
            by_document = name in DOCUMENT_FIELDS
            lengths = np.zeros(
                len(self._catalog.document_rows if by_document else self._catalog), dtype=np.float32
            )
            numbers = np.flatnonzero((self._ids >= 0) & (self._is_chunk != by_document))
            lengths[self._ids[numbers]] = _joined(
                [segment.lengths(name) for segment in self.segments], np.float32
            )[numbers]
            ids = self._catalog.document_ids
            self._lengths[name] = (
                FieldLengths.of_documents(lengths)
                if by_document
                else FieldLengths.of_chunks(lengths, ids, len(self._catalog.document_rows))
            )
        return self._lengths[name]


def word_counts(segments: Iterable[Segment]) -> Mapping[str, int]:
    """Return the number of chunks of every word form; deleted ones count until they are merged."""
    counted: Counter[str] = Counter()
    for segment in segments:
        counted.update(segment.words)
    return counted


class KeywordWriter:
    """Keeps the segments equal to the store's rows, inside the store's transactions: a file counts
    when the store's commit lists it.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._folder = store, store.keyword

    def apply(
        self,
        removed: Sequence[int],
        documents: Iterable[tuple[int, Document]],
        chunks: Iterable[tuple[int, Chunk, str]],
    ) -> None:
        """Remove and add rows by id (documents negative), chunks with their language."""
        segments = self._store.segments()
        if removed:
            segments = [self._without(each, removed) for each in segments]
        writer = SegmentWriter()
        for row, document in documents:
            writer.add(row, analyze_document(document))
        for row, chunk, language in chunks:
            writer.add(row, analyze_chunk(chunk, language))
        # a merge costs five times as much as the commit of an edit, which must not wait for it
        is_due = len(segments) >= MAX_SEGMENTS
        weighted_union = sorted(segments, key=lambda segment: segment.live_rows)[
            : is_due * SEGMENTS_PER_MERGE
        ]
        self._write(writer, segments, weighted_union)

    def _without(self, segment: SegmentFile, rows: Sequence[int]) -> SegmentFile:
        numbers = np.flatnonzero(np.isin(Segment.open(self._folder, segment.name).row_ids, rows))
        return segment.with_deleted(numbers) if len(numbers) else segment

    def merge(self, idle: IdleTime) -> None:
        """Merge small segments."""
        segments = self._store.segments()
        weighted_union = (
            _smallest(segments, MERGE_ROWS[idle]) if len(segments) > MIN_SEGMENTS else []
        )
        if weighted_union:
            with self._store.transaction():
                self._write(SegmentWriter(), segments, weighted_union)

    def purge_deleted(self) -> None:
        """Rewrite the segments with deleted rows, so that no file holds their words."""
        segments = self._store.segments()
        self._write(SegmentWriter(), segments, [each for each in segments if len(each.deleted)])

    def _write(
        self, writer: SegmentWriter, segments: list[SegmentFile], weighted_union: list[SegmentFile]
    ) -> None:
        """Write one segment of new rows and of merged segments, and list it."""
        with as_storage_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
            for segment in weighted_union:
                writer.merge(Segment.open(self._folder, segment.name), segment.deleted)
            written = writer.write(self._folder)
        left = [each for each in segments if each not in weighted_union]
        self._store.set_segments([*left, *written])

    def sweep(self) -> None:
        """Delete unlisted files: replaced ones, and those of a killed writer."""
        keep = {each.name for each in self._store.segments()}
        for path in self._folder.glob("*"):
            if path.name not in keep:
                with suppress(
                    OSError
                ):  # open in another process (Windows): the next sweep deletes it
                    path.unlink()


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    """Join arrays, none of them too."""
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def _smallest(segments: list[SegmentFile], rows: int) -> list[SegmentFile]:
    """Return small segments to merge: every row comes to a segment of twice the size, so that it
    is rewritten only a few times in all. Deleted rows do not count.
    """
    by_size = sorted(segments, key=lambda segment: segment.live_rows)
    sums = list(accumulate((segment.live_rows for segment in by_size), initial=0))
    count = sum(size <= rows for size in sums[1:])
    while count > 1 and sums[count] > 2 * sums[count - 1]:
        count -= 1
    return by_size[:count] if count > 1 else []
