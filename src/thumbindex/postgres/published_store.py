"""The store of a published folder, read from PostgreSQL for every query. It has the same methods
for reading as the store on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thumbindex.index.duplicate_tables import DuplicatePair
from thumbindex.index.row_codec import document_from_row
from thumbindex.model import (
    BlockKind,
    Chunk,
    Decision,
    Document,
    DocumentTimes,
    FileState,
    IngestionCounts,
    Link,
    LinkCounts,
    LinkKind,
    Problem,
    Section,
)
from thumbindex.postgres.database import ResultRow

_TIMES = ", ".join(DocumentTimes._fields)

SOURCE_ORDINAL = -1
"""The ordinal of a note's whole text as it was read, among its sections."""

Fetch = Callable[[str, Sequence[Any]], list[ResultRow]]
"""Asks the session of the question that this thread answers."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """One folder as it was published last: its number and what is known of it as a whole."""

    folder: int
    name: str
    generation: int
    published: float  # seconds since the epoch
    facts: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""  # digest of the facts

    @property
    def publication(self) -> tuple[int, int, str]:
        """What tells this publication from every other."""
        return self.folder, self.generation, self.mark

    @property
    def epoch(self) -> str:
        """What tells whether things that were read before are still so: see publish.EPOCH."""
        return str(self.facts.get("epoch", ""))


class PublishedStore:
    """One folder's rows. `%s` in a statement stands first for the folder's number."""

    def __init__(self, fetch: Fetch, state: FolderState) -> None:
        self.run_query, self.state = fetch, state
        self.duplicates = PublishedDuplicates(self)

    def fetch(self, sql: str, *parameters: Any) -> list[ResultRow]:
        """Return the rows of a query about this folder."""
        return self.run_query(sql, (self.state.folder, *parameters))

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Group reads: all of a question see one moment as it is."""
        yield

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Make something of rows: the database answers for them itself."""
        yield

    @property
    def generation(self) -> int:
        """The builder's generation that is published."""
        return self.state.generation

    def meta(self, key: str, default: str = "") -> str:
        """Return a fact of the folder as a whole."""
        return str(self.state.facts.get(key, default))

    def decisions(self) -> tuple[Decision, ...]:
        """Return the owner's decisions about duplicates."""
        return tuple(Decision(*each) for each in self.state.facts["decisions"])

    def counts(self) -> tuple[int, int, int]:
        """Count documents, chunks, and chunks with a vector."""
        facts = self.state.facts
        return int(facts["documents"]), int(facts["chunks"]), int(facts["vectors"])

    def link_counts(self) -> LinkCounts:
        """Count the links that lead to a document and those that dangle."""
        return LinkCounts(*self.state.facts["links"])

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of files, by path and line."""
        return tuple(Problem(*each) for each in self.state.facts["problems"])

    # -------------------------------------------------------------- documents

    def _documents(
        self, columns: str, rows: Sequence[int] | None = None, paths: Iterable[str] | None = None
    ) -> list[ResultRow]:
        """Return columns of all documents, or of those with these row ids or paths, by path."""
        sql, given = f"SELECT {columns} FROM documents WHERE folder = %s", list[list[Any]]()
        for column, values in (("id", rows), ("path", paths)):
            if values is not None:
                sql += f" AND {column} = ANY(%s)"
                given.append(list(values))
        return self.fetch(f"{sql} ORDER BY path", *given)

    def documents(
        self, rows: Sequence[int] | None = None
    ) -> list[tuple[int, str, str, DocumentTimes, str]]:
        """Return row id, path, title, times and attributes (JSON) of every document, or of those
        with these row ids, by path.
        """
        found = self._documents(f"id, path, record, {_TIMES}", rows)
        parts = ((row, path, json.loads(record), times) for row, path, record, *times in found)
        return [
            (row, path, title, DocumentTimes(*times), attributes)
            for row, path, (title, attributes), times in parts
        ]

    def document_times(self) -> dict[int, tuple[Any, ...]]:
        """Return the times of every document by row id."""
        sql = f"SELECT id, {_TIMES} FROM documents WHERE folder = %s"
        return {row: tuple(times) for row, *times in self.fetch(sql)}

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return the size and digest of each file that was published, of all paths or of these."""
        rows = self._documents("path, size, digest", paths=paths)
        return {path: FileState(path, size, 0, 0, digest) for path, size, digest in rows}

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the sizes in bytes that the files at some paths had."""
        return dict(self._documents("path, size", paths=paths))

    def flagged(self) -> list[Document]:
        """Return the documents with flags, by path."""
        rows = self.fetch("SELECT id FROM documents WHERE folder = %s AND flagged")
        return [
            document_from_row(path, title, times, attributes, folder="")
            for _, path, title, times, attributes in self.documents([row for (row,) in rows])
        ]

    # -------------------------------------------------------------- chunks and sections

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of every chunk."""
        return [columns[:3] for columns in self.chunk_columns()]

    def chunk_columns(
        self, documents: Sequence[int] | None = None
    ) -> list[tuple[int, int, int, float]]:
        """Return row id, document's row id, ordinal and salience of every chunk, or of those of the
        documents with these row ids.
        """
        return [
            (row + 1 + n, row, n, salience)
            for row, data in self._documents("id, salience", documents)
            for n, salience in enumerate(np.frombuffer(data, dtype="<f8").tolist())
        ]

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id; those that are gone are missing."""
        sql = "SELECT id, record FROM chunks WHERE folder = %s AND id = ANY(%s)"
        return {row: decode_chunk(record) for row, record in self.fetch(sql, list(rows))}

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, by the chunk's row id."""
        sql = (
            "SELECT array_agg(c.id), s.ordinal, s.start_line, s.end_line, s.text FROM chunks c"
            " JOIN sections s ON s.folder = c.folder AND s.document = c.document"
            " AND s.ordinal = c.section"
            " WHERE c.folder = %s AND c.id = ANY(%s) GROUP BY s.folder, s.document, s.ordinal"
        )
        found = dict[int, Section]()
        for own, ordinal, start, end, text in self.fetch(sql, list(rows)):
            found.update(dict.fromkeys(own, Section(ordinal, start, end, decode_text(text))))
        return found

    def source(self, path: str) -> str | None:
        """Return a note's text as it was when it was published; of one whose file was another one
        by then, its sections in their order.
        """
        if not self._documents("id", paths=[path]):
            return None
        lines: list[str] = []
        for section in self._texts(path):
            if section.ordinal == SOURCE_ORDINAL:
                return section.text
            lines += [""] * (section.start_line - 1 - len(lines))
            lines += section.text.split("\n")
        return "\n".join(lines)

    def sections_at(self, path: str) -> tuple[Section, ...]:
        """Return the sections of the document at a path."""
        return tuple(text for text in self._texts(path) if text.ordinal != SOURCE_ORDINAL)

    def _texts(self, path: str) -> list[Section]:
        sql = (
            "SELECT s.ordinal, s.start_line, s.end_line, s.text FROM documents d JOIN sections s"
            " ON s.folder = d.folder AND s.document = d.id"
            " WHERE d.folder = %s AND d.path = %s ORDER BY s.ordinal"
        )
        return [
            Section(ordinal, start, end, decode_text(text))
            for ordinal, start, end, text in self.fetch(sql, path)
        ]

    def paths_with_digests(self, digests: Collection[str]) -> set[str]:
        """Return the paths of documents with a section whose text has one of these digests."""
        sql = (
            "SELECT DISTINCT d.path FROM sections s JOIN documents d ON d.folder = s.folder AND "
            "d.id = s.document"
            " WHERE s.folder = %s AND s.digest = ANY(%s)"
        )
        return {path for (path,) in self.fetch(sql, list(digests))}

    # -------------------------------------------------------------- links

    def linked_paths(self) -> dict[int, str]:
        """Return the paths that each document's links lead to, as a JSON list by the document's row
        id; documents without links are missing.
        """
        sql = "SELECT id, resolved FROM documents WHERE folder = %s AND resolved <> '{}'"
        return {row: json.dumps(paths) for row, paths in self.fetch(sql)}

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return every link, or those in the documents at these paths, with its document's path and
        its ordinal there.
        """
        return [
            (path, ordinal, link)
            for path, links in self._documents("path, links", paths=paths)
            for ordinal, link in enumerate(decode_links(links))
        ]

    def links_to(self, path: str) -> list[tuple[str, Link]]:
        """Return the links to a document from other documents, with the paths of these, by path and
        line.
        """
        sql = (
            "SELECT path, links FROM documents WHERE folder = %s AND resolved @> ARRAY[%s]::text[]"
            " AND path <> %s ORDER BY path"
        )
        return [
            (source, link)
            for source, links in self.fetch(sql, path, path)
            for link in sorted(decode_links(links), key=lambda link: link.line)
            if link.resolved == path
        ]


class PublishedDuplicates:
    """What is published of texts that say the same."""

    def __init__(self, store: PublishedStore) -> None:
        self._store = store

    def read(self) -> dict[str, Any]:
        """Return all of it, as `publish` has written it."""
        sql = "SELECT data FROM parts WHERE folder = %s AND segment = '' AND name = 'duplicates'"
        found: dict[str, Any] = json.loads(self._store.fetch(sql)[0][0])
        return found

    def pairs(self) -> list[DuplicatePair]:
        """Return the pairs of chunks that are one text twice, or for the owner to decide."""
        return [tuple(row) for row in self.read()["alike"]]

    def ingestion(self) -> tuple[IngestionCounts, ...]:
        """Return what ingestion did, by the documents' type."""
        return tuple(IngestionCounts(*each) for each in self._store.state.facts["ingestion"])


# ------------------------------------------------------------------ what is in a row


def encode_chunk(chunk: Chunk) -> str:
    """Return a chunk as it is published: ASCII, since PostgreSQL keeps neither a NUL nor half a
    character.
    """
    values = [
        chunk.ordinal,
        chunk.section,
        chunk.kind,
        chunk.heading_path,
        chunk.start_line,
        chunk.end_line,
        chunk.text,
        chunk.salience,
        chunk.language,
    ]
    return json.dumps(values)


def decode_chunk(record: str) -> Chunk:
    """Return a chunk from what was published of it."""
    ordinal, section, kind, headings, *values = json.loads(record)
    return Chunk(ordinal, section, BlockKind(kind), tuple(headings), *values)


def encode_links(links: Iterable[Link]) -> str:
    """Return a document's links as they are published."""
    return json.dumps(
        [
            [link.kind, link.target, link.fragment, link.text, link.line, link.resolved]
            for link in links
        ]
    )


def decode_links(record: str) -> list[Link]:
    """Return a document's links from what was published of them."""
    return [Link(LinkKind(kind), *values) for kind, *values in json.loads(record)]


def decode_text(data: bytes) -> str:
    """Return a text from what was published of it."""
    return bytes(data).decode("utf-8", "surrogatepass")


def pg_text(text: str) -> str:
    """Return a text as PostgreSQL can keep it: neither a NUL nor half a character."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
