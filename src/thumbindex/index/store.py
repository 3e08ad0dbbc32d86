"""The store of one folder's index: an SQLite file with documents, sections, chunks, links, problems
and file states.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.errors import IndexBusyError, IndexMissingError, StorageError
from thumbindex.index.duplicate_tables import DECISIONS_FILE, DuplicateTables, read_decisions
from thumbindex.index.files import KEYWORD_FOLDER, VECTORS_FOLDER
from thumbindex.index.row_codec import (
    chunk_checksum,
    chunk_from_row,
    chunk_values,
    document_from_row,
    linkable_document,
    signed_inode,
    state_from_row,
    text_checksum,
    text_keys,
    text_span,
)
from thumbindex.index.segments import SegmentFile
from thumbindex.index.sqlite import BUSY_SECONDS, SqliteFile, SqlRow, damage_error
from thumbindex.index.vector_store import VectorStore, vector_file
from thumbindex.model import (
    SUCCESSION,
    Chunk,
    Decision,
    Document,
    DocumentTimes,
    FileState,
    Link,
    LinkCounts,
    LinkKind,
    ParsedDocument,
    Problem,
    Section,
)
from thumbindex.text import text_digest

_LOG = logging.getLogger(__name__)

_DOCUMENT_COLUMNS = (
    "id, path, size, mtime_ns, inode, digest, title, modified, attributes, ctime_ns, edited, "
    "first_commit, last_commit"
)

_SUCCESSION = str(tuple(map(str, SUCCESSION)))

TIMES = ", ".join(DocumentTimes._fields)
"""The SQL columns of DocumentTimes, separated by commas."""

_JSON_FIELDS = tuple(
    f.name
    for f in fields(Document)
    if f.name not in {"path", "title", "folder", *DocumentTimes._fields}
)

_SELECT_CHUNK = (
    "SELECT c.id, c.document, c.ordinal, c.section, c.kind, "
    "coalesce(c.heading_path, s.heading_path), c.start_line, c.end_line, "
    "coalesce(c.text, substr(s.text, c.text_offset + 1, c.text_length)), "
    "c.salience, c.language, c.key, c.checksum"
)
_FROM_CHUNKS_WITH_SECTION = (
    " FROM chunks c LEFT JOIN sections s ON s.document = c.document AND s.ordinal = c.section "
    "WHERE c.id IN ({})"
)


_DOCUMENTS_PER_QUERY = 200
"""Maximum number of documents whose texts are loaded at once. They take a few megabytes."""


class Store(SqliteFile):
    """One folder's SQLite file. Also opens the file of vectors, which all folders share."""

    schema = "schema.sql"
    version = 25
    """Version of the schema, text analysis and segment format."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        super().__init__(path, read_only=read_only, busy_seconds=busy_seconds)
        self.decisions_file = path.parent.with_name(DECISIONS_FILE)
        self._guard = threading.Lock()
        # generations of the store and its vectors, and the counts at these generations
        self._cached_counts: tuple[tuple[int, int], tuple[int, int, int, int]] | None = None
        self._vectors: VectorStore | None = None
        # identity of the open vector file, to notice a replacement
        self._vector_file_identity: tuple[Path, int, int] | str | None = "not opened yet"

    def close(self) -> None:
        """Close the files."""
        super().close()
        if self._vectors is not None:
            self._vectors.close()

    @property
    def duplicates(self) -> DuplicateTables:
        """The tables of duplicates."""
        # a new object each time: a reference cycle would keep an unused store open
        return DuplicateTables(self)

    def decisions(self) -> tuple[Decision, ...]:
        """Return the user's decisions about duplicates. Raises StorageError."""
        return read_decisions(self.decisions_file)

    def counts(self) -> tuple[int, int, int, int]:
        """Return the numbers of documents and chunks, and of exact and provisional vectors."""
        with self.read_transaction():
            vectors = self.vectors
            generations = self.generation, vectors.generation if vectors else -1
            if self._cached_counts is None or self._cached_counts[0] != generations:
                with_vector = vectors.keys() if vectors else set()
                documents = self.fetch("SELECT count(*) FROM documents")[0][0]
                chunks = self.fetch(
                    "SELECT key, chunk IS NOT NULL FROM chunks LEFT JOIN provisional ON chunk = id"
                )
                exact = [key in with_vector for key, _ in chunks]
                provisional = sum(
                    is_provisional and not is_exact
                    for is_exact, (_, is_provisional) in zip(exact, chunks, strict=True)
                )
                counts = documents, len(chunks), sum(exact), provisional
                self._cached_counts = generations, counts
            return self._cached_counts[1]

    def link_counts(self) -> LinkCounts:
        """Return the numbers of resolved and dangling links."""
        row = self.fetch(
            "SELECT count(nullif(resolved, '')), count(*) - count(resolved) FROM links "
            f"WHERE kind NOT IN {_SUCCESSION}"
        )[0]
        return LinkCounts(*row)

    def verify(self) -> None:
        """Check the file and the checksums of all texts. Raises IndexDamagedError."""
        with self.read_transaction():
            self.check_integrity()
            rows = [row for row, _, _ in self.chunk_rows()]
            self.sections(rows)
            if len(self.chunks(rows)) != len(rows):
                raise damage_error(self.path, "a chunk cannot be found by its row id")

    # -------------------------------------------------------------- documents

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return the stored file states of the documents at `paths`, keyed by path.

        None returns the states of all documents.
        """
        sql = "SELECT path, size, mtime_ns, inode, digest, ctime_ns FROM documents"
        rows = (
            self.fetch(sql)
            if paths is None
            else self.fetch_in(f"{sql} WHERE path IN ({{}})", paths)
        )
        return {row[0]: state_from_row(row) for row in rows}

    def remove_documents(self, paths: Iterable[str]) -> None:
        """Delete documents with their sections, chunks, links and problems."""
        for path in paths:
            for (row,) in self.fetch("SELECT id FROM documents WHERE path = ?", (path,)):
                self.execute("DELETE FROM documents WHERE id = ?", (row,))
            self.execute("DELETE FROM problems WHERE path = ?", (path,))

    def add_document(self, state: FileState, parsed: ParsedDocument) -> int:
        """Insert or replace the document at `state.path`. Return its row id.

        The row ids of its chunks follow.
        """
        self.remove_documents([state.path])
        document = parsed.document
        attributes = json.dumps(
            {name: value for name in _JSON_FIELDS if (value := getattr(document, name))},
            ensure_ascii=False,
            sort_keys=True,
        )
        row, keys = self.last_row + 1, parsed.keys or text_keys(parsed)
        modified, *days = DocumentTimes(
            *(getattr(document, name) for name in DocumentTimes._fields)
        )
        file = (state.size, state.mtime_ns, signed_inode(state.inode), state.digest)
        values = (
            row,
            state.path,
            *file,
            document.title,
            float(modified),
            attributes,
            state.ctime_ns,
            *days,
        )
        self.execute(
            f"INSERT INTO documents ({_DOCUMENT_COLUMNS}) VALUES ({', '.join('?' * len(values))})",
            values,
        )
        self._insert_texts(
            [(row, s.ordinal, s.start_line, s.end_line, s.text) for s in parsed.sections],
            [
                (row + n, row, *chunk_values(chunk), *digests)
                for n, (chunk, (_, *digests)) in enumerate(zip(parsed.chunks, keys, strict=True), 1)
            ],
        )
        self.execute_many(
            "INSERT INTO provisional VALUES (?, ?)",
            [(row + n, vector) for n, vector in enumerate(parsed.provisional, 1)],
        )
        self.set_meta("last_row", str(row + len(parsed.chunks)))
        links = [
            (row, n, link.kind, link.target, link.fragment, link.text, link.line, link.resolved)
            for n, link in enumerate(parsed.links)
        ]
        self.execute_many("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?)", links)
        self.add_problems(parsed.problems)
        return row

    def _insert_texts(self, sections: Sequence[SqlRow], chunks: Sequence[SqlRow]) -> None:
        texts = {row[1]: row[4] for row in sections}
        heading_paths = {row[3]: row[5] for row in reversed(chunks)}
        self.execute_many(
            "INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*row, heading_paths.get(row[1]), text_checksum(row[4])) for row in sections],
        )
        rows = []
        for row in chunks:
            is_of_section = row[3] in texts and row[5] == heading_paths[row[3]]
            rows.append(
                (
                    *row[:5],
                    None if is_of_section else row[5],  # heading path, if it differs
                    *row[6:8],
                    *text_span(row[8], texts.get(row[3], "")),
                    *row[9:12],
                    chunk_checksum(row),
                    row[12],
                )
            )
        self.execute_many(f"INSERT INTO chunks VALUES ({', '.join('?' * 16)})", rows)

    def update_file_state(self, state: FileState, modified: float) -> None:
        """Update the file state of a document whose text has not changed."""
        values = (
            state.size,
            state.mtime_ns,
            signed_inode(state.inode),
            state.digest,
            float(modified),
            state.ctime_ns,
            state.path,
        )
        self.execute(
            "UPDATE documents SET size = ?, mtime_ns = ?, inode = ?, digest = ?, modified = "
            "?, ctime_ns = ? WHERE path = ?",
            values,
        )

    def documents(
        self, rows: Sequence[int] | None = None
    ) -> list[tuple[int, str, str, DocumentTimes, str]]:
        """Return row id, path, title, times and attributes of documents, sorted by path.

        `rows` are row ids. None returns all documents.
        """
        sql = f"SELECT id, path, title, attributes, {TIMES} FROM documents"
        documents = (
            self.fetch(sql) if rows is None else self.fetch_in(f"{sql} WHERE id IN ({{}})", rows)
        )
        return sorted(
            (
                (row, path, title, DocumentTimes(*times), attributes)
                for row, path, title, attributes, *times in documents
            ),
            key=lambda document: document[1],
        )

    def linkable_documents(self, paths: Iterable[str] | None = None) -> list[Document]:
        """Return the documents at `paths`, or all, sorted by path.

        Only the names and addresses that a link can use are set.
        """
        documents = self.documents(None if paths is None else self._document_ids(paths))
        return [
            linkable_document(path, title, attributes)
            for _, path, title, _, attributes in documents
        ]

    def flagged(self) -> list[Document]:
        """Return the documents with flags, sorted by path."""
        rows = self.fetch("""SELECT id FROM documents WHERE instr(attributes, '"flags": ["')""")
        flagged = self.documents([row for (row,) in rows])
        return [
            document_from_row(path, title, times, attributes, folder="")
            for _, path, title, times, attributes in flagged
        ]

    def signed_row_ids(self, paths: Iterable[str] | None = None) -> set[int]:
        """Return the negated row ids of the documents at `paths`, and the row ids of their chunks.

        If `paths` is None, returns the row ids of all documents and chunks.
        """
        if paths is None:
            return {row for row, _, _ in self.chunk_rows()}.union(
                -row for (row,) in self.fetch("SELECT id FROM documents")
            )
        ids = self._document_ids(paths)
        return {-row for row in ids}.union(
            row for (row,) in self.fetch_in("SELECT id FROM chunks WHERE document IN ({})", ids)
        )

    def _document_ids(self, paths: Iterable[str]) -> list[int]:
        return [
            row for (row,) in self.fetch_in("SELECT id FROM documents WHERE path IN ({})", paths)
        ]

    # -------------------------------------------------------------- chunks and sections

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id. Deleted chunks are omitted."""
        chunks = {}
        for row in self.fetch_in(_SELECT_CHUNK + _FROM_CHUNKS_WITH_SECTION, rows):
            try:
                chunks[row[0]] = chunk_from_row(row[2:-2])
                is_intact = chunk_checksum(row) == row[-1]
            except (AttributeError, TypeError, ValueError):  # a damaged offset
                is_intact = False
            if not is_intact:
                raise damage_error(self.path, "a text is corrupted")
        return chunks

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, keyed by the chunk's row id. Omits deleted chunks."""
        columns = "c.id, s.ordinal, s.start_line, s.end_line, s.text, s.checksum"
        sql = f"SELECT {columns}{_FROM_CHUNKS_WITH_SECTION}"
        sections = [row for row in self.fetch_in(sql, rows) if row[1] is not None]
        if any(not isinstance(row[4], str) or text_checksum(row[4]) != row[5] for row in sections):
            raise damage_error(self.path, "a text is corrupted")
        return {row[0]: Section(*row[1:5]) for row in sections}

    def paths_with_digests(self, digests: Collection[str]) -> set[str]:
        """Return the paths of documents that have a section with one of these digests.

        Reads all texts.
        """
        ids = [row for (row,) in self.fetch("SELECT id FROM documents ORDER BY path")]
        sql = (
            "SELECT d.path, s.text FROM sections s JOIN documents d ON d.id = s.document "
            "WHERE d.id IN ({})"
        )
        parts = (
            self.fetch_in(sql, ids[start : start + _DOCUMENTS_PER_QUERY])
            for start in range(0, len(ids), _DOCUMENTS_PER_QUERY)
        )
        return {path for rows in parts for path, text in rows if text_digest(text) in digests}

    # -------------------------------------------------------------- columns of all chunks

    @property
    def last_row(self) -> int:
        """The highest row id given to a document or chunk so far."""
        return int(self.meta("last_row", "0"))

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of all chunks."""
        return self.fetch("SELECT id, document, ordinal FROM chunks")

    def chunk_rows_between(self, after: int, last: int) -> list[tuple[int, int]]:
        """Return row id and document's row id of chunks with `after` < row id <= `last`, sorted."""
        return self.fetch(
            "SELECT id, document FROM chunks WHERE id > ? AND id <= ? ORDER BY id", (after, last)
        )

    def documents_of_chunks(self, rows: Sequence[int]) -> dict[int, int]:
        """Map row ids of chunks to the row ids of their documents. Deleted chunks are omitted."""
        return dict(self.fetch_in("SELECT id, document FROM chunks WHERE id IN ({})", rows))

    def count_chunks(self) -> int:
        """Return the number of chunks."""
        return int(self.fetch("SELECT count(*) FROM chunks")[0][0])

    def chunk_columns(
        self, documents: Sequence[int] | None = None
    ) -> list[tuple[int, int, int, float]]:
        """Return row id, document's row id, ordinal and salience of the chunks in `documents`.

        `documents` are row ids. None returns all chunks.
        """
        sql = "SELECT id, document, ordinal, salience FROM chunks"
        if documents is None:
            return self.fetch(f"{sql} NOT INDEXED")
        return self.fetch_in(f"{sql} WHERE document IN ({{}})", documents)

    def document_times(self) -> dict[int, tuple[Any, ...]]:
        """Return the times of all documents in the order of DocumentTimes, keyed by row id."""
        # plain tuples are faster, and all times are read after each commit
        return {
            row[0]: row[1:] for row in self.fetch(f"SELECT id, {TIMES} FROM documents NOT INDEXED")
        }

    # -------------------------------------------------------------- vectors of the chunks' texts

    @property
    def vectors(self) -> VectorStore | None:
        """The vectors of the index's model, or None if their file is missing or unreadable."""
        fingerprint = self.meta("fingerprint")
        if not fingerprint:
            return None
        with self._guard:
            path = vector_file(self.path.parent.parent.with_name(VECTORS_FOLDER), fingerprint)
            if self._vector_file_identity != file_identity(path) or (
                self._vectors is None and not self._read_only
            ):
                self._open_vectors(path, fingerprint)
            return self._vectors

    def _open_vectors(self, path: Path, fingerprint: str) -> None:
        self._vectors = self._vector_file_identity = None
        if not self._read_only:
            self._vectors = VectorStore.open(path, fingerprint)
        elif path.exists():
            try:
                self._vectors = VectorStore(path, read_only=True)
            except (IndexBusyError, IndexMissingError):
                return  # another process is creating the file: the next access tries again
            except StorageError as error:
                _LOG.warning("%s Until then, only keywords are searched.", error)
        self._vector_file_identity = file_identity(path)

    # -------------------------------------------------------------- segments

    @property
    def segments_folder(self) -> Path:
        """The folder of the keyword index's segments."""
        return self.path.with_name(KEYWORD_FOLDER)

    def segments(self) -> list[SegmentFile]:
        """Return the segments of the keyword index."""
        return [
            SegmentFile(name, rows, size, checksum, np.frombuffer(deleted, dtype=np.uint32))
            for name, rows, size, checksum, deleted in self.fetch(
                "SELECT name, rows, size, checksum, deleted FROM segments ORDER BY name"
            )
        ]

    def set_segments(self, segments: Iterable[SegmentFile]) -> None:
        """Replace the list of segments, inside a transaction."""
        self.execute("DELETE FROM segments")
        self.execute_many(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?)",
            [(s.name, s.rows, s.size, s.checksum, s.deleted.tobytes()) for s in segments],
        )

    # -------------------------------------------------------------- links and problems

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return the links of the documents at `paths`, or of all documents.

        Each link comes with the path of its document and the link's ordinal in the document. The
        result is sorted by path and ordinal.
        """
        sql = (
            "SELECT d.path, l.ordinal, l.kind, l.target, l.fragment, l.text, l.line, l.resolved "
            "FROM links l JOIN documents d ON d.id = l.document"
        )
        rows = (
            self.fetch(sql)
            if paths is None
            else self.fetch_in(f"{sql} WHERE d.path IN ({{}})", paths)
        )
        return sorted(
            ((row[0], row[1], Link(LinkKind(row[2]), *row[3:])) for row in rows),
            key=lambda row: row[:2],
        )

    def links_to(self, path: str) -> list[tuple[str, Link]]:
        """Return the links from other documents to the document at `path`.

        Each link comes with the path of the document that contains it. The result is sorted by that
        path and the line of the link.
        """
        rows = self.fetch(
            "SELECT d.path, l.kind, l.target, l.fragment, l.text, l.line, l.resolved "
            "FROM links l JOIN documents d ON d.id = l.document "
            f"WHERE l.resolved = ? AND d.path <> ? AND l.kind NOT IN {_SUCCESSION} "
            "ORDER BY d.path, l.line",
            (path, path),
        )
        return [(row[0], Link(LinkKind(row[1]), *row[2:])) for row in rows]

    def resolve_link(self, path: str, ordinal: int, resolved: str | None) -> None:
        """Set the path of the document that a link points to, as in `Link.resolved`."""
        self.execute(
            "UPDATE links SET resolved = ? WHERE ordinal = ? "
            "AND document = (SELECT id FROM documents WHERE path = ?)",
            (resolved, ordinal, path),
        )

    def succession(self) -> list[tuple[int, str, str]]:
        """Return document's row id, kind and target path of statements about versions of notes."""
        return self.fetch(
            "SELECT document, kind, resolved FROM links "
            f"WHERE kind IN {_SUCCESSION} AND resolved <> ''"
        )

    def linked_paths(self) -> dict[int, str]:
        """Return the target paths of each document's links as a JSON list, keyed by row id."""
        return dict(
            self.fetch(
                "SELECT document, json_group_array(resolved) FROM links WHERE resolved <> '' "
                "GROUP BY document"
            )
        )

    def link_targets(self) -> dict[int, str]:
        """Return the target paths of each document's links, keyed by row id.

        Each value is a JSON object that maps the ordinal of a link to its target path.
        """
        return dict(
            self.fetch(
                "SELECT document, json_group_object(ordinal, resolved) FROM links "
                "WHERE resolved <> '' GROUP BY document"
            )
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return all problems, sorted by path and line."""
        return tuple(
            Problem(*row)
            for row in self.fetch(
                "SELECT path, line, reason FROM problems ORDER BY path, line, reason"
            )
        )

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add problems."""
        self.execute_many(
            "INSERT INTO problems VALUES (?, ?, ?)", [(p.path, p.line, p.reason) for p in problems]
        )

    def replace_walk_problems(self, problems: Sequence[Problem]) -> bool:
        """Replace the problems of paths that are not documents. Return whether they changed."""
        present = {
            Problem(*row)
            for row in self.fetch(
                "SELECT path, line, reason FROM problems "
                "WHERE path NOT IN (SELECT path FROM documents)"
            )
        }
        unique = dict.fromkeys(problems)
        if present == set(unique):
            return False
        self.execute("DELETE FROM problems WHERE path NOT IN (SELECT path FROM documents)")
        self.add_problems(unique)
        return True


def file_identity(path: Path) -> tuple[Path, int, int] | None:
    """Return the path, device and inode of a file, or None if it is missing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return path, stat.st_dev, stat.st_ino
