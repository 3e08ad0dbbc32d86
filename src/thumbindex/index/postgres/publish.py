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
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.names import name_rows
from thumbindex.index.postgres.database import Engine, Half, Session
from thumbindex.index.postgres.ids import NO_ROWS, FolderState, Rows
from thumbindex.index.postgres.postings import SegmentLengths, segment_rows
from thumbindex.index.postgres.vectors import EXACT
from thumbindex.index.postgres.view import document_record, is_stored, looked_up, stored
from thumbindex.index.segments import FIELDS
from thumbindex.index.snapshot import Opened
from thumbindex.index.store import Store
from thumbindex.model import Chunk, Document, Link, Progress, day_modified, day_of
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
    "repeats",
    "clusters",
    "decided",
    "alike",
    "vectors",
)
"""The tables that have a partition for each folder."""

_OF_DOCUMENT = ("abbreviations", "sections", "chunks", "links")
"""Those of them whose rows go with a document."""

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

LONGEST_WORD, LONGEST_PATH = 500, 2_000
"""Letters of a word that a misspelt one may be meant for, and bytes of a path: of longer ones an
index of PostgreSQL takes none.
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

    records: Mapping[int, str] = field(default_factory=dict)  # digests, by document row
    links: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # paths, by document row
    segments: Mapping[str, int] = field(default_factory=dict)  # number by Whoosh's name
    vectors: Rows = field(default_factory=lambda: NO_ROWS)


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
        lengths = SegmentLengths(opened.keyword, opened.catalog)
        facts = {**_facts(opened, store, lengths), **(extra or {})}
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
                there = _read_there(session, folder, opened, store) if is_continued else None
                if there is None:
                    _empty(session, folder)
                if there is None or self._mark != state.mark:
                    epoch = secrets.token_hex(4)
                publication = _Publication(
                    session, folder, there or _There(), opened, store, self._source, lengths
                )
                added, removed = publication.run(self._told if there is None else _untold)
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


def _read_there(session: Session, folder: int, opened: Opened, store: Store) -> _There | None:
    """Read what is published; return None if it does not stand on this store's history, as after a
    backup was put back: a row of the same number has another text.
    """
    catalog, states = opened.catalog, store.manifest()
    here = {
        row: (stored(path), size, states[path].digest)
        for row, path, size in zip(
            catalog.document_rows.tolist(), catalog.paths, catalog.sizes.tolist(), strict=True
        )
    }
    records = dict[int, str]()
    sql = "SELECT id, md5(record), path, chunks, digest FROM documents WHERE folder = %s"
    for row, record, *known in session.fetch(sql, (folder,)):
        if here.get(row, tuple(known)) != tuple(known):
            return None
        records[row] = record
    sql = "SELECT name, segment FROM segments WHERE folder = %s"
    segments: dict[str, int] = dict(session.fetch(sql, (folder,)))
    sql = (
        "SELECT document, array_agg(resolved ORDER BY ordinal) FROM links WHERE folder = %s AND "
        "resolved <> '' GROUP BY document"
    )
    links = {document: tuple(paths) for document, paths in session.fetch(sql, (folder,))}
    sql = "SELECT id FROM vectors WHERE folder = %s ORDER BY id"
    vectors = np.array([row for (row,) in session.fetch(sql, (folder,))], dtype=np.int64)
    return _There(records, links, segments, vectors)


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
        lengths: SegmentLengths,
    ) -> None:
        self._session, self._folder, self._there = session, folder, there
        self._opened, self._store, self._source = opened, store, source
        self._catalog: StoreCatalog = opened.catalog
        self._lengths = lengths
        rows = self._catalog.document_rows.tolist()
        self._at = {row: n for n, row in enumerate(rows)}
        self._sizes = dict(zip(rows, self._catalog.sizes.tolist(), strict=True))
        self._records = {
            row: document_record(title, times, rest)
            for row, _, title, times, rest in store.documents()
        }

    def run(self, tell: _Told) -> tuple[int, int]:
        """Bring the database up to the index; return how many documents came and went."""
        gone = sorted(self._there.records.keys() - self._at.keys())
        new = [row for row in self._at if row not in self._there.records]
        self._remove(gone)
        self._refuse(new)
        for start in range(0, len(new), DOCUMENTS_AT_ONCE):
            tell("publishing texts", start, len(new))
            part = new[start : start + DOCUMENTS_AT_ONCE]
            self._add(part)
            self._add_texts(part)
        self._touch()
        self._links(set(new))
        self._problems()
        self._segments(tell)
        self._duplicates()
        # at the end: who asks by meaning waits from here if their index has to go
        self._vectors(tell)
        return len(new), len(gone)

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

    def _refuse(self, new: Sequence[int]) -> None:
        """Raise EngineError for a document that the tables cannot hold."""
        for row in new:
            path = self._catalog.documents[self._at[row]].path
            if len(stored(path).encode()) > LONGEST_PATH:
                raise EngineError(
                    f"{one_line(path)[:200]} has a path of more than {LONGEST_PATH:,} bytes, and "
                    "cannot be published: leave it out with corpus.exclude."
                )

    def _add(self, new: Sequence[int]) -> None:
        """Publish documents."""
        documents = {row: self._catalog.documents[self._at[row]] for row in new}
        states = self._store.manifest([each.path for each in documents.values()])
        columns = {
            "id": "int8",
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
            for row, document in documents.items():
                state, source = states[document.path], self._source(document.path)
                yield (
                    row,
                    stored(document.path),
                    self._sizes[row],
                    *_document_columns(document),
                    state.size,
                    state.digest,
                    bool(document.flags),
                    self._records[row],
                    None if source is None else source.encode("utf-8", "surrogatepass"),
                )

        self._copy("documents", columns, rows())
        pairs = [
            (row, each.short, each.long, form_key(each.long))
            for row, document in documents.items()
            for each in document.abbreviations
        ]
        if pairs:
            shapes = dict.fromkeys(("short", "long", "key"), "text")
            self._copy("abbreviations", {"document": "int8", **shapes}, pairs)

    def _add_texts(self, documents: Sequence[int]) -> None:
        of = {row + 1 + n: row for row in documents for n in range(self._sizes[row])}
        chunk_rows = list(of)
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

    def _touch(self) -> None:
        """Write the days of documents anew that are not what they were: of a row nothing else
        changes.
        """
        changed = [
            row
            for row, digest in self._there.records.items()
            if row in self._records and _md5(self._records[row]) != digest
        ]
        if changed:
            documents = [self._catalog.documents[self._at[row]] for row in changed]
            self._session.execute(
                "UPDATE documents d SET day = m.day, written = m.written, record = m.record"
                " FROM unnest(%s::int8[], %s::date[], %s::date[], %s::text[]) AS m (id, day, "
                "written, record) WHERE d.folder = %s AND d.id = m.id",
                (
                    changed,
                    [day_of(each) for each in documents],
                    [day_modified(each) for each in documents],
                    [self._records[row] for row in changed],
                    self._folder,
                ),
            )

    def _links(self, new: set[int]) -> None:
        """Publish the links of new documents, and of those whose links lead elsewhere than they
        did.
        """
        before = self._there.links
        now = {
            row: tuple(stored(path) for path in json.loads(paths))
            for row, paths in self._store.linked_paths().items()
        }
        changed = [row for row in self._at if row in new or before.get(row) != now.get(row)]
        if old := [row for row in changed if row not in new]:
            self._execute("DELETE FROM links WHERE folder = %s AND document = ANY(%s)", old)
        if not changed:
            return
        of = {self._catalog.documents[self._at[row]].path: row for row in changed}
        rows = (
            (
                of[path],
                ordinal,
                None if link.resolved is None else stored(link.resolved),
                link_record(link),
            )
            for path, ordinal, link in self._store.links(list(of))
        )
        shapes = {"document": "int8", "ordinal": "int4", "resolved": "text", "record": "text"}
        self._copy("links", shapes, rows)

    def _problems(self) -> None:
        self._execute("DELETE FROM problems WHERE folder = %s")
        rows = (
            (stored(each.path), each.line, stored(each.reason)) for each in self._store.problems()
        )
        self._copy("problems", {"path": "text", "line": "int4", "reason": "text"}, rows)

    # -------------------------------------------------------------- words and vectors

    def _segments(self, tell: _Told) -> None:
        """Delete segments that were merged, and publish new ones."""
        before, segments = self._there.segments, self._opened.keyword.segments
        now = {segment.id for segment in segments}
        if merged := [number for name, number in before.items() if name not in now]:
            for table in ("postings", "words", "segments"):
                self._execute(
                    f"DELETE FROM {table} WHERE folder = %s AND segment = ANY(%s)", merged
                )
        following = max(before.values(), default=0) + 1
        new = [n for n, segment in enumerate(segments) if segment.id not in before]
        for number, at in enumerate(new):
            tell("publishing words", number, len(new))
            self._add_segment(at, following + number)

    def _add_segment(self, at: int, number: int) -> None:
        segment = self._opened.keyword.segments[at]
        self._copy("segments", {"segment": "int4", "name": "text"}, [(number, segment.id)])
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

    def _vectors(self, tell: _Told) -> None:
        """Delete vectors that are not there any more, and publish new ones."""
        view, before = self._opened.vectors, self._there.vectors
        held = view.rows()
        if not len(before):  # they may be of another length than the index of those before
            self._session.execute(f"DROP INDEX IF EXISTS vectors_{self._folder}_hnsw")
        elif len(lost := np.setdiff1d(before, held)):
            self._execute("DELETE FROM vectors WHERE folder = %s AND id = ANY(%s)", lost.tolist())
        new = np.setdiff1d(held, before)
        if not len(new):
            return
        order = np.argsort(held)
        at = order[np.searchsorted(held, new, sorter=order)]
        documents = self._catalog.document_ids[self._catalog.chunk_positions(new)]
        of = self._catalog.document_rows[documents]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start in range(0, len(new), _VECTORS_AT_ONCE):
                tell("publishing vectors", start, len(new))
                part = slice(start, start + _VECTORS_AT_ONCE)
                ids = new[part].tolist()
                vectors = view.take(at[part]).astype(np.float16)
                for row, document, vector in zip(ids, of[part].tolist(), vectors, strict=True):
                    yield row, document, Half(vector)

        self._copy("vectors", {"id": "int8", "document": "int8", "vector": "halfvec"}, rows())

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
        pairs = {pair[0]: pair for pair in self._store.duplicates.alike_rows()}
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


def _md5(text: str) -> str:
    """Return the digest of a text as PostgreSQL's `md5` does."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


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
        "links_resolved": links.resolved,
        "links_dangling": links.dangling,
        "ingestion_counts": [astuple(each) for each in store.duplicates.ingestion()],
    }
