"""The one truth: a SQLite file that holds documents, sections, chunks, links, vectors and what was read when."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

from thumbindex.index.checksum import as_number, row_sum
from thumbindex.index.database import Row
from thumbindex.index.stored_columns import DOCUMENT
from thumbindex.index.stored_duplicates import StoredDuplicates
from thumbindex.model import Abbreviation, BlockKind, Chunk, Document, FileState, Link, LinkKind, ParsedDocument, Problem, Section
from thumbindex.text import embedded_text, text_key

_FACTS = tuple(f.name for f in fields(Document) if f.name not in {"path", "title", "folder", "modified"})

_CHUNK = (
    "SELECT c.id, c.document, c.ordinal, c.section, c.kind, coalesce(c.heading_path, s.heading_path), c.start_line, c.end_line,"
    " coalesce(c.text, substr(s.text, c.at + 1, c.size)), c.salience, c.language, c.key, c.sum"
    " FROM chunks c LEFT JOIN sections s ON s.document = c.document AND s.ordinal = c.section"
)
"""Chunks as they were before their texts were left to their sections: of these values a chunk's checksum is."""

_SECTION = "document, ordinal, start_line, end_line, text"
_LINK = "document, ordinal, kind, target, fragment, text, line"


def digests(parsed: ParsedDocument) -> tuple[bytes, ...]:
    """Return the digest of each chunk's text that is embedded: half of the time that storing a document takes, and needs no lock."""
    return tuple(text_key(embedded_text(chunk.heading_path, chunk.text)) for chunk in parsed.chunks)


class Store(StoredDuplicates):
    """One folder's SQLite file. What a method returns is what was written, or it raises IndexDamagedError."""

    _verified = ""  # the last change of words after which all chunks were there

    def counts(self, fingerprint: str) -> tuple[int, int, int]:
        """Count documents, chunks, and chunks with a vector of this model."""
        with self.reading():
            documents, chunks = self._rows("SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks)")[0]
            return documents, chunks, self.count_embedded(fingerprint)

    def link_counts(self) -> tuple[int, int]:
        """Count the links that lead to a document and those that dangle."""
        row = self._rows("SELECT count(resolved), count(*) - count(resolved) FROM links")[0]
        return row[0], row[1]

    def scrub(self) -> None:
        """Read all of it and raise IndexDamagedError at the first thing that is not what was written."""
        with self.reading():
            self.verify_pages()
            self.verify_meta()
            self.manifest()
            self.verify_chunks()
            rows = [row for row, _, _ in self.chunk_rows()]
            self.chunks(rows)
            self.sections(rows)
            self.links()
            self.verify_links()
            self.problems()
            self.verify_vectors()
            self.verify_duplicates()

    # -------------------------------------------------------------- documents

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return each path's file state when it was read, of all paths or of these; every one of them is found by its path."""
        if paths is not None:
            sql = f"SELECT {DOCUMENT}, sum FROM documents WHERE path IN ({{}})"
            found = (row for part in self._in(sql, list(paths)) for row in self._whole(part, "a document"))
            return {row[1]: _state(row) for row in found}
        rows = self._document_rows()
        by_path = "SELECT count(*) FROM documents d NOT INDEXED WHERE EXISTS (SELECT 1 FROM documents e WHERE e.path = d.path AND e.id = d.id)"
        self._verify(self._rows(by_path)[0][0] == len(rows), "a document is not found by its path")
        return {row[1]: _state(row) for row in rows}

    def remove_documents(self, paths: Iterable[str]) -> None:
        """Remove documents with all that hangs on them."""
        for path in paths:
            for row, check in self._rows("SELECT id, sum FROM documents WHERE path = ?", (path,)):
                self._counting.add("documents", [(check,)], -1)
                self._counting.add("chunks", self._rows("SELECT id, document, ordinal FROM chunks WHERE document = ?", (row,)), -1)
                self._counting.add("keys", [(as_number(key),) for (key,) in self._rows("SELECT key FROM chunks WHERE document = ?", (row,))], -1)
                self._counting.add("links", self._rows("SELECT edge FROM links WHERE document = ?", (row,)), -1)
                self._forget_duplicates(row)
                self._write("DELETE FROM documents WHERE id = ?", (row,))
            self._write("DELETE FROM problems WHERE path = ?", (path,))

    def add_document(self, state: FileState, parsed: ParsedDocument) -> None:
        """Put a document in place of the one at its path."""
        self.remove_documents([state.path])
        document = parsed.document
        facts = json.dumps({name: value for name in _FACTS if (value := getattr(document, name))}, ensure_ascii=False, sort_keys=True)
        row, keys = self.last_row + 1, parsed.keys or digests(parsed)
        modified = float(document.modified)
        values = (row, state.path, state.size, state.mtime_ns, _signed(state.inode), state.digest, document.title, modified, facts, state.ctime_ns)
        self._insert("documents", [values])
        self._insert_texts(
            [(row, s.ordinal, s.start_line, s.end_line, s.text) for s in parsed.sections],
            [(row + n, row, *_chunk_values(chunk), key) for n, (chunk, key) in enumerate(zip(parsed.chunks, keys, strict=True), 1)],
        )
        self.set_meta("last_row", str(row + len(parsed.chunks)))
        links = [(row, n, link.kind, link.target, link.fragment, link.text, link.line) for n, link in enumerate(parsed.links)]
        edges = [(link.resolved, row_sum(row, n, link.resolved)) for n, link in enumerate(parsed.links)]
        self._counting.add("links", [(edge,) for _, edge in edges])
        self._write_all("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [(*v, row_sum(*v), *e) for v, e in zip(links, edges, strict=True)])
        self.add_problems(parsed.problems)

    def _insert_texts(self, sections: Sequence[Row], chunks: Sequence[Row]) -> None:
        """Insert a document's sections and chunks: what a chunk says as its section says it is there once."""
        texts, paths = {row[1]: row[4] for row in sections}, {row[3]: row[5] for row in reversed(chunks)}
        summed = [(*row, row_sum(*row), paths.get(row[1])) for row in sections]
        self._write_all("INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?)", summed)
        rows = [
            (*row[:5], None if row[5] == paths[row[3]] and row[3] in texts else row[5], *row[6:8], *_place(row[8], texts.get(row[3], "")), *row[9:])
            for row in chunks
        ]
        self._write_all(
            f"INSERT INTO chunks VALUES ({', '.join('?' * 15)})", [(*row, row_sum(*whole)) for row, whole in zip(rows, chunks, strict=True)]
        )
        self._counting.add("chunks", [row[:3] for row in chunks])
        self._counting.add("keys", [(as_number(row[-1]),) for row in chunks])

    def touch_document(self, state: FileState, modified: float) -> None:
        """Refresh the file state of a document whose text is as it was."""
        for old in self._whole(self._rows(f"SELECT {DOCUMENT}, sum FROM documents WHERE path = ?", (state.path,)), "a document"):
            facts = (state.size, state.mtime_ns, _signed(state.inode), state.digest, old[6], float(modified), old[8], state.ctime_ns)
            check = row_sum(old[0], old[1], *facts)
            self._counting.add("documents", [(old[-1],)], -1)
            self._counting.add("documents", [(check,)])
            names = "size = ?, mtime_ns = ?, inode = ?, digest = ?, title = ?, modified = ?, facts = ?, ctime_ns = ?, sum = ?"
            self._write(f"UPDATE documents SET {names} WHERE id = ?", (*facts, check, old[0]))

    def documents(self, rows: Sequence[int] | None = None) -> list[tuple[int, str, str, float, str]]:
        """Return row id, path, title, modified time and facts (JSON) of every document, or of those with these row ids, by path."""
        sql = f"SELECT {DOCUMENT}, sum FROM documents WHERE id IN ({{}})"
        found = self._document_rows() if rows is None else [row for part in self._in(sql, rows) for row in self._whole(part, "a document")]
        return sorted(((r[0], r[1], r[6], r[7], r[8]) for r in found), key=lambda row: row[1])

    def names(self, paths: Iterable[str] | None = None) -> list[Document]:
        """Return every document, or those at these paths, by path, with no more than links can name: path, title and aliases."""
        found = self.documents(None if paths is None else self._ids(paths))
        return [Document(path, title, aliases=_aliases(facts)) for _, path, title, _, facts in found]

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return how many bytes the files at some paths had when they were read."""
        return {path: size for part in self._in("SELECT path, size FROM documents WHERE path IN ({})", list(paths)) for path, size in part}

    def flagged(self) -> list[Document]:
        """Return the documents in which something is flagged, by path."""
        held = self._rows("""SELECT id FROM documents WHERE instr(facts, '"flags": ["')""")
        found = self.documents([row for (row,) in held])
        return [document_from_row(path, title, modified, facts, "") for _, path, title, modified, facts in found]

    def rows(self, paths: Iterable[str] | None = None) -> set[int]:
        """Return the row ids of chunks, and minus those of documents: all of them, or those of the documents at these paths."""
        if paths is None:
            return {row for row, _, _ in self.chunk_rows()}.union(-row for row, *_ in self._document_rows())
        ids = self._ids(paths)
        chunks = (row for part in self._in("SELECT id FROM chunks WHERE document IN ({})", ids) for (row,) in part)
        return {-row for row in ids}.union(chunks)

    def _ids(self, paths: Iterable[str]) -> list[int]:
        return [row for part in self._in("SELECT id FROM documents WHERE path IN ({})", list(paths)) for (row,) in part]

    # -------------------------------------------------------------- chunks and sections

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """Load chunks by row id; those that are gone are missing."""
        found = {}
        for part in self._in(f"{_CHUNK} WHERE c.id IN ({{}})", rows):
            found.update({row[0]: _chunk(row[2:-2]) for row in self._whole(part, "a chunk")})
        if len(found) < len(set(rows)):
            self._verify_chunks_once()
        return found

    def languages(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the language of the document of each chunk, by the chunk's row id."""
        of = {row: document for part in self._in("SELECT id, document FROM chunks WHERE id IN ({})", rows) for row, document in part}
        told = {row: json.loads(facts).get("language", "") for row, _, _, _, facts in self.documents(sorted(set(of.values())))}
        return {row: told.get(document, "") for row, document in of.items()}

    def _verify_chunks_once(self) -> None:
        """Verify that no chunk is missing, once after each change of words: a reader of an earlier generation asks for many that are rightly gone."""
        with self.reading():
            if self._verified != (words := self.meta("words", "0")):
                self.verify_chunks()
                self._verified = words

    def verify_chunks(self) -> None:
        """Raise IndexDamagedError where a chunk is missing, or is another than it was, in the table itself."""
        with self.reading():
            self._verify_count("chunks", self._rows("SELECT id, document, ordinal FROM chunks NOT INDEXED"))

    def sections(self, rows: Sequence[int]) -> dict[int, Section]:
        """Load the section of each chunk, by the chunk's row id."""
        sql = (
            f"SELECT c.id, {', '.join(f's.{name}' for name in (*_SECTION.split(', '), 'sum'))} FROM chunks c"
            " LEFT JOIN sections s ON s.document = c.document AND s.ordinal = c.section WHERE c.id IN ({})"
        )
        found = {}
        for part in self._in(sql, rows):
            self._whole([row[1:] for row in part], "a section")
            found.update({row[0]: Section(*row[2:-1]) for row in part})
        return found

    # -------------------------------------------------------------- links and problems

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return every link, or those in the documents at these paths, with its document's path and its ordinal there."""
        names = ", ".join(f"l.{name}" for name in (*_LINK.split(", "), "sum", "resolved", "edge"))
        sql = f"SELECT d.path, {names} FROM links l JOIN documents d ON d.id = l.document"
        rows = self._rows(sql) if paths is None else [r for part in self._in(f"{sql} WHERE d.path IN ({{}})", list(paths)) for r in part]
        self._whole([row[1:9] for row in rows], "a link")
        self._whole([(*row[1:3], *row[9:]) for row in rows], "a link")
        return sorted(((r[0], r[2], Link(LinkKind(r[3]), r[4], r[5], r[6], r[7], r[9])) for r in rows), key=lambda row: row[:2])

    def resolve_link(self, path: str, ordinal: int, resolved: str | None) -> None:
        """Write where a link leads."""
        sql = "SELECT l.document, l.edge FROM documents d JOIN links l ON l.document = d.id AND l.ordinal = ? WHERE d.path = ?"
        for row, edge in self._rows(sql, (ordinal, path)):
            check = row_sum(row, ordinal, resolved)
            self._counting.add("links", [(check - edge,)])
            self._counting.shift("links", [-1, 0])
            self._write("UPDATE links SET resolved = ?, edge = ? WHERE document = ? AND ordinal = ?", (resolved, check, row, ordinal))

    def problems(self) -> tuple[Problem, ...]:
        """Return what was reported about files, by path and line."""
        rows = self._whole(self._rows("SELECT path, line, reason, sum FROM problems ORDER BY path, line, reason"), "a report about a file")
        return tuple(Problem(*row[:3]) for row in rows)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add reports about files."""
        self._insert("problems", [(p.path, p.line, p.reason) for p in problems])

    def replace_walk_problems(self, problems: Sequence[Problem], left: Collection[str] = ()) -> bool:
        """Put what a walk reported in place of what the last one did about files that are no documents; tell whether it differs.

        Of those at the paths that it `left` what is known stays.
        """
        known = {Problem(*row) for row in self._rows("SELECT path, line, reason FROM problems WHERE path NOT IN (SELECT path FROM documents)")}
        wanted = dict.fromkeys((*problems, *(problem for problem in known if problem.path in left)))
        if known == set(wanted):
            return False
        self._write("DELETE FROM problems WHERE path NOT IN (SELECT path FROM documents)")
        self.add_problems(wanted)
        return True


def _aliases(facts: str) -> tuple[str, ...]:
    """Return the aliases among a document's facts; most have none: to read the facts of a thousand to find that out costs an edit 10 ms."""
    return tuple(json.loads(facts).get("aliases", ())) if '"aliases": ' in facts else ()


def _state(row: Row) -> FileState:
    _, path, size, mtime, inode, digest, _, _, _, ctime, *_ = row
    return FileState(path, size, mtime, inode % 2**64, digest, ctime)


def _signed(inode: int) -> int:
    """Return an inode of 64 bits as SQLite counts."""
    return inode - 2**64 if inode >= 2**63 else inode


def _place(text: str, of: str) -> tuple[int | None, int | None, str | None]:
    """Return where a text stands in its section's, or the text itself; what comes after a NUL SQLite does not count."""
    at = of.find(text) if "\0" not in of else -1
    return (at, len(text), None) if at >= 0 else (None, None, text)


def _chunk_values(chunk: Chunk) -> tuple[Any, ...]:
    path = json.dumps(chunk.heading_path, ensure_ascii=False)
    return (chunk.ordinal, chunk.section, chunk.kind, path, chunk.start_line, chunk.end_line, chunk.text, chunk.salience, chunk.language)


def _chunk(row: tuple[Any, ...]) -> Chunk:
    ordinal, section, kind, path, start, end, text, salience, language = row
    return Chunk(ordinal, section, BlockKind(kind), tuple(json.loads(path)), start, end, text, salience, language)


def document_from_row(path: str, title: str, modified: float, facts: str, folder: str) -> Document:
    """Build a document's record from its row."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(facts).items()}
    values["abbreviations"] = tuple(Abbreviation(*each) for each in values.get("abbreviations", ()))
    return Document(path=path, title=title, folder=folder, modified=modified, **values)
