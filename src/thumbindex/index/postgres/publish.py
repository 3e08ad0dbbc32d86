"""Publish an index to PostgreSQL: what differs from what is there by row ids, and the new
generation, in one transaction.

A folder that nobody reads yet is loaded in parts first, each kept by itself: a load that was cut
off goes on where it was.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from thumbindex.errors import EngineError, IndexBusyError, StorageError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.names import name_rows
from thumbindex.index.postgres.database import Engine, Half, Session
from thumbindex.index.postgres.ids import MOST_CHUNKS, Rows
from thumbindex.index.postgres.postings import SegmentLengths, segment_rows
from thumbindex.index.postgres.vectors import EXACT
from thumbindex.index.postgres.view import document_record, is_stored, looked_up, stored
from thumbindex.index.segments import FIELDS
from thumbindex.index.snapshot import Opened
from thumbindex.index.store import Store
from thumbindex.model import (
    Chunk,
    Document,
    DocumentId,
    Link,
    Problem,
    Progress,
    day_modified,
    day_of,
)
from thumbindex.ports import DOCUMENT_BITS
from thumbindex.text import fold, fold_line, form_key, one_line, text_digest, words

INCARNATION = "incarnation"
"""The fact of a store that tells it from one that was built anew, and counts rows from the
beginning.
"""

TABLES = (
    "documents",
    "abbreviations",
    "sections",
    "chunks",
    "links",
    "problems",
    "segments",
    "postings",
    "words",
    "vectors",
    "repeats",
    "clusters",
    "decided",
    "alike",
)
"""The tables that have a partition for each folder."""

_OF_DOCUMENT = ("abbreviations", "sections", "chunks", "links")
"""Those of them whose rows go with a document; vectors do, too."""

SAMPLE = 512
"""Chunks, spread evenly, that are given with the folder: those by which `confidence` sees how near
any text is to a question.
"""

SWEEP_SECONDS = 300.0
"""After so long no question runs any more that began before a folder's index was built anew."""

DROP_MILLISECONDS, DROP_TRIES = 200, 20
"""How long it is tried to drop a table that others use, and how often; what is left goes when a
builder tidies.
"""

ORIGIN = "origin"
"""The fact that tells from which folder of which machine a name is published."""

LONGEST_WORD, LONGEST_PATH = 500, 2_000
"""Letters of a word that a misspelt one may be meant for, and bytes of a path: of longer ones an
index of PostgreSQL takes none.
"""

ROOM = 8
"""Into so many parts the room between two documents is cut for the one that comes: notes of days
come one after the other, each behind the last.
"""

_VECTORS_AT_ONCE = 4096
DOCUMENTS_AT_ONCE = 200
"""Documents whose texts are in memory at once."""

LOADED_AT_ONCE = 20_000
"""Chunks or vectors that a load keeps at once: some seconds of work."""

EPOCH = "epoch"
"""The fact of a folder that changes with a publication by who did not make the last one.

It may stand on another history: a backup that was put back, a standby that took over and lacks what
was published last. Servers keep nothing over it that they have read, for the same row may be
another text.
"""

TOLD_SECONDS = 1.0
"""How often it is told how far an index of vectors is."""

HNSW_BYTES = 512
"""What a vector takes in an HNSW index while that is made, its numbers aside."""

LEAST_HNSW_MEMORY, MOST_HNSW_MEMORY = 64, 8_192
"""Megabytes that the database may take to make one: an index that outgrows them is made many times
slower.
"""

NEARLY_ALL = 0.9
"""The share of chunks that have a vector before an index is made: one that grows by a vector at a
time takes ten times as long.
"""

Tell = Callable[[Progress], None]
"""Hears how far a load is."""

Source = Callable[[str], str | None]
"""Gives a note's text as its file is now, by path; None where it is not the one that was
indexed.
"""


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication did."""

    name: str
    generation: int
    documents: int  # there are now
    chunks: int
    added: int  # documents
    removed: int


@dataclass(frozen=True, slots=True)
class Load:
    """How the first load of a folder goes."""

    tell: Tell = lambda progress: None  # hears how far it is
    at_once: int = LOADED_AT_ONCE  # chunks or vectors
    exact: int = EXACT  # with more vectors an index of them is made before the folder is seen


@dataclass(slots=True, eq=False)
class _There:
    """What is published of a folder, as far as the next publication must know it."""

    folder: int
    generation: int = -1
    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    documents: dict[int, int] = field(default_factory=dict)  # place by row
    # by row; without those that another process published
    records: dict[int, Document] = field(default_factory=dict)
    # the paths that each document's links lead to, by row
    links: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    strange: Sequence[int] = ()  # rows at which another document was published than the store has
    again: Collection[str] = ()  # segments of which documents are there again that were gone
    segments: dict[str, int] = field(default_factory=dict)  # number by Whoosh's name
    following: int = 1  # number of the next one
    vectors: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    problems: tuple[Problem, ...] | None = None
    duplicates: object = None  # the KnownDuplicates that were published
    fingerprint: str = ""
    mark: str = ""  # digest of the facts that were published


def new_incarnation() -> str:
    """Return one that no other store has."""
    return secrets.token_hex(8)


def lock_of(name: str) -> int:
    """Return the second half of the advisory lock's key of a folder, by its name."""
    return int.from_bytes(
        blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big", signed=True
    )


class Publisher:
    """Publishes one folder's index, again and again: what it published last it knows, unless
    somebody else published meanwhile.
    """

    def __init__(self, engine: Engine, name: str, source: Source, load: Load | None = None) -> None:
        self._engine, self._name, self._source, self._load = engine, name, source, load or Load()
        self._there: _There | None = None

    def publish(
        self,
        opened: Opened,
        store: Store,
        extra: Mapping[str, Any] | None = None,
    ) -> Published | None:
        """Publish an index as it was opened from a store that is read at the same moment; None
        where that is published already.

        `extra` are further facts for those who read. Raises EngineError, IndexBusyError.
        """
        incarnation = store.meta(INCARNATION)
        self._begin(incarnation, (extra or {}).get(ORIGIN, ""))
        before, self._there = self._there, None  # until all is kept nothing is known
        lengths = SegmentLengths(opened.keyword, opened.catalog)
        loaded = 0
        # it holds the lock to the end, and reads nothing before all parts are there
        with self._engine.change(lock_of(self._name)) as session:
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            with self._engine.question() as reading:
                there = self._known(reading, incarnation, opened, store, before)
            if there.generation < 0:
                publication = _Publication(there, opened, store, self._source, lengths)
                loaded = publication.load(self._engine, self._name, self._load)
            facts = {**_facts(opened, store, lengths), **(extra or {})}
            if there.generation == opened.snapshot.generation and self._is_told(
                session, there, facts
            ):
                session.execute(
                    "UPDATE folders SET published = now() WHERE folder = %s", (there.folder,)
                )
                there.mark = _mark_of(session, there.folder)
                self._there = there
                return None
            added, removed = _Publication(there, opened, store, self._source, lengths).run(session)
            session.execute(
                "UPDATE folders SET generation = %s, published = now(), facts = %s WHERE "
                "folder = %s",
                (
                    opened.snapshot.generation,
                    json.dumps({**facts, EPOCH: there.epoch}),
                    there.folder,
                ),
            )
            self._make_current(session, there.folder)
            there.mark = _mark_of(session, there.folder)
            there.generation = opened.snapshot.generation
        self._there = there
        catalog = opened.catalog
        return Published(
            self._name, there.generation, len(catalog.paths), len(catalog), loaded + added, removed
        )

    def beat(self) -> bool:
        """Say that what is published is what there is; tell whether that is so.

        Somebody may have forgotten the folder meanwhile, or a standby that lacks the last
        publications has become the primary server.
        """
        if self._there is None:
            return False
        sql = (
            "UPDATE folders SET published = now() WHERE folder = %s AND is_current AND generation "
            "= %s AND md5(facts) = %s"
        )
        with self._engine.change() as session:
            return (
                session.execute(sql, (self._there.folder, self._there.generation, self._there.mark))
                > 0
            )

    def forget(self) -> None:
        """Know nothing of what is published: after a failure it is read again."""
        self._there = None

    def _refuse_another(self, session: Session, origin: str) -> None:
        """Raise EngineError where the name is that of a folder which is published from another
        place: its readers would lose it.
        """
        for (told,) in session.fetch(
            "SELECT facts FROM folders WHERE name = %s AND is_current", (self._name,)
        ):
            if json.loads(told).get(ORIGIN, origin) != origin:
                raise EngineError(
                    f"Another folder is published as {self._name!r}, of another place or machine: "
                    "give this one a name of its own"
                    " (`thumbindex add DIR --name NAME`), or take that one away first: "
                    f"`thumbindex engine forget {self._name}`."
                )

    def _known(
        self, session: Session, incarnation: str, opened: Opened, store: Store, known: _There | None
    ) -> _There:
        """Return what is published: what is known of it where that is still so, else as it is
        read.
        """
        sql = (
            "SELECT folder, generation, md5(facts) FROM folders WHERE name = %s AND incarnation = "
            "%s"
        )
        rows = session.fetch(sql, (self._name, incarnation))
        if not rows:
            raise IndexBusyError(
                f"{self._name} was forgotten just now: it is published anew in a moment."
            )
        ((folder, generation, mark),) = rows
        is_known = (
            known is not None
            and (known.folder, known.generation) == (folder, generation)
            and known.mark in ("", mark)
        )
        if known is not None and is_known:
            return known
        return _read_there(session, folder, generation, opened, store)

    def _begin(self, incarnation: str, origin: str) -> None:
        """Make the partitions of a folder that is new, or was built anew, in a moment: nobody waits
        while they are filled.
        """
        with self._engine.change(lock_of(self._name)) as session:
            self._refuse_another(session, origin)
            found = session.fetch(
                "SELECT 1 FROM folders WHERE name = %s AND incarnation = %s",
                (self._name, incarnation),
            )
            if not found:
                ((folder,),) = session.fetch(
                    "INSERT INTO folders (name, incarnation, is_current, generation, published, "
                    "facts)"
                    " VALUES (%s, %s, false, -1, now(), '{}') RETURNING folder",
                    (self._name, incarnation),
                )
                make_partitions(session, folder)

    def _is_told(self, session: Session, there: _There, facts: Mapping[str, Any]) -> bool:
        ((told,),) = session.fetch(
            "SELECT facts FROM folders WHERE folder = %s AND generation >= 0", (there.folder,)
        ) or (("{}",),)
        return bool({**json.loads(told), EPOCH: ""} == {**json.loads(json.dumps(facts)), EPOCH: ""})

    def _make_current(self, session: Session, folder: int) -> None:
        if session.fetch("SELECT 1 FROM folders WHERE folder = %s AND NOT is_current", (folder,)):
            session.execute(
                "UPDATE folders SET is_current = false, published = now() WHERE name = %s AND "
                "folder <> %s",
                (self._name, folder),
            )
            session.execute("UPDATE folders SET is_current = true WHERE folder = %s", (folder,))


def _mark_of(session: Session, folder: int) -> str:
    """Return the digest of what is published of a folder as a whole."""
    ((mark,),) = session.fetch("SELECT md5(facts) FROM folders WHERE folder = %s", (folder,))
    return str(mark)


def _read_there(
    session: Session, folder: int, generation: int, opened: Opened, store: Store
) -> _There:
    """Read what is published; what an earlier state of the store had at a row, as a backup that was
    put back shows, counts as not there.
    """
    states = {stored(path): state.digest for path, state in store.manifest().items()}
    catalog = opened.catalog
    here = {
        row: (stored(path), len(catalog.chunk_ids(DocumentId(n))))
        for n, (row, path) in enumerate(
            zip(catalog.document_rows.tolist(), catalog.paths, strict=True)
        )
    }
    documents, strange = dict[int, int](), list[int]()
    for row, place, path, size, digest in session.fetch(
        "SELECT id, place, path, chunks, digest FROM documents WHERE folder = %s", (folder,)
    ):
        documents[row] = place
        if row in here and (here[row] != (path, size) or states.get(path) != digest):
            strange.append(row)
    live = catalog.document_rows
    rows = session.fetch("SELECT segment, name, gone FROM segments WHERE folder = %s", (folder,))
    again = {
        name for _, name, gone in rows if np.isin(np.frombuffer(gone, dtype=np.int64), live).any()
    }
    segments = {name: number for number, name, _ in rows}
    vectors = np.array(
        [
            row
            for (row,) in session.fetch(
                "SELECT id FROM vectors WHERE folder = %s ORDER BY id", (folder,)
            )
        ],
        dtype=np.int64,
    )
    ((told,),) = session.fetch("SELECT facts FROM folders WHERE folder = %s", (folder,))
    sql = (
        "SELECT document, array_agg(resolved ORDER BY ordinal) FROM links WHERE folder = %s AND "
        "resolved <> '' GROUP BY document"
    )
    led = {document: tuple(paths) for document, paths in session.fetch(sql, (folder,))}
    return _There(
        folder,
        generation,
        documents=documents,
        strange=strange,
        again=again,
        links=led,
        segments=segments,
        vectors=vectors,
        fingerprint=json.loads(told).get("fingerprint", ""),
    )


# ------------------------------------------------------------------ partitions


def make_partitions(session: Session, folder: int) -> None:
    """Make a folder's partition of each table.

    Readers of the others are not waited for, nor do they wait: it is made first, then attached.
    """
    for table in TABLES:
        session.execute(f"CREATE TABLE {table}_{folder} (LIKE {table} INCLUDING ALL)")
        session.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{folder} FOR VALUES IN ({folder})"
        )


def drop_folder(engine: Engine, folder: int, name: str, *, is_current: bool = True) -> None:
    """Delete what is published of a folder; of one that is read only where `is_current`.

    Raises IndexBusyError where somebody publishes it.
    """
    which = "" if is_current else " AND NOT is_current"
    with engine.change(lock_of(name)) as session:
        session.execute(f"DELETE FROM folders WHERE folder = %s{which}", (folder,))
    for _ in range(DROP_TRIES):
        if not drop_orphans(engine):
            return


def drop_orphans(engine: Engine) -> int:
    """Delete the partitions of folders that are no more; return how many are left, because somebody
    reads or writes their tables just now.

    A table that is dropped makes all wait who ask for any partition of its kind: it is tried for a
    moment, not waited for.
    """
    sql = (
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p "
        "ON p.oid = i.inhparent"
        " WHERE p.relname = ANY(%s) AND c.relkind = 'r'"
        " AND NOT EXISTS (SELECT 1 FROM folders f WHERE c.relname = p.relname || '_' || f.folder)"
    )
    with engine.question() as session:
        tables = [name for (name,) in session.fetch(sql, (list(TABLES),))]
    left = 0
    for table in tables:
        try:
            with engine.change() as session:
                session.execute(f"SET LOCAL lock_timeout = '{DROP_MILLISECONDS}ms'")
                session.execute(f"DROP TABLE IF EXISTS {table}")
        except IndexBusyError:
            left += 1
    return left


def sweep_folders(engine: Engine, after: float = SWEEP_SECONDS) -> None:
    """Delete what was published of stores that were built anew since: when no question can be under
    way any more that began before.
    """
    with engine.question() as session:
        old = session.fetch(
            "SELECT folder, name FROM folders f WHERE NOT is_current"
            " AND published <= now() - CASE WHEN generation < 0 THEN interval '1 day' ELSE %s * "
            "interval '1 second' END"
            " AND EXISTS (SELECT 1 FROM folders g WHERE g.name = f.name AND g.is_current)",
            (after,),
        )
    for folder, name in old:
        with suppress(IndexBusyError):  # it is being loaded
            drop_folder(engine, folder, name, is_current=False)
    drop_orphans(engine)


def index_vectors(engine: Engine, above: int = EXACT) -> list[int]:
    """Make an HNSW index of each folder with more vectors than can be compared with a question one
    by one; return the folders that got one.
    """
    made = []
    with engine.question() as session:
        folders = session.fetch("SELECT folder, facts FROM folders WHERE is_current")
        indexed = {
            name
            for (name,) in session.fetch(
                "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vectors%%_hnsw'"
            )
        }
    for folder, told in folders:
        facts = json.loads(told)
        vectors = facts.get("vectors", 0)
        if (
            is_indexed(vectors, facts.get("chunks", 0), above)
            and f"vectors_{folder}_hnsw" not in indexed
        ):
            index_folder(engine, folder, vectors, int(facts["dimensions"]))
            made.append(folder)
    return made


def is_indexed(vectors: int, chunks: int, above: int) -> bool:
    """Tell whether so many vectors are to have an HNSW index: more than are compared one by one,
    and nearly all that will be there.
    """
    return vectors > above and vectors >= NEARLY_ALL * chunks


def index_folder(engine: Engine, folder: int, vectors: int, dimensions: int) -> None:
    """Make the HNSW index of a folder's vectors."""
    memory = min(
        max(vectors * (2 * dimensions + HNSW_BYTES) >> 20, LEAST_HNSW_MEMORY), MOST_HNSW_MEMORY
    )
    with engine.change() as session:
        session.execute(f"SET LOCAL maintenance_work_mem = '{memory}MB'")
        # else it is made to the end for a builder that was killed
        session.execute("SET LOCAL client_connection_check_interval = '10s'")
        session.execute(
            f"CREATE INDEX IF NOT EXISTS vectors_{folder}_hnsw ON vectors_{folder}"
            f" USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WITH (m = 16, "
            "ef_construction = 64)"
        )


@contextmanager
def _progress(engine: Engine, folder: int, tell: Callable[[int], None]) -> Iterator[None]:
    """Tell once a second how many vectors of a folder are in the index that is being made."""
    is_made = threading.Event()

    def ask() -> None:
        while not is_made.wait(TOLD_SECONDS):
            with suppress(StorageError), engine.question() as session:
                sql = (
                    "SELECT tuples_done FROM pg_stat_progress_create_index WHERE relid = "
                    "to_regclass(%s)"
                )
                for (done,) in session.fetch(sql, (f"vectors_{folder}",)):
                    tell(int(done))

    asking = threading.Thread(target=ask, name="progress of an index")
    asking.start()
    try:
        yield
    finally:
        is_made.set()
        asking.join()


# ------------------------------------------------------------------ one publication


class _Publication:
    """What has to be changed, in one transaction or in several."""

    _session: Session

    def __init__(
        self, there: _There, opened: Opened, store: Store, source: Source, lengths: SegmentLengths
    ) -> None:
        self._there, self._opened, self._store, self._source = there, opened, store, source
        self._catalog: StoreCatalog = opened.catalog
        self._folder = there.folder
        self._lengths = lengths
        self._at = {row: n for n, row in enumerate(self._catalog.document_rows.tolist())}

    def run(self, session: Session) -> tuple[int, int]:
        """Bring the database up to the index; return how many documents came and went."""
        self._session, there = session, self._there
        gone = self._take_away()
        new = self._new()
        for name in self._new_segments():
            self._add_segment(name)
        if new:
            self._place(new)
            self._add(new)
        self._touch()
        self._links(set(new))
        self._problems()
        self._vectors(self._new_vectors())
        if there.duplicates is not self._opened.duplicates.known or new or gone:
            self._duplicates()
        there.records = dict(
            zip(self._catalog.document_rows.tolist(), self._catalog.documents, strict=True)
        )
        there.duplicates = self._opened.duplicates.known
        return len(new), len(gone)

    def load(self, engine: Engine, name: str, how: Load) -> int:
        """Fill the tables of a folder that nobody reads yet, part by part, but for what is a matter
        of the whole; return how many documents came.
        """
        there, tell = self._there, how.tell
        with self._part(engine):
            self._take_away()
            new = self._new()
            self._place(new)
            self._session.execute(
                "UPDATE folders SET facts = %s WHERE folder = %s",
                (json.dumps({"fingerprint": there.fingerprint}), self._folder),
            )
        done, total = len(self._at) - len(new), len(self._at)
        for part in self._parts(new, how.at_once):
            tell(Progress(name, "publishing texts", done, total))
            with self._part(engine):
                self._add(part)
            done += len(part)
        segments = self._new_segments()
        for number, segment in enumerate(segments):
            tell(Progress(name, "publishing words", number, len(segments)))
            with self._part(engine):
                self._add_segment(segment)
        vectors = self._new_vectors()
        for start in range(0, len(vectors), how.at_once):
            tell(Progress(name, "publishing vectors", start, len(vectors)))
            with self._part(engine):
                self._vectors(vectors[start : start + how.at_once])
        if is_indexed(len(there.vectors), len(self._catalog), how.exact):
            with (
                _progress(
                    engine,
                    self._folder,
                    lambda done: tell(Progress(name, "indexing vectors", done, len(there.vectors))),
                ),
                suppress(EngineError),
            ):
                # where it cannot be made, as for want of memory, the folder is seen without it:
                # whoever tidies tries again, and says why
                index_folder(
                    engine, self._folder, len(there.vectors), self._opened.vectors.dimensions
                )
        return len(new)

    @contextmanager
    def _part(self, engine: Engine) -> Iterator[None]:
        """Give a transaction of its own.

        Raises IndexBusyError where somebody has published the folder since, who had the lock that
        was lost here.
        """
        with engine.change() as self._session:
            if not self._execute(
                "UPDATE folders SET published = now() WHERE folder = %s AND generation < 0"
            ):
                raise IndexBusyError("Another builder has loaded this folder meanwhile: try again.")
            yield

    def _parts(self, documents: Sequence[int], at_once: int) -> Iterator[list[int]]:
        """Yield documents in groups that are committed together."""
        part, size = list[int](), 0
        for row in documents:
            part.append(row)
            size += self._size(row)
            if size >= at_once:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _take_away(self) -> list[int]:
        """Delete documents that are not there any more, segments that were merged, and vectors of
        another model; return the documents' rows.
        """
        there = self._there
        gone = sorted({*(there.documents.keys() - self._at.keys()), *there.strange})
        self._remove(gone)
        self._leave_segments([row for row in gone if row not in self._at])
        there.strange, there.again = (), ()
        if there.fingerprint != self._opened.fingerprint:
            # it is of another length
            self._session.execute(f"DROP INDEX IF EXISTS vectors_{self._folder}_hnsw")
            self._execute("DELETE FROM vectors WHERE folder = %s")
            there.vectors, there.fingerprint = np.zeros(0, dtype=np.int64), self._opened.fingerprint
        lost = np.setdiff1d(there.vectors, self._opened.vectors.rows())
        if len(lost):
            self._execute("DELETE FROM vectors WHERE folder = %s AND id = ANY(%s)", lost.tolist())
            there.vectors = np.setdiff1d(there.vectors, lost)
        return gone

    def _new(self) -> list[int]:
        """Return the rows of documents that are not published yet."""
        return [row for row in self._at if row not in self._there.documents]

    def _execute(self, sql: str, *parameters: Any) -> int:
        return self._session.execute(sql, (self._folder, *parameters))

    def _copy(self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> int:
        """Copy rows into a partition; its folder is put before each of them."""
        whole = ((self._folder, *row) for row in rows)
        return self._session.copy(
            f"{table}_{self._folder}", ("folder", *columns), ("int4", *columns.values()), whole
        )

    # -------------------------------------------------------------- documents

    def _remove(self, gone: Sequence[int]) -> None:
        if gone:
            self._execute("DELETE FROM documents WHERE folder = %s AND id = ANY(%s)", gone)
            for table in _OF_DOCUMENT:
                self._execute(f"DELETE FROM {table} WHERE folder = %s AND document = ANY(%s)", gone)
            sql = "DELETE FROM vectors WHERE folder = %s AND document = ANY(%s) RETURNING id"
            self._there.vectors = np.setdiff1d(
                self._there.vectors,
                [row for (row,) in self._session.fetch(sql, (self._folder, gone))],
            )
            for row in gone:
                del self._there.documents[row]

    def _add(self, new: Sequence[int]) -> None:
        """Publish documents that have their places."""
        states = self._store.manifest([self._catalog.documents[self._at[row]].path for row in new])
        facts = {
            row: (title, times, rest)
            for row, _, title, times, rest in self._store.documents(list(new))
        }
        columns = {
            "id": "int8",
            "place": "int8",
            "path": "text",
            "chunks": "int4",
            "day": "date",
            "written": "date",
            "folded": "text",
            "titles": "text",
            "tags": "text[]",
            "names": "text[]",
            "lengths": "int4[]",
            "language": "text",
            "size": "int8",
            "digest": "text",
            "flagged": "bool",
            "record": "text",
            "source": "bytea",
        }

        def rows() -> Iterator[Sequence[Any]]:
            for row in new:
                document = self._catalog.documents[self._at[row]]
                state, source = states[document.path], self._source(document.path)
                yield (
                    row,
                    self._there.documents[row],
                    stored(document.path),
                    self._size(row),
                    *_document_columns(document),
                    state.size,
                    state.digest,
                    bool(document.flags),
                    document_record(*facts[row]),
                    None if source is None else source.encode("utf-8", "surrogatepass"),
                )

        self._copy("documents", columns, rows())
        pairs = [
            (row, each)
            for row in new
            for each in self._catalog.documents[self._at[row]].abbreviations
        ]
        if pairs:
            shapes = dict.fromkeys(("short", "long", "key"), "text")
            self._copy(
                "abbreviations",
                {"document": "int8", **shapes},
                ((row, each.short, each.long, form_key(each.long)) for row, each in pairs),
            )
        for start in range(0, len(new), DOCUMENTS_AT_ONCE):
            self._add_texts(new[start : start + DOCUMENTS_AT_ONCE])
        self._there.records.update((row, self._catalog.documents[self._at[row]]) for row in new)

    def _size(self, row: int) -> int:
        return len(self._catalog.chunk_ids(DocumentId(self._at[row])))

    def _refuse(self, new: Sequence[int]) -> None:
        """Raise EngineError for a document that the tables cannot hold."""
        for row in new:
            path = self._catalog.documents[self._at[row]].path
            if self._size(row) > MOST_CHUNKS:
                what = f"has {self._size(row):,} chunks, more than {MOST_CHUNKS:,}"
            elif len(stored(path).encode()) > LONGEST_PATH:
                what = f"has a path of more than {LONGEST_PATH:,} bytes"
            else:
                continue
            raise EngineError(
                f"{one_line(path)[:200]} {what}, and cannot be published: leave it out with "
                "corpus.exclude."
            )

    def _add_texts(self, documents: Sequence[int]) -> None:
        chunk_rows = [row + 1 + n for row in documents for n in range(self._size(row))]
        of = {row + 1 + n: row for row in documents for n in range(self._size(row))}
        chunks, sections = self._store.chunks(chunk_rows), self._store.sections(chunk_rows)
        if len(chunks) != len(chunk_rows):
            raise EngineError(
                "The index was changed while it was published: it is published again in a moment."
            )
        columns = {
            "id": "int8",
            "document": "int8",
            "section": "int4",
            "headings": "text",
            "record": "bytea",
            "salience": "float8",
        }
        made = (
            (
                row,
                of[row],
                chunks[row].section,
                json.dumps(chunks[row].heading_path),
                chunk_record(chunks[row]),
                chunks[row].salience,
            )
            for row in chunk_rows
        )
        self._copy("chunks", columns, made)
        parents = {(of[row], each.ordinal): each for row, each in sections.items()}
        shapes = {
            "document": "int8",
            "ordinal": "int4",
            "start_line": "int4",
            "end_line": "int4",
            "digest": "text",
            "text": "bytea",
        }
        texts = (
            (
                document,
                each.ordinal,
                each.start_line,
                each.end_line,
                text_digest(each.text),
                each.text.encode("utf-8", "surrogatepass"),
            )
            for (document, _), each in parents.items()
        )
        self._copy("sections", shapes, texts)

    def _place(self, new: Sequence[int]) -> None:
        """Give new documents places between their neighbors by path; where there is no room, give
        all of them new ones.

        Raises EngineError.
        """
        self._refuse(new)
        places = self._there.documents
        order = self._catalog.document_rows.tolist()
        wanted = spread([places.get(row, -1) for row in order], 1 << DOCUMENT_BITS)
        moved = [
            (row, place)
            for row, place in zip(order, wanted, strict=True)
            if row in places and places[row] != place
        ]
        if moved:  # out of the way first: no two may be at one place at any moment
            rows, to = [row for row, _ in moved], [place for _, place in moved]
            self._execute(
                "UPDATE documents SET place = -1 - place WHERE folder = %s AND id = ANY(%s)", rows
            )
            self._session.execute(
                "UPDATE documents d SET place = m.place FROM unnest(%s::int8[], %s::int8[]) "
                "AS m (id, place) WHERE d.folder = %s AND d.id = m.id",
                (rows, to, self._folder),
            )
        places.update(zip(order, wanted, strict=True))

    def _touch(self) -> None:
        """Write the days of documents anew that are not what they were; where another process
        published those, of all.
        """
        known, now = (
            self._there.records,
            dict(zip(self._catalog.document_rows.tolist(), self._catalog.documents, strict=True)),
        )
        changed = [
            row
            for row, document in now.items()
            if row in known and known[row] is not document and known[row] != document
        ]
        if others := [row for row in now if row not in known]:
            held: dict[int, str] = dict(
                self._session.fetch(
                    "SELECT id, record FROM documents WHERE folder = %s", (self._folder,)
                )
            )
            every = {
                row: document_record(title, times, rest)
                for row, _, title, times, rest in self._store.documents()
            }
            changed += [row for row in others if held.get(row) != every.get(row)]
        if changed:
            records = {
                row: document_record(title, times, rest)
                for row, _, title, times, rest in self._store.documents(changed)
            }
            values = [
                (row, day_of(now[row]), day_modified(now[row]), records[row]) for row in changed
            ]
            self._session.execute(
                "UPDATE documents d SET day = m.day, written = m.written, record = m.record"
                " FROM unnest(%s::int8[], %s::date[], %s::date[], %s::text[]) AS m (id, day, "
                "written, record) WHERE d.folder = %s AND d.id = m.id",
                (*map(list, zip(*values, strict=True)), self._folder),
            )

    def _links(self, new: set[int]) -> None:
        """Publish the links of new documents, and of those whose links lead elsewhere than they
        did.
        """
        now = {
            row: tuple(stored(path) for path in json.loads(paths))
            for row, paths in self._store.linked_paths().items()
        }
        before, is_loaded = self._there.links, self._there.generation >= 0
        changed = [
            row
            for row in self._at
            if not is_loaded or row in new or before.get(row) != now.get(row)
        ]
        old = [row for row in changed if is_loaded and row not in new]
        if old:
            self._execute("DELETE FROM links WHERE folder = %s AND document = ANY(%s)", old)
        paths = {self._catalog.documents[self._at[row]].path: row for row in changed}
        if paths:
            found = (
                (paths[path], ordinal, link)
                for path, ordinal, link in self._store.links(list(paths))
            )
            rows = (
                (
                    row,
                    ordinal,
                    None if link.resolved is None else stored(link.resolved),
                    link_record(link),
                )
                for row, ordinal, link in found
            )
            self._copy(
                "links",
                {"document": "int8", "ordinal": "int4", "resolved": "text", "record": "text"},
                rows,
            )
        self._there.links = now

    def _problems(self) -> None:
        problems = self._store.problems()
        if problems != self._there.problems:
            self._execute("DELETE FROM problems WHERE folder = %s")
            rows = ((stored(each.path), each.line, stored(each.reason)) for each in problems)
            self._copy("problems", {"path": "text", "line": "int4", "reason": "text"}, rows)
            self._there.problems = problems

    # -------------------------------------------------------------- words and vectors

    def _leave_segments(self, gone: Sequence[int]) -> None:
        """Take away segments that were merged, and note in the others which documents are gone."""
        there, now = self._there, {segment.id for segment in self._opened.keyword.segments}
        merged = [
            number
            for name, number in there.segments.items()
            if name not in now or name in there.again
        ]
        if merged:
            for table in ("postings", "words", "segments"):
                self._execute(
                    f"DELETE FROM {table} WHERE folder = %s AND segment = ANY(%s)", merged
                )
        there.segments = {
            name: number for name, number in there.segments.items() if number not in merged
        }
        there.following = max(
            (there.following, *(number + 1 for number in (*there.segments.values(), *merged)))
        )
        if gone and there.segments:
            more = np.array(gone, dtype=np.int64).tobytes()
            self._session.execute(
                "UPDATE segments SET gone = gone || %s WHERE folder = %s", (more, self._folder)
            )

    def _new_segments(self) -> list[str]:
        """Return the names of segments that are not published yet."""
        return [
            segment.id
            for segment in self._opened.keyword.segments
            if segment.id not in self._there.segments
        ]

    def _add_segment(self, name: str) -> None:
        at = next(
            n for n, segment in enumerate(self._opened.keyword.segments) if segment.id == name
        )
        segment, number = self._opened.keyword.segments[at], self._there.following
        self._there.segments[name], self._there.following = number, number + 1
        self._copy(
            "segments", {"segment": "int4", "name": "text", "gone": "bytea"}, [(number, name, b"")]
        )
        rows = (
            (field, term, number, columns, places)
            for field, term, columns, places in segment_rows(segment, self._lengths.rows(at))
        )
        shapes = {
            "field": "int2",
            "term": "text",
            "segment": "int4",
            "columns": "bytea",
            "places": "bytea",
        }
        self._copy("postings", shapes, rows)
        known = (
            (len(word), word, number)
            for word in segment.words
            if is_stored(word) and len(word) <= LONGEST_WORD
        )
        self._copy("words", {"length": "int4", "word": "text", "segment": "int4"}, known)

    def _new_vectors(self) -> Rows:
        """Return the rows of chunks whose vectors are not published yet, ascending."""
        found: Rows = np.setdiff1d(self._opened.vectors.rows(), self._there.vectors)
        return found

    def _vectors(self, new: Rows) -> None:
        """Publish vectors of chunks."""
        if not len(new):
            return
        view = self._opened.vectors
        held = view.rows()
        order = np.argsort(held)
        at = order[np.searchsorted(held, new, sorter=order)]
        documents = self._catalog.document_ids[self._catalog.chunk_positions(new)]
        of = self._catalog.document_rows[documents]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(new), _VECTORS_AT_ONCE):
                part = slice(start, start + _VECTORS_AT_ONCE)
                ids = new[part].tolist()
                vectors = view.take(at[part]).astype(np.float16)
                for row, document, vector in zip(ids, of[part].tolist(), vectors, strict=True):
                    yield row, document, Half(vector)

        shapes = {"id": "int8", "document": "int8", "vector": "halfvec"}
        self._copy("vectors", shapes, rows())
        self._there.vectors = np.union1d(self._there.vectors, new)

    # -------------------------------------------------------------- what says the same

    def _duplicates(self) -> None:
        """Write what is known of duplicates where it differs."""
        duplicates, rows = self._opened.duplicates, self._catalog.chunk_rows
        known = duplicates.known
        places = self._catalog.chunk_positions(known.repeats.ravel()).reshape(-1, 2)
        repeats = dict(known.repeats[(places >= 0).all(axis=1)].tolist())
        self._differing("repeats", "chunk", "keeper", repeats)
        clusters = {int(rows[member]): int(rows[first]) for member, first in duplicates.members()}
        self._differing("clusters", "chunk", "cluster", clusters)
        decided = {
            row: digest
            for row, digest in known.texts.items()
            if self._catalog.chunk_positions(np.array([row]))[0] >= 0
        }
        self._differing("decided", "chunk", "digest", decided, "text")
        boosted = self._catalog.chunk_positions(known.boosted)
        raised = dict(
            zip(
                known.boosted[boosted >= 0].tolist(),
                known.salience[boosted >= 0].tolist(),
                strict=True,
            )
        )
        plain = dict(zip(rows.tolist(), self._catalog.salience.tolist(), strict=True))
        stands: dict[int, float] = dict(
            self._session.fetch(
                "SELECT id, salience FROM chunks WHERE folder = %s", (self._folder,)
            )
        )
        wanted = [
            (row, raised.get(row, plain[row]))
            for row in plain
            if stands.get(row) != raised.get(row, plain[row])
        ]
        if wanted:
            self._session.execute(
                "UPDATE chunks c SET salience = m.salience FROM unnest(%s::int8[], %s::float8[]) "
                "AS m (id, salience)"
                " WHERE c.folder = %s AND c.id = m.id",
                ([row for row, _ in wanted], [salience for _, salience in wanted], self._folder),
            )
        self._alike()

    def _differing(
        self, table: str, key: str, value: str, wanted: Mapping[int, Any], kind: str = "int8"
    ) -> None:
        """Make a table of two columns what it is to be."""
        held: dict[int, Any] = dict(
            self._session.fetch(
                f"SELECT {key}, {value} FROM {table} WHERE folder = %s", (self._folder,)
            )
        )
        old = [row for row, found in held.items() if wanted.get(row) != found]
        if old:
            self._execute(f"DELETE FROM {table} WHERE folder = %s AND {key} = ANY(%s)", old)
        new = [(row, found) for row, found in wanted.items() if held.get(row) != found]
        if new:
            self._copy(table, {key: "int8", value: kind}, new)

    def _alike(self) -> None:
        held = {
            row
            for (row,) in self._session.fetch(
                "SELECT id FROM alike WHERE folder = %s", (self._folder,)
            )
        }
        pairs = {pair[0]: pair for pair in self._store.duplicates.alike_since(0)}
        if old := sorted(held - pairs.keys()):
            self._execute("DELETE FROM alike WHERE folder = %s AND id = ANY(%s)", old)
        shapes = {
            "id": "int8",
            "first": "int8",
            "second": "int8",
            "cosine": "float8",
            "zone": "text",
            "rule": "text",
            "differs": "text",
        }
        new = [pairs[row] for row in sorted(pairs.keys() - held)]
        if new:
            self._copy(
                "alike", shapes, ((*row[:4], *(stored(each) for each in row[4:])) for row in new)
            )


def spread(places: Sequence[int], end: int) -> list[int]:
    """Return places from 0 to `end`, ascending, for items that have one or none (-1); those that
    have one keep it, unless there is no room.
    """
    found = list(places)
    held = [n for n, place in enumerate(found) if place >= 0]
    bounds = [-1, *held, len(found)]
    for before, after in pairwise(bounds):
        count = after - before - 1
        low = found[before] if before >= 0 else -1
        high = found[after] if after < len(found) else end
        step = (high - low) // max(count + 1, ROOM)
        if count and step < 1:
            return [(n + 1) * (end // (len(found) + 1)) for n in range(len(found))]
        for n in range(count):
            found[before + 1 + n] = low + (n + 1) * step
    return found


def _document_columns(document: Document) -> tuple[Any, ...]:
    tags = set[str]()
    for tag in document.tags:
        parts = fold(tag).split("/")
        tags.update("/".join(parts[: n + 1]) for n in range(len(parts)))
    names = [(looked_up(letters), length) for letters, length in name_rows(document)]
    titles = "\n".join(f" {' '.join(words(name))} " for name in (document.title, *document.aliases))
    return (
        day_of(document),
        day_modified(document),
        stored(fold_line(document.path)),
        stored(titles),
        sorted(map(looked_up, tags)),
        [letters for letters, _ in names],
        [length for _, length in names],
        document.language,
    )


def chunk_record(chunk: Chunk) -> bytes:
    """Return a chunk as it is published, its headings aside."""
    values = [
        chunk.ordinal,
        chunk.section,
        chunk.kind,
        chunk.start_line,
        chunk.end_line,
        chunk.text,
        chunk.salience,
        chunk.language,
    ]
    return json.dumps(values).encode()


def link_record(link: Link) -> str:
    """Return a link as it is published."""
    return json.dumps([link.kind, link.target, link.fragment, link.text, link.line, link.resolved])


def _facts(opened: Opened, store: Store, lengths: SegmentLengths) -> dict[str, Any]:
    """Return what is known of a folder as a whole."""
    catalog, snapshot = opened.catalog, opened.snapshot
    repeated = snapshot.duplicates.repeated()
    within = None if repeated is None else catalog.everything() - repeated
    step = 1 + (len(catalog) if within is None else len(within)) // SAMPLE
    rows = catalog.chunk_rows[np.array(catalog.every(step, within), dtype=np.int64)].tolist()
    links = store.link_counts()
    days = catalog.days
    decisions = [
        [
            decision.first,
            decision.second,
            decision.verdict,
            decision.note,
            decision.made,
            decision.first_place,
            decision.second_place,
        ]
        for decision in opened.duplicates.known.decisions
    ]
    ingestion = {
        kind: [segments, repeats, boosts]
        for kind, (segments, repeats, boosts) in store.duplicates.ingested_by_type().items()
    }
    return {
        "documents": len(catalog.paths),
        "chunks": len(catalog),
        "vectors": len(snapshot.vector),
        "dimensions": opened.vectors.dimensions,
        "model": opened.model,
        "fingerprint": opened.fingerprint,
        # of a backup that was put back a generation may be another one
        "segments": sorted(segment.id for segment in opened.keyword.segments),
        "keyword_languages": sorted(opened.keyword.languages),
        "languages": dict(catalog.languages),
        "first_day": days.first.isoformat() if days.first else None,
        "written_day": days.written.isoformat() if days.written else None,
        "lengths": {name: lengths.sums(name) for name in FIELDS},
        "repeats": 0 if repeated is None else len(repeated),
        "decisions": decisions,
        "sample": {"step": step, "rows": rows, "but_repeats": repeated is not None},
        "links_resolved": links.resolved,
        "links_dangling": links.dangling,
        "ingestion": ingestion,
    }
