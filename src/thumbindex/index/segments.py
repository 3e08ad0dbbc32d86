"""The door to Whoosh's segments: immutable but for deletions, so that what was read of one is kept as long as it is part of the index."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from whoosh import columns
from whoosh.filedb.filestore import FileStorage
from whoosh.query import Phrase
from whoosh.reading import SegmentReader
from whoosh.searching import Searcher

from thumbindex.index.analysis import MARK
from thumbindex.index.keyword_files import at_last_commit

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Postings = tuple[Numbers, Floats]
"""Document numbers in a segment, ascending, and how often a term stands there."""


class Segment:
    """One segment, open for reading. Its files are closed when nobody holds it any more; safe to use from several threads."""

    def __init__(self, reader: SegmentReader) -> None:
        self.id: str = reader.segment().segment_id()
        self._reader = reader
        weakref.finalize(self, reader.close).atexit = False
        self._lock = threading.Lock()
        self._lengths: dict[str, Floats] = {}
        self._words: Mapping[str, int] | None = None
        self._languages: frozenset[str] | None = None
        self.deleted = deleted_numbers(reader.segment())
        self.fields = frozenset[str](reader.indexed_field_names())  # that hold any word
        self.rows: Numbers = number_column(reader, "row", ">i8").astype(np.int64)

    def postings(self, name: str, text: str) -> Postings:
        """Return a term's postings in a field, those of deleted documents too."""
        with self._lock:
            return _decoded(self._reader, name, text)

    def lengths(self, name: str) -> Floats:
        """Return a field's length in words, a value a document number."""
        with self._lock:
            if name not in self._lengths:
                self._lengths[name] = number_column(self._reader, f"length_{name}", ">i4").astype(np.float32)
            return self._lengths[name]

    def words(self) -> Mapping[str, int]:
        """Return every word form with the number of documents that hold it."""
        with self._lock:
            if self._words is None:
                self._words = {word: count for word, count in self._reader._terms.counted("code") if word.isalpha()}
            return self._words

    def languages(self) -> frozenset[str]:
        """Return the languages beside English in which words were stemmed."""
        with self._lock:
            if self._languages is None:
                self._languages = frozenset(each for name in ("body", "headings", "title") for each in self._marked(name))
            return self._languages

    def _marked(self, name: str) -> Iterator[str]:
        """Yield the languages that begin a field's terms: they stand together, and one look behind each finds the next."""
        start = MARK
        while True:
            field, term = next(iter(self._reader.terms_from(name, start.encode())), ("", b""))
            if field != name or not term.startswith(MARK.encode()):
                return
            language = term.decode().split(MARK)[1]
            yield language
            start = f"{MARK}{language}{chr(ord(MARK) + 1)}"

    def with_phrase(self, name: str, stems: list[str]) -> list[int]:
        """Return the numbers of the documents that hold a phrase in a field."""
        with self._lock:
            return [int(number) for number in Phrase(name, stems).docs(Searcher(self._reader))]


@dataclass(frozen=True, slots=True)
class Shown:
    """A segment, and which of its documents an index no longer has."""

    segment: Segment
    deleted: frozenset[int]


def open_segments(folder: Path, known: Mapping[str, Segment]) -> tuple[Shown, ...]:
    """Open the segments of an index at its last commit, every byte verified; those that are open already are not opened again."""
    return at_last_commit(folder, lambda storage, contents: tuple(_shown(storage, contents, segment, known) for segment in contents.segments))


def deleted_numbers(segment: Any) -> frozenset[int]:
    """Return the numbers of a segment's deleted documents."""
    return frozenset(segment.deleted_docs())


def number_column(reader: Any, name: str, kind: str) -> npt.NDArray[Any]:
    """Return a segment's numeric column, a value a document number: whole at once, where Whoosh would unpack value after value."""
    found = np.zeros(reader.doc_count_all(), dtype=kind)
    column = reader.column_reader(name, translate=False)
    if isinstance(column, columns.NumericColumn.Reader):
        held = np.frombuffer(column._dbfile.get(column._basepos, column._count * found.itemsize), dtype=kind)
        found[: len(held)] = held
    return found


def _shown(storage: FileStorage, contents: Any, segment: Any, known: Mapping[str, Segment]) -> Shown:
    deleted = deleted_numbers(segment)
    held = known.get(segment.segment_id())
    # deletions only grow; files that were put back from a copy are another thing
    if held is None or not held.deleted <= deleted:
        held = Segment(SegmentReader(storage, contents.schema, segment, generation=contents.generation))
    return Shown(held, deleted)


def _decoded(reader: SegmentReader, name: str, text: str) -> Postings:
    """Read a term's postings, those of deleted documents too."""
    numbers, counts = reader._terms.found(name, text.encode())
    return numbers, counts.astype(np.float32)
