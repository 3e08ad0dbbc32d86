"""The writer's side of the keyword index: keeps Whoosh's files equal to the store's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import index as whoosh_index
from whoosh.index import LockError
from whoosh.reading import SegmentReader
from whoosh.writing import IndexWriter

from thumbindex.errors import IndexBusyError
from thumbindex.index.analysis import VIEW_VERSION, chunk_words, document_words, schema
from thumbindex.index.catalog import Positions
from thumbindex.index.failures import writing
from thumbindex.index.keyword import live_rows, open_reader
from thumbindex.index.keyword_codec import LeanWriter
from thumbindex.index.keyword_files import KeepsFiles, counted_files
from thumbindex.index.stamp import Stamp, clear, is_verified, read_stamp, sweep, write_stamp
from thumbindex.model import Chunk, Document, Pause

WRITER_MEGABYTES = 32
"""What a commit gathers in memory before it sets it aside on disk: more than any group of files needs, so that only merges do."""

FEW_SEGMENTS, MOST_SEGMENTS = 8, 32
"""Segments that are left alone when there is time to merge, and those from which on a commit merges the smallest."""

ROWS: dict[Pause, int] = {"moment": 256, "while": 1000, "leisure": 4000}
"""Rows that are merged at most: a thousand take about half a second."""


class KeywordView:
    """The writer's side: keeps the inverted index equal to the store's rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_current(self) -> bool:
        """Tell whether there is an index of this version."""
        shown = read_stamp(self.folder)
        return shown is not None and shown.version == VIEW_VERSION and is_verified(self.folder)

    def is_at(self, generation: int) -> bool:
        """Tell whether it shows just this generation: it holds none but the store's rows, and how many it lacks is known."""
        shown = read_stamp(self.folder)
        return shown is not None and shown == Stamp(VIEW_VERSION, generation, shown.behind) and is_verified(self.folder)

    def is_whole(self, generation: int) -> bool:
        """Tell whether it shows just this generation and lacks nothing of it."""
        return self.is_at(generation) and self.behind == 0

    @property
    def behind(self) -> int:
        """How many of the store's rows it still lacks."""
        shown = read_stamp(self.folder)
        return shown.behind if shown else 0

    def create(self) -> None:
        """Begin an empty index; it does not count until it is stamped."""
        clear(self.folder)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            whoosh_index.create_in(str(self.folder), schema())

    def write_stamp(self, generation: int, behind: int) -> None:
        """Say that the index shows a generation of the store but for some rows; readers open it anew."""
        write_stamp(self.folder, Stamp(VIEW_VERSION, generation, behind), counted_files(self.folder))
        sweep(self.folder)

    def rows(self) -> Positions:
        """Return the row ids that the index holds: chunks', and minus documents'."""
        with open_reader(self.folder) as reader:
            return live_rows(reader)[1]

    def apply(self, removed: Sequence[int], documents: Iterable[tuple[int, Document]], chunks: Iterable[tuple[int, Chunk, str]]) -> int:
        """Remove rows and add rows (chunks' row ids with their documents' languages, minus documents' row ids), in one commit.

        Return how many were there to be removed.
        """
        gone = self._numbers(removed)  # damage shows here, before anything is written
        with writing(self.folder):
            self._apply(self._writer(), gone, documents, chunks)
        return len(gone)

    def _numbers(self, rows: Sequence[int]) -> list[int]:
        """Return the document numbers of those rows that the index holds."""
        if read_stamp(self.folder) is None:
            return []  # it was begun just now
        with open_reader(self.folder) as reader:
            numbers, held = live_rows(reader)
        return [int(number) for number in numbers[np.isin(held, np.array(rows, dtype=np.int64))]]

    def _apply(self, writer: Any, gone: Sequence[int], documents: Iterable[tuple[int, Document]], chunks: Iterable[tuple[int, Chunk, str]]) -> None:
        try:
            for number in gone:
                writer.delete_document(number)
            for row, document in documents:
                writer.add_row(row, document_words(document))
            for row, chunk, language in chunks:
                writer.add_row(row, chunk_words(chunk, language))
        except BaseException:
            writer.cancel()
            raise
        writer.commit(mergetype=_merge_many)

    def merge_all(self) -> None:
        """Write every segment anew that rows were removed from: their words are gone from the files then."""
        shown = read_stamp(self.folder)
        if shown and any(segment.has_deletions() for segment in whoosh_index.open_dir(str(self.folder))._segments()):
            with writing(self.folder):
                self._writer().commit(mergetype=_merge_deleted)
            self.write_stamp(shown.generation, shown.behind)

    def _writer(self) -> Any:
        try:
            return _Writer(whoosh_index.open_dir(str(self.folder)), WRITER_MEGABYTES, timeout=30.0)
        except LockError as error:
            raise IndexBusyError(f"The keyword index in {self.folder} is busy: another process is writing; try again in a moment.") from error

    def merge(self, pause: Pause = "leisure") -> None:
        """Merge small segments and those of which little is left, as many rows as there is time for.

        The rows stay as they are, so that readers need not open it anew.
        """
        shown = read_stamp(self.folder)
        segments = whoosh_index.open_dir(str(self.folder))._segments() if shown else []
        if shown and _worth_merging(segments, ROWS[pause]):
            with writing(self.folder):
                self._writer().commit(mergetype=partial(_merge_at_leisure, rows=ROWS[pause]))
            self.write_stamp(shown.generation, shown.behind)


class _Writer(KeepsFiles, LeanWriter):
    """Whoosh's writer, whose commit the stamp is."""


def _merge_many(writer: IndexWriter, segments: list[Any]) -> list[Any]:
    """Merge not while a text waits to be found, which costs five times as much as the commit of an edit, unless segments have become many."""
    return _merge(writer, segments, _too_many(segments))


def _merge_at_leisure(writer: IndexWriter, segments: list[Any], rows: int) -> list[Any]:
    return _merge(writer, segments, _worth_merging(segments, rows))


def _merge_deleted(writer: IndexWriter, segments: list[Any]) -> list[Any]:
    return _merge(writer, segments, [segment for segment in segments if segment.has_deletions()])


def _merge(writer: IndexWriter, segments: list[Any], merged: list[Any]) -> list[Any]:
    for segment in merged:
        with SegmentReader(writer.storage, writer.schema, segment) as reader:
            writer.add_reader(reader)
    return [segment for segment in segments if segment not in merged]


def _worth_merging(segments: list[Any], rows: int) -> list[Any]:
    """Return the smallest of many segments, and those more than half of which was deleted: a new version of the parser replaces every row."""
    small = _smallest(segments, rows) if len(segments) > FEW_SEGMENTS else []
    return [*small, *(each for each in segments if each not in small and 2 * each.doc_count() < each.doc_count_all() and each.doc_count() <= rows)]


def _too_many(segments: list[Any]) -> list[Any]:
    """Return what a commit must merge for segments to stay few: several at once, so that it is seldom."""
    if len(segments) < MOST_SEGMENTS:
        return []
    rows, total = ROWS["while"], sum(segment.doc_count() for segment in segments)
    while len(_smallest(segments, rows)) < FEW_SEGMENTS and rows < total:
        rows *= 2
    return _smallest(segments, rows)


def _smallest(segments: list[Any], rows: int) -> list[Any]:
    """Return the segments that are worth merging: each row comes to a segment of twice the size, so that it is written anew a few times in all.

    What was deleted is left behind and costs nothing: a segment is as large as what is left of it.
    """
    by_size = sorted(segments, key=lambda segment: segment.doc_count())
    sums = list(accumulate((segment.doc_count() for segment in by_size), initial=0))
    count = sum(size <= rows for size in sums[1:])
    while count > 1 and sums[count] > 2 * sums[count - 1]:
        count -= 1
    return by_size[:count] if count > 1 else []
