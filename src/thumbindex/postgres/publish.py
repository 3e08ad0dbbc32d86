"""Publish indexes to PostgreSQL: the rows that differ from those there, in one transaction."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field
from hashlib import blake2b, md5
from platform import node
from typing import Any

import numpy as np

from thumbindex.corpus.read import content_digest, decode_visible
from thumbindex.errors import EngineError, IndexBusyError, StorageError, UsageError
from thumbindex.index.builds import INCOMPLETE
from thumbindex.index.files import IndexPaths
from thumbindex.index.private_files import is_erased
from thumbindex.index.snapshot import OpenIndex, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.visibility import folder_note_states, read_visible
from thumbindex.model import Link, Problem, Progress
from thumbindex.ports import IntArray
from thumbindex.postgres.database import TABLES, DatabaseSession, Engine, HalfVector
from thumbindex.postgres.published_keyword_index import DELETED
from thumbindex.postgres.published_store import (
    SOURCE_ORDINAL,
    FolderState,
    encode_chunk,
    encode_links,
    pg_text,
)
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS
from thumbindex.text import text_digest

STORE_ID = "store_id"
"""The meta key that identifies a store: a rebuilt one uses the same row ids for other rows."""

CONFIRM_SECONDS = 1.0
"""Interval at which a builder confirms that what it published is current."""

DROP_MILLISECONDS = 200
"""How long to wait for readers of a table to drop; meanwhile all of its partitions block."""

ORIGIN = "origin"
"""The fact that identifies the folder and machine that a name is published from."""

EPOCH = "epoch"
"""The fact that changes if the last publication was not by this builder: a restored backup, or a
standby that took over. Servers then drop their caches, for the same row may have another text.
"""

_VECTOR_BATCH = 4096
DOCUMENT_BATCH = 200
"""Documents whose texts are in memory at once."""

ProgressListener = Callable[[Progress], None]
"""Is called with the progress of a first publication."""

_PhaseListener = Callable[[str, int, int], None]
"""Is called with phase, number done and total."""

NoteReader = Callable[[str], str | None]
"""Reads a note's text by path; returns None if the file is not the indexed one."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of a publication."""

    name: str
    generation: int
    documents: int  # there are now
    chunks: int
    added: int  # documents
    removed: int


@dataclass(frozen=True, slots=True)
class _PublishedRows:
    """The published rows of a folder that the next publication compares with."""

    marks: Mapping[int, str] = field(default_factory=dict)  # by document row
    segments: Mapping[str, bytes] = field(default_factory=dict)  # which rows are deleted, by name
    vectors: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    duplicates: str = ""  # digest


def new_store_id() -> str:
    """Return a random id."""
    return secrets.token_hex(8)


def lock_key(name: str) -> int:
    """Return the second half of the advisory lock's key of a folder, by its name."""
    return int.from_bytes(
        blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big", signed=True
    )


class IndexPublisher:
    """Publishes one folder's index, as often as it changes."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        source: NoteReader,
        tell: ProgressListener = lambda progress: None,
    ) -> None:
        self._engine, self._name, self._source, self._tell = engine, name, source, tell
        self._folder, self._mark = 0, ""  # number and facts' digest of the last publication

    def publish(
        self, opened: OpenIndex, store: Store, extra: Mapping[str, Any] | None = None
    ) -> Publication | None:
        """Publish an open index, inside a read transaction of its store; return None if that is
        published already.

        `extra` are further facts for servers. Raises EngineError; IndexBusyError while another
        builder publishes this folder.
        """
        duplicates = _duplicates(opened, store)
        facts = {**_facts(opened, store, duplicates), **(extra or {})}
        store_id, generation = store.meta(STORE_ID), opened.snapshot.generation
        with self._engine.write_transaction(lock_key(self._name)) as session:
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            state, is_same_store = self._state(session, store_id)
            folder, epoch = state.folder, state.epoch
            self._refuse_another(state.facts, facts.get(ORIGIN))
            new_facts = json.loads(json.dumps({**facts, EPOCH: epoch}))
            if is_same_store and (state.generation, state.facts) == (generation, new_facts):
                session.execute("UPDATE folders SET published = now() WHERE folder = %s", (folder,))
                done = None
            else:
                is_continued = is_same_store and state.facts["fingerprint"] == opened.fingerprint
                there = _read_published(session, state, opened, store) if is_continued else None
                if there is None:
                    _delete_rows(session, folder)
                if there is None or self._mark != state.mark:
                    epoch = secrets.token_hex(4)
                publication = _ChangeWriter(
                    session, folder, there or _PublishedRows(), opened, store, self._source
                )
                tell = self._told if there is None else _no_listener
                added, removed = publication.run(duplicates, tell)
                session.execute(
                    "UPDATE folders SET store_id = %s, generation = %s, published = now(), "
                    "facts = %s WHERE folder = %s",
                    (store_id, generation, json.dumps({**facts, EPOCH: epoch}), folder),
                )
                catalog = opened.catalog
                done = Publication(
                    self._name, generation, len(catalog.paths), len(catalog), added, removed
                )
            mark = _facts_digest(session, folder)
        self._folder, self._mark = folder, mark
        return done

    def confirm(self) -> bool:
        """Say that what is published is what there is; tell whether that is so.

        Somebody may have forgotten the folder meanwhile, or a standby that lacks the last
        publications has become the primary server.
        """
        sql = "UPDATE folders SET published = now() WHERE folder = %s AND md5(facts) = %s"
        with self._engine.write_transaction() as session:
            return session.execute(sql, (self._folder, self._mark)) > 0

    def _told(self, phase: str, done: int, total: int) -> None:
        self._tell(Progress(self._name, phase, done, total))

    def forget(self) -> None:
        """Go on as if somebody else had published last: a backup may have been put back."""
        self._mark = ""

    def _state(self, session: DatabaseSession, store_id: str) -> tuple[FolderState, bool]:
        """Return what is published of the folder, and whether it is of this store; of a new folder
        make the partitions.
        """
        rows = session.fetch(
            "SELECT folder, store_id, generation, facts, md5(facts) FROM folders WHERE name = %s",
            (self._name,),
        )
        if rows:
            ((folder, before, generation, told, mark),) = rows
            state = FolderState(folder, self._name, generation, 0.0, json.loads(told), mark)
            return state, before == store_id
        ((folder,),) = session.fetch(
            "INSERT INTO folders (name, store_id, generation, published, facts)"
            " VALUES (%s, %s, -1, now(), '{}') RETURNING folder",
            (self._name, store_id),
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


def _no_listener(phase: str, done: int, total: int) -> None:
    """Tell nobody: a later publication takes a moment."""


def _facts_digest(session: DatabaseSession, folder: int) -> str:
    """Return the digest of what is published of a folder as a whole."""
    ((mark,),) = session.fetch("SELECT md5(facts) FROM folders WHERE folder = %s", (folder,))
    return str(mark)


def _read_published(
    session: DatabaseSession, state: FolderState, opened: OpenIndex, store: Store
) -> _PublishedRows | None:
    """Read what is published; return None if it does not stand on this store's history, as after a
    backup was put back: a row of the same number has another text.
    """
    catalog, states = opened.catalog, store.manifest()
    here = {
        row: (pg_text(path), states[path].digest)
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
    return _PublishedRows(marks, segments, vectors, str(state.facts["duplicates"]))


# ------------------------------------------------------------------ partitions


def _make_partitions(session: DatabaseSession, folder: int) -> None:
    """Make a folder's partition of each table.

    Readers of the others are not waited for, nor do they wait: it is made first, then attached.
    """
    for table in TABLES:
        session.execute(f"CREATE TABLE {table}_{folder} (LIKE {table} INCLUDING ALL)")
        session.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{folder} FOR VALUES IN ({folder})"
        )


def _delete_rows(session: DatabaseSession, folder: int) -> None:
    """Delete all rows of a folder; questions that began before still see them."""
    for table in TABLES:
        session.execute(f"DELETE FROM {table} WHERE folder = %s", (folder,))


def forget_published(engine: Engine, name: str) -> bool:
    """Delete a published folder; return whether it existed.

    Raises IndexBusyError while a builder publishes it.
    """
    with engine.write_transaction(lock_key(name)) as session:
        rows = session.fetch("DELETE FROM folders WHERE name = %s RETURNING folder", (name,))
        for (folder,) in rows:
            _delete_rows(session, folder)
    for (folder,) in rows:
        for table in TABLES:
            # if it is being read, the empty table stays
            with suppress(IndexBusyError), engine.write_transaction() as session:
                session.execute(f"SET LOCAL lock_timeout = '{DROP_MILLISECONDS}ms'")
                session.execute(f"DROP TABLE IF EXISTS {table}_{folder}")
    return bool(rows)


def create_vector_indexes(engine: Engine, above: int = MAX_EXACT_VECTORS) -> list[int]:
    """Create an HNSW index for every folder with more vectors than `above`; return these folders.

    A folder that lacks many vectors waits: to add them one by one takes ten times as long.
    """
    made = []
    with engine.read_transaction() as session:
        folders = session.fetch(
            "SELECT folder, facts FROM folders f WHERE NOT EXISTS"
            " (SELECT FROM pg_indexes WHERE indexname = 'vectors_' || f.folder || '_hnsw')"
        )
    for folder, told in folders:
        facts = json.loads(told)
        vectors, dimensions = facts["vectors"], int(facts["dimensions"])
        if vectors <= above or vectors < 0.9 * facts["chunks"]:
            continue
        with engine.write_transaction() as session:
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


class _ChangeWriter:
    """Writes the rows that differ, in one transaction."""

    def __init__(
        self,
        session: DatabaseSession,
        folder: int,
        there: _PublishedRows,
        opened: OpenIndex,
        store: Store,
        source: NoteReader,
    ) -> None:
        self._session, self._folder, self._there = session, folder, there
        self._opened, self._catalog = opened, opened.catalog
        self._store, self._source = store, source
        self._at = {row: n for n, row in enumerate(self._catalog.document_rows.tolist())}

    def run(self, duplicates: bytes, tell: _PhaseListener) -> tuple[int, int]:
        """Write all differences; return how many documents were added and removed."""
        rows, marks = self._documents(), self._there.marks
        gone = sorted(marks.keys() - rows.keys())
        new = [row for row in rows if row not in marks]
        differing = [row for row, values in rows.items() if marks.get(row) != values[-1]]
        self._delete("documents", "id", [*gone, *differing])
        for table in ("sections", "chunks"):
            self._delete(table, "document", gone)
        self._copy("documents", self._with_links(rows, differing))
        for start in range(0, len(new), DOCUMENT_BATCH):
            tell("publishing texts", start, len(new))
            self._add_texts(new[start : start + DOCUMENT_BATCH])
        self._segments(tell)
        if _digest(duplicates) != self._there.duplicates:
            self._delete("parts", "segment", [""])
            self._copy("parts", [("", "duplicates", duplicates)])
        # last: dropping their index blocks searches by meaning
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
        """Return the row of each document without its links, with a digest, by row id."""
        catalog, states = self._catalog, self._store.manifest()
        targets = self._store.link_targets()
        found = {}
        for row, path, title, times, attributes in self._store.documents():
            at, state = self._at[row], states[path]
            salience = catalog.salience[catalog.first[at] : catalog.first[at + 1]]
            links = targets.get(row, "{}")
            resolved = [pg_text(path) for path in json.loads(links).values()]
            values = (
                row,
                pg_text(path),
                state.size,
                state.digest,
                *times,
                json.dumps([title, attributes]),
                salience.astype("<f8").tobytes(),
                bool(catalog.documents[at].flags),
                resolved,
            )
            # with the target of each link: two may be swapped
            found[row] = (*values, _digest(repr((values, links)).encode()))
        return found

    def _with_links(
        self, rows: Mapping[int, tuple[Any, ...]], wanted: Sequence[int]
    ) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(wanted), DOCUMENT_BATCH):
            part = wanted[start : start + DOCUMENT_BATCH]
            paths = {row: self._catalog.paths[self._at[row]] for row in part}
            links: dict[str, list[Link]] = {}
            for path, _, link in self._store.links(paths.values()):
                links.setdefault(path, []).append(link)
            for row, path in paths.items():
                *values, resolved, mark = rows[row]
                yield (*values, encode_links(links.get(path, ())), resolved, mark)

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
            ((row, of[row], each.section, encode_chunk(each)) for row, each in chunks.items()),
        )
        parents = {(of[row], each.ordinal): each for row, each in sections.items()}
        texts = [
            (document, ordinal, each.start_line, each.end_line, text_digest(each.text), each.text)
            for (document, ordinal), each in parents.items()
        ]
        for row in documents:
            source = self._source(self._catalog.paths[self._at[row]])
            texts += [] if source is None else [(row, SOURCE_ORDINAL, 0, 0, "", source)]
        self._copy(
            "sections", ((*row[:-1], row[-1].encode("utf-8", "surrogatepass")) for row in texts)
        )

    # -------------------------------------------------------------- words and vectors

    def _segments(self, tell: _PhaseListener) -> None:
        """Delete merged segments and publish new ones, as they are on the disk."""
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

    def _vectors(self, tell: _PhaseListener) -> None:
        """Delete old vectors and publish new ones."""
        view, before = self._opened.vectors, self._there.vectors
        held = view.rows()
        if not len(before):  # they may be of another length than the index of those before
            self._session.execute(f"DROP INDEX IF EXISTS vectors_{self._folder}_hnsw")
        self._delete("vectors", "id", np.setdiff1d(before, held).tolist())
        new = np.setdiff1d(held, before)
        order = np.argsort(held)
        at = order[np.searchsorted(held, new, sorter=order)]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(new), _VECTOR_BATCH):
                tell("publishing vectors", start, len(new))
                part = slice(start, start + _VECTOR_BATCH)
                vectors = view.matrix_at(at[part]).astype(np.float16)
                yield from zip(new[part].tolist(), map(HalfVector, vectors), strict=True)

        self._copy("vectors", rows())


def _digest(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _duplicates(opened: OpenIndex, store: Store) -> bytes:
    """Return the duplicates as they are published."""
    known = opened.duplicates.records
    boosted = zip(known.boosted.tolist(), known.salience.tolist(), strict=True)
    return json.dumps(
        {
            "repeats": known.repeats.tolist(),
            "boosted": list(boosted),
            "texts": list(known.texts.items()),
            "alike": store.duplicates.pairs(),
            # part of the digest, so that servers notice a new decision
            "decisions": [astuple(decision) for decision in known.decisions],
        }
    ).encode()


def _facts(opened: OpenIndex, store: Store, duplicates: bytes) -> dict[str, Any]:
    """Return the facts of a folder as a whole."""
    return {
        "documents": len(opened.catalog.paths),
        "chunks": len(opened.catalog),
        "vectors": len(opened.snapshot.vector),
        "dimensions": opened.vectors.dimensions,
        "model": opened.model,
        "fingerprint": opened.fingerprint,
        # a restored backup may reuse a generation
        "segments": sorted(segment.id for segment in opened.keyword.segments),
        "links": astuple(store.link_counts()),
        "problems": [
            [pg_text(problem.path), problem.line, problem.reason] for problem in store.problems()
        ],
        "decisions": [astuple(decision) for decision in opened.duplicates.records.decisions],
        "duplicates": _digest(duplicates),
        "ingestion": [astuple(each) for each in store.duplicates.ingestion()],
    }


# ------------------------------------------------------------------ folders that are published


class PublishJob:
    """Publishes some folders' indexes whenever they have changed."""

    def __init__(
        self, folders: Sequence[Folder], url: str, tell: ProgressListener = lambda progress: None
    ) -> None:
        self.engine = Engine(url, writes=True)
        self.failure: StorageError | None = None
        try:
            self.engine.check()
        except BaseException:
            self.engine.close()
            raise
        self._folders = [_FolderPublisher(folder, self.engine, tell) for folder in folders]

    def publish_changes(self) -> tuple[Publication, ...]:
        """Publish the folders that have changed; a failure of one does not stop the others.

        Raises StorageError if one failed and none was published, else `failure` has it.
        """
        self.failure, found = None, list[Publication]()
        for folder in self._folders:
            try:
                found += [published] if (published := folder.publish_changes()) else []
            except StorageError as error:
                self.failure = self.failure or error
        if self.failure and not found:
            raise self.failure
        return tuple(found)

    @property
    def holds_private(self) -> bool:
        """Return whether a folder was not published because its index holds a note that is private
        now.
        """
        return any(folder.holds_private for folder in self._folders)

    def create_vector_indexes(self) -> None:
        """Make the indexes that large folders need."""
        create_vector_indexes(self.engine)

    def close(self) -> None:
        """Close the files and connections."""
        for folder in self._folders:
            folder.close()
        self.engine.close()


class _FolderPublisher:
    """Publishes one folder from its index on the disk."""

    def __init__(self, folder: Folder, engine: Engine, tell: ProgressListener) -> None:
        self._folder = folder
        self._publisher = IndexPublisher(engine, folder.name, self._text, tell)
        self._store: Store | None = None
        self._opened: OpenIndex | None = None
        self.holds_private = False
        self._identity: tuple[int, int] | None = None
        self._beat_at = 0.0

    def publish_changes(self) -> Publication | None:
        """Publish the index if it has changed and is complete."""
        index_paths = self._folder.index_paths.of_build()
        if not index_paths.store.exists():
            return None
        store = self._opened_store(index_paths)
        if self._opened is not None and self._opened.is_current(store) and store.meta(STORE_ID):
            self._confirm()
            return None
        if not store.meta(STORE_ID):
            with Writer.open(self._folder.index_paths.folder) as writer:
                if not writer.store.meta(STORE_ID):
                    writer.set_meta(STORE_ID, new_store_id())
        try:
            return self._publish(store, index_paths)
        except BaseException:
            self._opened = None
            raise

    def _publish(self, store: Store, index_paths: IndexPaths) -> Publication | None:
        opened = open_snapshot(store, self._folder.name, previous=self._opened)
        with store.read_transaction():
            if not opened.is_current(store) or store.meta(INCOMPLETE):
                return None  # an incomplete index does not replace a published one
            if not is_erased(store) and any(len(segment.deleted) for segment in store.segments()):
                self.holds_private = True  # its segments may still hold a private note
                return None
            looks = folder_note_states(self._folder, opened.catalog.paths, store)
            self.holds_private = "private" in looks.values()
            if self.holds_private:  # the index forgets it first
                return None
            published = self._publisher.publish(opened, store, self._facts())
        self._opened, self._beat_at = opened, time.monotonic() + CONFIRM_SECONDS
        return published

    # -------------------------------------------------------------- what is published

    def _opened_store(self, index_paths: IndexPaths) -> Store:
        """Return the store of the current build."""
        found = index_paths.store.stat()
        identity = (found.st_dev, found.st_ino)
        if self._store is None or identity != self._identity:
            if self._store is not None:
                self._store.close()
            self._store, self._identity, self._opened = (
                Store(index_paths.store, read_only=True),
                identity,
                None,
            )
            self._publisher.forget()  # a backup may have been restored
        return self._store

    def _facts(self) -> Mapping[str, Any]:
        folder = self._folder
        about = folder.config.about.get(folder.name, "")
        return {
            "about": about,
            "origin": text_digest(f"{node()} {folder.root}"),
        }

    def _text(self, path: str) -> str | None:
        """Return a note's text if its file is still the indexed one and may be shown."""
        data = read_visible(self._folder, path, self._store)
        if data is None or isinstance(data, Problem):
            return None
        indexed = self._store.manifest([path]).get(path) if self._store else None
        return (
            decode_visible(path, data)
            if indexed and indexed.digest == content_digest(data)
            else None
        )

    def _confirm(self) -> None:
        if time.monotonic() >= self._beat_at:
            # the published folder was deleted: publish it again
            if not self._publisher.confirm():
                self._opened = None
            self._beat_at = time.monotonic() + CONFIRM_SECONDS

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def publish_folders(
    folders: Sequence[Folder], url: str, tell: ProgressListener = lambda progress: None
) -> tuple[Publication, ...]:
    """Publish the indexes of some folders as they are now; return those that had changed.

    Raises EngineError, IndexBusyError, UsageError.
    """
    lacking = [folder.name for folder in folders if not folder.index_paths.store.exists()]
    if lacking:
        raise UsageError(
            f"There is no index of {', '.join(lacking)} yet: `thumbindex index` makes one."
        )
    with closing(PublishJob(folders, url, tell)) as publishing:
        done = publishing.publish_changes()
        if publishing.failure:
            raise publishing.failure
        if publishing.holds_private:
            raise IndexBusyError(
                "A note became private since it was indexed: run `thumbindex index`, then "
                "publish again."
            )
        publishing.create_vector_indexes()
    return done


def forget_folder(url: str, name: str) -> bool:
    """Delete a published folder; return whether it existed."""
    with closing(Engine(url, writes=True)) as engine:
        engine.check()
        return forget_published(engine, name)
