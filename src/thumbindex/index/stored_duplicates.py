"""What the store knows of texts that say the same: digests, repeats inside documents, pairs across them, and what the owner decided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from thumbindex.index.checksum import row_sum
from thumbindex.index.database import Row
from thumbindex.index.stored_columns import SUMMED
from thumbindex.index.stored_vectors import StoredVectors
from thumbindex.model import Decision

Alike = tuple[int, int, float, str, str, str]
"""Two chunks' row ids, the lesser first, their cosine, zone, rule, and what differs."""

_ALIKE = "first, second, cosine, zone, rule, differs"
_DECISION = "first, second, verdict, note, made, first_place, second_place"


def text_digest(text: str) -> str:
    """Return the digest (hex) by which a decision knows a chunk's exact text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class StoredDuplicates(StoredVectors):
    """The store's tables of duplicates; rows that name a chunk go with it."""

    # -------------------------------------------------------------- what the owner decided

    def decisions(self) -> tuple[Decision, ...]:
        """Return what the owner decided, by the texts' digests."""
        with self.reading():
            rows = self._whole(self._rows(f"SELECT {_DECISION}, sum FROM decisions NOT INDEXED"), "a decision")
            self._verify_count("decisions", [()] * len(rows))
        return tuple(Decision(*row[:-1]) for row in sorted(rows))

    def put_decision(self, decision: Decision) -> None:
        """Keep a decision in place of the one about the same two texts, in either order."""
        first, second = sorted((decision.first, decision.second))
        turned = decision.first > decision.second
        places = (decision.second_place, decision.first_place) if turned else (decision.first_place, decision.second_place)
        self.drop_decision(first, second)
        values = (first, second, decision.verdict, decision.note, float(decision.made), *places)
        self._write(f"INSERT INTO decisions VALUES ({', '.join('?' * 8)})", (*values, row_sum(*values)))
        self._counting.shift("decisions", [1])
        self._note_duplicates()

    def drop_decision(self, first: str, second: str) -> bool:
        """Forget what was decided of two texts, in either order; tell whether there was anything."""
        gone = self._write("DELETE FROM decisions WHERE first = ? AND second = ?", tuple(sorted((first, second))))
        if gone:
            self._counting.shift("decisions", [1], -1)
            self._note_duplicates()
        return bool(gone)

    # -------------------------------------------------------------- pairs across documents

    def alike(self, after: int = 0) -> list[Alike]:
        """Return the pairs of chunks of two documents that are one text twice or for the owner to decide, sorted."""
        return sorted(row[1:] for row in self.alike_since(after))

    def alike_since(self, after: int) -> list[tuple[int, int, int, float, str, str, str]]:
        """Return the pairs whose own row ids come after one, these first."""
        with self.reading():
            sql = f"SELECT {_ALIKE}, sum, id FROM alike WHERE id > ? ORDER BY id"
            rows = self._rows(sql, (after,))
            self._whole([row[:-1] for row in rows], "a pair of alike chunks")
            if not after:
                self._verify_count("alike", [row[:2] for row in rows])
        return [(row[-1], *row[:6]) for row in rows]

    def put_alike(self, rows: Iterable[Alike]) -> None:
        """Keep pairs; one that is there already stays, and one whose chunk is gone is left out."""
        for row in rows:
            first, second = sorted(row[:2])
            values = (first, second, float(row[2]), *row[3:])
            both = "(SELECT count(*) FROM chunks WHERE id IN (?, ?)) = 2"
            sql = f"INSERT OR IGNORE INTO alike ({_ALIKE}, sum) SELECT {', '.join('?' * 7)} WHERE {both}"
            if self._write(sql, (*values, row_sum(*values), first, second)):
                self._counting.add("alike", [(first, second)])
                self._note_duplicates()

    def lonely(self) -> list[int]:
        """Return the row ids of chunks that have lost one that is alike, ascending."""
        return [row for (row,) in self._rows("SELECT chunk FROM lonely ORDER BY chunk")]

    # -------------------------------------------------------------- repeats inside a document

    def repeats(self, after: int = 0) -> list[tuple[int, int, bool]]:
        """Return chunk, keeper (row ids) and whether their texts are equal, of the chunks that repeat another one of their document, sorted."""
        return [(row[0], row[1], bool(row[2])) for row in self._summed("repeats", "chunk, keeper, exact", after)]

    def boosts(self, after: int = 0) -> dict[int, tuple[float, float]]:
        """Return the boost, and the salience with it, of chunks that others repeat, by row id."""
        return {row[0]: (row[1], row[2]) for row in self._summed("boosts", "chunk, boost, salience", after)}

    def _summed(self, table: str, columns: str, after: int) -> list[Row]:
        with self.reading():
            sql = f"SELECT {columns}, sum FROM {table} WHERE chunk > ? ORDER BY chunk"
            rows = self._whole(self._rows(sql, (after,)), f"a row of {table}")
            if not after:
                self._verify_count(table, [row[-1:] for row in rows])
        return rows

    def verify_duplicates(self) -> None:
        """Raise IndexDamagedError where what is known of duplicates is not what was written."""
        with self.reading():
            self.decisions()
            self.alike()
            for table, columns in {"repeats": "chunk, keeper, exact", "boosts": "chunk, boost, salience", "digests": "chunk, exact, plain"}.items():
                self._summed(table, columns, 0)

    def _note_duplicates(self) -> None:
        """Take note in which generation what is known of duplicates changed last: readers keep theirs until then."""
        self.set_meta("duplicates", str(self.generation + 1))

    def _forget_duplicates(self, document: int) -> None:
        """Count out what goes with a document's chunks; chunks elsewhere that were alike are looked at again."""
        own = "(SELECT id FROM chunks WHERE document = ?)"
        for table in SUMMED:
            self._counting.add(table, self._rows(f"SELECT sum FROM {table} WHERE chunk IN {own}", (document,)), -1)
        pairs = self._rows(
            f"SELECT first, second FROM alike WHERE first IN {own} UNION SELECT first, second FROM alike WHERE second IN {own}", (document,) * 2
        )
        self._counting.add("alike", pairs, -1)
        self._write_all("INSERT OR IGNORE INTO lonely VALUES (?)", [(row,) for pair in pairs for row in pair])
