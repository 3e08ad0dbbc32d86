"""What the store knows of texts that say the same: digests, repeats inside documents, pairs across them, and what the owner decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thumbindex.index.checksum import row_sum
from thumbindex.index.database import Row
from thumbindex.index.stored_columns import SUMMED
from thumbindex.index.stored_vectors import StoredVectors
from thumbindex.model import Decision

Alike = tuple[int, int, float, str, str, str]
"""Two chunks' row ids, the lesser first, their cosine, zone, rule, and what differs."""

PLAIN = 8
"""Bytes that are kept of a digest of words: where two of millions are equal by chance, their texts are compared and differ."""

_ALIKE = "first, second, cosine, zone, rule, differs"
_DECISION = "first, second, verdict, note, made, first_place, second_place"


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found out about some chunks."""

    mark: str  # up to where all have been looked at, and by which settings
    digests: Sequence[tuple[int, bytes, bytes]] = ()  # row id, digest of the exact text, digest of the words
    repeats: Sequence[tuple[int, int, int]] = ()  # row id, keeper's, 1 where the texts are equal
    boosts: Sequence[tuple[int, float, float]] = ()  # row id, boost, salience with it
    alike: Sequence[Alike] = ()
    again: Sequence[int] = ()  # that had lost one that is alike


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

    def forget_decisions(self, paths: Sequence[str]) -> None:
        """Forget what was decided of texts of the documents at these paths, and whatever names a place in them."""
        sql = "SELECT g.exact FROM documents d JOIN chunks c ON c.document = d.id JOIN digests g ON g.chunk = c.id WHERE d.path IN ({})"
        texts = {exact.hex() for part in self._in(sql, list(paths)) for (exact,) in part}
        places = tuple(f"{path}:" for path in paths)
        for each in self.decisions():
            if {each.first, each.second} & texts or each.first_place.startswith(places) or each.second_place.startswith(places):
                self.drop_decision(each.first, each.second)

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

    def repeats_among(self, rows: Sequence[int]) -> set[int]:
        """Return which of these chunks repeat another one of their document."""
        return {row for part in self._in("SELECT chunk FROM repeats WHERE chunk IN ({})", rows) for (row,) in part}

    def rows_of_texts(self, digests: Sequence[str]) -> dict[int, str]:
        """Return the digest of each chunk that has one of these texts, by row id."""
        found: dict[int, str] = {}
        for start in range(0, len(digests), 500):
            part = [bytes.fromhex(digest) for digest in digests[start : start + 500]]
            rows = self._rows(f"SELECT chunk, exact FROM digests WHERE exact IN ({','.join('?' * len(part))})", part)
            found.update({row: exact.hex() for row, exact in rows})
        return found

    def rows_of_words(self, plain: bytes, document: int, limit: int) -> list[int]:
        """Return the newest chunks of other documents that have these words and repeat nothing, so many at most."""
        sql = (
            "SELECT d.chunk FROM digests d JOIN chunks c ON c.id = d.chunk WHERE d.plain = ? AND c.document <> ?"
            " AND d.chunk NOT IN (SELECT chunk FROM repeats) ORDER BY d.chunk DESC LIMIT ?"
        )
        return [row for (row,) in self._rows(sql, (plain[:PLAIN], document, limit))]

    def keep_looked(self, looked: Looked) -> None:
        """Keep what was found out about chunks; of those that are gone meanwhile nothing is kept."""
        there = self.documents_of([row for row, *_ in looked.digests])
        self._insert("digests", [(row, exact, plain[:PLAIN]) for row, exact, plain in looked.digests if row in there])
        self._insert("repeats", [row for row in looked.repeats if row[0] in there])
        self._insert("boosts", [row for row in looked.boosts if row[0] in there])
        self.put_alike(looked.alike)
        self._write_all("DELETE FROM lonely WHERE chunk = ?", [(row,) for row in looked.again])
        self._drop_alike([row for row, *_ in looked.repeats])
        self.set_meta("looked", looked.mark)
        if looked.repeats or looked.boosts or looked.alike or self._is_decided([exact.hex() for _, exact, _ in looked.digests]):
            self._note_duplicates()

    def _is_decided(self, digests: Sequence[str]) -> bool:
        """Tell whether the owner has decided of any of these texts."""
        sql = "SELECT 1 FROM decisions WHERE {end} IN ({{}}) LIMIT 1"
        return any(part for end in ("first", "second") for part in self._in(sql.format(end=end), digests))

    def forget_looked(self) -> None:
        """Forget all that was found out about duplicates; what the owner decided stays."""
        for table in (*SUMMED, "alike", "lonely"):
            self._write(f"DELETE FROM {table}")
            self._counting.counted.pop(table, None)
        self.set_meta("looked", "")
        self._note_duplicates()

    def _drop_alike(self, rows: Sequence[int]) -> None:
        """Drop the pairs of chunks that turned out to be no search units of their own."""
        for column in ("first", "second"):
            for part in self._in(f"SELECT id, first, second FROM alike WHERE {column} IN ({{}})", rows):
                self._counting.add("alike", [row[1:] for row in part], -1)
                self._write_all("DELETE FROM alike WHERE id = ?", [row[:1] for row in part])

    def ingested_by_type(self) -> dict[str, tuple[int, int, list[float]]]:
        """Return the number of segments, of repeats among them, and the boosts, by the documents' type."""
        kind = "coalesce(json_extract(d.facts, '$.type'), '')"
        found: dict[str, tuple[int, int, list[float]]] = {}
        with self.reading():
            segments = self._rows(f"SELECT {kind}, count(*) FROM documents d JOIN chunks c ON c.document = d.id GROUP BY 1")
            join = f"SELECT {kind}, {{}} FROM {{}} r JOIN chunks c ON c.id = r.chunk JOIN documents d ON d.id = c.document"
            repeats: dict[str, int] = dict(self._rows(f"{join.format('count(*)', 'repeats')} GROUP BY 1"))
            for name, count in segments:
                found[name] = (count, repeats.get(name, 0), [])
            for name, boost in self._rows(join.format("r.boost", "boosts")):
                found[name][2].append(boost)
        return found

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
