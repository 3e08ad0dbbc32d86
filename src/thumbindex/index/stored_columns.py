"""What is read of the store in bulk: columns of all documents, chunks and links, as many as there must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thumbindex.errors import StorageError
from thumbindex.index.checksum import as_number, row_sum
from thumbindex.index.database import Database, Row

DOCUMENT = "id, path, size, mtime_ns, inode, digest, title, modified, facts, ctime_ns"


SUMMED = ("digests", "repeats", "boosts")
"""Tables whose census is of their checksums, like the documents'."""


class StoredColumns(Database):
    """Bulk reads, each compared with the census: a row that vanished is no row that was never there."""

    def _document_rows(self) -> list[Row]:
        with self.reading():
            rows = self._whole(self._rows(f"SELECT {DOCUMENT}, sum FROM documents NOT INDEXED"), "a document")
            self._verify_count("documents", [(row[-1],) for row in rows])
        return rows

    def verify_documents(self) -> None:
        """Raise IndexDamagedError where a document is missing or its checksum is not one that was counted; the rows themselves are not read."""
        with self.reading():
            if not self._adds_up("documents", "sum"):
                self._document_rows()

    def count_whole_chunks(self) -> int:
        """Count the chunks; raise IndexDamagedError where one is missing, or is another than it was."""
        with self.reading():
            return self.count_chunks() if self._adds_up("chunks", "id", "document", "ordinal") else len(self.chunk_rows())

    def _adds_up(self, table: str, *columns: str) -> bool:
        """Tell whether a table has as many rows as were counted, and SQLite finds the same sums of these columns: a tenth of reading them."""
        sums = ", ".join(f"coalesce(sum({column}), 0)" for column in columns)
        try:
            (numbers,) = self._rows(f"SELECT count(*), {sums} FROM {table} NOT INDEXED")
        except StorageError:
            return False  # a flipped number can be too large to be added; whoever reads the rows tells what is wrong
        return self._known_census().agrees(table, numbers)

    def _whole(self, rows: list[Row], what: str) -> list[Row]:
        """Return rows whose last column is the checksum of the others, or raise IndexDamagedError."""
        self._verify(all(row[-1] == row_sum(*row[:-1]) for row in rows), f"{what} does not match its checksum")
        return rows

    def _verify_count(self, table: str, rows: Sequence[Sequence[int]]) -> None:
        self._verify_sums(table, len(rows), list(zip(*rows, strict=True)))

    def _verify_sums(self, table: str, count: int, columns: Sequence[Iterable[int]]) -> None:
        try:
            numbers = [count, *map(sum, columns)] if count else None
        except TypeError:  # a flipped byte can make something else of a number
            numbers = [-1]
        known = self._known_census()
        self._verify(known.agrees(table, numbers) if numbers else not any(known.counted.get(table, [])), f"rows of {table} are missing")

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows with their checksums, and count them."""
        if not rows:
            return
        summed = [(*row, row_sum(*row)) for row in rows]
        self._write_all(f"INSERT INTO {table} VALUES ({', '.join('?' * len(summed[0]))})", summed)
        if table == "documents" or table in SUMMED:
            self._counting.add(table, [row[-1:] for row in summed])

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of every chunk."""
        with self.reading():
            rows: list[tuple[int, int, int]] = self._rows("SELECT id, document, ordinal FROM chunks")
            self._verify_count("chunks", rows)
        return rows

    def documents_between(self, after: int, last: int) -> list[tuple[int, int]]:
        """Return row id and document's row id of the chunks whose row ids come after one, up to another, ascending."""
        return [(a, b) for a, b in self._rows("SELECT id, document FROM chunks WHERE id > ? AND id <= ? ORDER BY id", (after, last))]

    def documents_of(self, rows: Sequence[int]) -> dict[int, int]:
        """Return the document's row id of each of these chunks; those that are gone are missing."""
        return {a: b for part in self._in("SELECT id, document FROM chunks WHERE id IN ({})", rows) for a, b in part}

    def count_chunks(self, after: int = 0) -> int:
        """Count the chunks, or those whose row ids come after one."""
        # without a condition SQLite counts in the smallest index, and not through the texts
        rows = self._rows("SELECT count(*) FROM chunks WHERE id > ?", (after,)) if after else self._rows("SELECT count(*) FROM chunks")
        return int(rows[0][0])

    def chunk_facts(self, documents: Sequence[int] | None = None) -> list[tuple[int, int, int, bytes, float]]:
        """Return row id, document's row id, ordinal, text key and salience of every chunk, or of those of the documents with these row ids."""
        sql = "SELECT id, document, ordinal, key, salience FROM chunks"
        if documents is not None:
            return [(a, b, c, d, e) for part in self._in(f"{sql} WHERE document IN ({{}})", documents) for a, b, c, d, e in part]
        with self.reading():
            rows: list[tuple[int, int, int, bytes, float]] = self._rows(f"{sql} NOT INDEXED")
            ids, of, ordinals, keys, _ = zip(*rows, strict=True) if rows else ((),) * 5
            self._verify_sums("chunks", len(rows), [ids, of, ordinals])
            self._verify_sums("keys", len(rows), [map(as_number, keys)])
        return rows

    def rows_by_key(self, paths: Sequence[str]) -> dict[tuple[str, bytes], int]:
        """Return the row id of each text of the documents at these paths, by path and key; of equal texts the first one's."""
        sql = "SELECT d.path, c.key, c.id FROM chunks c JOIN documents d ON d.id = c.document WHERE d.path IN ({}) ORDER BY c.ordinal DESC"
        return {(path, key): row for part in self._in(sql, paths) for path, key, row in part}

    def document_times(self) -> dict[int, float]:
        """Return the modified time of every document, by row id."""
        with self.reading():
            rows = self._rows("SELECT id, modified, sum FROM documents NOT INDEXED")
            self._verify_count("documents", [row[-1:] for row in rows])
        return {row: modified for row, modified, _ in rows}

    def linked_paths(self) -> dict[int, str]:
        """Return the paths that each document's links lead to, as a JSON list by the document's row id; documents without links are missing."""
        sql = "SELECT document, json_group_array(resolved) FROM links WHERE resolved <> '' GROUP BY document"
        return dict(self._rows(sql))

    def verify_links(self) -> None:
        """Raise IndexDamagedError where a link leads elsewhere than it did, or is missing; a follower pays for it once."""
        with self.reading():
            rows = self._whole(self._rows("SELECT document, ordinal, resolved, edge FROM links"), "a link")
            self._verify_count("links", [row[-1:] for row in rows])
