"""The stored duplicates of one folder: digests, repeats within documents, pairs across documents,
and the file of the user's decisions.
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
"""The row ids of two chunks (ascending), and their cosine, zone, rule and differing words."""

MIN_SHARING = 8
"""Fewer documents with the same chunk are copies of each other, such as versions of a page."""

DECISIONS_FILE = "decisions.json"
"""Name of the decisions file. It is outside the builds, because it cannot be rebuilt."""

_PAIR_COLUMNS = "first, second, cosine, zone, rule, differs"


def read_decisions(path: Path) -> tuple[Decision, ...]:
    """Return the user's decisions, sorted by digests. Raises StorageError."""
    try:
        return tuple(
            sorted(
                (Decision(**row) for row in json.loads(read_with_retry(path))["decisions"]),
                key=lambda decision: (decision.first, decision.second),
            )
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"Cannot read your decisions about duplicates in {path}: {error}. Repair the file, or "
            "delete it."
        ) from error


def write_decisions(
    path: Path, new: Iterable[Decision], dropped: Iterable[tuple[str, str]] = ()
) -> int:
    """Remove the decisions about `dropped` pairs, then add `new`. Return the number removed.

    A new decision replaces an old one about the same pair. The caller holds the writer's lock.
    """
    by_pair = {(decision.first, decision.second): decision for decision in read_decisions(path)}
    count = sum(by_pair.pop((min(pair), max(pair)), None) is not None for pair in dropped)
    for decision in map(_ordered, new):
        by_pair[decision.first, decision.second] = decision
    write_atomically(
        path,
        json.dumps({"decisions": [asdict(by_pair[pair]) for pair in sorted(by_pair)]}, indent=1),
        durable=True,
    )
    return count


def _ordered(decision: Decision) -> Decision:
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
    """The result of comparing some chunks with all others."""

    progress: str  # digest of the settings, and the last compared row id
    digests: Sequence[tuple[int, bytes]] = ()  # row id, digest of the text
    repeats: Sequence[tuple[int, int, int]] = ()  # row id, keeper's row id, 1 if identical
    boosts: Sequence[tuple[int, float, float]] = ()  # row id, boost, salience with it
    pairs: Sequence[DuplicatePair] = ()


class DuplicateTables:
    """The tables of duplicates in one store.

    Deleting a chunk also deletes the chunk's rows in these tables.
    """

    def __init__(self, db: SqliteFile) -> None:
        self._db = db

    # -------------------------------------------------------------- pairs across documents

    def pairs(self) -> list[DuplicatePair]:
        """Return the pairs that are merged or await the user's decision, sorted."""
        return sorted(self._db.fetch(f"SELECT {_PAIR_COLUMNS} FROM duplicate_pairs"))

    def merged_pairs(self) -> list[tuple[int, int, float]]:
        """Return both row ids and the cosine of each merged pair."""
        return self._db.fetch(
            "SELECT first, second, cosine FROM duplicate_pairs WHERE zone = 'same'"
        )

    def add_pairs(self, rows: Iterable[DuplicatePair]) -> None:
        """Store pairs that are new and whose chunks both still exist."""
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

    # -------------------------------------------------------------- repeats within a document

    def repeats(self) -> list[tuple[int, int, bool]]:
        """Return the row ids of each repeat and its keeper, and whether the texts are identical."""
        rows = self._db.fetch("SELECT chunk, keeper, exact FROM repeats ORDER BY chunk")
        return [(chunk, keeper, bool(exact)) for chunk, keeper, exact in rows]

    def boosts(self) -> dict[int, tuple[float, float]]:
        """Return the boost and the boosted salience of chunks, keyed by row id."""
        rows = self._db.fetch("SELECT chunk, boost, salience FROM boosts ORDER BY chunk")
        return {chunk: (boost, salience) for chunk, boost, salience in rows}

    def shared(self) -> list[tuple[int, bytes]]:
        """Return the row id and the digest of the words of each chunk with many copies."""
        many = "SELECT words FROM chunks WHERE words <> x'' GROUP BY words HAVING count(*) >= ?"
        sql = f"SELECT id, words FROM chunks WHERE words IN ({many}) ORDER BY id"
        return self._db.fetch(sql, (MIN_SHARING,))

    def repeats_among(self, rows: Sequence[int]) -> set[int]:
        """Return the chunks in `rows` that repeat another chunk of their document."""
        return {
            row
            for (row,) in self._db.fetch_in("SELECT chunk FROM repeats WHERE chunk IN ({})", rows)
        }

    def rows_with_texts(self, digests: Sequence[str]) -> dict[int, str]:
        """Return the text digest of each chunk whose digest is in `digests`, keyed by row id."""
        keys = [bytes.fromhex(digest) for digest in digests]
        return {
            row: exact.hex()
            for row, exact in self._db.fetch_in(
                "SELECT chunk, exact FROM digests WHERE exact IN ({})", keys
            )
        }

    def words_of(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the digest of each chunk's words; empty if it has none."""
        return dict(self._db.fetch_in("SELECT id, words FROM chunks WHERE id IN ({})", rows))

    def rows_with_words(self, words: bytes, document: int, limit: int) -> list[int]:
        """Return the row ids of the `limit` newest compared chunks whose words have a digest.

        Repeats and the chunks of `document` are omitted.
        """
        sql = (
            "SELECT c.id FROM chunks c JOIN digests d ON d.chunk = c.id "
            "WHERE c.words = ? AND c.document <> ? "
            "AND c.id NOT IN (SELECT chunk FROM repeats) ORDER BY c.id DESC LIMIT ?"
        )
        return [row for (row,) in self._db.fetch(sql, (words, document, limit))]

    def texts_of(self, paths: Sequence[str]) -> set[str]:
        """Return the digests of all chunk texts of some documents."""
        sql = (
            "SELECT g.exact FROM documents d JOIN chunks c ON c.document = d.id "
            "JOIN digests g ON g.chunk = c.id WHERE d.path IN ({})"
        )
        return {exact.hex() for (exact,) in self._db.fetch_in(sql, paths)}

    def save_findings(self, findings: DuplicateFindings, decided: Collection[str] = ()) -> None:
        """Store all findings except pairs (see `add_pairs`). Skips chunks that no longer exist.

        `decided` contains the digests of texts about which the user has made a decision. If a new
        chunk has one of these texts, readers reload the duplicates.
        """
        rows = [row for row, _ in findings.digests]
        present = {
            row for (row,) in self._db.fetch_in("SELECT id FROM chunks WHERE id IN ({})", rows)
        }
        digests = [each for each in findings.digests if each[0] in present]
        self._db.execute_many("INSERT INTO digests VALUES (?, ?)", digests)
        self._db.execute_many(
            "INSERT INTO repeats VALUES (?, ?, ?)",
            [row for row in findings.repeats if row[0] in present],
        )
        self._db.execute_many(
            "INSERT INTO boosts VALUES (?, ?, ?)",
            [row for row in findings.boosts if row[0] in present],
        )
        for column in ("first", "second"):  # repeats are in no pair
            self._db.execute_many(
                f"DELETE FROM duplicate_pairs WHERE {column} = ?",
                [row[:1] for row in findings.repeats],
            )
        self._db.set_meta("duplicates_progress", findings.progress)
        if (
            findings.repeats
            or findings.boosts
            or findings.pairs
            or any(exact.hex() in decided for _, exact in findings.digests)
        ):
            self.record_change()

    def clear_findings(self, progress: str = "") -> None:
        """Delete all findings, and set the progress from which the next comparison continues."""
        for table in ("digests", "repeats", "boosts", "duplicate_pairs"):
            self._db.execute(f"DELETE FROM {table}")
        self._db.set_meta("duplicates_progress", progress)
        self.record_change()

    def ingestion(self) -> tuple[IngestionCounts, ...]:
        """Return the counts of repeats and boosts for each document type."""
        rows = self._db.fetch(
            "SELECT coalesce(json_extract(d.attributes, '$.type'), ''), count(*), count(r.chunk), "
            "count(b.boost), coalesce(avg(b.boost), 0.0), coalesce(max(b.boost), 0.0) "
            "FROM documents d JOIN chunks c ON c.document = d.id "
            "LEFT JOIN repeats r ON r.chunk = c.id LEFT JOIN boosts b ON b.chunk = c.id "
            "GROUP BY 1 ORDER BY 1"
        )
        return tuple(IngestionCounts(*row) for row in rows)

    def record_change(self) -> None:
        """Make readers reload the duplicates once this transaction is committed."""
        self._db.set_meta("duplicates", str(self._db.generation + 1))

    def record_decisions(self) -> None:
        """Like `record_change`, for a transaction that only stores the user's decisions."""
        self.record_change()
        self._db.set_meta("decision_commits", str(self.decision_commits + 1))

    @property
    def decision_commits(self) -> int:
        """The number of transactions that only stored the user's decisions."""
        return int(self._db.meta("decision_commits", "0"))
