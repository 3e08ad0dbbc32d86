"""Publish indexes to PostgreSQL: each publication writes the changed rows in one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from hashlib import blake2b, md5
from platform import node
from secrets import token_hex
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
"""Metadata key for the id of a store. A rebuilt store gets a new id, since its row ids are new."""

CONFIRM_SECONDS = 1.0
"""Interval at which a builder confirms that its publication is up to date."""

ORIGIN = "origin"
"""Key, in a folder's facts, of a digest of the machine and path that the index comes from."""

EPOCH = "epoch"
"""Key, in a folder's facts, of the id of the epoch. In a new epoch, servers drop their caches.

A builder starts a new epoch if row ids may refer to other texts, such as after a restore.
"""

_VECTOR_BATCH = 4096
DOCUMENT_BATCH = 200
"""Number of documents whose texts or links a publication reads and writes at a time."""

ProgressListener = Callable[[Progress], None]
"""Receives the progress of a publication that writes all rows."""

_PhaseListener = Callable[[str, int, int], None]
"""Receives the phase, the number of items done, and their total number."""

NoteReader = Callable[[str], str | None]
"""Returns the text of the note at a path, or None if it is private or changed since indexing."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of a publication."""

    name: str
    generation: int
    documents: int  # after the publication
    chunks: int
    added: int  # documents
    removed: int  # documents


@dataclass(frozen=True, slots=True)
class _PublishedRows:
    """Digests and ids of a folder's published rows, used to find the rows that changed."""

    row_digests: Mapping[int, str] = field(default_factory=dict)  # by document row
    segments: frozenset[str] = frozenset()
    # row ids, negative if provisional
    vectors: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    duplicates: str = ""  # digest


def lock_key(name: str) -> int:
    """Return the second half of a folder's advisory lock key."""
    return int.from_bytes(
        blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big", signed=True
    )


class IndexPublisher:
    """Publishes one folder's index after each change."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        source: NoteReader,
        on_progress: ProgressListener = lambda progress: None,
    ) -> None:
        self._engine, self._name, self._source, self._on_progress = (
            engine,
            name,
            source,
            on_progress,
        )
        self._publication = ""  # id of the last publication
        self._epoch = token_hex(4)

    def publish(
        self, opened: OpenIndex, store: Store, extra: Mapping[str, Any] | None = None
    ) -> Publication | None:
        """Publish `opened` if anything has changed since the last publication.

        The caller must have a read transaction of `store` open. `extra` contains facts for servers.
        Raises EngineError, or IndexBusyError if another builder is publishing this folder.
        """
        duplicates = _duplicates(opened, store)
        facts = {**_facts(opened, store, duplicates), **(extra or {})}
        store_id, generation = store.meta(STORE_ID), opened.snapshot.generation
        with self._engine.write_transaction(lock_key(self._name)) as session:
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            state, is_same_store = self._state(session, store_id)
            self._check_origin(state.facts, facts.get(ORIGIN))
            new_facts = json.loads(json.dumps({**facts, EPOCH: state.epoch}))
            if is_same_store and (state.generation, state.facts) == (generation, new_facts):
                session.execute(
                    "UPDATE folders SET published = now() WHERE folder = %s", (state.folder,)
                )
                self._publication = state.publication
                return None
            is_continued = is_same_store and state.facts["fingerprint"] == opened.fingerprint
            previous = _read_published(session, state, opened, store) if is_continued else None
            if previous is None:
                _delete_rows(session, state.folder)
                self._epoch = token_hex(4)
            writer = _ChangeWriter(
                session, state.folder, previous or _PublishedRows(), opened, store, self._source
            )
            report = self._report if previous is None else _no_listener
            added, removed = writer.run(duplicates, report)
            publication = token_hex(8)
            session.execute(
                "UPDATE folders SET store_id = %s, publication = %s, generation = %s,"
                " published = now(), facts = %s WHERE folder = %s",
                (
                    store_id,
                    publication,
                    generation,
                    json.dumps({**facts, EPOCH: self._epoch}),
                    state.folder,
                ),
            )
        self._publication, catalog = publication, opened.catalog
        return Publication(self._name, generation, len(catalog.paths), len(catalog), added, removed)

    def confirm(self) -> bool:
        """Record that the last publication has just been confirmed to be up to date.

        Returns False if the database no longer has this publication. Another user may have deleted
        the folder, or a standby that lacks the last publications may have become the primary.
        """
        sql = "UPDATE folders SET published = now() WHERE publication = %s"
        with self._engine.write_transaction() as session:
            return session.execute(sql, (self._publication,)) > 0

    def _report(self, phase: str, done: int, total: int) -> None:
        self._on_progress(Progress(self._name, phase, done, total))

    def _state(self, session: DatabaseSession, store_id: str) -> tuple[FolderState, bool]:
        """Return the folder's state, and whether the store `store_id` published the state.

        Registers a new folder.
        """
        rows = session.fetch(
            "SELECT folder, store_id, publication, generation, facts FROM folders WHERE name = %s",
            (self._name,),
        )
        if rows:
            ((folder, published_id, publication, generation, facts),) = rows
            state = FolderState(folder, self._name, publication, generation, 0.0, json.loads(facts))
            return state, published_id == store_id
        ((folder,),) = session.fetch(
            "INSERT INTO folders (name, store_id, publication, generation, published, facts)"
            " VALUES (%s, %s, '', -1, now(), '{}') RETURNING folder",
            (self._name, store_id),
        )
        _make_partitions(session, folder)
        return FolderState(folder, self._name, "", -1, 0.0), False

    def _check_origin(self, facts: Mapping[str, Any], origin: str | None) -> None:
        """Raise EngineError if the folder was published from another path or machine."""
        if facts.get(ORIGIN, origin) != origin:
            raise EngineError(
                f"A folder named {self._name!r} was already published from another path or "
                "machine: give this folder another name (`thumbindex add DIR --name NAME`), or "
                f"delete the published one first (`thumbindex engine forget {self._name}`)."
            )


def _no_listener(phase: str, done: int, total: int) -> None:
    """Report nothing, since a publication of changes is short."""


def _read_published(
    session: DatabaseSession, state: FolderState, opened: OpenIndex, store: Store
) -> _PublishedRows | None:
    """Read a folder's published rows, or return None if row ids do not match `store`."""
    catalog, states = opened.catalog, store.manifest()
    local = {
        row: (pg_text(path), states[path].digest)
        for row, path in zip(catalog.document_rows.tolist(), catalog.paths, strict=True)
    }
    row_digests = dict[int, str]()
    sql = "SELECT id, row_digest, path, file_digest FROM documents WHERE folder = %s"
    for row, row_digest, *published in session.fetch(sql, (state.folder,)):
        if local.get(row, tuple(published)) != tuple(published):
            return None  # for example, a backup was restored
        row_digests[row] = row_digest
    sql = "SELECT segment FROM parts WHERE folder = %s AND name = %s"
    segments = frozenset(name for (name,) in session.fetch(sql, (state.folder, DELETED)))
    sql = "SELECT CASE WHEN provisional THEN -id ELSE id END FROM vectors WHERE folder = %s"
    vectors = np.array([row for (row,) in session.fetch(sql, (state.folder,))], dtype=np.int64)
    return _PublishedRows(row_digests, segments, vectors, str(state.facts["duplicates"]))


# ------------------------------------------------------------------ partitions


def _make_partitions(session: DatabaseSession, folder: int) -> None:
    """Create a partition of each table for a folder.

    Attaching a new table, unlike CREATE TABLE … PARTITION OF, does not block readers.
    """
    for table in TABLES:
        session.execute(f"CREATE TABLE {table}_{folder} (LIKE {table} INCLUDING ALL)")
        session.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{folder} FOR VALUES IN ({folder})"
        )


def _delete_rows(session: DatabaseSession, folder: int) -> None:
    """Delete all rows of a folder. Queries that are already running still see the rows."""
    for table in TABLES:
        session.execute(f"DELETE FROM {table} WHERE folder = %s", (folder,))


def forget_published(engine: Engine, name: str) -> bool:
    """Delete a published folder, and return whether it existed. Its empty partitions remain.

    Raises IndexBusyError if a builder is publishing the folder.
    """
    with engine.write_transaction(lock_key(name)) as session:
        rows = session.fetch("DELETE FROM folders WHERE name = %s RETURNING folder", (name,))
        for (folder,) in rows:
            _delete_rows(session, folder)
    return bool(rows)


def create_vector_indexes(engine: Engine, above: int = MAX_EXACT_VECTORS) -> list[int]:
    """Create an HNSW index for each folder that has more than `above` vectors and no index.

    Skips folders in which fewer than 90% of the chunks have an exact vector. Returns the numbers of
    the indexed folders.
    """
    indexed = []
    with engine.read_transaction() as session:
        folders = session.fetch(
            "SELECT folder, facts FROM folders f WHERE NOT EXISTS"
            " (SELECT FROM pg_indexes WHERE indexname = 'vectors_' || f.folder || '_hnsw')"
        )
    for folder, facts_json in folders:
        facts = json.loads(facts_json)
        vectors, dimensions = facts["vectors"], int(facts["dimensions"])
        # adding vectors to an index takes ten times as long as creating the index with the vectors
        if vectors <= above or vectors < 0.9 * facts["chunks"]:
            continue
        with engine.write_transaction() as session:
            session.execute(
                f"CREATE INDEX vectors_{folder}_hnsw ON vectors_{folder}"
                f" USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WITH (m = 16, "
                "ef_construction = 64)"
            )
        indexed.append(folder)
    return indexed


# ------------------------------------------------------------------ one publication


class _ChangeWriter:
    """Writes the changed rows of one publication."""

    def __init__(
        self,
        session: DatabaseSession,
        folder: int,
        previous: _PublishedRows,
        opened: OpenIndex,
        store: Store,
        source: NoteReader,
    ) -> None:
        self._session, self._folder, self._previous = session, folder, previous
        self._opened, self._catalog = opened, opened.catalog
        self._store, self._source = store, source
        self._position_of = {row: n for n, row in enumerate(self._catalog.document_rows.tolist())}

    def run(self, duplicates: bytes, report: _PhaseListener) -> tuple[int, int]:
        """Write all changes, and return the numbers of added and removed documents."""
        rows, published = self._document_rows(), self._previous.row_digests
        removed = sorted(published.keys() - rows.keys())
        new = [row for row in rows if row not in published]
        changed = [row for row, values in rows.items() if published.get(row) != values[-1]]
        self._delete("documents", "id", [*removed, *changed])
        for table in ("sections", "chunks"):
            self._delete(table, "document", removed)
        self._copy("documents", self._with_links(rows, changed))
        for start in range(0, len(new), DOCUMENT_BATCH):
            report("publishing texts", start, len(new))
            self._add_texts(new[start : start + DOCUMENT_BATCH])
        self._write_segments(report)
        if _digest(duplicates) != self._previous.duplicates:
            self._delete("parts", "segment", [""])
            self._copy("parts", [("", "duplicates", duplicates)])
        # last, since dropping the vector index blocks searches until the commit
        self._write_vectors(report)
        return len(new), len(removed)

    def _delete(self, table: str, column: str, values: Sequence[Any]) -> None:
        if values:
            sql = f"DELETE FROM {table} WHERE folder = %s AND {column} = ANY(%s)"
            self._session.execute(sql, (self._folder, list(values)))

    def _copy(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        self._session.copy(f"{table}_{self._folder}", ((self._folder, *row) for row in rows))

    # -------------------------------------------------------------- documents

    def _document_rows(self) -> dict[int, tuple[Any, ...]]:
        """Return each document's column values by row id, without the column `links`.

        The last value is a digest of the other values and of the link targets.
        """
        catalog, states = self._catalog, self._store.manifest()
        targets = self._store.link_targets()
        rows = {}
        for row, path, title, times, attributes in self._store.documents():
            position, state = self._position_of[row], states[path]
            salience = catalog.salience[catalog.first[position] : catalog.first[position + 1]]
            links = targets.get(row, "{}")
            target_paths = [pg_text(path) for path in json.loads(links).values()]
            values = (
                row,
                pg_text(path),
                state.size,
                state.digest,
                *times,
                json.dumps([title, attributes]),
                salience.astype("<f8").tobytes(),
                bool(catalog.documents[position].flags),
                target_paths,
            )
            # `links` maps each link to its target, so that swapped targets change the digest
            rows[row] = (*values, _digest(repr((values, links)).encode()))
        return rows

    def _with_links(
        self, rows: Mapping[int, tuple[Any, ...]], changed: Sequence[int]
    ) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(changed), DOCUMENT_BATCH):
            batch = changed[start : start + DOCUMENT_BATCH]
            paths = {row: self._catalog.paths[self._position_of[row]] for row in batch}
            links: dict[str, list[Link]] = {}
            for path, _, link in self._store.links(paths.values()):
                links.setdefault(path, []).append(link)
            for row, path in paths.items():
                *values, target_paths, digest = rows[row]
                yield (*values, encode_links(links.get(path, ())), target_paths, digest)

    def _add_texts(self, documents: Sequence[int]) -> None:
        sizes = self._catalog.sizes
        document_of = {
            row + 1 + n: row for row in documents for n in range(int(sizes[self._position_of[row]]))
        }
        chunk_rows = list(document_of)
        chunks, sections = self._store.chunks(chunk_rows), self._store.sections(chunk_rows)
        if len(chunks) != len(chunk_rows):
            raise EngineError(
                "The index changed during publication; it will be published again in a moment."
            )
        self._copy(
            "chunks",
            (
                (row, document_of[row], chunk.section, encode_chunk(chunk))
                for row, chunk in chunks.items()
            ),
        )
        parents = {
            (document_of[row], section.ordinal): section for row, section in sections.items()
        }
        texts = [
            (document, ordinal, s.start_line, s.end_line, text_digest(s.text), s.text)
            for (document, ordinal), s in parents.items()
        ]
        for row in documents:
            source = self._source(self._catalog.paths[self._position_of[row]])
            texts += [] if source is None else [(row, SOURCE_ORDINAL, 0, 0, "", source)]
        self._copy(
            "sections", ((*row[:-1], row[-1].encode("utf-8", "surrogatepass")) for row in texts)
        )

    # -------------------------------------------------------------- segments and vectors

    def _write_segments(self, report: _PhaseListener) -> None:
        published, listed = self._previous.segments, self._store.segments()
        self._delete("parts", "segment", sorted(published - {file.name for file in listed}))
        self._delete("parts", "name", [DELETED])
        self._copy("parts", ((file.name, DELETED, file.deleted.tobytes()) for file in listed))
        new = [segment for segment in self._opened.keyword.segments if segment.id not in published]
        for n, segment in enumerate(new):
            report("publishing words", n, len(new))
            self._copy("parts", ((segment.id, name, data) for name, data in segment.parts.items()))

    def _write_vectors(self, report: _PhaseListener) -> None:
        view, published = self._opened.vectors, self._previous.vectors
        current = np.where(view.provisional, -view.rows(), view.rows())
        if not len(published):  # the index may be for vectors of another length
            self._session.execute(f"DROP INDEX IF EXISTS vectors_{self._folder}_hnsw")
        self._delete("vectors", "id", np.abs(np.setdiff1d(published, current)).tolist())
        new = np.setdiff1d(current, published)
        order = np.argsort(current)
        positions = order[np.searchsorted(current, new, sorter=order)]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(new), _VECTOR_BATCH):
                report("publishing vectors", start, len(new))
                batch = slice(start, start + _VECTOR_BATCH)
                vectors = view.matrix_at(positions[batch]).astype(np.float16)
                rows, provisional = np.abs(new[batch]).tolist(), (new[batch] < 0).tolist()
                yield from zip(rows, map(HalfVector, vectors), provisional, strict=True)

        self._copy("vectors", rows())


def _digest(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _duplicates(opened: OpenIndex, store: Store) -> bytes:
    records = opened.duplicates.records
    boosted = zip(records.boosted.tolist(), records.salience.tolist(), strict=True)
    return json.dumps(
        {
            "repeats": records.repeats.tolist(),
            "shared": records.shared.tolist(),
            "boosted": list(boosted),
            "texts": list(records.texts.items()),
            "alike": store.duplicates.pairs(),
            # included in the digest, so that servers notice a new decision
            "decisions": [astuple(decision) for decision in records.decisions],
        }
    ).encode()


def _facts(opened: OpenIndex, store: Store, duplicates: bytes) -> dict[str, Any]:
    return {
        "documents": len(opened.catalog.paths),
        "chunks": len(opened.catalog),
        "vectors": len(opened.snapshot.vector) - opened.snapshot.vector.count_provisional(),
        "provisional": opened.snapshot.vector.count_provisional(),
        "dimensions": opened.vectors.dimensions,
        "model": opened.model,
        "fingerprint": opened.fingerprint,
        # a restored backup may have the same generation, but other segments
        "segments": sorted(segment.id for segment in opened.keyword.segments),
        "links": astuple(store.link_counts()),
        "succession": [(row, kind, pg_text(path)) for row, kind, path in store.succession()],
        "problems": [
            [pg_text(problem.path), problem.line, problem.reason] for problem in store.problems()
        ],
        "decisions": [astuple(decision) for decision in opened.duplicates.records.decisions],
        "duplicates": _digest(duplicates),
        "ingestion": [astuple(counts) for counts in store.duplicates.ingestion()],
    }


# ------------------------------------------------------------------ folders


class PublishJob:
    """Publishes the indexes of folders after changes."""

    def __init__(
        self,
        folders: Sequence[Folder],
        url: str,
        on_progress: ProgressListener = lambda progress: None,
    ) -> None:
        self.engine = Engine(url, writes=True)
        self.failure: StorageError | None = None
        try:
            self.engine.check()
        except BaseException:
            self.engine.close()
            raise
        self._folders = [_FolderPublisher(folder, self.engine, on_progress) for folder in folders]

    def publish_changes(self) -> tuple[Publication, ...]:
        """Publish the changed folders. A failed folder does not stop the next folder.

        Sets `failure` to the first error, and raises the error if no folder was published.
        """
        self.failure, publications = None, list[Publication]()
        for folder in self._folders:
            try:
                publications += [published] if (published := folder.publish_changes()) else []
            except StorageError as error:
                self.failure = self.failure or error
        if self.failure and not publications:
            raise self.failure
        return tuple(publications)

    @property
    def holds_private(self) -> bool:
        """Return whether a folder was skipped because its index may hold a private note."""
        return any(folder.holds_private for folder in self._folders)

    def create_vector_indexes(self) -> None:
        create_vector_indexes(self.engine)

    def close(self) -> None:
        for folder in self._folders:
            folder.close()
        self.engine.close()


class _FolderPublisher:
    """Publishes one folder from its index on disk."""

    def __init__(self, folder: Folder, engine: Engine, on_progress: ProgressListener) -> None:
        self._folder, self._engine, self._on_progress = folder, engine, on_progress
        self._publisher = IndexPublisher(engine, folder.name, self._text, on_progress)
        self._store: Store | None = None
        self._opened: OpenIndex | None = None
        self.holds_private = False
        self._identity: tuple[int, int] | None = None
        self._confirm_at = 0.0

    def publish_changes(self) -> Publication | None:
        """Publish the index if it has changed, is complete and cannot hold a private note."""
        index_paths = self._folder.index_paths.of_build()
        if not index_paths.store.exists():
            return None
        store = self._current_store(index_paths)
        if self._opened is not None and self._opened.is_current(store) and store.meta(STORE_ID):
            self._confirm()
            return None
        if not store.meta(STORE_ID):
            with Writer.open(self._folder.index_paths.folder) as writer:
                if not writer.store.meta(STORE_ID):
                    writer.set_meta(STORE_ID, token_hex(8))
        try:
            return self._publish(store, index_paths)
        except BaseException:
            self._opened = None
            raise

    def _publish(self, store: Store, index_paths: IndexPaths) -> Publication | None:
        opened = open_snapshot(store, self._folder.name, previous=self._opened)
        with store.read_transaction():
            if not opened.is_current(store) or store.meta(INCOMPLETE):
                return None  # an incomplete index must not replace a published one
            if not is_erased(store) and any(len(segment.deleted) for segment in store.segments()):
                self.holds_private = True  # deleted chunks may be from a private note
                return None
            states = folder_note_states(self._folder, opened.catalog.paths, store)
            self.holds_private = "private" in states.values()
            if self.holds_private:  # wait until the note is deleted from the index
                return None
            published = self._publisher.publish(opened, store, self._facts())
        self._opened, self._confirm_at = opened, time.monotonic() + CONFIRM_SECONDS
        return published

    def _current_store(self, index_paths: IndexPaths) -> Store:
        """Return the store of the current build, reopened if the file was replaced."""
        file_status = index_paths.store.stat()
        identity = (file_status.st_dev, file_status.st_ino)
        if self._store is None or identity != self._identity:
            if self._store is not None:
                self._store.close()
            self._store = Store(index_paths.store, read_only=True)
            self._identity, self._opened = identity, None
            # a backup may have been restored: a new publisher starts a new epoch
            self._publisher = IndexPublisher(
                self._engine, self._folder.name, self._text, self._on_progress
            )
        return self._store

    def _facts(self) -> Mapping[str, Any]:
        folder = self._folder
        about = folder.config.about.get(folder.name, "")
        return {
            "about": about,
            "origin": text_digest(f"{node()} {folder.root}"),
        }

    def _text(self, path: str) -> str | None:
        """Return a note's text, or None if the note changed since it was indexed or is private."""
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
        if time.monotonic() >= self._confirm_at:
            if not self._publisher.confirm():
                self._opened = None  # publish again
            self._confirm_at = time.monotonic() + CONFIRM_SECONDS

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def publish_folders(
    folders: Sequence[Folder], url: str, on_progress: ProgressListener = lambda progress: None
) -> tuple[Publication, ...]:
    """Publish folders from their current indexes. Returns the new publications.

    Raises EngineError, IndexBusyError or UsageError.
    """
    unindexed = [folder.name for folder in folders if not folder.index_paths.store.exists()]
    if unindexed:
        raise UsageError(f"No index yet for {', '.join(unindexed)}: run `thumbindex index` first.")
    with closing(PublishJob(folders, url, on_progress)) as job:
        publications = job.publish_changes()
        if job.failure:
            raise job.failure
        if job.holds_private:
            raise IndexBusyError(
                "A note became private after it was indexed: run `thumbindex index`, then publish "
                "again."
            )
        job.create_vector_indexes()
    return publications


def forget_folder(url: str, name: str) -> bool:
    """Delete a published folder, and return whether it existed."""
    with closing(Engine(url, writes=True)) as engine:
        engine.check()
        return forget_published(engine, name)
