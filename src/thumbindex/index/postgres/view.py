"""One folder in one question: its documents by row and by place, each looked up once and kept for
the next question of the same generation.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from thumbindex.index.postgres.database import Row, Session
from thumbindex.index.postgres.ids import MOST_CHUNKS, ORDINAL_BITS, FolderState, Rows
from thumbindex.index.store import document_from_row
from thumbindex.model import ChunkId, Document, FileTimes

MOST_DOCUMENTS = 20_000
"""Documents of a generation that are kept: some kilobytes each."""

MOST_PLACED = 200_000
"""Documents of a generation of which row, place and number of chunks are kept: two hundred bytes
each.
"""

MOST_VECTORS = 50_000
"""Vectors that are kept, of chunks that were compared with questions: 40 MB of 384 numbers in half
precision.
"""

MOST_POSTINGS = 4_000
"""Columns of terms that are kept: those of frequent words come with every question."""


LONGEST_KEY = 1_000
"""Bytes of a text that stands in an index as it is: one of PostgreSQL takes 2,700 in a row."""


class Placed(NamedTuple):
    """Where a document stands: all that is asked of most that a question touches."""

    row: int
    place: int
    chunks: int


class Known(NamedTuple):
    """A document and where it stands."""

    row: int
    place: int
    chunks: int
    document: Document


@dataclass(slots=True, eq=False)
class Recent:
    """What is kept of one generation."""

    generation: int
    by_row: dict[int, Known] = field(default_factory=dict)
    by_place: dict[int, Known] = field(default_factory=dict)
    placed_by_row: dict[int, Placed] = field(default_factory=dict)
    placed_by_place: dict[int, Placed] = field(default_factory=dict)
    # whatever else was made of the generation, by what it is
    made: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Kept:
    """What a server keeps of a folder between questions: vectors and postings never change under
    their keys, the rest is of one generation.
    """

    folder: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    # as sent, by chunk row; None where it had none in that generation
    vectors: OrderedDict[int, bytes | None] = field(default_factory=OrderedDict)
    # parts by segment, by field and term
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
                for row in [row for row, vector in self.vectors.items() if vector is None]:
                    del self.vectors[row]
            return self.recent


class FolderView:
    """What a question sees of one folder.

    `%s` in a statement stands first for the folder's number, then for the parameters.
    """

    def __init__(self, session: Session, state: FolderState, kept: Kept) -> None:
        self.session, self.state, self.kept = session, state, kept
        self.recent = kept.of(state.generation)

    @property
    def is_recent(self) -> bool:
        """Tell whether no newer generation has been asked since."""
        return self.recent is self.kept.recent

    def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query about this folder."""
        return self.session.fetch(sql, (self.state.folder, *parameters))

    def by_row(self, rows: Iterable[int]) -> Mapping[int, Known]:
        """Return documents by their rows; those that are gone are missing."""
        return self._known(rows, self.recent.by_row, "id")

    def by_place(self, places: Iterable[int]) -> Mapping[int, Known]:
        """Return documents by their places, which are their ids in a snapshot."""
        return self._known(places, self.recent.by_place, "place")

    def _known(
        self, keys: Iterable[int], known: Mapping[int, Known], column: str
    ) -> Mapping[int, Known]:
        wanted = list(dict.fromkeys(int(key) for key in keys))
        with self.kept.lock:
            found = {key: known[key] for key in wanted if key in known}
        if lacking := [key for key in wanted if key not in found]:
            rows = self.fetch(
                "SELECT id, place, chunks, path, record FROM documents WHERE folder = %s AND "
                f"{column} = ANY(%s)",
                lacking,
            )
            found.update(
                (each.row if column == "id" else each.place, each) for each in self.keep(rows)
            )
        return found

    def keep(self, rows: Collection[Row]) -> list[Known]:
        """Keep documents that were read as id, place, chunks, path and record."""
        found = [
            Known(row, place, chunks, read_document(record, path, self.state.name))
            for row, place, chunks, path, record in rows
        ]
        with self.kept.lock:
            if len(self.recent.by_row) + len(found) > MOST_DOCUMENTS:
                self.recent.by_row.clear()
                self.recent.by_place.clear()
            for each in found:
                self.recent.by_row[each.row] = self.recent.by_place[each.place] = each
        self.keep_placed(each[:3] for each in found)
        return found

    # -------------------------------------------------------------- where documents stand

    def placed(self, rows: Iterable[int]) -> Mapping[int, Placed]:
        """Return where documents stand by their rows; those that are gone are missing."""
        return self._placed(rows, self.recent.placed_by_row, "id")

    def placed_at(self, places: Iterable[int]) -> Mapping[int, Placed]:
        """Return the same by their places."""
        return self._placed(places, self.recent.placed_by_place, "place")

    def _placed(
        self, keys: Iterable[int], known: Mapping[int, Placed], column: str
    ) -> Mapping[int, Placed]:
        keys = list(keys)
        with self.kept.lock:
            found = {key: known[key] for key in keys if key in known}
        if lacking := [key for key in dict.fromkeys(keys) if key not in found]:
            rows = self.fetch(
                f"SELECT id, place, chunks FROM documents WHERE folder = %s AND {column} = ANY(%s)",
                lacking,
            )
            found.update(
                (each.row if column == "id" else each.place, each)
                for each in self.keep_placed(rows)
            )
        return found

    def keep_placed(self, rows: Iterable[Row]) -> list[Placed]:
        """Keep where documents stand that were read as id, place and chunks."""
        found = [Placed(*row) for row in rows]
        with self.kept.lock:
            if len(self.recent.placed_by_row) + len(found) > MOST_PLACED:
                self.recent.placed_by_row.clear()
                self.recent.placed_by_place.clear()
            for each in found:
                self.recent.placed_by_row[each.row] = self.recent.placed_by_place[each.place] = each
        return found

    def rows_of(self, chunks: Sequence[ChunkId]) -> Rows:
        """Return the rows of chunks, in their order; -1 for those of documents that are not
        here.
        """
        numbers = np.array(chunks, dtype=np.int64)
        places, of = np.unique(numbers >> ORDINAL_BITS, return_inverse=True)
        placed = self.placed_at(places.tolist())
        documents = np.array(
            [placed[place].row if place in placed else -1 for place in places.tolist()],
            dtype=np.int64,
        )[of]
        return np.where(documents < 0, -1, documents + 1 + (numbers & (MOST_CHUNKS - 1)))


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
