"""One folder in one question: where its documents and chunks stand, and the documents that were
read of the same generation.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from thumbindex.index.catalog import positions_of
from thumbindex.index.positions import PositionedCatalog
from thumbindex.index.postgres.database import Row, Session
from thumbindex.index.postgres.ids import FolderState, Rows
from thumbindex.index.store import document_from_row
from thumbindex.model import ChunkId, Document, FileTimes

MOST_DOCUMENTS = 20_000
"""Documents of a generation that are kept: some kilobytes each."""

LONGEST_KEY = 1_000
"""Bytes of a text that stands in an index as it is: one of PostgreSQL takes 2,700 in a row."""

_T = TypeVar("_T")


class Layout(PositionedCatalog):
    """Where the documents and chunks of a generation stand: at the positions of the builder's own
    index. The row ids of a document's chunks follow its own.
    """

    @property
    def columns(self) -> tuple[Rows, Rows, Rows]:
        """What a catalog of the same positions is made of."""
        return self.document_rows, self.sizes, self.ordinal_days

    @cached_property
    def _by_row(self) -> Rows:
        return np.argsort(self.document_rows)

    def document_positions(self, rows: Rows) -> Rows:
        """Return where documents stand by their rows; -1 for those that are gone."""
        return positions_of(self.document_rows, rows, self._by_row)

    def chunk_positions(self, rows: Rows) -> Rows:
        """Return where chunks stand by their rows; -1 for those that are gone."""
        order = self._by_row
        at = np.searchsorted(self.document_rows, rows, sorter=order) - 1
        if not len(order):
            return at
        documents = order[np.maximum(at, 0)]  # the last one before each
        ordinals = rows - self.document_rows[documents] - 1
        is_there = (at >= 0) & (ordinals < self.sizes[documents])
        return np.where(is_there, self.first[documents] + ordinals, -1)

    def chunk_rows(self, chunks: Sequence[ChunkId] | Rows) -> Rows:
        """Return the rows of chunks, in their order."""
        numbers = np.asarray(chunks, dtype=np.int64)
        documents = self.document_ids[numbers]
        rows: Rows = self.document_rows[documents] + 1 + numbers - self.first[documents]
        return rows


@dataclass(slots=True, eq=False)
class Recent:
    """What is kept of one generation."""

    generation: int
    documents: dict[int, Document] = field(default_factory=dict)  # by row
    made: dict[str, Any] = field(default_factory=dict)  # whatever else was made of it


@dataclass(slots=True, eq=False)
class Kept:
    """What a server keeps of a folder between questions: postings never change under their keys,
    the rest is of one generation.
    """

    folder: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    # by field, term and segment, those asked for last at the end
    postings: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    posting_bytes: int = 0  # that they take
    recent: Recent = field(default_factory=lambda: Recent(-1))

    def of(self, generation: int) -> Recent:
        """Return what is kept of a generation; a question that began before the present one shares
        nothing.
        """
        with self.lock:
            if generation < self.recent.generation:
                return Recent(generation)
            if generation > self.recent.generation:
                self.recent = Recent(generation)
            return self.recent


class FolderView:
    """What a question sees of one folder.

    `%s` in a statement stands first for the folder's number, then for the parameters.
    """

    def __init__(self, session: Session, state: FolderState, kept: Kept) -> None:
        self.session, self.state, self.kept = session, state, kept
        self.recent = kept.of(state.generation)

    def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query about this folder."""
        return self.session.fetch(sql, (self.state.folder, *parameters))

    def once(self, key: str, make: Callable[[], _T]) -> _T:
        """Return what is made once a generation."""
        if key in self.recent.made:
            found: _T = self.recent.made[key]
            return found
        made = self.recent.made[key] = make()
        return made

    @property
    def layout(self) -> Layout:
        """Where everything stands."""
        return self.once("layout", self._read_layout)

    def _read_layout(self) -> Layout:
        sql = (
            "SELECT id, chunks, coalesce(day - DATE '0001-01-01' + 1, 0) FROM documents "
            "WHERE folder = %s ORDER BY path"
        )
        rows, sizes, days = np.array(self.fetch(sql), dtype=np.int64).reshape(-1, 3).T.copy()
        return Layout(rows, sizes, days)

    def documents(self, rows: Iterable[int]) -> Mapping[int, Document]:
        """Return documents by their rows."""
        known, wanted = self.recent.documents, list(dict.fromkeys(rows))
        with self.kept.lock:
            found = {row: known[row] for row in wanted if row in known}
        if lacking := [row for row in wanted if row not in found]:
            sql = "SELECT id, path, record FROM documents WHERE folder = %s AND id = ANY(%s)"
            new = {
                row: read_document(record, path, self.state.name)
                for row, path, record in self.fetch(sql, lacking)
            }
            with self.kept.lock:
                if len(known) + len(new) > MOST_DOCUMENTS:
                    known.clear()
                known.update(new)
            found.update(new)
        return found


def document_record(title: str, times: FileTimes, facts: str) -> str:
    """Return a document's facts as they are published: ASCII, since PostgreSQL keeps neither a NUL
    nor half a character.
    """
    return json.dumps([title, list(times), facts])


def read_document(record: str, path: str, folder: str) -> Document:
    """Return a document from what was published of it."""
    title, times, facts = json.loads(record)
    return document_from_row(path, title, FileTimes(*times), facts, folder)


def stored(text: str) -> str:
    """Return a text as PostgreSQL can keep it: neither a NUL nor half a character."""
    if is_stored(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def is_stored(text: str) -> bool:
    """Tell whether PostgreSQL can keep a text as it is."""
    return "\0" not in text and (
        text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
    )


def looked_up(text: str) -> str:
    """Return a term, name or tag as an index has it: by its digest where it is too long for one, or
    no text to PostgreSQL.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= LONGEST_KEY and is_stored(text):
        return text
    return f"\x01{blake2b(data, digest_size=20).hexdigest()}"
