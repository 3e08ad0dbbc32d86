"""Open, list and diagnose the folders published to a database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from thumbindex.config import NO_ROOT
from thumbindex.errors import EngineConnectionError, EngineError, StorageError, UnknownFolderError
from thumbindex.index.files import IndexPaths
from thumbindex.library.indexed_folders import Folder
from thumbindex.model import DatabaseStatus
from thumbindex.postgres.database import LAG_QUERY, TABLES, VERSION, DatabaseSession, Engine
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders
from thumbindex.postgres.published_store import FolderState, PublishedStore
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS
from thumbindex.settings import Config
from thumbindex.text import plural

MIN_REPORTED_LAG = 5.0
"""Minimum replication lag, in seconds, that an answer mentions."""

LAG_VALID_SECONDS = 30.0
"""Age in seconds above which a measured replication lag is ignored."""

OLDEST_SERVER = 15
"""Oldest supported PostgreSQL version."""

OLDEST_EXTENSION = (0, 8)
"""Oldest supported pgvector version: the first that has iterative index scans."""

LONGEST_LAG_SECONDS = 60.0
"""Replication lag in seconds above which `diagnose_database` reports a problem."""

_T = TypeVar("_T")


# ------------------------------------------------------------------ reading


class PublishedFolders:
    """The published folders of a database. Keeps connections and open indexes between queries."""

    def __init__(self, url: str, exact: int = MAX_EXACT_VECTORS) -> None:
        self.engine = Engine(url)
        self._exact = exact
        self._indexes: dict[str, PublishedIndex] = {}  # the latest of each folder, by name
        self._states: list[FolderState] = []
        self._is_up = True
        self._thread = (
            threading.local()
        )  # session, folder states and indexes of this thread's query
        self._open_lock = threading.Lock()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Let this thread read one snapshot of the database until the context ends.

        A nested call uses the snapshot of the outer call.
        """
        if getattr(self._thread, "session", None) is not None:
            yield
            return
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self.engine.read_transaction())
            except EngineError:
                self._is_up = False
                raise
            self._is_up, self._thread.session = True, session
            self._thread.folder_states, self._thread.indexes = None, {}
            try:
                yield
            finally:
                self._thread.session = self._thread.folder_states = self._thread.indexes = None

    def in_one_snapshot(self, ask: Callable[[], _T]) -> _T:
        """Run the query `ask` in one snapshot of the database.

        Retries once if the connection breaks or the server cancels the query. Raises EngineError.
        """
        if getattr(self._thread, "session", None) is not None:
            return ask()  # the outer call retries
        try:
            with self.pinned():
                return ask()
        except EngineConnectionError:
            with self.pinned():
                return ask()

    def status(self) -> DatabaseStatus:
        """Return the state of the connection pool, and that of the server if it is reachable."""
        if getattr(self._thread, "session", None) is not None:
            return self.engine.status(self.session)
        try:
            with self.pinned():
                return self.engine.status(self.session)
        except EngineError:
            return self.engine.status()

    def lag(self) -> float:
        """Return the last measured replication lag in seconds, or 0 if it is small or outdated."""
        seconds = self.engine.lag(within=LAG_VALID_SECONDS)
        return seconds if seconds >= MIN_REPORTED_LAG else 0.0

    def is_published_now(self, name: str) -> bool:
        """Return whether, at the last read, the database was reachable and contained the folder."""
        return self._is_up and any(state.name == name for state in self._states)

    def folder_states(self) -> list[FolderState]:
        """Return the published folders in this snapshot."""
        with self.pinned():
            if self._thread.folder_states is None:
                try:
                    self._thread.folder_states = self._states = read_folders(
                        self.session, self._states
                    )
                    published = {state.name for state in self._states}
                    for name in list(self._indexes):
                        if name not in published:
                            self._indexes.pop(name, None)
                except EngineError:
                    self._is_up = False
                    raise
            states: list[FolderState] = self._thread.folder_states
            return states

    def store(self, name: str) -> PublishedStore:
        """Return the store of the folder `name` in this snapshot.

        Raises UnknownFolderError if the folder is no longer published.
        """
        for state in self.folder_states():
            if state.name == name:
                return PublishedStore(lambda *query: self.session.fetch(*query), state)
        raise UnknownFolderError(
            f"The folder {name} is no longer published to {self.engine.location}."
        )

    def open(self, name: str) -> PublishedIndex:
        """Open a folder in this snapshot, and reuse the unchanged parts of its last opened index.

        Raises UnknownFolderError if the folder is no longer published.
        """
        indexes: dict[str, PublishedIndex] = self._thread.indexes
        if name not in indexes:
            store = self.store(name)
            with self._open_lock:  # concurrent queries share one opened index
                indexes[name] = self._current(store.state) or self._open(store)
        return indexes[name]

    def _current(self, state: FolderState) -> PublishedIndex | None:
        """Return the folder's last opened index if the publication has not changed."""
        last = self._indexes.get(state.name)
        return last if last and last.state.publication == state.publication else None

    def _open(self, store: PublishedStore) -> PublishedIndex:
        state, last = store.state, self._indexes.get(store.state.name)
        if last and (last.state.folder, last.state.epoch) != (state.folder, state.epoch):
            last = None
        if last and state.generation < last.state.generation:
            return open_published(store, None, self._exact)  # this query has an older snapshot
        index = self._indexes[state.name] = open_published(store, last, self._exact)
        return index

    def confirmed(self, name: str) -> tuple[float, float]:
        """Return the server's time, and the time of a folder's last publication or confirmation.

        Both are in seconds since 1970, or 0 if the folder is not published.
        """
        sql = (
            "SELECT extract(epoch FROM now())::float8, extract(epoch FROM published)::float8 FROM "
            "folders WHERE name = %s"
        )
        ((now, published),) = self.in_one_snapshot(lambda: self.session.fetch(sql, (name,))) or (
            (0.0, 0.0),
        )
        return float(now), float(published)

    @property
    def session(self) -> DatabaseSession:
        """The session of the current snapshot."""
        session: DatabaseSession | None = getattr(self._thread, "session", None)
        if session is None:
            raise RuntimeError(
                "A published folder was read outside a snapshot: use Library.in_one_snapshot."
            )
        return session

    def close(self) -> None:
        self.engine.close()


class PublishedReader:
    """Reads one published folder in the snapshot that this thread has open."""

    is_published = True

    def __init__(self, folder: Folder, folders: PublishedFolders) -> None:
        self.folder, self.database = folder, folders

    @property
    def indexed(self) -> bool:
        """Return whether the folder is published in this snapshot."""
        return any(state.name == self.folder.name for state in self.database.folder_states())

    @property
    def is_searchable(self) -> bool:
        """Return whether the folder was published at the last read."""
        return self.database.is_published_now(self.folder.name)

    @property
    def store(self) -> PublishedStore:
        """The folder's store in this snapshot."""
        return self.database.store(self.folder.name)

    def folder_snapshot(self) -> PublishedIndex:
        """Return the folder's index in this snapshot."""
        return self.database.open(self.folder.name)

    @property
    def location(self) -> str:
        """The database's address without user and password."""
        return self.database.engine.location

    def pinned(self) -> AbstractContextManager[None]:
        """Let this thread read one snapshot of the database until the context ends."""
        return self.database.pinned()

    def version(self) -> object:
        """Return the id of the folder's publication in this snapshot."""
        return self.store.state.publication

    def close(self) -> None:
        """Close the database connections, which all readers of the database share."""
        self.database.close()


def open_published_folders(
    url: str, config: Config, names: Sequence[str | Path]
) -> tuple[tuple[PublishedReader, ...], list[str | Path]]:
    """Open the published folders in `names`, or all published folders if `names` is empty.

    Returns readers of these folders, and the `names` of folders that are only on this machine.
    Raises EngineError, or UnknownFolderError if a folder is unknown or nothing is published.
    """
    folders = PublishedFolders(url)
    try:
        readers, local_names = _open_by_name(folders, config, names)
    except BaseException:
        folders.close()
        raise
    if not readers:
        folders.close()
    return readers, local_names


def _open_by_name(
    folders: PublishedFolders, config: Config, names: Sequence[str | Path]
) -> tuple[tuple[PublishedReader, ...], list[str | Path]]:
    folders.engine.check()
    published = {state.name: state for state in folders.folder_states()}
    if not published and not names:
        raise UnknownFolderError(
            f"No folder is published to {folders.engine.location} yet: run `thumbindex engine "
            "publish --folder DIR`, then try again."
        )
    local_names = [name for name in names if str(name) not in published]
    for name in local_names:
        if str(name) not in config.folders and not Path(name).expanduser().exists():
            raise UnknownFolderError(
                f"The folder {str(name)!r} is neither published to {folders.engine.location} nor "
                f"on this machine. Published folders: {', '.join(published) or 'none'}."
            )
    states = list(published.values())
    if names:
        states = [published[str(name)] for name in names if str(name) in published]
    readers = tuple(
        PublishedReader(_folder_of(state, config), folders)
        for state in sorted(states, key=lambda state: state.name)
    )
    return readers, local_names


def _folder_of(state: FolderState, config: Config) -> Folder:
    about = state.facts.get("about")
    if about and state.name not in config.about:
        config = replace(config, about={**config.about, state.name: about})
    return Folder(state.name, NO_ROOT / state.name, IndexPaths(NO_ROOT / state.name), config)


# ------------------------------------------------------------------ listing


@dataclass(frozen=True, slots=True)
class FolderSummary:
    """Facts about a published folder."""

    folder: int  # number in the names of its partitions
    name: str
    generation: int
    documents: int
    chunks: int
    vectors: int
    published: str  # last publication or confirmation: ISO 8601 in UTC
    seconds: float  # since `published`


def list_published(engine: Engine) -> tuple[FolderSummary, ...]:
    """List the published folders by name. Raises EngineError."""
    engine.check()
    with engine.read_transaction() as session:
        return _summaries(session)


def _summaries(session: DatabaseSession) -> tuple[FolderSummary, ...]:
    ((now,),) = session.fetch("SELECT extract(epoch FROM now())::float8")
    return tuple(
        FolderSummary(
            state.folder,
            state.name,
            state.generation,
            int(state.facts["documents"]),
            int(state.facts["chunks"]),
            int(state.facts["vectors"]),
            datetime.fromtimestamp(state.published, UTC).isoformat(timespec="seconds"),
            max(now - state.published, 0.0),
        )
        for state in sorted(read_folders(session), key=lambda state: state.name)
    )


# ------------------------------------------------------------------ diagnosis


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """The result of one check."""

    name: str
    is_ok: bool
    sentence: str


def diagnose_database(engine: Engine) -> Iterator[DatabaseCheck]:
    """Check a database and yield the results. Checks that depend on a failed one are omitted."""
    try:
        with engine.read_transaction() as session:
            yield from _check_server(engine, session)
            is_ours, schema = _check_schema(engine)
            yield schema
            if is_ours:
                rights = _check_rights(session)
                yield rights
                if rights.is_ok:
                    yield from _check_folders(session)
    except StorageError as error:
        yield DatabaseCheck("database", False, str(error))


def _check_server(engine: Engine, session: DatabaseSession) -> Iterator[DatabaseCheck]:
    sql = (
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), "
        "current_user::text"
    )
    number, version, role = session.fetch(sql)[0]
    yield DatabaseCheck("connection", True, f"connected to {engine.location} as {role}")
    is_new = number // 10_000 >= OLDEST_SERVER
    yield DatabaseCheck(
        "server",
        is_new,
        f"PostgreSQL {version.split()[0]}"
        + ("" if is_new else f": upgrade to {OLDEST_SERVER} or later"),
    )
    yield _check_extension(session)
    yield _check_standby(session)


def _check_extension(session: DatabaseSession) -> DatabaseCheck:
    rows = session.fetch("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if rows:
        version = str(rows[0][0])
        is_new = tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_EXTENSION
        return DatabaseCheck(
            "extension",
            is_new,
            f"pgvector {version}"
            + (
                "" if is_new else ": install 0.8 or later, then run `ALTER EXTENSION vector UPDATE`"
            ),
        )
    if session.fetch("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return DatabaseCheck(
            "extension",
            False,
            "pgvector is installed but not enabled in this database: run `CREATE EXTENSION "
            "vector` as a superuser",
        )
    return DatabaseCheck(
        "extension",
        False,
        "pgvector is missing: install version 0.8 or later on the database server",
    )


def _check_standby(session: DatabaseSession) -> DatabaseCheck:
    lag, is_standby = session.fetch(LAG_QUERY)[0]
    if not is_standby:
        count, seconds = session.fetch(
            "SELECT count(*), coalesce(extract(epoch FROM max(replay_lag)), 0)::float8 FROM "
            "pg_stat_replication"
        )[0]
        return _check_lag(
            seconds, f"the primary server, with {plural(count, 'standby')}", "the slowest is"
        )
    return _check_lag(lag, "a standby, which can serve queries", "it is")


def _check_lag(seconds: float, role: str, subject: str) -> DatabaseCheck:
    if seconds <= LONGEST_LAG_SECONDS:
        return DatabaseCheck(
            "replication", True, f"{role}; {subject} {seconds:.1f} s behind" if seconds else role
        )
    return DatabaseCheck(
        "replication",
        False,
        f"{role}; {subject} {seconds:,.0f} s behind, so answers may be out of date: check the "
        "replication",
    )


def _check_schema(engine: Engine) -> tuple[bool, DatabaseCheck]:
    try:
        engine.check()
    except StorageError as error:
        return False, DatabaseCheck("schema", False, str(error))
    return True, DatabaseCheck("schema", True, f"version {VERSION}")


def _check_rights(session: DatabaseSession) -> DatabaseCheck:
    names = ["facts", "folders", *TABLES]
    sql = (
        "SELECT has_table_privilege(name, 'SELECT'), pg_has_role(relowner, 'USAGE') FROM "
        "unnest(%s::text[]) AS name"
        " JOIN pg_class ON pg_class.oid = to_regclass(name)"
    )
    rows = session.fetch(sql, (names,))
    may_read, owns = all(reads for reads, _ in rows), all(owner for _, owner in rows)
    (may_create,) = session.fetch("SELECT has_schema_privilege(current_schema(), 'CREATE')")[0]
    if not may_read:
        return DatabaseCheck(
            "rights",
            False,
            "this role cannot read the tables: run `GRANT SELECT ON ALL TABLES IN SCHEMA public "
            "TO ROLE`",
        )
    if owns and may_create:
        return DatabaseCheck("rights", True, "this role can read and publish")
    return DatabaseCheck(
        "rights",
        True,
        "this role can read, which is enough for a server; to publish, it must own the tables",
    )


def _check_folders(session: DatabaseSession) -> Iterator[DatabaseCheck]:
    summaries = _summaries(session)
    if not summaries:
        yield DatabaseCheck(
            "folders",
            False,
            "no folder is published yet: run `thumbindex engine publish --folder DIR`",
        )
    for folder in summaries:
        size = f"{plural(folder.documents, 'document')}, {plural(folder.chunks, 'chunk')}"
        yield DatabaseCheck(
            f"folder {folder.name}",
            True,
            f"generation {folder.generation:,}, {size}; confirmed {_format_age(folder.seconds)}",
        )
        yield _check_vectors(session, folder)


def _format_age(seconds: float) -> str:
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{plural(int(seconds // length), noun)} ago"
    return "a moment ago"


def _check_vectors(session: DatabaseSession, folder: FolderSummary) -> DatabaseCheck:
    name = f"vectors of {folder.name}"
    if folder.vectors <= MAX_EXACT_VECTORS:
        return DatabaseCheck(name, True, f"{folder.vectors:,}, searched exactly without an index")
    sql = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"
    if not session.fetch(sql, (f"vectors_{folder.folder}_hnsw",)):
        return DatabaseCheck(
            name,
            False,
            f"{folder.vectors:,} without an index: the next `thumbindex engine publish` creates it",
        )
    return DatabaseCheck(name, True, f"{folder.vectors:,}, searched with an HNSW index")
