"""What is made of one folder's notes: a SQLite file that holds documents, sections, chunks, links
and what was read when.
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

from thumbindex.errors import IndexBusyError, IndexDamagedError, IndexMissingError, StorageError
from thumbindex.index.duplicate_tables import DECISIONS_FILE, DuplicateTables, read_decisions
from thumbindex.index.files import KEYWORD_FOLDER, VECTORS_FOLDER
from thumbindex.index.row_codec import (
    aliases_from_facts,
    chunk_checksum,
    chunk_from_row,
    chunk_values,
    document_from_row,
    signed_inode,
    state_from_row,
    text_checksum,
    text_keys,
    text_span,
)
from thumbindex.index.segments import SegmentFile
from thumbindex.index.sqlite import (
    BUSY_SECONDS,
    SqliteFile,
    SqlRow,
    damage_message,
)
from thumbindex.index.vector_store import VectorStore, vector_file
from thumbindex.model import (
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

_DOCUMENT = (
    "id, path, size, mtime_ns, inode, digest, title, modified, facts, ctime_ns, edited, "
    "first_commit, last_commit"
)

TIMES = ", ".join(DocumentTimes._fields)
"""The columns of a document's times."""

_FACTS = tuple(
    f.name
    for f in fields(Document)
    if f.name not in {"path", "title", "folder", *DocumentTimes._fields}
)

_CHUNK = (
    "SELECT c.id, c.document, c.ordinal, c.section, c.kind, coalesce(c.heading_path, "
    "s.heading_path), c.start_line, c.end_line,"
    " coalesce(c.text, substr(s.text, c.at + 1, c.size)), c.salience, c.language, c.key, c.sum"
)
_SECTIONS = (
    " FROM chunks c LEFT JOIN sections s ON s.document = c.document AND s.ordinal = c.section "
    "WHERE c.id IN ({})"
)


_DOCUMENT_BATCH = 200
"""Of which all texts are loaded: a few megabytes."""


class Store(SqliteFile):
    """One folder's SQLite file, with its tables of duplicates and the vectors of its texts, which
    lie in a store for all folders.
    """

    schema = "schema.sql"
    version = 15
    """Changes with the schema, and when words are analyzed or segments are written another way."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        super().__init__(path, read_only=read_only, busy_seconds=busy_seconds)
        self.decisions_file = path.parent.with_name(DECISIONS_FILE)
        self._guard = threading.Lock()
        # by the generations of the store and of its vectors
        self._counted: tuple[tuple[int, int], tuple[int, int, int]] | None = None
        self._vectors: VectorStore | None = None
        # which file is open
        self._vectors_are: tuple[Path, int, int] | str | None = "not looked for"

    def close(self) -> None:
        """Close the files."""
        super().close()
        if self._vectors is not None:
            self._vectors.close()

    @property
    def duplicates(self) -> DuplicateTables:
        """The tables of duplicates.

        They are not kept: each would hold the other, and a store that nobody holds stayed open.
        """
        return DuplicateTables(self)

    def decisions(self) -> tuple[Decision, ...]:
        """Return what the owner decided about duplicates, by the texts' digests; raise StorageError
        where the file cannot be read.
        """
        return read_decisions(self.decisions_file)

    def counts(self) -> tuple[int, int, int]:
        """Count documents, chunks, and chunks with a vector."""
        with self.read_transaction():
            vectors = self.vectors
            moment = self.generation, vectors.generation if vectors else -1
            if self._counted is None or self._counted[0] != moment:
                held = vectors.keys() if vectors else set()
                documents = self.fetch("SELECT count(*) FROM documents")[0][0]
                keys = [key for (key,) in self.fetch("SELECT key FROM chunks")]
                counts = documents, len(keys), sum(key in held for key in keys)
                self._counted = moment, counts
            return self._counted[1]

    def link_counts(self) -> LinkCounts:
        """Count the links that lead to a document and those that dangle."""
        row = self.fetch("SELECT count(resolved), count(*) - count(resolved) FROM links")[0]
        return LinkCounts(*row)

    def verify(self) -> None:
        """Read all texts, and raise IndexDamagedError where the file does not hold together or a
        text is not what was written.
        """
        with self.read_transaction():
            self.check_integrity()
            rows = [row for row, _, _ in self.chunk_rows()]
            self.sections(rows)
            if len(self.chunks(rows)) != len(rows):
                raise IndexDamagedError(
                    damage_message(self.path, "a chunk is not found by its row")
                )

    # -------------------------------------------------------------- documents

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return each path's file state when it was read, of all paths or of these."""
        sql = "SELECT path, size, mtime_ns, inode, digest, ctime_ns FROM documents"
        rows = (
            self.fetch(sql)
            if paths is None
            else self.fetch_in(f"{sql} WHERE path IN ({{}})", paths)
        )
        return {row[0]: state_from_row(row) for row in rows}

    def remove_documents(self, paths: Iterable[str]) -> None:
        """Remove documents with all that hangs on them."""
        for path in paths:
            for (row,) in self.fetch("SELECT id FROM documents WHERE path = ?", (path,)):
                self.execute("DELETE FROM documents WHERE id = ?", (row,))
            self.execute("DELETE FROM problems WHERE path = ?", (path,))

    def add_document(self, state: FileState, parsed: ParsedDocument) -> None:
        """Put a document in place of the one at its path."""
        self.remove_documents([state.path])
        document = parsed.document
        facts = json.dumps(
            {name: value for name in _FACTS if (value := getattr(document, name))},
            ensure_ascii=False,
            sort_keys=True,
        )
        row, keys = self.last_row + 1, parsed.keys or text_keys(parsed)
        modified, *days = DocumentTimes(
            *(getattr(document, name) for name in DocumentTimes._fields)
        )
        facts_of_file = (state.size, state.mtime_ns, signed_inode(state.inode), state.digest)
        values = (
            row,
            state.path,
            *facts_of_file,
            document.title,
            float(modified),
            facts,
            state.ctime_ns,
            *days,
        )
        self.execute(
            f"INSERT INTO documents ({_DOCUMENT}) VALUES ({', '.join('?' * len(values))})", values
        )
        self._insert_texts(
            [(row, s.ordinal, s.start_line, s.end_line, s.text) for s in parsed.sections],
            [
                (row + n, row, *chunk_values(chunk), key)
                for n, (chunk, key) in enumerate(zip(parsed.chunks, keys, strict=True), 1)
            ],
        )
        self.set_meta("last_row", str(row + len(parsed.chunks)))
        links = [
            (row, n, link.kind, link.target, link.fragment, link.text, link.line, link.resolved)
            for n, link in enumerate(parsed.links)
        ]
        self.execute_many("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?)", links)
        self.add_problems(parsed.problems)

    def _insert_texts(self, sections: Sequence[SqlRow], chunks: Sequence[SqlRow]) -> None:
        """Insert a document's sections and chunks: what a chunk says as its section says it is
        there once.
        """
        texts, paths = (
            {row[1]: row[4] for row in sections},
            {row[3]: row[5] for row in reversed(chunks)},
        )
        self.execute_many(
            "INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*row, paths.get(row[1]), text_checksum(row[4])) for row in sections],
        )
        rows = []
        for row in chunks:
            path = None if row[5] == paths[row[3]] and row[3] in texts else row[5]
            rows.append(
                (
                    *row[:5],
                    path,
                    *row[6:8],
                    *text_span(row[8], texts.get(row[3], "")),
                    *row[9:],
                    chunk_checksum(row),
                )
            )
        self.execute_many(f"INSERT INTO chunks VALUES ({', '.join('?' * 15)})", rows)

    def touch_document(self, state: FileState, modified: float) -> None:
        """Refresh the file state of a document whose text is as it was."""
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
        """Return row id, path, title, times and facts (JSON) of every document, or of those with
        these row ids, by path.
        """
        sql = f"SELECT id, path, title, facts, {TIMES} FROM documents"
        found = (
            self.fetch(sql) if rows is None else self.fetch_in(f"{sql} WHERE id IN ({{}})", rows)
        )
        return sorted(
            ((a, b, c, DocumentTimes(*times), d) for a, b, c, d, *times in found),
            key=lambda row: row[1],
        )

    def names(self, paths: Iterable[str] | None = None) -> list[Document]:
        """Return every document, or those at these paths, by path, with no more than links can
        name: path, title and aliases.
        """
        found = self.documents(None if paths is None else self._ids(paths))
        return [
            Document(path, title, aliases=aliases_from_facts(facts))
            for _, path, title, _, facts in found
        ]

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return how many bytes the files at some paths had when they were read."""
        return dict(self.fetch_in("SELECT path, size FROM documents WHERE path IN ({})", paths))

    def flagged(self) -> list[Document]:
        """Return the documents in which something is flagged, by path."""
        held = self.fetch("""SELECT id FROM documents WHERE instr(facts, '"flags": ["')""")
        found = self.documents([row for (row,) in held])
        return [
            document_from_row(path, title, times, facts, "")
            for _, path, title, times, facts in found
        ]

    def rows(self, paths: Iterable[str] | None = None) -> set[int]:
        """Return the row ids of chunks, and minus those of documents: all of them, or those of the
        documents at these paths.
        """
        if paths is None:
            return {row for row, _, _ in self.chunk_rows()}.union(
                -row for (row,) in self.fetch("SELECT id FROM documents")
            )
        ids = self._ids(paths)
        return {-row for row in ids}.union(
            row for (row,) in self.fetch_in("SELECT id FROM chunks WHERE document IN ({})", ids)
        )

    def _ids(self, paths: Iterable[str]) -> list[int]:
        return [
            row for (row,) in self.fetch_in("SELECT id FROM documents WHERE path IN ({})", paths)
        ]

    # -------------------------------------------------------------- chunks and sections

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id; those that are gone are missing."""
        found = {}
        for row in self.fetch_in(_CHUNK + _SECTIONS, rows):
            try:
                found[row[0]] = chunk_from_row(row[2:-2])
                is_whole = chunk_checksum(row) == row[-1]
            except (AttributeError, TypeError, ValueError):  # a flipped place leads to no text
                is_whole = False
            if not is_whole:
                raise IndexDamagedError(damage_message(self.path, "a text is not what was written"))
        return found

    def languages(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the language of the document of each chunk, by the chunk's row id."""
        documents = self.documents_of(rows)
        languages = {
            row: json.loads(facts).get("language", "")
            for row, _, _, _, facts in self.documents(sorted(set(documents.values())))
        }
        return {row: languages.get(document, "") for row, document in documents.items()}

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, by the chunk's row id, in the same way."""
        sql = f"SELECT c.id, s.ordinal, s.start_line, s.end_line, s.text, s.sum{_SECTIONS}"
        found = [row for row in self.fetch_in(sql, rows) if row[1] is not None]
        if any(not isinstance(row[4], str) or text_checksum(row[4]) != row[5] for row in found):
            raise IndexDamagedError(damage_message(self.path, "a text is not what was written"))
        return {row[0]: Section(*row[1:5]) for row in found}

    def paths_with_digests(self, digests: Collection[str]) -> set[str]:
        """Return the paths of documents with a section whose text has one of these digests: all are
        read, those of some documents at once.
        """
        ids = [row for (row,) in self.fetch("SELECT id FROM documents ORDER BY path")]
        sql = (
            "SELECT d.path, s.text FROM sections s JOIN documents d ON d.id = s.document WHERE "
            "d.id IN ({})"
        )
        parts = (
            self.fetch_in(sql, ids[start : start + _DOCUMENT_BATCH])
            for start in range(0, len(ids), _DOCUMENT_BATCH)
        )
        return {path for rows in parts for path, text in rows if text_digest(text) in digests}

    # -------------------------------------------------------------- columns of all chunks

    @property
    def last_row(self) -> int:
        """The last row id that was used; the next document's follow it."""
        return int(self.meta("last_row", "0"))

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of every chunk."""
        return self.fetch("SELECT id, document, ordinal FROM chunks")

    def documents_between(self, after: int, last: int) -> list[tuple[int, int]]:
        """Return row id and document's row id of the chunks whose row ids come after one, up to
        another, ascending.
        """
        return self.fetch(
            "SELECT id, document FROM chunks WHERE id > ? AND id <= ? ORDER BY id", (after, last)
        )

    def documents_of(self, rows: Sequence[int]) -> dict[int, int]:
        """Return the document's row id of each of these chunks; those that are gone are missing."""
        return dict(self.fetch_in("SELECT id, document FROM chunks WHERE id IN ({})", rows))

    def count_chunks(self) -> int:
        """Count the chunks; without a condition SQLite counts in the smallest index, and not
        through the texts.
        """
        return int(self.fetch("SELECT count(*) FROM chunks")[0][0])

    def chunk_facts(
        self, documents: Sequence[int] | None = None
    ) -> list[tuple[int, int, int, float]]:
        """Return row id, document's row id, ordinal and salience of every chunk, or of those of the
        documents with these row ids.
        """
        sql = "SELECT id, document, ordinal, salience FROM chunks"
        if documents is None:
            return self.fetch(f"{sql} NOT INDEXED")
        return self.fetch_in(f"{sql} WHERE document IN ({{}})", documents)

    def document_times(self) -> dict[int, tuple[Any, ...]]:
        """Return the times of every document by row id, as plain tuples in the order of
        DocumentTimes: all are read after each commit.
        """
        return {
            row[0]: row[1:] for row in self.fetch(f"SELECT id, {TIMES} FROM documents NOT INDEXED")
        }

    # -------------------------------------------------------------- vectors of the chunks' texts

    @property
    def vectors(self) -> VectorStore | None:
        """The vectors of the index's model; None where there are none, or where they cannot be
        read: words answer alone then.
        """
        fingerprint = self.meta("fingerprint")
        if not fingerprint:
            return None
        with self._guard:
            path = vector_file(self.path.parent.parent.with_name(VECTORS_FOLDER), fingerprint)
            if self._vectors_are != _identity(path) or (
                self._vectors is None and not self._read_only
            ):
                self._open_vectors(path, fingerprint)
            return self._vectors

    def _open_vectors(self, path: Path, fingerprint: str) -> None:
        self._vectors = self._vectors_are = None
        if not self._read_only:
            self._vectors = VectorStore.open(path, fingerprint)
        elif path.exists():
            try:
                self._vectors = VectorStore(path, read_only=True)
            except (IndexBusyError, IndexMissingError):
                # another process writes the file, or has only just begun it: whoever asks next
                # looks again
                return
            except StorageError as error:
                _LOG.warning("%s Until then words are searched alone.", error)
        self._vectors_are = _identity(path)

    # -------------------------------------------------------------- segments

    @property
    def keyword(self) -> Path:
        """The folder of these files."""
        return self.path.with_name(KEYWORD_FOLDER)

    def segments(self) -> list[SegmentFile]:
        """Return the files that the index of words is made of."""
        return [
            SegmentFile(name, rows, size, checksum, np.frombuffer(deleted, dtype=np.uint32))
            for name, rows, size, checksum, deleted in self.fetch(
                "SELECT name, rows, size, sum, deleted FROM segments ORDER BY name"
            )
        ]

    def set_segments(self, segments: Iterable[SegmentFile]) -> None:
        """Put a list of files in place of the one there is, in a transaction."""
        self.execute("DELETE FROM segments")
        self.execute_many(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?)",
            [(s.name, s.rows, s.size, s.checksum, s.deleted.tobytes()) for s in segments],
        )

    # -------------------------------------------------------------- links and problems

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return every link, or those in the documents at these paths, with its document's path and
        its ordinal there.
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
        """Return the links that lead to a document, with the paths of those that they stand in, by
        path and line.
        """
        sql = (
            "SELECT d.path, l.kind, l.target, l.fragment, l.text, l.line, l.resolved FROM links l "
            "JOIN documents d ON d.id = l.document"
        )
        rows = self.fetch(
            f"{sql} WHERE l.resolved = ? AND d.path <> ? ORDER BY d.path, l.line", (path, path)
        )
        return [(row[0], Link(LinkKind(row[1]), *row[2:])) for row in rows]

    def resolve_link(self, path: str, ordinal: int, resolved: str | None) -> None:
        """Write where a link leads."""
        self.execute(
            "UPDATE links SET resolved = ? WHERE ordinal = ? AND document = (SELECT id FROM "
            "documents WHERE path = ?)",
            (resolved, ordinal, path),
        )

    def linked_paths(self) -> dict[int, str]:
        """Return the paths that each document's links lead to, as a JSON list by the document's row
        id; documents without links are missing.
        """
        return dict(
            self.fetch(
                "SELECT document, json_group_array(resolved) FROM links WHERE resolved <> '' "
                "GROUP BY document"
            )
        )

    def link_targets(self) -> dict[int, str]:
        """Return the path that each link of a document leads to, as a JSON object by the link's
        ordinal, by the document's row id.
        """
        return dict(
            self.fetch(
                "SELECT document, json_group_object(ordinal, resolved) FROM links "
                "WHERE resolved <> '' GROUP BY document"
            )
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return what was reported about files, by path and line."""
        return tuple(
            Problem(*row)
            for row in self.fetch(
                "SELECT path, line, reason FROM problems ORDER BY path, line, reason"
            )
        )

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add reports about files."""
        self.execute_many(
            "INSERT INTO problems VALUES (?, ?, ?)", [(p.path, p.line, p.reason) for p in problems]
        )

    def replace_walk_problems(self, problems: Sequence[Problem]) -> bool:
        """Put what a walk reported in place of what the last one did about files that are no
        documents; tell whether it differs.
        """
        known = {
            Problem(*row)
            for row in self.fetch(
                "SELECT path, line, reason FROM problems WHERE path NOT IN (SELECT path FROM "
                "documents)"
            )
        }
        wanted = dict.fromkeys(problems)
        if known == set(wanted):
            return False
        self.execute("DELETE FROM problems WHERE path NOT IN (SELECT path FROM documents)")
        self.add_problems(wanted)
        return True


def _identity(path: Path) -> tuple[Path, int, int] | None:
    """Return what tells a file from another one that takes its place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return path, found.st_dev, found.st_ino
