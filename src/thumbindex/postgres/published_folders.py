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
from thumbindex.postgres.database import VERSION, DatabaseSession, Engine
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders
from thumbindex.postgres.published_store import FolderState, PublishedStore
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS
from thumbindex.settings import Config
from thumbindex.text import plural

OLDEST_SERVER = 15
"""Oldest supported PostgreSQL version."""

OLDEST_EXTENSION = (0, 8)
"""Oldest supported pgvector version: the first that has iterative index scans."""

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


def list_published(engine: Engine) -> tuple[FolderSummary, ...]:
    """List the published folders by name. Raises EngineError."""
    engine.check()
    with engine.read_transaction() as session:
        return tuple(
            FolderSummary(
                state.folder,
                state.name,
                state.generation,
                int(state.facts["documents"]),
                int(state.facts["chunks"]),
                int(state.facts["vectors"]),
                datetime.fromtimestamp(state.published, UTC).isoformat(timespec="seconds"),
            )
            for state in read_folders(session)
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
        engine.check()
        yield DatabaseCheck("schema", True, f"version {VERSION}")
        folders = list_published(engine)
    except StorageError as error:
        yield DatabaseCheck("database", False, str(error))
        return
    if not folders:
        sentence = "no folder is published yet: run `thumbindex engine publish --folder DIR`"
        yield DatabaseCheck("folders", False, sentence)
    for folder in folders:
        size = f"{plural(folder.documents, 'document')}, {plural(folder.chunks, 'chunk')}"
        sentence = f"generation {folder.generation:,}, {size}; confirmed {folder.published}"
        yield DatabaseCheck(f"folder {folder.name}", True, sentence)


def _check_server(engine: Engine, session: DatabaseSession) -> Iterator[DatabaseCheck]:
    sql = (
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), "
        "current_user::text, pg_is_in_recovery()"
    )
    number, version, role, is_standby = session.fetch(sql)[0]
    place = f"{session.server}, {'a standby' if is_standby else 'the primary server'}"
    yield DatabaseCheck("connection", True, f"connected to {place}, as {role}")
    is_new = number // 10_000 >= OLDEST_SERVER
    remedy = "" if is_new else f": upgrade to {OLDEST_SERVER} or later"
    yield DatabaseCheck("server", is_new, f"PostgreSQL {version.split()[0]}{remedy}")
    rows = session.fetch("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    version = str(rows[0][0]) if rows else "is missing"
    is_new = bool(rows) and tuple(map(int, version.split(".")[:2])) >= OLDEST_EXTENSION
    remedy = "" if is_new else ": install 0.8 or later, then run `CREATE EXTENSION vector` here"
    yield DatabaseCheck("extension", is_new, f"pgvector {version}{remedy}")
