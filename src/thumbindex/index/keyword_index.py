"""The keyword index: BM25F over segments, and the writer that syncs them with the store."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from thumbindex.index.analysis import (
    DOCUMENT_FIELDS,
    analyze_chunk,
    analyze_document,
    chunk_texts,
    document_texts,
    has_phrase,
    stems,
)
from thumbindex.index.bm25f import FieldLengths, PostingList, Scorer, max_union, weighted_union
from thumbindex.index.catalog import StoreCatalog, ids_of_rows
from thumbindex.index.files import as_storage_errors
from thumbindex.index.segments import OpenSegments, Segment, SegmentFile, SegmentWriter
from thumbindex.index.store import Store
from thumbindex.model import (
    ChunkId,
    DocumentId,
    Hit,
    IdleTime,
    ParsedDocument,
    RankedList,
    Term,
)
from thumbindex.ports import PHRASE_FIELDS, IntArray, KeywordWeights, Mask, Selection
from thumbindex.text import STOP_WORDS, has_cjk, words
from thumbindex.visible_text import strip_markup

_T = TypeVar("_T")

Stems = tuple[str, ...]
"""The stems of a word: in English, then in the other languages of the index. An identifier is its
own stem.
"""

CACHED_LISTS = 2_000
"""Maximum number of posting lists that a snapshot caches. Recomputing one takes under 1 ms."""

CACHED_PHRASES = 8
"""Maximum number of phrases whose chunks a snapshot caches, since a query looks them up twice."""

MAX_TEXTS_READ = 1_000
"""If more chunks than this contain the stems of a phrase, their texts are not read to compare the
words as they are written: the field "code" decides, which also has the words of link targets.
"""

MIN_SEGMENTS = 3
"""`KeywordWriter.merge` does nothing if there are this many segments or fewer."""

MAX_SEGMENTS = 32
"""If there are this many segments, a commit also merges the `SEGMENTS_PER_MERGE` smallest ones."""

SEGMENTS_PER_MERGE = 8

MERGE_ROWS: dict[IdleTime, int] = {"short": 16_000, "long": 100_000}
"""Maximum number of rows that `KeywordWriter.merge` rewrites, for each expected idle time."""


class TermPostings:
    """Looks up the posting lists of a query's terms in all segments, and caches them.

    `ids` maps each row of the segments to its catalog id, or -1 if deleted.
    """

    def __init__(self, segments: Sequence[Segment], offsets: Sequence[int], ids: IntArray) -> None:
        self._parts, self._ids = tuple(zip(segments, offsets, strict=False)), ids
        self.languages = frozenset[str]().union(*(segment.languages for segment in segments))
        self._cache: dict[tuple[str, tuple[Stems, ...]], PostingList] = {}

    def lookup(
        self, terms: Sequence[Term], fields: Collection[str]
    ) -> Iterator[tuple[Term, dict[str, PostingList]]]:
        """For each distinct word in the terms, yield the term and a posting list for each field."""
        added = set()
        for term in terms:
            for word in self.analyze(term.text, fields):
                if word not in added:
                    added.add(word)
                    yield term, {field: self._with_forms(field, word, term) for field in fields}

    def analyze(self, text: str, fields: Collection[str]) -> Sequence[Stems]:
        """Return the stems of each word of a text.

        If the fields include "code", the whole text is one unstemmed term.
        """
        return [(text,)] if "code" in fields else self._stems(text)

    def posting_list(self, field: str, word: Stems) -> PostingList:
        """Return the posting list of a word in a field."""
        return self._cached(
            field, [word], lambda: max_union([self._read_postings(field, stem) for stem in word])
        )

    def form_postings(self, field: str, form: str) -> PostingList:
        """Return the posting list of `form`, a word or phrase.

        In the field "code", `form` is always a single term.
        """
        phrase = self.analyze(form, (field,))
        if len(phrase) == 1:
            return self.posting_list(field, phrase[0])

        def phrase_postings() -> PostingList:
            ids = np.unique(self._phrase_ids(field, phrase))
            return PostingList(ids, np.ones(len(ids), dtype=np.float32), field in DOCUMENT_FIELDS)

        return self._cached(field, phrase, phrase_postings)

    def phrase_ids(self, text: str, fields: Collection[str]) -> dict[str, IntArray]:
        """Return the ids of the chunks or documents with the stems of a phrase, keyed by field."""
        phrase = self._stems(text)
        return {field: self._phrase_ids(field, phrase) for field in fields}

    def _stems(self, text: str) -> list[Stems]:
        languages = sorted(self.languages)
        return [stems(word, languages) for word in words(text)]

    def _with_forms(self, field: str, word: Stems, term: Term) -> PostingList:
        """Return the merged posting list of a word and the weighted forms of its term."""
        forms = [(self.form_postings(field, form.text), form.weight) for form in term.forms]
        if forms:
            return weighted_union([(self.posting_list(field, word), 1.0), *forms])
        return self.posting_list(field, word)

    def _phrase_ids(self, field: str, phrase: Sequence[Stems]) -> IntArray:
        most = max(map(len, phrase), default=0)
        # one variant of the phrase per language
        variants = {
            tuple(word[n] if n < len(word) else word[0] for word in phrase) for n in range(most)
        }
        matches = [self._match_phrase(field, variant) for variant in variants]
        return np.concatenate(matches) if matches else np.zeros(0, dtype=np.int64)

    def _read_postings(self, field: str, stem: str) -> PostingList:
        parts = ((offset, *segment.field(field).postings(stem)) for segment, offset in self._parts)
        filled = [
            (offset + positions, frequencies.astype(np.float32))
            for offset, positions, frequencies in parts
            if len(positions)
        ]
        ids = self._ids[_joined([positions for positions, _ in filled], np.int64)]
        order = np.argsort(ids, kind="stable")
        order = order[ids[order] >= 0]
        return PostingList(
            ids[order].astype(np.int32),
            _joined([frequencies for _, frequencies in filled], np.float32)[order],
            by_document=field in DOCUMENT_FIELDS,
        )

    def _match_phrase(self, field: str, phrase: Sequence[str]) -> IntArray:
        matches = [
            offset + segment.field(field).phrase_matches(phrase) for segment, offset in self._parts
        ]
        ids: IntArray = self._ids[_joined(matches, np.int64)]
        return ids[ids >= 0]

    def _cached(
        self, field: str, phrase: Sequence[Stems], compose: Callable[[], PostingList]
    ) -> PostingList:
        key = (field, tuple(phrase))
        if key not in self._cache:
            posting_list = compose()
            if len(self._cache) >= CACHED_LISTS:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = posting_list
        return self._cache[key]


class SegmentKeywordIndex:
    """Keyword index over one folder's segments. Results use the ids of `catalog`."""

    def __init__(self, opened: OpenSegments, catalog: StoreCatalog) -> None:
        self._lock = threading.Lock()  # lookups change the caches
        self.segments: tuple[Segment, ...] = tuple(segment for segment, _ in opened)
        offsets = (0, *accumulate(len(segment.row_ids) for segment in self.segments))
        rows = _joined([segment.row_ids for segment in self.segments], np.int64)
        self._is_chunk = rows > 0
        self._ids: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self._ids[self._is_chunk] = catalog.chunks_of_rows(rows[self._is_chunk])
        self._ids[~self._is_chunk] = ids_of_rows(catalog.document_rows, -rows[~self._is_chunk])
        for (_, deleted), offset in zip(opened, offsets, strict=False):
            self._ids[offset + deleted] = -1
        self._catalog = catalog
        self._terms = TermPostings(self.segments, offsets, self._ids)
        self.languages = self._terms.languages
        self._lengths: dict[str, FieldLengths] = {}
        self._phrase_masks: dict[tuple[str, tuple[str, ...]], Mask] = {}
        self._lexicon: Mapping[int, set[str]] | None = None

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Score chunks and documents by BM25F. Terms are ORed, but phrases are required."""
        with self._lock:
            term_lists = list(self._terms.lookup(terms, weights.fields))
        documents = len(self._catalog.document_rows)
        scorer = Scorer(self._catalog.document_ids, documents, weights, self._field_lengths)
        for term, lists_by_field in term_lists:
            scorer.add(term.weight, lists_by_field)
        mask = None if within is None else within.mask
        for term in terms:
            if term.phrase:
                matching = self._phrase_mask(term.text, PHRASE_FIELDS)
                mask = matching if mask is None else matching & mask
        best = scorer.best_chunks(limit, mask)
        hits = tuple(
            Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), rank, score, share)
            for rank, (n, score, share) in enumerate(zip(*best, strict=True), 1)
        )
        return RankedList(hits, {DocumentId(n): score for n, score in scorer.best_documents(mask)})

    def chunks_with_all_words(self, text: str, fields: Collection[str]) -> Selection:
        analyzed = self._terms.analyze(text, fields)
        mask: Mask = np.full(len(self._catalog), bool(analyzed))
        for word in analyzed:
            with self._lock:
                ids = {field: self._terms.posting_list(field, word).ids for field in fields}
            mask &= self._chunk_mask(ids)
        return self._catalog.selection(mask)

    def chunks_with_phrase(self, text: str, fields: Collection[str] = PHRASE_FIELDS) -> Selection:
        return self._catalog.selection(self._phrase_mask(text, fields))

    def chunk_frequency(self, word: str) -> int:
        return len(self._code_ids(word))

    def _code_ids(self, word: str) -> IntArray:
        with self._lock:
            return self._terms.posting_list("code", (word,)).ids

    def phrase_frequency(self, text: str) -> int:
        with self._lock:
            ids = {field: self._terms.form_postings(field, text).ids for field in PHRASE_FIELDS}
        return int(np.count_nonzero(self._chunk_mask(ids)))

    def _phrase_mask(self, text: str, fields: Collection[str]) -> Mask:
        """Return a mask of the chunks with a phrase, comparing words as they are written."""
        key = (text, tuple(fields))
        with self._lock:
            mask = self._phrase_masks.get(key)
        if mask is None:
            with self._lock:
                ids_by_field = self._terms.phrase_ids(text, fields)
            mask = self._chunk_mask(self._exact_matches(words(text), ids_by_field))
            with self._lock:
                if len(self._phrase_masks) >= CACHED_PHRASES:
                    del self._phrase_masks[next(iter(self._phrase_masks))]
                self._phrase_masks[key] = mask
        return mask

    def _exact_matches(
        self, phrase: Sequence[str], ids_by_field: Mapping[str, IntArray]
    ) -> dict[str, Collection[int]]:
        """Keep the ids whose field contains the words of a phrase unstemmed."""
        matches = dict[str, Collection[int]]()
        for field, with_repeats in ids_by_field.items():
            ids = np.unique(with_repeats)
            if field in DOCUMENT_FIELDS:
                texts = {n: document_texts(self._catalog.documents[n]) for n in ids.tolist()}
            else:
                if len(ids) > MAX_TEXTS_READ:
                    ids = self._with_code_words(phrase, ids)
                if len(ids) > MAX_TEXTS_READ:
                    matches[field] = ids
                    continue
                chunks = self._catalog.chunks(ids.tolist())
                texts = {n: chunk_texts(c, strip_markup(c.text)) for n, c in chunks.items()}
            matches[field] = [n for n, text in texts.items() if has_phrase(text[field], phrase)]
        return matches

    def _with_code_words(self, phrase: Sequence[str], chunks: IntArray) -> IntArray:
        """Keep the chunks with each word of a phrase in the field "code", which is unstemmed."""
        for word in phrase:
            if word.isalpha() and word not in STOP_WORDS and not has_cjk(word):
                chunks = chunks[np.isin(chunks, self._code_ids(word))]
        return chunks

    def _chunk_mask(self, ids_by_field: Mapping[str, Any]) -> Mask:
        """Return a mask of the chunks in `ids_by_field` and of the chunks of its documents."""
        chunks = np.zeros(len(self._catalog), dtype=np.bool_)
        documents = np.zeros(len(self._catalog.document_rows), dtype=np.bool_)
        for field, ids in ids_by_field.items():
            (documents if field in DOCUMENT_FIELDS else chunks)[ids] = True
        return chunks | documents[self._catalog.document_ids] if documents.any() else chunks

    def __len__(self) -> int:
        """Return the number of indexed chunks."""
        return int(np.count_nonzero(self._is_chunk & (self._ids >= 0)))

    def lexicon(self, lengths: range) -> Collection[str]:
        with self._lock:
            if self._lexicon is None:
                by_length: defaultdict[int, set[str]] = defaultdict(set)
                for word in word_counts(self.segments):
                    by_length[len(word)].add(word)
                self._lexicon = by_length
            return [word for length in lengths for word in self._lexicon.get(length, ())]

    def _field_lengths(self, field: str) -> FieldLengths:
        with self._lock:
            if field not in self._lengths:
                self._lengths[field] = self._read_lengths(field)
            return self._lengths[field]

    def _read_lengths(self, field: str) -> FieldLengths:
        by_document = field in DOCUMENT_FIELDS
        documents = len(self._catalog.document_rows)
        lengths = np.zeros(documents if by_document else len(self._catalog), dtype=np.float32)
        positions = np.flatnonzero((self._ids >= 0) & (self._is_chunk != by_document))
        by_position = _joined([segment.lengths(field) for segment in self.segments], np.float32)
        lengths[self._ids[positions]] = by_position[positions]
        if by_document:
            return FieldLengths.of_documents(lengths)
        return FieldLengths.of_chunks(lengths, self._catalog.document_ids, documents)


def word_counts(segments: Iterable[Segment]) -> Mapping[str, int]:
    """Return the number of occurrences of each unstemmed word.

    Those in deleted chunks count until their segment is merged.
    """
    counted: Counter[str] = Counter()
    for segment in segments:
        counted.update(segment.words)
    return counted


class KeywordWriter:
    """Syncs the segments with the store's rows, inside the store's transactions.

    A segment file becomes part of the index when a commit of the store lists it.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._folder = store, store.segments_folder

    def apply(
        self,
        removed: Sequence[int],
        added: Sequence[tuple[int, ParsedDocument]],
    ) -> None:
        """Remove rows, and add documents with their chunks.

        In `removed` and in segments, row ids of documents are negative.
        """
        segments = self._store.segments()
        if removed:
            segments = [self._mark_deleted(segment, removed) for segment in segments]
        writer = SegmentWriter()
        for row, parsed in sorted(added, key=lambda pair: pair[1].document.path):
            writer.add(-row, analyze_document(parsed.document))
        for row, parsed in added:
            for number, (chunk, keys) in enumerate(zip(parsed.chunks, parsed.keys, strict=True), 1):
                writer.add(row + number, analyze_chunk(chunk, keys[0], parsed.document.language))
        # a merge is much slower than the commit of an edit, so few commits merge
        is_due = len(segments) >= MAX_SEGMENTS
        by_size = sorted(segments, key=lambda segment: segment.live_rows)
        self._write(writer, segments, to_merge=by_size[: is_due * SEGMENTS_PER_MERGE])

    def _mark_deleted(self, segment: SegmentFile, rows: Sequence[int]) -> SegmentFile:
        positions = np.flatnonzero(np.isin(Segment.open(self._folder, segment.name).row_ids, rows))
        return segment.with_deleted(positions) if len(positions) else segment

    def merge(self, idle: IdleTime) -> None:
        """Merge the smallest segments, with up to `MERGE_ROWS[idle]` rows in total."""
        segments = self._store.segments()
        if len(segments) <= MIN_SEGMENTS:
            return
        if to_merge := _segments_to_merge(segments, MERGE_ROWS[idle]):
            with self._store.transaction():
                self._write(SegmentWriter(), segments, to_merge)

    def erase_deleted_rows(self) -> None:
        """Merge all segments that contain deleted rows into a new segment without these rows."""
        segments = self._store.segments()
        to_merge = [segment for segment in segments if len(segment.deleted)]
        self._write(SegmentWriter(), segments, to_merge)

    def _write(
        self, writer: SegmentWriter, segments: list[SegmentFile], to_merge: list[SegmentFile]
    ) -> None:
        """Write the rows of `writer` and of `to_merge` as one new segment."""
        with as_storage_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
            for segment in to_merge:
                writer.merge(Segment.open(self._folder, segment.name), segment.deleted)
            new = writer.write(self._folder)
        remaining = [segment for segment in segments if segment not in to_merge]
        self._store.set_segments([*remaining, *new])

    def delete_unlisted_files(self) -> None:
        """Delete segment files that the store does not list.

        They were replaced, or a killed writer left them.
        """
        listed = {segment.name for segment in self._store.segments()}
        for path in self._folder.glob("*"):
            if path.name not in listed:
                with suppress(OSError):  # open in another process (Windows)
                    path.unlink()


def _joined(arrays: Sequence[Any], dtype: Any) -> Any:
    return np.concatenate([np.zeros(0, dtype=dtype), *arrays])


def _segments_to_merge(segments: list[SegmentFile], rows: int) -> list[SegmentFile]:
    """Return the smallest segments, with up to `rows` live rows in total."""
    by_size = sorted(segments, key=lambda segment: segment.live_rows)
    sums = list(accumulate((segment.live_rows for segment in by_size), initial=0))
    count = sum(size <= rows for size in sums[1:])
    # omit a segment that is larger than all smaller ones together: so each merge at least doubles
    # the size of the segment that a row is in, and rows are rewritten rarely
    while count > 1 and sums[count] > 2 * sums[count - 1]:
        count -= 1
    return by_size[:count] if count > 1 else []
