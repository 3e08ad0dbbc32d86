"""The one truth: a SQLite file that holds documents, sections, chunks, links, vectors and what was read when."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.errors import IndexBusyError, IndexDamagedError, IndexTooNewError, StorageError
from thumbindex.model import BlockKind, Chunk, Document, FileState, Link, LinkKind, ParsedDocument, Problem, Section
from thumbindex.ports import Matrix
from thumbindex.text import embedded_text

SCHEMA_VERSION = 1
BUSY_SECONDS = 30.0
"""How long a reader or writer waits for a lock that another one holds: a lock is not damage."""

_FACTS = tuple(f.name for f in fields(Document) if f.name not in {"path", "title", "folder", "modified"})


def text_key(text: str) -> bytes:
    """Return the digest that stands for an embedded text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Store:
    """One folder's SQLite file. Methods are safe to call from several threads."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            # a reader never makes a file: where there is none, there is no index
            source, uri = (f"{path.absolute().as_uri()}?mode=ro", True) if read_only else (str(path), False)
            self._db = sqlite3.connect(source, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)
        except sqlite3.Error as error:
            raise _translated(error, path) from error
        try:
            self._prepare(read_only)
        except sqlite3.Error as error:
            self._db.close()
            raise _translated(error, path) from error
        except IndexTooNewError:
            self._db.close()
            raise

    def _prepare(self, read_only: bool) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        if read_only:
            self._db.execute("PRAGMA query_only = ON")
        else:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise IndexTooNewError(
                f"{self.path} was written by a later version of thumbindex (schema {version}): upgrade thumbindex, or use another --index."
            )
        if version == 0 and not read_only:
            schema = resources.files("thumbindex.index").joinpath("schema.sql").read_text(encoding="utf-8")
            self._db.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group writes: all of them are kept, with a new generation, or none."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.set_meta("generation", str(self.generation + 1))
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:  # a full disk has rolled back by itself
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Group reads: all of them see one generation."""
        with self._lock:
            try:
                self._db.execute("BEGIN")
                try:
                    yield
                finally:
                    self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error

    # -------------------------------------------------------------- facts about the index

    def meta(self, key: str, default: str = "") -> str:
        """Return a fact about the index."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else default

    def set_meta(self, key: str, value: str) -> None:
        """Write a fact about the index."""
        self._db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    @property
    def generation(self) -> int:
        """The number of transactions so far; views say which one they show."""
        return int(self.meta("generation", "0"))

    def counts(self, fingerprint: str) -> tuple[int, int, int]:
        """Count documents, chunks, and chunks with a vector of this model."""
        vectors = "SELECT count(*) FROM chunks c WHERE EXISTS (SELECT 1 FROM vectors v WHERE v.fingerprint = ? AND v.key = c.key)"
        row = self._rows(f"SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), ({vectors})", (fingerprint,))[0]
        return row[0], row[1], row[2]

    def count_chunks(self) -> int:
        """Count the chunks."""
        return int(self._rows("SELECT count(*) FROM chunks")[0][0])

    def link_counts(self) -> tuple[int, int]:
        """Count the links that lead to a document and those that dangle."""
        row = self._rows("SELECT count(resolved), count(*) - count(resolved) FROM links")[0]
        return row[0], row[1]

    # -------------------------------------------------------------- documents

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return each path's file state when it was read; of all paths or of these."""
        sql = "SELECT path, size, mtime_ns, inode, digest FROM documents"
        rows = self._rows(sql) if paths is None else self._in(f"{sql} WHERE path IN ({{}})", list(paths))
        return {path: FileState(path, size, mtime, inode % 2**64, digest) for path, size, mtime, inode, digest in rows}

    def remove_documents(self, paths: Iterable[str]) -> None:
        """Remove documents with all that hangs on them."""
        for path in paths:
            self._db.execute("DELETE FROM documents WHERE path = ?", (path,))
            self._db.execute("DELETE FROM problems WHERE path = ?", (path,))

    def add_document(self, state: FileState, parsed: ParsedDocument) -> None:
        """Put a document in place of the one at its path."""
        self.remove_documents([state.path])
        document = parsed.document
        facts = json.dumps({name: getattr(document, name) for name in _FACTS}, ensure_ascii=False, sort_keys=True)
        cursor = self._db.execute(
            "INSERT INTO documents (path, size, mtime_ns, inode, digest, title, modified, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (state.path, state.size, state.mtime_ns, _signed(state.inode), state.digest, document.title, document.modified, facts),
        )
        row = cursor.lastrowid
        self._db.executemany(
            "INSERT INTO sections VALUES (?, ?, ?, ?, ?)", [(row, s.ordinal, s.start_line, s.end_line, s.text) for s in parsed.sections]
        )
        self._db.executemany(
            "INSERT INTO chunks (document, ordinal, section, kind, heading_path, start_line, end_line, text, salience, language, key)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row, *_chunk_values(chunk)) for chunk in parsed.chunks],
        )
        self._db.executemany(
            "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(row, n, link.kind, link.target, link.fragment, link.text, link.line, link.resolved) for n, link in enumerate(parsed.links)],
        )
        self.add_problems(parsed.problems)

    def touch_document(self, state: FileState, modified: float) -> None:
        """Refresh the file state of a document whose text is as it was."""
        facts = (state.size, state.mtime_ns, _signed(state.inode), state.digest, modified, state.path)
        self._db.execute("UPDATE documents SET size = ?, mtime_ns = ?, inode = ?, digest = ?, modified = ? WHERE path = ?", facts)

    def documents(self, rows: Sequence[int] | None = None) -> list[tuple[int, str, str, float, str]]:
        """Return row id, path, title, modified time and facts (JSON) of every document, or of those with these row ids, by path."""
        sql = "SELECT id, path, title, modified, facts FROM documents"
        found = self._rows(sql) if rows is None else self._in(f"{sql} WHERE id IN ({{}})", rows)
        return sorted(((r[0], r[1], r[2], r[3], r[4]) for r in found), key=lambda row: row[1])

    def names(self, paths: Iterable[str] | None = None) -> list[Document]:
        """Return every document, or those at these paths, by path, with no more than links can name: path, title and aliases."""
        found = self.documents(None if paths is None else self._ids(paths))
        return [Document(path, title, aliases=tuple(json.loads(facts)["aliases"])) for _, path, title, _, facts in found]

    def rows(self, paths: Iterable[str] | None = None) -> set[int]:
        """Return the row ids of chunks, and minus those of documents: all of them, or those of the documents at these paths."""
        if paths is None:
            return {row for (row,) in self._rows("SELECT id FROM chunks UNION ALL SELECT -id FROM documents")}
        ids = self._ids(paths)
        return {-row for row in ids}.union(row for (row,) in self._in("SELECT id FROM chunks WHERE document IN ({})", ids))

    def _ids(self, paths: Iterable[str]) -> list[int]:
        return [row for (row,) in self._in("SELECT id FROM documents WHERE path IN ({})", list(paths))]

    # -------------------------------------------------------------- chunks and sections

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of every chunk."""
        return [(a, b, c) for a, b, c in self._rows("SELECT id, document, ordinal FROM chunks")]

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id."""
        sql = "SELECT id, ordinal, section, kind, heading_path, start_line, end_line, text, salience, language FROM chunks WHERE id IN ({})"
        return {row[0]: _chunk(row[1:]) for row in self._in(sql, rows)}

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, by the chunk's row id."""
        sql = (
            "SELECT c.id, s.ordinal, s.start_line, s.end_line, s.text FROM chunks c"
            " JOIN sections s ON s.document = c.document AND s.ordinal = c.section WHERE c.id IN ({})"
        )
        return {row[0]: Section(*row[1:]) for row in self._in(sql, rows)}

    def _in(self, sql: str, keys: Sequence[int] | Sequence[str], first: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(keys), 500):
            part = [key if isinstance(key, str) else int(key) for key in keys[start : start + 500]]
            yield from self._rows(sql.format(",".join("?" * len(part))), (*first, *part))

    # -------------------------------------------------------------- links and problems

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return every link, or those in the documents at these paths, with its document's path and its ordinal there."""
        sql = "SELECT d.path, l.ordinal, l.kind, l.target, l.fragment, l.text, l.line, l.resolved FROM links l JOIN documents d ON d.id = l.document"
        rows = self._rows(sql) if paths is None else self._in(f"{sql} WHERE d.path IN ({{}})", list(paths))
        return sorted(((r[0], r[1], Link(LinkKind(r[2]), *r[3:])) for r in rows), key=lambda row: row[:2])

    def edges(self) -> list[tuple[str, str]]:
        """Return the paths that each resolved link leads from and to."""
        return [(a, b) for a, b in self._rows("SELECT d.path, l.resolved FROM links l JOIN documents d ON d.id = l.document WHERE l.resolved <> ''")]

    def resolve_link(self, path: str, ordinal: int, resolved: str | None) -> None:
        """Write where a link leads."""
        self._db.execute(
            "UPDATE links SET resolved = ? WHERE ordinal = ? AND document = (SELECT id FROM documents WHERE path = ?)", (resolved, ordinal, path)
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return what was reported about files, by path and line."""
        return tuple(Problem(*row) for row in self._rows("SELECT path, line, reason FROM problems ORDER BY path, line, reason"))

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add reports about files."""
        self._db.executemany("INSERT INTO problems VALUES (?, ?, ?)", [(p.path, p.line, p.reason) for p in problems])

    def replace_walk_problems(self, problems: Sequence[Problem]) -> bool:
        """Put what this walk reported in place of what the last one did about files that are no documents; tell whether it differs."""
        known = {Problem(*row) for row in self._rows("SELECT path, line, reason FROM problems WHERE path NOT IN (SELECT path FROM documents)")}
        if known == set(problems):
            return False
        self._db.execute("DELETE FROM problems WHERE path NOT IN (SELECT path FROM documents)")
        self.add_problems(problems)
        return True

    # -------------------------------------------------------------- vectors

    def pending(self, fingerprint: str) -> list[tuple[bytes, int]]:
        """Return each text key without a vector of this model, with one chunk that has it; newest documents first."""
        rows = self._rows(
            "SELECT c.key, c.id, d.modified, d.path, c.ordinal FROM chunks c JOIN documents d ON d.id = c.document"
            " WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.fingerprint = ? AND v.key = c.key)",
            (fingerprint,),
        )
        first: dict[bytes, int] = {}
        for key, row, _modified, _path, _ordinal in sorted(rows, key=lambda r: (-r[2], r[3], r[4])):
            first.setdefault(key, row)
        return list(first.items())

    def add_vectors(self, fingerprint: str, keys: Sequence[bytes], matrix: Matrix) -> None:
        """Keep vectors under the digests of their texts."""
        rows = [(fingerprint, key, vector.tobytes()) for key, vector in zip(keys, np.ascontiguousarray(matrix, dtype=np.float32), strict=True)]
        self._db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    def vectors(self, fingerprint: str, keys: Sequence[bytes]) -> dict[bytes, np.ndarray[Any, np.dtype[np.float32]]]:
        """Load vectors by the digests of their texts."""
        found = {}
        for start in range(0, len(keys), 500):
            part = list(keys[start : start + 500])
            sql = f"SELECT key, vector FROM vectors WHERE fingerprint = ? AND key IN ({','.join('?' * len(part))})"
            found.update({key: np.frombuffer(vector, dtype=np.float32) for key, vector in self._rows(sql, (fingerprint, *part))})
        return found

    def vector_rows(self, fingerprint: str) -> list[int]:
        """Return the row ids of the chunks that have a vector of this model, ascending."""
        sql = "SELECT c.id FROM chunks c WHERE EXISTS (SELECT 1 FROM vectors v WHERE v.fingerprint = ? AND v.key = c.key) ORDER BY c.id"
        return [row[0] for row in self._rows(sql, (fingerprint,))]

    def chunk_vectors(self, fingerprint: str, rows: Sequence[int]) -> dict[int, bytes]:
        """Load the vectors of chunks by row id, as bytes of float32."""
        # CROSS JOIN keeps SQLite from walking over all vectors of the model for each few hundred chunks
        sql = "SELECT c.id, v.vector FROM chunks c CROSS JOIN vectors v ON v.fingerprint = ? AND v.key = c.key WHERE c.id IN ({})"
        return {row[0]: row[1] for row in self._in(sql, rows, (fingerprint,))}

    def count_vectors(self, fingerprint: str) -> int:
        """Count the vectors of a model, needed or not."""
        return int(self._rows("SELECT count(*) FROM vectors WHERE fingerprint = ?", (fingerprint,))[0][0])

    def drop_orphan_vectors(self, fingerprint: str, keep: Iterable[bytes]) -> int:
        """Delete vectors that no chunk and no key of `keep` needs; return how many."""
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY)")
        self._db.execute("DELETE FROM kept")
        self._db.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(key,) for key in keep])
        return self._db.execute(
            "DELETE FROM vectors WHERE fingerprint <> ? OR (key NOT IN (SELECT key FROM chunks) AND key NOT IN (SELECT key FROM kept))",
            (fingerprint,),
        ).rowcount

    # -------------------------------------------------------------- what came since

    def document_times(self) -> dict[int, float]:
        """Return the modified time of every document, by row id."""
        return dict(self._rows("SELECT id, modified FROM documents"))

    def chunk_keys(self, documents: Sequence[int] | None = None) -> list[tuple[int, int, int, bytes]]:
        """Return row id, document's row id, ordinal and text key of every chunk, or of those of the documents with these row ids."""
        sql = "SELECT id, document, ordinal, key FROM chunks"
        rows = self._rows(sql) if documents is None else self._in(f"{sql} WHERE document IN ({{}})", documents)
        return [(a, b, c, d) for a, b, c, d in rows]

    def rows_by_key(self, path: str) -> dict[bytes, int]:
        """Return the row id of each text of the document at a path, by its key; of equal texts the first one's."""
        sql = "SELECT c.key, c.id FROM chunks c JOIN documents d ON d.id = c.document WHERE d.path = ? ORDER BY c.ordinal DESC"
        return dict(self._rows(sql, (path,)))

    def linked_paths(self) -> dict[int, str]:
        """Return the paths that each document's links lead to, as a JSON list by the document's row id; documents without links are missing."""
        return dict(self._rows("SELECT document, json_group_array(resolved) FROM links WHERE resolved <> '' GROUP BY document"))


def _signed(inode: int) -> int:
    """Return an inode of 64 bits as SQLite counts."""
    return inode - 2**64 if inode >= 2**63 else inode


def _chunk_values(chunk: Chunk) -> tuple[Any, ...]:
    path = json.dumps(chunk.heading_path, ensure_ascii=False)
    key = text_key(embedded_text(chunk.heading_path, chunk.text))
    return (chunk.ordinal, chunk.section, chunk.kind, path, chunk.start_line, chunk.end_line, chunk.text, chunk.salience, chunk.language, key)


def _chunk(row: tuple[Any, ...]) -> Chunk:
    ordinal, section, kind, path, start, end, text, salience, language = row
    return Chunk(ordinal, section, BlockKind(kind), tuple(json.loads(path)), start, end, text, salience, language)


def document_from_row(path: str, title: str, modified: float, facts: str, folder: str) -> Document:
    """Build a document's record from its row."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(facts).items()}
    return Document(path=path, title=title, folder=folder, modified=modified, **values)


def _translated(error: sqlite3.Error, path: Path) -> Exception:
    text = str(error)
    if isinstance(error, sqlite3.ProgrammingError):
        return StorageError(f"{path} was closed while it was read ({text}): ask again.")
    if "unable to open" in text:
        return StorageError(f"There is no index at {path}, or it may not be opened: run `thumbindex index`, or check the permissions.")
    if "locked" in text or "busy" in text:
        return IndexBusyError(f"{path} is busy: another process is writing; try again in a moment.")
    if isinstance(error, sqlite3.OperationalError) and "malformed" not in text:
        return StorageError(f"{path} cannot be used ({text}): check the disk's free space and the folder's permissions.")
    return IndexDamagedError(f"{path} is damaged ({text}): run `thumbindex index --rebuild` for this folder.")
