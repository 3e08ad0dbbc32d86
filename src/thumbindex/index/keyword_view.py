"""The writer's side of the keyword index: keeps Whoosh's files equal to the store's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from whoosh import index as whoosh_index
from whoosh.index import LockError
from whoosh.writing import MERGE_SMALL, IndexWriter, SegmentWriter

from thumbindex.errors import IndexBusyError
from thumbindex.index.analysis import VIEW_VERSION, code_words, document_texts, schema
from thumbindex.index.catalog import Positions
from thumbindex.index.failures import writing
from thumbindex.index.keyword import live_rows, open_reader
from thumbindex.index.keyword_files import KeepsFiles, counted_files
from thumbindex.index.stamp import Stamp, clear, is_whole, read_stamp, sweep, verify, write_stamp
from thumbindex.model import Chunk, Document
from thumbindex.text import visible, words

WRITER_MEGABYTES = 64
"""What Whoosh gathers in memory before it writes a run to disk; 256 was a fifth faster on 21,000 chunks and took twice the memory."""

FEW_SEGMENTS, MOST_SEGMENTS = 8, 32
"""Segments that are left alone when there is time to merge, and those from which on a commit merges whatever it costs."""


class KeywordView:
    """The writer's side: keeps the inverted index equal to the store's rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_current(self, generation: int = 0) -> bool:
        """Tell whether there is an index of this version that shows at least a generation of the store."""
        shown = read_stamp(self.folder)
        return shown is not None and shown.version == VIEW_VERSION and shown.generation >= generation and is_whole(self.folder)

    def is_at(self, generation: int) -> bool:
        """Tell whether it shows just this generation: its rows are the store's."""
        return read_stamp(self.folder) == Stamp(VIEW_VERSION, generation) and is_whole(self.folder)

    def create(self) -> None:
        """Begin an empty index; it does not count until it is stamped."""
        clear(self.folder)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            whoosh_index.create_in(str(self.folder), schema())

    def write_stamp(self, generation: int) -> None:
        """Say that the index shows a generation of the store; readers open it anew."""
        write_stamp(self.folder, Stamp(VIEW_VERSION, generation), counted_files(self.folder))
        sweep(self.folder)

    def rows(self) -> Positions:
        """Return the row ids that the index holds: chunks', and minus documents'."""
        with open_reader(self.folder) as reader:
            return live_rows(reader)[1]

    def apply(self, removed: Iterable[int], documents: Iterable[tuple[int, Document]], chunks: Iterable[tuple[int, Chunk]]) -> None:
        """Remove rows and add rows (chunks' row ids, minus documents'), in one commit."""
        if read_stamp(self.folder):
            verify(self.folder)  # damage shows here, before anything is written
        with writing(self.folder):
            self._apply(self._writer(), removed, documents, chunks)

    def _apply(self, writer: Any, removed: Iterable[int], documents: Iterable[tuple[int, Document]], chunks: Iterable[tuple[int, Chunk]]) -> None:
        try:
            for row in removed:
                writer.delete_by_term("key", str(row))
            for row, document in documents:
                _add(writer, row, document_texts(document))
            for row, chunk in chunks:
                text = visible(chunk.text)
                _add(writer, row, {"body": text, "headings": "\n".join(chunk.heading_path[1:]), "code": "\n".join((*chunk.heading_path, chunk.text))})
        except BaseException:
            writer.cancel()
            raise
        writer.commit(mergetype=_merge_many)

    def merge(self) -> None:
        """Merge small segments; the rows stay as they are, so that readers need not open it anew."""
        shown = read_stamp(self.folder)
        if shown and len(whoosh_index.open_dir(str(self.folder))._segments()) > FEW_SEGMENTS:
            with writing(self.folder):
                self._writer().commit(mergetype=MERGE_SMALL)
            self.write_stamp(shown.generation)

    def _writer(self) -> Any:
        try:
            return _Writer(whoosh_index.open_dir(str(self.folder)), limitmb=WRITER_MEGABYTES, timeout=30.0)
        except LockError as error:
            raise IndexBusyError(f"The keyword index in {self.folder} is busy: another process is writing; try again in a moment.") from error


class _Writer(KeepsFiles, SegmentWriter):  # type: ignore[misc]
    """Whoosh's writer, whose commit the stamp is."""


def _merge_many(writer: IndexWriter, segments: Any) -> Any:
    """Merge not while a text waits to be found: it costs five times as much as the commit of an edit."""
    return MERGE_SMALL(writer, segments) if len(segments) >= MOST_SEGMENTS else segments


def _add(writer: IndexWriter, row: int, texts: Mapping[str, str]) -> None:
    lengths = {f"length_{name}": sum(1 for _ in (code_words(text) if name == "code" else words(text))) for name, text in texts.items()}
    writer.add_document(key=str(row), row=row, **{name: text for name, text in texts.items() if text}, **lengths)
