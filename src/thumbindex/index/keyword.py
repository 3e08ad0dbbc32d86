"""The door to Whoosh for readers: words and identifiers in an inverted index on disk, scored column by column with BM25F."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import columns
from whoosh.filedb.filestore import FileStorage
from whoosh.index import FileIndex
from whoosh.query import Phrase
from whoosh.searching import Searcher

from thumbindex.errors import IndexDamagedError
from thumbindex.index.analysis import DOCUMENT_FIELDS, stem
from thumbindex.index.bm25f import Column, Scorer
from thumbindex.index.catalog import Positions, StoreCatalog, positions_of
from thumbindex.index.keyword_files import stamped_contents
from thumbindex.index.stamp import read_contents
from thumbindex.model import ChunkId, DocumentId, Hit, RankedList, Term
from thumbindex.ports import KeywordWeights, Mask
from thumbindex.text import words


def open_reader(folder: Path) -> Any:
    """Open the index for reading at its last commit, every byte of it verified."""
    while True:
        shown = read_contents(folder)
        try:
            contents = stamped_contents(folder)
            return FileIndex._reader(FileStorage(str(folder)), contents.schema, contents.segments, contents.generation)
        except OSError as error:  # between the two the next commit took the files away
            if read_contents(folder) == shown:
                raise IndexDamagedError(
                    f"The keyword index in {folder} cannot be opened ({error}): run `thumbindex index` to build it anew."
                ) from error


def live_rows(reader: Any) -> tuple[Positions, Positions]:
    """Return the document numbers that are not deleted, and their row ids."""
    live = np.ones(reader.doc_count_all(), dtype=np.bool_)
    for leaf, offset in _segments(reader):
        live[[offset + number for number in leaf.segment().deleted_docs()]] = False
    numbers = np.flatnonzero(live)
    return numbers, _column(reader, "row", ">i8").astype(np.int64)[numbers]


def _segments(reader: Any) -> Any:
    """Return a reader a segment with the number of its first document; an index that was just begun has none."""
    return [(leaf, offset) for leaf, offset in reader.leaf_readers() if leaf.segment() is not None]


def _column(reader: Any, name: str, kind: str) -> Any:
    """Return a numeric column, a value a document number: whole segments at once, where Whoosh would unpack value after value."""
    found = np.zeros(reader.doc_count_all(), dtype=kind)
    for leaf, offset in _segments(reader):
        column = leaf.column_reader(name, translate=False)
        if isinstance(column, columns.NumericColumn.Reader):
            held = np.frombuffer(column._dbfile.get(column._basepos, column._count * found.itemsize), dtype=kind)
            found[offset : offset + len(held)] = held
    return found


class WhooshKeywordIndex:
    """KeywordIndex over one folder's inverted index, aligned with a catalog. Postings are read once a term and kept."""

    def __init__(self, folder: Path, catalog: StoreCatalog) -> None:
        self._reader = open_reader(folder)
        self._lock = threading.Lock()
        self._catalog = catalog
        numbers, rows = live_rows(self._reader)
        self._position = np.full(self._reader.doc_count_all(), -1, dtype=np.int64)
        is_chunk = rows > 0
        self._position[numbers[is_chunk]] = positions_of(catalog.chunk_rows, rows[is_chunk])
        self._position[numbers[~is_chunk]] = positions_of(catalog.document_rows, -rows[~is_chunk])
        self._numbers = numbers[self._position[numbers] >= 0]
        self._is_chunk = np.zeros(self._reader.doc_count_all(), dtype=np.bool_)
        self._is_chunk[numbers[is_chunk]] = True
        self._columns: dict[tuple[str, str], Column] = {}
        self._lengths: dict[str, Any] = {}
        self._words: Mapping[str, int] | None = None

    def __len__(self) -> int:
        """Count the chunks whose words are known."""
        return int(self._is_chunk[self._numbers].sum())

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def search(self, terms: Sequence[Term], weights: KeywordWeights, limit: int, mask: Mask | None = None) -> RankedList:
        """Score chunks and documents by BM25F over the weighted fields; terms are ORed, phrases must match."""
        with self._lock:
            scorer = Scorer(self._catalog.document_ids, len(self._catalog.documents), weights, self._length)
            known = set()
            for term in terms:
                for text in self._analyzed(term, weights):
                    if text not in known:
                        known.add(text)
                        scorer.add(term.text, term.weight, {name: self._column(name, text) for name in weights.fields})
            for term in terms:
                if term.phrase:
                    mask = self._with_phrase(term.text, mask)
        chunks, coverage, matched = scorer.best_chunks(limit, mask)
        hits = tuple(
            Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), rank, score, terms_, share)
            for rank, (n, score, share, terms_) in enumerate(zip(*chunks, coverage, matched, strict=True), 1)
        )
        return RankedList(hits, {DocumentId(n): score for n, score in scorer.documents(mask)})

    def frequency(self, word: str) -> int:
        """Count the chunks that hold the word as written (folded)."""
        with self._lock:
            return len(self._column("code", word).rows)

    def words(self) -> Mapping[str, int]:
        """Return every word form with the number of chunks that hold it."""
        with self._lock:
            if self._words is None:
                lexicon = ((term.decode("utf-8"), term) for term in self._reader.lexicon("code"))
                self._words = {word: int(self._reader.doc_frequency("code", term)) for word, term in lexicon if word.isalpha()}
            return self._words

    def _analyzed(self, term: Term, weights: KeywordWeights) -> Iterable[str]:
        return (term.text,) if "code" in weights.fields else [stem(word) for word in words(term.text)]

    def _column(self, name: str, text: str) -> Column:
        key = (name, text)
        if key not in self._columns:
            self._columns[key] = self._read_column(name, text)
        return self._columns[key]

    def _read_column(self, name: str, text: str) -> Column:
        numbers: list[int] = []
        frequencies: list[float] = []
        if (name, text.encode()) in self._reader:
            matcher = self._reader.postings(name, text)
            while matcher.is_active():
                numbers.append(matcher.id())
                frequencies.append(matcher.weight())
                matcher.next()
        rows = self._position[np.array(numbers, dtype=np.int64)]
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        return Column(rows[order], np.array(frequencies, dtype=np.float32)[order], whole=name in DOCUMENT_FIELDS)

    def _length(self, name: str) -> Any:
        """Return a field's lengths in words, aligned with chunks or documents."""
        if name not in self._lengths:
            whole = name in DOCUMENT_FIELDS
            lengths = np.zeros(len(self._catalog.documents) if whole else len(self._catalog), dtype=np.float32)
            numbers = self._numbers[self._is_chunk[self._numbers] != whole]
            if len(numbers):
                loaded = _column(self._reader, f"length_{name}", ">i4").astype(np.float32)
                lengths[self._position[numbers]] = loaded[numbers]
            self._lengths[name] = lengths
        return self._lengths[name]

    def _with_phrase(self, phrase: str, mask: Mask | None) -> Mask:
        """Narrow a mask to chunks that hold the phrase in text or headings, or whose document does in its title or alias."""
        stems = [stem(word) for word in words(phrase)]
        found = np.zeros(len(self._catalog), dtype=np.bool_)
        for name in ("body", "headings", "title", "aliases"):
            for number in Phrase(name, stems).docs(Searcher(self._reader)):
                at = self._position[number]
                if at >= 0 and name in DOCUMENT_FIELDS:
                    found[self._catalog.chunk_ids(DocumentId(int(at)))] = True
                elif at >= 0:
                    found[at] = True
        return found if mask is None else found & mask


def postings(folder: Path) -> list[tuple[int, str, str, float]]:
    """Return every posting as row id, field, term and frequency, in any order."""
    found = []
    with open_reader(folder) as reader:
        row_of = dict(zip(*(column.tolist() for column in live_rows(reader)), strict=True))
        for name, term in reader.all_terms():
            if name == "key":
                continue
            matcher = reader.postings(name, term)
            while matcher.is_active():
                found.append((row_of[matcher.id()], name, term.decode("utf-8"), matcher.weight()))
                matcher.next()
    return found
