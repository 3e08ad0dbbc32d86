"""What a folder's store knows of texts that say the same: digests, repeats inside documents, pairs
across them; and the owner's decisions, a file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from thumbindex.errors import StorageError
from thumbindex.index.files import read_with_retry, write_atomically
from thumbindex.index.sqlite import SqliteFile
from thumbindex.model import Decision, IngestionCounts

DuplicatePair = tuple[int, int, float, str, str, str]
"""Two chunks' row ids, the lesser first, their cosine, zone, rule, and what differs."""

WORDS_DIGEST_BYTES = 8
"""Bytes that are kept of a digest of words: where two of millions are equal by chance, their texts
are compared and differ.
"""

DECISIONS_FILE = "decisions.json"
"""The file of what the owner decided, beside the builds: no index can be made anew of it."""

_PAIR_COLUMNS = "first, second, cosine, zone, rule, differs"


def read_decisions(path: Path) -> tuple[Decision, ...]:
    """Return what the owner decided, by the texts' digests; raise StorageError where the file
    cannot be read.
    """
    try:
        return tuple(
            sorted(
                (Decision(**each) for each in json.loads(read_with_retry(path))["decisions"]),
                key=lambda each: (each.first, each.second),
            )
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"{path}, which holds what you decided about duplicates, cannot be read "
            f"({error}): mend it, or delete it."
        ) from error


def write_decisions(
    path: Path, made: Iterable[Decision], dropped: Iterable[tuple[str, str]] = ()
) -> int:
    """Take decisions in, each in place of the one about the same two texts, and others out; return
    how many went.

    For who holds the writer's lock.
    """
    kept = {(decision.first, decision.second): decision for decision in read_decisions(path)}
    gone = sum(kept.pop((min(pair), max(pair)), None) is not None for pair in dropped)
    for each in map(_ordered, made):
        kept[each.first, each.second] = each
    write_atomically(
        path,
        json.dumps({"decisions": [asdict(kept[pair]) for pair in sorted(kept)]}, indent=1),
        durable=True,
    )
    return gone


def _ordered(decision: Decision) -> Decision:
    """Return a decision with the lesser text first."""
    if decision.first <= decision.second:
        return decision
    return replace(
        decision,
        first=decision.second,
        second=decision.first,
        first_place=decision.second_place,
        second_place=decision.first_place,
    )


@dataclass(frozen=True, slots=True)
class DuplicateFindings:
    """What was found out about some chunks."""

    progress: str  # up to where all have been looked at, and by which settings
    # row id, digest of the exact text, digest of the words
    digests: Sequence[tuple[int, bytes, bytes]] = ()
    repeats: Sequence[tuple[int, int, int]] = ()  # row id, keeper's, 1 where the texts are equal
    boosts: Sequence[tuple[int, float, float]] = ()  # row id, boost, salience with it
    pairs: Sequence[DuplicatePair] = ()


class DuplicateTables:
    """The tables of one store; rows that name a chunk go with it."""

    def __init__(self, db: SqliteFile) -> None:
        self._db = db

    # -------------------------------------------------------------- pairs across documents

    def pairs(self) -> list[DuplicatePair]:
        """Return the pairs of chunks of two documents that are one text twice or for the owner to
        decide, sorted.
        """
        return sorted(self._db.fetch(f"SELECT {_PAIR_COLUMNS} FROM duplicate_pairs"))

    def merged_pairs(self) -> list[tuple[int, int, float]]:
        """Return the pairs that are one text twice, with their cosines."""
        return self._db.fetch(
            "SELECT first, second, cosine FROM duplicate_pairs WHERE zone = 'same'"
        )

    def add_pairs(self, rows: Iterable[DuplicatePair]) -> None:
        """Keep pairs; one that is there already stays, and one whose chunk is gone is left out."""
        for row in rows:
            first, second = sorted(row[:2])
            values = (first, second, float(row[2]), *row[3:])
            both = "(SELECT count(*) FROM chunks WHERE id IN (?, ?)) = 2"
            sql = (
                f"INSERT OR IGNORE INTO duplicate_pairs ({_PAIR_COLUMNS}) "
                f"SELECT {', '.join('?' * 6)} WHERE {both}"
            )
            if self._db.execute(sql, (*values, first, second)):
                self.record_change()

    # -------------------------------------------------------------- repeats inside a document

    def repeats(self) -> list[tuple[int, int, bool]]:
        """Return chunk, keeper (row ids) and whether their texts are equal, of the chunks that
        repeat another one of their document, sorted.
        """
        rows = self._db.fetch("SELECT chunk, keeper, exact FROM repeats ORDER BY chunk")
        return [(chunk, keeper, bool(exact)) for chunk, keeper, exact in rows]

    def boosts(self) -> dict[int, tuple[float, float]]:
        """Return the boost, and the salience with it, of chunks that others repeat, by row id."""
        rows = self._db.fetch("SELECT chunk, boost, salience FROM boosts ORDER BY chunk")
        return {chunk: (boost, salience) for chunk, boost, salience in rows}

    def repeats_among(self, rows: Sequence[int]) -> set[int]:
        """Return which of these chunks repeat another one of their document."""
        return {
            row
            for (row,) in self._db.fetch_in("SELECT chunk FROM repeats WHERE chunk IN ({})", rows)
        }

    def rows_with_texts(self, digests: Sequence[str]) -> dict[int, str]:
        """Return the digest of each chunk that has one of these texts, by row id."""
        keys = [bytes.fromhex(digest) for digest in digests]
        return {
            row: exact.hex()
            for row, exact in self._db.fetch_in(
                "SELECT chunk, exact FROM digests WHERE exact IN ({})", keys
            )
        }

    def rows_with_words(self, plain: bytes, document: int, limit: int) -> list[int]:
        """Return the newest chunks of other documents that have these words and repeat nothing, so
        many at most.
        """
        sql = (
            "SELECT d.chunk FROM digests d JOIN chunks c ON c.id = d.chunk WHERE d.plain = ? AND "
            "c.document <> ?"
            " AND d.chunk NOT IN (SELECT chunk FROM repeats) ORDER BY d.chunk DESC LIMIT ?"
        )
        return [
            row for (row,) in self._db.fetch(sql, (plain[:WORDS_DIGEST_BYTES], document, limit))
        ]

    def texts_of(self, paths: Sequence[str]) -> set[str]:
        """Return the digests of the texts of the documents at these paths."""
        sql = (
            "SELECT g.exact FROM documents d JOIN chunks c ON c.document = d.id JOIN digests g ON "
            "g.chunk = c.id WHERE d.path IN ({})"
        )
        return {exact.hex() for (exact,) in self._db.fetch_in(sql, paths)}

    def save_findings(self, findings: DuplicateFindings, decided: Collection[str] = ()) -> None:
        """Keep what was found out about chunks but for the pairs, which `add_pairs` has kept
        before; nothing of those that are gone meanwhile. `decided` are texts with a decision.
        """
        rows = [row for row, *_ in findings.digests]
        there = {
            row for (row,) in self._db.fetch_in("SELECT id FROM chunks WHERE id IN ({})", rows)
        }
        digests = [
            (row, exact, plain[:WORDS_DIGEST_BYTES])
            for row, exact, plain in findings.digests
            if row in there
        ]
        self._db.execute_many("INSERT INTO digests VALUES (?, ?, ?)", digests)
        self._db.execute_many(
            "INSERT INTO repeats VALUES (?, ?, ?)",
            [row for row in findings.repeats if row[0] in there],
        )
        self._db.execute_many(
            "INSERT INTO boosts VALUES (?, ?, ?)",
            [row for row in findings.boosts if row[0] in there],
        )
        for column in ("first", "second"):  # repeats are no search units of their own
            self._db.execute_many(
                f"DELETE FROM duplicate_pairs WHERE {column} = ?",
                [row[:1] for row in findings.repeats],
            )
        self._db.set_meta("duplicates_progress", findings.progress)
        if (
            findings.repeats
            or findings.boosts
            or findings.pairs
            or any(exact.hex() in decided for _, exact, _ in findings.digests)
        ):
            self.record_change()

    def clear_findings(self, progress: str = "") -> None:
        """Forget all that was found out about duplicates, and begin anew with a mark."""
        for table in ("digests", "repeats", "boosts", "duplicate_pairs"):
            self._db.execute(f"DELETE FROM {table}")
        self._db.set_meta("duplicates_progress", progress)
        self.record_change()

    def ingestion(self) -> tuple[IngestionCounts, ...]:
        """Return what ingestion did, by the documents' type."""
        rows = self._db.fetch(
            "SELECT coalesce(json_extract(d.attributes, '$.type'), ''), count(*), count(r.chunk), "
            "count(b.boost), coalesce(avg(b.boost), 0.0), coalesce(max(b.boost), 0.0) "
            "FROM documents d JOIN chunks c ON c.document = d.id "
            "LEFT JOIN repeats r ON r.chunk = c.id LEFT JOIN boosts b ON b.chunk = c.id "
            "GROUP BY 1 ORDER BY 1"
        )
        return tuple(IngestionCounts(*row) for row in rows)

    def record_change(self) -> None:
        """Take note in which generation what is known of duplicates changed last: readers keep
        theirs until then.
        """
        self._db.set_meta("duplicates", str(self._db.generation + 1))
