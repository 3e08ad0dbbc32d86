"""The port to words and identifiers: an inverted index on disk, scored column by column with BM25F."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from whoosh.index import FileIndex

from thumbindex.index.analysis import DOCUMENT_FIELDS, stems
from thumbindex.index.bm25f import Column, Lengths, Scorer, either, merged
from thumbindex.index.catalog import Positions, StoreCatalog, positions_of
from thumbindex.index.keyword_files import at_last_commit
from thumbindex.index.segments import Segment, deleted_numbers, number_column, open_segments
from thumbindex.model import ChunkId, DocumentId, Hit, RankedList, Term
from thumbindex.ports import KeywordWeights, Mask
from thumbindex.text import words

Stems = tuple[str, ...]
"""Under what a word is kept: English's stem first, then that of each other language which the index holds; a form of code alone."""

_NOWHERE = tuple(Column(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), whole) for whole in (False, True))
"""The columns of words that stand nowhere: most do not in most fields."""

COLUMNS_KEPT = 2_000
"""Terms whose columns one snapshot keeps: composing one again from its segments' postings takes well under a millisecond."""


class WhooshKeywordIndex:
    """KeywordIndex over one folder's inverted index, aligned with a catalog. Of `last` the segments are kept that are still part of it."""

    def __init__(self, folder: Path, catalog: StoreCatalog, last: WhooshKeywordIndex | None = None) -> None:
        shown = open_segments(folder, {} if last is None else last.segments)
        self._lock = threading.Lock()
        self._catalog = catalog
        self._segments = tuple(each.segment for each in shown)
        self._offsets = (0, *accumulate(len(segment.rows) for segment in self._segments))
        rows = _joined([segment.rows for segment in self._segments], np.int64)
        self._is_chunk = rows > 0
        self._position: Positions = np.full(len(rows), -1, dtype=np.int64)
        self._position[self._is_chunk] = catalog.chunk_positions(rows[self._is_chunk])
        self._position[~self._is_chunk] = positions_of(catalog.document_rows, -rows[~self._is_chunk])
        gone = [offset + number for each, offset in zip(shown, self._offsets, strict=False) for number in each.deleted]
        self._position[np.array(gone, dtype=np.int64)] = -1
        self._columns: dict[tuple[str, tuple[Stems, ...]], Column] = {}
        self.languages = frozenset[str]().union(*(segment.languages() for segment in self._segments))
        self._languages = sorted(self.languages)
        self._lengths: dict[str, Lengths] = {}
        self._words: Mapping[str, int] | None = None

    @property
    def segments(self) -> dict[str, Segment]:
        """The segments that it is made of, by their ids."""
        return {segment.id: segment for segment in self._segments}

    def __len__(self) -> int:
        """Count the chunks whose words are known."""
        return int(np.count_nonzero(self._is_chunk & (self._position >= 0)))

    def search(self, terms: Sequence[Term], weights: KeywordWeights, limit: int, mask: Mask | None = None) -> RankedList:
        """Score chunks and documents by BM25F over the weighted fields; terms are ORed, phrases must match."""
        with self._lock:
            scorer = Scorer(self._catalog.document_ids, len(self._catalog.document_rows), weights, self._length)
            known = set()
            for term in terms:
                for text in self._analyzed(term.text, weights.fields):
                    if text not in known:
                        known.add(text)
                        scorer.add(term.text, term.weight, {name: self._with_others(name, text, term) for name in weights.fields})
            for term in terms:
                if term.phrase:
                    mask = self._with_phrase(term.text, mask)
        chunks, coverage, matched = scorer.best_chunks(limit, mask)
        hits = tuple(
            Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), rank, score, terms_, share)
            for rank, (n, score, share, terms_) in enumerate(zip(*chunks, coverage, matched, strict=True), 1)
        )
        return RankedList(hits, {DocumentId(n): score for n, score in scorer.documents(mask)})

    def holding(self, text: str, fields: Collection[str]) -> Mask:
        """Tell which chunks hold all words of a text, themselves or by their document, in any of the fields."""
        found = [self._holding(each, fields) for each in self._analyzed(text, fields)]
        return np.logical_and.reduce(found) if found else np.zeros(len(self._catalog), dtype=np.bool_)

    def _holding(self, analyzed: Stems, fields: Collection[str]) -> Mask:
        chunks = np.zeros(len(self._catalog), dtype=np.bool_)
        documents = np.zeros(len(self._catalog.document_rows), dtype=np.bool_)
        with self._lock:
            for column in (self._column(name, analyzed) for name in fields):
                (documents if column.whole else chunks)[column.rows] = True
        return chunks | documents[self._catalog.document_ids]

    def frequency(self, word: str) -> int:
        """Count the chunks that hold the word as written (folded)."""
        with self._lock:
            return len(self._column("code", (word,)).rows)

    def adjacent(self, text: str) -> int:
        """Count the chunks in whose text words stand one after the other, endings aside."""
        with self._lock:
            return len(self._form("body", text).rows)

    def words(self) -> Mapping[str, int]:
        """Return every word form with the number of chunks that hold it; those of deleted ones count until their segment is merged."""
        with self._lock:
            if self._words is None:
                counted: Counter[str] = Counter()
                for segment in self._segments:
                    counted.update(segment.words())
                self._words = counted
            return self._words

    def _analyzed(self, text: str, fields: Collection[str]) -> Iterable[Stems]:
        return ((text,),) if "code" in fields else self._stems(text)

    def _stems(self, text: str) -> list[Stems]:
        return [stems(word, self._languages) for word in words(text)]

    def _with_others(self, name: str, own: Stems, term: Term) -> Column:
        """Return a term's column, the postings of its other forms in it, each by its weight."""
        others = [(self._form(name, other.text), other.weight) for other in term.others]
        return merged([(self._column(name, own), 1.0), *others]) if others else self._column(name, own)

    def _form(self, name: str, form: str) -> Column:
        """Return the column of a word, or of words that stand one after the other; code is kept without places, and has no such."""
        found = [(form,)] if name == "code" else self._stems(form)
        return self._column(name, found[0]) if len(found) == 1 else self._kept(name, found, lambda: self._phrase(name, found))

    def _phrase(self, name: str, phrase: Sequence[Stems]) -> Column:
        held = all(len(self._column(name, each).rows) for each in phrase)
        rows = np.unique(_joined([self._at_phrase(name, phrase, n) for n in range(len(self._segments) if held else 0)], np.int64))
        return Column(rows.astype(np.int32), np.ones(len(rows), dtype=np.float32), name in DOCUMENT_FIELDS)

    def _at_phrase(self, name: str, phrase: Sequence[Stems], segment: int) -> Positions:
        """Return where the chunks or documents of a segment stand that hold a phrase in a field: a text has one language for all of its words."""
        most = max(map(len, phrase), default=0)
        variants = [[each[n] if n < len(each) else each[0] for each in phrase] for n in range(most)]
        found = {number for variant in variants for number in self._segments[segment].with_phrase(name, variant)}
        at: Positions = self._position[[self._offsets[segment] + number for number in sorted(found)]]
        return at[at >= 0]

    def _column(self, name: str, own: Stems) -> Column:
        return self._kept(name, [own], lambda: either([self._composed(name, each) for each in own]))

    def _kept(self, name: str, phrase: Sequence[Stems], compose: Callable[[], Column]) -> Column:
        key = (name, tuple(phrase))
        if key not in self._columns:
            column = compose()
            if len(self._columns) >= COLUMNS_KEPT:
                del self._columns[next(iter(self._columns))]
            self._columns[key] = column
        return self._columns[key]

    def _composed(self, name: str, text: str) -> Column:
        """Make a term's column of its postings in all segments."""
        held = ((offset, segment) for segment, offset in zip(self._segments, self._offsets, strict=False) if name in segment.fields)
        found = [
            (offset + numbers, frequencies) for offset, segment in held for numbers, frequencies in (segment.postings(name, text),) if len(numbers)
        ]
        if not found:
            return _NOWHERE[name in DOCUMENT_FIELDS]
        rows = self._position[np.concatenate([numbers for numbers, _ in found])]
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        return Column(rows[order].astype(np.int32), np.concatenate([frequencies for _, frequencies in found])[order], whole=name in DOCUMENT_FIELDS)

    def _length(self, name: str) -> Lengths:
        """Return a field's lengths in words, aligned with chunks or documents."""
        if name not in self._lengths:
            whole = name in DOCUMENT_FIELDS
            lengths = np.zeros(len(self._catalog.document_rows if whole else self._catalog), dtype=np.float32)
            numbers = np.flatnonzero((self._position >= 0) & (self._is_chunk != whole))
            lengths[self._position[numbers]] = _joined([segment.lengths(name) for segment in self._segments], np.float32)[numbers]
            ids = self._catalog.document_ids
            self._lengths[name] = Lengths.of_documents(lengths) if whole else Lengths.of_chunks(lengths, ids, len(self._catalog.document_rows))
        return self._lengths[name]

    def _with_phrase(self, phrase: str, mask: Mask | None) -> Mask:
        """Narrow a mask to chunks that hold the phrase in text or headings, or whose document does in its title or alias."""
        asked = self._stems(phrase)
        found = np.zeros(len(self._catalog), dtype=np.bool_)
        for name in ("body", "headings", "title", "aliases"):
            for n in range(len(self._segments)):
                at = self._at_phrase(name, asked, n)
                if name in DOCUMENT_FIELDS:
                    found |= np.isin(self._catalog.document_ids, at)
                else:
                    found[at] = True
        return found if mask is None else found & mask


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    """Join arrays, none of them too."""
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


# ------------------------------------------------------------------ the whole index, for its writer


def open_reader(folder: Path) -> Any:
    """Open the index for reading at its last commit, every byte of it verified."""
    return at_last_commit(folder, lambda storage, contents: FileIndex._reader(storage, contents.schema, contents.segments, contents.generation))


def live_rows(reader: Any) -> tuple[Positions, Positions]:
    """Return the document numbers that are not deleted, and their row ids."""
    leaves = [(leaf, offset) for leaf, offset in reader.leaf_readers() if leaf.segment() is not None]  # an index just begun has none
    live = np.ones(reader.doc_count_all(), dtype=np.bool_)
    for leaf, offset in leaves:
        live[[offset + number for number in deleted_numbers(leaf.segment())]] = False
    numbers = np.flatnonzero(live)
    return numbers, _joined([number_column(leaf, "row", ">i8").astype(np.int64) for leaf, _ in leaves], np.int64)[numbers]
