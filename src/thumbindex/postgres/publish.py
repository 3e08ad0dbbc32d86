"""Publish an index to PostgreSQL: the rows that differ from what is there, in one transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from hashlib import blake2b, md5
from typing import Any

import numpy as np

from thumbindex.errors import EngineError, IndexBusyError
from thumbindex.index.snapshot import Opened
from thumbindex.index.store import Store
from thumbindex.model import Link, Progress
from thumbindex.ports import IntArray
from thumbindex.postgres.database import Engine, Half, Session
from thumbindex.postgres.published_keyword_index import DELETED
from thumbindex.postgres.published_store import (
    SOURCE,
    FolderState,
    chunk_record,
    links_record,
    stored,
)
from thumbindex.postgres.published_vectors import EXACT
from thumbindex.text import text_digest

INCARNATION = "incarnation"
"""The fact of a store that tells it from one that was built anew, and counts rows from the
beginning.
"""

TABLES = {
    "documents": {
        "id": "int8",
        "path": "text",
        "size": "int8",
        "digest": "text",
        "modified": "float8",
        "edited": "float8",
        "first_commit": "text",
        "last_commit": "text",
        "record": "text",
        "salience": "bytea",
        "flagged": "bool",
        "links": "text",
        "resolved": "text[]",
        "mark": "text",
    },
    "sections": {
        "document": "int8",
        "ordinal": "int4",
        "start_line": "int4",
        "end_line": "int4",
        "digest": "text",
        "text": "bytea",
    },
    "chunks": {"id": "int8", "document": "int8", "section": "int4", "record": "text"},
    "parts": {"segment": "text", "name": "text", "data": "bytea"},
    "vectors": {"id": "int8", "vector": "halfvec"},
}
"""The tables that have a partition for each folder, with the types of their columns."""

DROP_MILLISECONDS = 200
"""How long a table that others read is waited for before it is left, empty: all who ask for any
partition of its kind wait, too.
"""

ORIGIN = "origin"
"""The fact that tells from which folder of which machine a name is published."""

EPOCH = "epoch"
"""The fact of a folder that changes with a publication by who did not make the last one.

It may stand on another history: a backup that was put back, a standby that took over and lacks what
was published last. Servers keep nothing over it that they have read, for the same row may be
another text.
"""

_VECTORS_AT_ONCE = 4096
DOCUMENTS_AT_ONCE = 200
"""Documents whose texts are in memory at once."""

Tell = Callable[[Progress], None]
"""Hears how far a first publication is."""

_Told = Callable[[str, int, int], None]
"""The same by phase, number done and total."""

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
class _There:
    """What is published of a folder, as far as the next publication must know it."""

    marks: Mapping[int, str] = field(default_factory=dict)  # by document row
    segments: Mapping[str, bytes] = field(default_factory=dict)  # which rows are deleted, by name
    vectors: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    duplicates: str = ""  # digest


def new_incarnation() -> str:
    """Return one that no other store has."""
    return secrets.token_hex(8)


def lock_of(name: str) -> int:
    """Return the second half of the advisory lock's key of a folder, by its name."""
    return int.from_bytes(
        blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big", signed=True
    )


class Publisher:
    """Publishes one folder's index, again and again."""

    def __init__(
        self, engine: Engine, name: str, source: Source, tell: Tell = lambda progress: None
    ) -> None:
        self._engine, self._name, self._source, self._tell = engine, name, source, tell
        self._folder, self._mark = 0, ""  # number and facts' digest of the last publication

    def publish(
        self, opened: Opened, store: Store, extra: Mapping[str, Any] | None = None
    ) -> Published | None:
        """Publish an index as it was opened from a store that is read at the same moment; return
        None if that is published already.

        `extra` are further facts for those who read. Raises EngineError; IndexBusyError while
        another builder publishes this folder.
        """
        duplicates = _duplicates(opened, store)
        facts = {**_facts(opened, store, duplicates), **(extra or {})}
        incarnation, generation = store.meta(INCARNATION), opened.snapshot.generation
        with self._engine.change(lock_of(self._name)) as session:
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            state, is_same_store = self._state(session, incarnation)
            folder, epoch = state.folder, state.epoch
            self._refuse_another(state.facts, facts.get(ORIGIN))
            new_facts = json.loads(json.dumps({**facts, EPOCH: epoch}))
            if is_same_store and (state.generation, state.facts) == (generation, new_facts):
                session.execute("UPDATE folders SET published = now() WHERE folder = %s", (folder,))
                done = None
            else:
                is_continued = is_same_store and state.facts["fingerprint"] == opened.fingerprint
                there = _read_there(session, state, opened, store) if is_continued else None
                if there is None:
                    _empty(session, folder)
                if there is None or self._mark != state.mark:
                    epoch = secrets.token_hex(4)
                publication = _Publication(
                    session, folder, there or _There(), opened, store, self._source
                )
                tell = self._told if there is None else _untold
                added, removed = publication.run(duplicates, tell)
                session.execute(
                    "UPDATE folders SET incarnation = %s, generation = %s, published = now(), "
                    "facts = %s WHERE folder = %s",
                    (incarnation, generation, json.dumps({**facts, EPOCH: epoch}), folder),
                )
                catalog = opened.catalog
                done = Published(
                    self._name, generation, len(catalog.paths), len(catalog), added, removed
                )
            mark = _mark_of(session, folder)
        self._folder, self._mark = folder, mark
        return done

    def beat(self) -> bool:
        """Say that what is published is what there is; tell whether that is so.

        Somebody may have forgotten the folder meanwhile, or a standby that lacks the last
        publications has become the primary server.
        """
        sql = "UPDATE folders SET published = now() WHERE folder = %s AND md5(facts) = %s"
        with self._engine.change() as session:
            return session.execute(sql, (self._folder, self._mark)) > 0

    def _told(self, phase: str, done: int, total: int) -> None:
        self._tell(Progress(self._name, phase, done, total))

    def forget(self) -> None:
        """Go on as if somebody else had published last: a backup may have been put back."""
        self._mark = ""

    def _state(self, session: Session, incarnation: str) -> tuple[FolderState, bool]:
        """Return what is published of the folder, and whether it is of this store; of a new folder
        make the partitions.
        """
        rows = session.fetch(
            "SELECT folder, incarnation, generation, facts, md5(facts) FROM folders "
            "WHERE name = %s",
            (self._name,),
        )
        if rows:
            ((folder, before, generation, told, mark),) = rows
            state = FolderState(folder, self._name, generation, 0.0, json.loads(told), mark)
            return state, before == incarnation
        ((folder,),) = session.fetch(
            "INSERT INTO folders (name, incarnation, generation, published, facts)"
            " VALUES (%s, %s, -1, now(), '{}') RETURNING folder",
            (self._name, incarnation),
        )
        _make_partitions(session, folder)
        return FolderState(folder, self._name, -1, 0.0), False

    def _refuse_another(self, told: Mapping[str, Any], origin: str | None) -> None:
        """Raise EngineError if the name is that of a folder which is published from another place:
        its readers would lose it.
        """
        if told.get(ORIGIN, origin) != origin:
            raise EngineError(
                f"Another folder is published as {self._name!r}, of another place or machine: "
                "give this one a name of its own"
                " (`thumbindex add DIR --name NAME`), or take that one away first: "
                f"`thumbindex engine forget {self._name}`."
            )


def _untold(phase: str, done: int, total: int) -> None:
    """Tell nobody: a later publication takes a moment."""


def _mark_of(session: Session, folder: int) -> str:
    """Return the digest of what is published of a folder as a whole."""
    ((mark,),) = session.fetch("SELECT md5(facts) FROM folders WHERE folder = %s", (folder,))
    return str(mark)


def _read_there(
    session: Session, state: FolderState, opened: Opened, store: Store
) -> _There | None:
    """Read what is published; return None if it does not stand on this store's history, as after a
    backup was put back: a row of the same number has another text.
    """
    catalog, states = opened.catalog, store.manifest()
    here = {
        row: (stored(path), states[path].digest)
        for row, path in zip(catalog.document_rows.tolist(), catalog.paths, strict=True)
    }
    marks = dict[int, str]()
    sql = "SELECT id, mark, path, digest FROM documents WHERE folder = %s"
    for row, mark, *known in session.fetch(sql, (state.folder,)):
        if here.get(row, tuple(known)) != tuple(known):
            return None
        marks[row] = mark
    sql = "SELECT segment, data FROM parts WHERE folder = %s AND name = %s"
    segments: dict[str, bytes] = dict(session.fetch(sql, (state.folder, DELETED)))
    sql = "SELECT id FROM vectors WHERE folder = %s ORDER BY id"
    vectors = np.array([row for (row,) in session.fetch(sql, (state.folder,))], dtype=np.int64)
    return _There(marks, segments, vectors, str(state.facts["duplicates"]))


# ------------------------------------------------------------------ partitions


def _make_partitions(session: Session, folder: int) -> None:
    """Make a folder's partition of each table.

    Readers of the others are not waited for, nor do they wait: it is made first, then attached.
    """
    for table in TABLES:
        session.execute(f"CREATE TABLE {table}_{folder} (LIKE {table} INCLUDING ALL)")
        session.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{folder} FOR VALUES IN ({folder})"
        )


def _empty(session: Session, folder: int) -> None:
    """Delete all rows of a folder; questions that began before still see them."""
    for table in TABLES:
        session.execute(f"DELETE FROM {table} WHERE folder = %s", (folder,))


def forget_published(engine: Engine, name: str) -> bool:
    """Delete what is published of a folder; tell whether there was anything.

    Raises IndexBusyError while somebody publishes it.
    """
    with engine.change(lock_of(name)) as session:
        rows = session.fetch("DELETE FROM folders WHERE name = %s RETURNING folder", (name,))
        for (folder,) in rows:
            _empty(session, folder)
    for (folder,) in rows:
        for table in TABLES:
            # somebody reads it just now: an empty table does no harm
            with suppress(IndexBusyError), engine.change() as session:
                session.execute(f"SET LOCAL lock_timeout = '{DROP_MILLISECONDS}ms'")
                session.execute(f"DROP TABLE IF EXISTS {table}_{folder}")
    return bool(rows)


def index_vectors(engine: Engine, above: int = EXACT) -> list[int]:
    """Make an HNSW index of each folder with more vectors than can be compared with a question one
    by one; return the folders that got one.

    A folder that lacks many vectors waits: an index that grows by a vector at a time takes ten
    times as long.
    """
    made = []
    with engine.question() as session:
        folders = session.fetch(
            "SELECT folder, facts FROM folders f WHERE NOT EXISTS"
            " (SELECT FROM pg_indexes WHERE indexname = 'vectors_' || f.folder || '_hnsw')"
        )
    for folder, told in folders:
        facts = json.loads(told)
        vectors, dimensions = facts["vectors"], int(facts["dimensions"])
        if vectors <= above or vectors < 0.9 * facts["chunks"]:
            continue
        with engine.change() as session:
            # else it is made to the end for a builder that was killed
            session.execute("SET LOCAL client_connection_check_interval = '10s'")
            session.execute(
                f"CREATE INDEX vectors_{folder}_hnsw ON vectors_{folder}"
                f" USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WITH (m = 16, "
                "ef_construction = 64)"
            )
        made.append(folder)
    return made


# ------------------------------------------------------------------ one publication


class _Publication:
    """What has to be changed, in one transaction."""

    def __init__(
        self,
        session: Session,
        folder: int,
        there: _There,
        opened: Opened,
        store: Store,
        source: Source,
    ) -> None:
        self._session, self._folder, self._there = session, folder, there
        self._opened, self._catalog = opened, opened.catalog
        self._store, self._source = store, source
        self._at = {row: n for n, row in enumerate(self._catalog.document_rows.tolist())}

    def run(self, duplicates: bytes, tell: _Told) -> tuple[int, int]:
        """Bring the database up to the index; return how many documents came and went."""
        rows, marks = self._documents(), self._there.marks
        gone = sorted(marks.keys() - rows.keys())
        new = [row for row in rows if row not in marks]
        differing = [row for row, values in rows.items() if marks.get(row) != values[-1]]
        self._delete("documents", "id", [*gone, *differing])
        for table in ("sections", "chunks"):
            self._delete(table, "document", gone)
        self._copy("documents", self._with_links(rows, differing))
        for start in range(0, len(new), DOCUMENTS_AT_ONCE):
            tell("publishing texts", start, len(new))
            self._add_texts(new[start : start + DOCUMENTS_AT_ONCE])
        self._segments(tell)
        if _digest(duplicates) != self._there.duplicates:
            self._delete("parts", "segment", [""])
            self._copy("parts", [("", "duplicates", duplicates)])
        # at the end: who asks by meaning waits from here if their index has to go
        self._vectors(tell)
        return len(new), len(gone)

    def _delete(self, table: str, column: str, values: Sequence[Any]) -> None:
        if values:
            sql = f"DELETE FROM {table} WHERE folder = %s AND {column} = ANY(%s)"
            self._session.execute(sql, (self._folder, list(values)))

    def _copy(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Copy rows into a partition; its folder is put before each of them."""
        columns = TABLES[table]
        whole = ((self._folder, *row) for row in rows)
        self._session.copy(
            f"{table}_{self._folder}", ("folder", *columns), ("int4", *columns.values()), whole
        )

    # -------------------------------------------------------------- documents

    def _documents(self) -> dict[int, tuple[Any, ...]]:
        """Return what is published of each document but for its links, by row id, with a digest."""
        catalog, states = self._catalog, self._store.manifest()
        targets = self._store.link_targets()
        found = {}
        for row, path, title, times, facts in self._store.documents():
            at, state = self._at[row], states[path]
            salience = catalog.salience[catalog.first[at] : catalog.first[at + 1]]
            links = targets.get(row, "{}")
            resolved = [stored(path) for path in json.loads(links).values()]
            values = (
                row,
                stored(path),
                state.size,
                state.digest,
                *times,
                json.dumps([title, facts]),
                salience.astype("<f8").tobytes(),
                bool(catalog.documents[at].flags),
                resolved,
            )
            # which of its links leads where, too: two may change places
            found[row] = (*values, _digest(repr((values, links)).encode()))
        return found

    def _with_links(
        self, rows: Mapping[int, tuple[Any, ...]], wanted: Sequence[int]
    ) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(wanted), DOCUMENTS_AT_ONCE):
            part = wanted[start : start + DOCUMENTS_AT_ONCE]
            paths = {row: self._catalog.paths[self._at[row]] for row in part}
            links: dict[str, list[Link]] = {}
            for path, _, link in self._store.links(paths.values()):
                links.setdefault(path, []).append(link)
            for row, path in paths.items():
                *values, resolved, mark = rows[row]
                yield (*values, links_record(links.get(path, ())), resolved, mark)

    def _add_texts(self, documents: Sequence[int]) -> None:
        sizes = self._catalog.sizes
        of = {row + 1 + n: row for row in documents for n in range(int(sizes[self._at[row]]))}
        chunks, sections = self._store.chunks(list(of)), self._store.sections(list(of))
        if len(chunks) != len(of):
            raise EngineError(
                "The index was changed while it was published: it is published again in a moment."
            )
        self._copy(
            "chunks",
            ((row, of[row], each.section, chunk_record(each)) for row, each in chunks.items()),
        )
        parents = {(of[row], each.ordinal): each for row, each in sections.items()}
        texts = [
            (document, ordinal, each.start_line, each.end_line, text_digest(each.text), each.text)
            for (document, ordinal), each in parents.items()
        ]
        for row in documents:
            source = self._source(self._catalog.paths[self._at[row]])
            texts += [] if source is None else [(row, SOURCE, 0, 0, "", source)]
        self._copy(
            "sections", ((*row[:-1], row[-1].encode("utf-8", "surrogatepass")) for row in texts)
        )

    # -------------------------------------------------------------- words and vectors

    def _segments(self, tell: _Told) -> None:
        """Delete segments that were merged, and publish new ones, as they are on the disk."""
        before = self._there.segments
        now = {each.name: each.deleted.tobytes() for each in self._store.segments()}
        self._delete("parts", "segment", sorted(before.keys() - now.keys()))
        new = [each for each in self._opened.keyword.segments if each.id not in before]
        for n, segment in enumerate(new):
            tell("publishing words", n, len(new))
            parts = {**segment.parts, DELETED: now[segment.id]}
            self._copy("parts", ((segment.id, name, data) for name, data in parts.items()))
        for name in now.keys() & before.keys():
            if now[name] != before[name]:
                sql = "UPDATE parts SET data = %s WHERE folder = %s AND segment = %s AND name = %s"
                self._session.execute(sql, (now[name], self._folder, name, DELETED))

    def _vectors(self, tell: _Told) -> None:
        """Delete vectors that are not there any more, and publish new ones."""
        view, before = self._opened.vectors, self._there.vectors
        held = view.rows()
        if not len(before):  # they may be of another length than the index of those before
            self._session.execute(f"DROP INDEX IF EXISTS vectors_{self._folder}_hnsw")
        self._delete("vectors", "id", np.setdiff1d(before, held).tolist())
        new = np.setdiff1d(held, before)
        order = np.argsort(held)
        at = order[np.searchsorted(held, new, sorter=order)]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(new), _VECTORS_AT_ONCE):
                tell("publishing vectors", start, len(new))
                part = slice(start, start + _VECTORS_AT_ONCE)
                vectors = view.take(at[part]).astype(np.float16)
                yield from zip(new[part].tolist(), map(Half, vectors), strict=True)

        self._copy("vectors", rows())


def _digest(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _duplicates(opened: Opened, store: Store) -> bytes:
    """Return what is known of duplicates, as it is published."""
    known = opened.duplicates.known
    boosted = zip(known.boosted.tolist(), known.salience.tolist(), strict=True)
    return json.dumps(
        {
            "repeats": known.repeats.tolist(),
            "boosted": list(boosted),
            "texts": list(known.texts.items()),
            "alike": store.duplicates.alike(),
            # those who have it open see by the digest that a decision has changed
            "decisions": [astuple(decision) for decision in known.decisions],
        }
    ).encode()


def _facts(opened: Opened, store: Store, duplicates: bytes) -> dict[str, Any]:
    """Return what is known of a folder as a whole."""
    return {
        "documents": len(opened.catalog.paths),
        "chunks": len(opened.catalog),
        "vectors": len(opened.snapshot.vector),
        "dimensions": opened.vectors.dimensions,
        "model": opened.model,
        "fingerprint": opened.fingerprint,
        # of a backup that was put back a generation may be another one
        "segments": sorted(segment.id for segment in opened.keyword.segments),
        "links": astuple(store.link_counts()),
        "problems": [[stored(each.path), each.line, each.reason] for each in store.problems()],
        "decisions": [astuple(each) for each in opened.duplicates.known.decisions],
        "duplicates": _digest(duplicates),
        "ingestion": [astuple(each) for each in store.duplicates.ingestion()],
    }
