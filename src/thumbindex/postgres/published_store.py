"""The store of a published folder: the read methods of the store on disk, for PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from thumbindex.index.duplicate_tables import DuplicatePair
from thumbindex.index.row_codec import document_from_row
from thumbindex.model import (
    SUCCESSION,
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
"""Section ordinal under which a note's full text is stored."""

Fetch = Callable[[str, Sequence[Any]], list[ResultRow]]
"""Runs an SQL query in the current session."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """The last publication of a folder."""

    folder: int
    name: str
    publication: str  # random id
    generation: int
    published: float  # seconds since 1970
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> str:
        """An id that changes when servers must drop their caches: see `publish.EPOCH`."""
        return str(self.facts.get("epoch", ""))


class PublishedStore:
    """Reads one folder's rows. `fetch` replaces the first `%s` with the folder's number."""

    def __init__(self, fetch: Fetch, state: FolderState) -> None:
        self.run_query, self.state = fetch, state
        self.duplicates = PublishedDuplicates(self)

    def fetch(self, sql: str, *parameters: Any) -> list[ResultRow]:
        return self.run_query(sql, (self.state.folder, *parameters))

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Do nothing: a query already reads one snapshot."""
        yield

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Do nothing: PostgreSQL detects damage itself."""
        yield

    @property
    def generation(self) -> int:
        """The generation of the builder's store that was last published."""
        return self.state.generation

    def meta(self, key: str, default: str = "") -> str:
        """Return a published fact about the folder, or `default`."""
        return str(self.state.facts.get(key, default))

    def decisions(self) -> tuple[Decision, ...]:
        """Return the user's decisions about duplicates."""
        return tuple(Decision(*values) for values in self.state.facts["decisions"])

    def counts(self) -> tuple[int, int, int, int]:
        """Count documents and chunks, and exact and provisional vectors."""
        facts = self.state.facts
        documents, chunks, vectors, provisional = (
            int(facts[name]) for name in ("documents", "chunks", "vectors", "provisional")
        )
        return documents, chunks, vectors, provisional

    def link_counts(self) -> LinkCounts:
        """Count resolved and dangling links."""
        return LinkCounts(*self.state.facts["links"])

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems found in files, sorted by path and line."""
        return tuple(Problem(*values) for values in self.state.facts["problems"])

    # -------------------------------------------------------------- documents

    def _documents(
        self, columns: str, rows: Sequence[int] | None = None, paths: Iterable[str] | None = None
    ) -> list[ResultRow]:
        """Return columns of all documents, or of those in `rows` or `paths`, sorted by path."""
        sql, parameters = f"SELECT {columns} FROM documents WHERE folder = %s", list[list[Any]]()
        for column, values in (("id", rows), ("path", paths)):
            if values is not None:
                sql += f" AND {column} = ANY(%s)"
                parameters.append(list(values))
        return self.fetch(f"{sql} ORDER BY path", *parameters)

    def documents(
        self, rows: Sequence[int] | None = None
    ) -> list[tuple[int, str, str, DocumentTimes, str]]:
        """Return the row id, path, title, times and attributes (JSON) of documents.

        `rows` limits the result to documents with these row ids.
        """
        documents = []
        for row, path, metadata, *times in self._documents(f"id, path, metadata, {_TIMES}", rows):
            title, attributes = json.loads(metadata)
            documents.append((row, path, title, DocumentTimes(*times), attributes))
        return documents

    def document_times(self) -> dict[int, tuple[Any, ...]]:
        """Return the times of every document by row id."""
        sql = f"SELECT id, {_TIMES} FROM documents WHERE folder = %s"
        return {row: tuple(times) for row, *times in self.fetch(sql)}

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return the size and digest of all files, or of those in `paths`, by path."""
        rows = self._documents("path, size, file_digest", paths=paths)
        return {path: FileState(path, size, 0, 0, digest) for path, size, digest in rows}

    def flagged(self) -> list[Document]:
        """Return the documents with flags, sorted by path."""
        rows = self.fetch("SELECT id FROM documents WHERE folder = %s AND flagged")
        return [
            document_from_row(path, title, times, attributes, folder="")
            for _, path, title, times, attributes in self.documents([row for (row,) in rows])
        ]

    # -------------------------------------------------------------- chunks and sections

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return the row id, the document's row id and the ordinal of every chunk."""
        return [columns[:3] for columns in self.chunk_columns()]

    def chunk_columns(
        self, documents: Sequence[int] | None = None
    ) -> list[tuple[int, int, int, float]]:
        """Return the row id, the document's row id, the ordinal and the salience of each chunk.

        `documents` limits the result to chunks of documents with these row ids.
        """
        return [
            (row + 1 + n, row, n, salience)
            for row, data in self._documents("id, salience", documents)
            for n, salience in enumerate(np.frombuffer(data, dtype="<f8").tolist())
        ]

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id. Missing chunks are left out."""
        sql = "SELECT id, record FROM chunks WHERE folder = %s AND id = ANY(%s)"
        return {row: decode_chunk(record) for row, record in self.fetch(sql, list(rows))}

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, by chunk row id."""
        sql = (
            "SELECT array_agg(c.id), s.ordinal, s.start_line, s.end_line, s.text FROM chunks c"
            " JOIN sections s ON s.folder = c.folder AND s.document = c.document"
            " AND s.ordinal = c.section"
            " WHERE c.folder = %s AND c.id = ANY(%s) GROUP BY s.folder, s.document, s.ordinal"
        )
        sections = dict[int, Section]()
        for chunks, ordinal, start, end, text in self.fetch(sql, list(rows)):
            section = Section(ordinal, start, end, decode_text(text))
            sections.update(dict.fromkeys(chunks, section))
        return sections

    def source(self, path: str) -> str | None:
        """Return a note's published text, or None if the path is unknown.

        If the file had changed before publication, the text is joined from the indexed sections.
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
        """Return the paths of documents that have a section with one of these text digests."""
        sql = (
            "SELECT DISTINCT d.path FROM sections s JOIN documents d ON d.folder = s.folder AND "
            "d.id = s.document"
            " WHERE s.folder = %s AND s.text_digest = ANY(%s)"
        )
        return {path for (path,) in self.fetch(sql, list(digests))}

    # -------------------------------------------------------------- links

    def succession(self) -> list[tuple[int, str, str]]:
        """Return document's row id, kind and target path of statements about versions of notes."""
        return [(row, kind, path) for row, kind, path in self.state.facts["succession"]]

    def linked_paths(self) -> dict[int, str]:
        """Map the row id of each document to a JSON list of the paths that it links to.

        Documents without link targets are left out.
        """
        sql = "SELECT id, link_targets FROM documents WHERE folder = %s AND link_targets <> '{}'"
        return {row: json.dumps(paths) for row, paths in self.fetch(sql)}

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return the links in all documents, or in those at `paths`.

        Each item has the document's path, the link's ordinal in the document, and the link.
        """
        return [
            (path, ordinal, link)
            for path, links in self._documents("path, links", paths=paths)
            for ordinal, link in enumerate(decode_links(links))
        ]

    def links_to(self, path: str) -> list[tuple[str, Link]]:
        """Return the links from other documents to a path, each with the path of its document."""
        sql = (
            "SELECT path, links FROM documents WHERE folder = %s"
            " AND link_targets @> ARRAY[%s]::text[] AND path <> %s ORDER BY path"
        )
        return [
            (source, link)
            for source, links in self.fetch(sql, path, path)
            for link in sorted(decode_links(links), key=lambda link: link.line)
            if link.resolved == path and link.kind not in SUCCESSION
        ]


class PublishedDuplicates:
    """The duplicates of a published folder."""

    def __init__(self, store: PublishedStore) -> None:
        self._store = store

    def read(self) -> dict[str, Any]:
        """Return the duplicates as the builder wrote them."""
        sql = "SELECT data FROM parts WHERE folder = %s AND segment = '' AND name = 'duplicates'"
        duplicates: dict[str, Any] = json.loads(self._store.fetch(sql)[0][0])
        return duplicates

    def pairs(self) -> list[DuplicatePair]:
        """Return the pairs of chunks that are merged or await the user's decision."""
        return [tuple(row) for row in self.read()["alike"]]

    def ingestion(self) -> tuple[IngestionCounts, ...]:
        """Return the counts of repeated chunks for each document type."""
        return tuple(IngestionCounts(*values) for values in self._store.state.facts["ingestion"])


# ------------------------------------------------------------------ encoding


def encode_chunk(chunk: Chunk) -> str:
    """Return a chunk as ASCII JSON, since PostgreSQL cannot store NUL or lone surrogates."""
    return json.dumps(astuple(chunk))


def decode_chunk(record: str) -> Chunk:
    """Decode the output of `encode_chunk`."""
    ordinal, section, kind, headings, *values = json.loads(record)
    return Chunk(ordinal, section, BlockKind(kind), tuple(headings), *values)


def encode_links(links: Iterable[Link]) -> str:
    """Return a document's links as JSON."""
    return json.dumps([astuple(link) for link in links])


def decode_links(record: str) -> list[Link]:
    """Decode the output of `encode_links`."""
    return [Link(LinkKind(kind), *values) for kind, *values in json.loads(record)]


def decode_text(data: bytes) -> str:
    """Decode a section's text."""
    return bytes(data).decode("utf-8", "surrogatepass")


def pg_text(text: str) -> str:
    """Replace the characters that PostgreSQL cannot store: NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
