"""Folders published to a database: opened for reading by servers, listed, and checked."""

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
"""So far behind a standby is said to be: less is a matter of course."""

LAG_VALID_SECONDS = 30.0
"""So long what a standby said of it holds."""

OLDEST_SERVER = 15
"""Of PostgreSQL: what is older is not tried."""

OLDEST_EXTENSION = (0, 8)
"""Of pgvector: the first whose index is searched on where a filter leaves too few."""

LONGEST_LAG_SECONDS = 60.0
"""A standby that is further behind answers from what was true a while ago."""

_T = TypeVar("_T")


# ------------------------------------------------------------------ read by servers


class PublishedFolders:
    """The folders that a database holds, as one process reads them: its connections, and what it
    keeps between questions.
    """

    def __init__(self, url: str, exact: int = MAX_EXACT_VECTORS) -> None:
        self.engine = Engine(url)
        self._exact = exact
        self._opened: dict[str, PublishedIndex] = {}  # the latest of each folder, by name
        self._states: list[FolderState] = []
        self._is_up = True
        self._thread = threading.local()  # the session of the question that this thread answers
        self._guard = threading.Lock()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Let this thread read one snapshot until the end; a nested call shares the outer one."""
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
            self._thread.folder_states, self._thread.opened = None, {}
            try:
                yield
            finally:
                self._thread.session = self._thread.folder_states = self._thread.opened = None

    def in_one_snapshot(self, ask: Callable[[], _T]) -> _T:
        """Run a query in one snapshot. If the connection breaks, or a standby cancels the query,
        run it once more in a new snapshot.

        Raises EngineError.
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
        """Return which server answers, its lag, and the counts of this process; also if no server
        answers.
        """
        if getattr(self._thread, "session", None) is not None:
            return self.engine.status(self.session)
        try:
            with self.pinned():
                return self.engine.status(self.session)
        except EngineError:
            return self.engine.status()

    def lag(self) -> float:
        """Return how many seconds the server is behind that answered last, where that is worth a
        word; nothing is asked.
        """
        seconds = self.engine.lag(within=LAG_VALID_SECONDS)
        return seconds if seconds >= MIN_REPORTED_LAG else 0.0

    def is_published_now(self, name: str) -> bool:
        """Return whether the folder was published, and the database reachable, at the last read."""
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
                    for name in [each for each in list(self._opened) if each not in published]:
                        self._opened.pop(name, None)
                except EngineError:
                    self._is_up = False
                    raise
            found: list[FolderState] = self._thread.folder_states
            return found

    def store(self, name: str) -> PublishedStore:
        """Return a folder's rows in this snapshot.

        Raises UnknownFolderError where it is not published any more.
        """
        for state in self.folder_states():
            if state.name == name:
                return PublishedStore(lambda *asked: self.session.fetch(*asked), state)
        raise UnknownFolderError(
            f"The folder {name} is not published to {self.engine.where} any more."
        )

    def open(self, name: str) -> PublishedIndex:
        """Open a folder in this snapshot; reuse what has not changed since it was last opened.

        Raises UnknownFolderError where it is not published any more.
        """
        opened: dict[str, PublishedIndex] = self._thread.opened
        if name not in opened:
            store = self.store(name)
            with self._guard:  # who comes while a folder is opened waits, and shares it
                opened[name] = self._current(store.state) or self._open(store)
        return opened[name]

    def _current(self, state: FolderState) -> PublishedIndex | None:
        """Return the latest that was opened of a folder if it is of this publication."""
        last = self._opened.get(state.name)
        return last if last and last.state.publication == state.publication else None

    def _open(self, store: PublishedStore) -> PublishedIndex:
        state, last = store.state, self._opened.get(store.state.name)
        if last and (last.state.folder, last.state.epoch) != (state.folder, state.epoch):
            last = None
        if last and state.generation < last.state.generation:
            return open_published(store, None, self._exact)  # of a question that began before
        found = self._opened[state.name] = open_published(store, last, self._exact)
        return found

    def confirmed(self, name: str) -> tuple[float, float]:
        """Return the database's time, and when a folder was published or confirmed last."""
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
                "A published folder is read outside of a snapshot: see Library.in_one_snapshot."
            )
        return session

    def close(self) -> None:
        """Close the connections."""
        self.engine.close()


class PublishedReader:
    """One published folder, read in the snapshot that its library has open."""

    is_published = True

    def __init__(self, folder: Folder, folders: PublishedFolders) -> None:
        self.folder, self.database = folder, folders

    @property
    def indexed(self) -> bool:
        """Return whether the folder is published in this snapshot: then it has words to search."""
        return any(state.name == self.folder.name for state in self.database.folder_states())

    @property
    def is_searchable(self) -> bool:
        """Return whether the folder was published at the last read; does not read again."""
        return self.database.is_published_now(self.folder.name)

    @property
    def store(self) -> PublishedStore:
        """The folder's rows in this snapshot."""
        return self.database.store(self.folder.name)

    def folder_snapshot(self) -> PublishedIndex:
        """Return the snapshot with what it is a snapshot of."""
        return self.database.open(self.folder.name)

    @property
    def location(self) -> str:
        """Where the index lies, without user and password."""
        return self.database.engine.where

    def pinned(self) -> AbstractContextManager[None]:
        """Let this thread read one snapshot of the database until the end."""
        return self.database.pinned()

    def version(self) -> object:
        """Return the id of this publication; a rebuilt index counts its generations from the start
        again.
        """
        return self.store.state.publication

    def close(self) -> None:
        """Close the connections."""
        self.database.close()


def open_published_folders(
    url: str, config: Config, names: Sequence[str | Path]
) -> tuple[tuple[PublishedReader, ...], list[str | Path]]:
    """Open the folders that are published to a database: those that are named, all where none is;
    return them, and the names of others.

    Others are folders of this machine, by path or configured name. Raises EngineError;
    UnknownFolderError for a name that is of neither.
    """
    folders = PublishedFolders(url)
    try:
        readers, others = _opened_by_name(folders, config, names)
    except BaseException:
        folders.close()
        raise
    if not readers:
        folders.close()
    return readers, others


def _opened_by_name(
    folders: PublishedFolders, config: Config, names: Sequence[str | Path]
) -> tuple[tuple[PublishedReader, ...], list[str | Path]]:
    folders.engine.check()
    there = {state.name: state for state in folders.folder_states()}
    if not there and not names:
        where = folders.engine.where
        raise UnknownFolderError(
            f"Nothing is published to {where} yet: `thumbindex engine publish --folder DIR` "
            "does it, then start this again."
        )
    others = [name for name in names if str(name) not in there]
    for name in others:
        if str(name) not in config.folders and not Path(name).expanduser().exists():
            where, known = folders.engine.where, ", ".join(there) or "none"
            raise UnknownFolderError(
                f"No folder {str(name)!r} is published to {where}, and there is none here: "
                f"published there is {known}."
            )
    wanted = list(there.values())
    if names:
        wanted = [there[str(name)] for name in names if str(name) in there]
    readers = tuple(
        PublishedReader(_folder_of(state, config), folders)
        for state in sorted(wanted, key=lambda each: each.name)
    )
    return readers, others


def _folder_of(state: FolderState, config: Config) -> Folder:
    about = state.facts.get("about")
    if about and state.name not in config.about:
        config = replace(config, about={**config.about, state.name: about})
    return Folder(state.name, NO_ROOT / state.name, IndexPaths(NO_ROOT / state.name), config)


# ------------------------------------------------------------------ listed


@dataclass(frozen=True, slots=True)
class FolderSummary:
    """A folder as servers read it."""

    folder: int  # the number of its partitions
    name: str
    generation: int
    documents: int
    chunks: int
    vectors: int
    published: str  # when a builder last said that this is what there is: ISO 8601 in UTC
    seconds: float  # since then


def list_published(engine: Engine) -> tuple[FolderSummary, ...]:
    """Return what servers read, by name. Raises EngineError."""
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
        for state in sorted(read_folders(session), key=lambda each: each.name)
    )


# ------------------------------------------------------------------ checked


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """One thing that was looked at."""

    name: str
    is_ok: bool
    sentence: str


def diagnose_database(engine: Engine) -> Iterator[DatabaseCheck]:
    """Yield what is found of a database, one thing after another; what cannot be looked at, as the
    one before is not well, is left out.
    """
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
    yield DatabaseCheck("connection", True, f"{engine.where} answers to the role {role}")
    is_new = number // 10_000 >= OLDEST_SERVER
    yield DatabaseCheck(
        "server",
        is_new,
        f"PostgreSQL {version.split()[0]}"
        + ("" if is_new else f": {OLDEST_SERVER} or later is needed, upgrade it"),
    )
    yield _check_extension(session)
    yield _check_standby(session)


def _check_extension(session: DatabaseSession) -> DatabaseCheck:
    there = session.fetch("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if there:
        version = str(there[0][0])
        is_new = tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_EXTENSION
        return DatabaseCheck(
            "extension",
            is_new,
            f"pgvector {version}"
            + ("" if is_new else ": 0.8 or later is needed, then `ALTER EXTENSION vector UPDATE`"),
        )
    if session.fetch("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return DatabaseCheck(
            "extension",
            False,
            "pgvector is installed and not yet in this database: a superuser runs `CREATE "
            "EXTENSION vector`",
        )
    return DatabaseCheck(
        "extension",
        False,
        "pgvector is missing: install version 0.8 or later on the database's machine",
    )


def _check_standby(session: DatabaseSession) -> DatabaseCheck:
    behind, is_standby = session.fetch(LAG_QUERY)[0]
    if not is_standby:
        count, seconds = session.fetch(
            "SELECT count(*), coalesce(extract(epoch FROM max(replay_lag)), 0)::float8 FROM "
            "pg_stat_replication"
        )[0]
        return _lag(
            seconds, f"the primary server, with {plural(count, 'standby')}", "the slowest is"
        )
    return _lag(behind, "a standby, which is enough to answer from", "it is")


def _lag(seconds: float, what: str, who: str) -> DatabaseCheck:
    if seconds <= LONGEST_LAG_SECONDS:
        return DatabaseCheck(
            "replication", True, f"{what}; {who} {seconds:.1f} s behind" if seconds else what
        )
    return DatabaseCheck(
        "replication",
        False,
        f"{what}; {who} {seconds:,.0f} s behind: answers are that old, see what holds it up",
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
            "this role may not read: `GRANT SELECT ON ALL TABLES IN SCHEMA public TO` it",
        )
    if owns and may_create:
        return DatabaseCheck("rights", True, "this role may read and publish")
    return DatabaseCheck(
        "rights",
        True,
        "this role may read, which is enough for a server, and not publish, for which it has "
        "to own the tables",
    )


def _check_folders(session: DatabaseSession) -> Iterator[DatabaseCheck]:
    found = _summaries(session)
    if not found:
        yield DatabaseCheck(
            "folders",
            False,
            "none is published yet: `thumbindex engine publish --folder DIR` does it",
        )
    for each in found:
        size = f"{plural(each.documents, 'document')}, {plural(each.chunks, 'chunk')}"
        yield DatabaseCheck(
            f"folder {each.name}",
            True,
            f"generation {each.generation:,}, {size}; a builder said so {_ago(each.seconds)}",
        )
        yield _check_vectors(session, each)


def _ago(seconds: float) -> str:
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{plural(int(seconds // length), noun)} ago"
    return "a moment ago"


def _check_vectors(session: DatabaseSession, folder: FolderSummary) -> DatabaseCheck:
    name = f"vectors of {folder.name}"
    if folder.vectors <= MAX_EXACT_VECTORS:
        return DatabaseCheck(
            name, True, f"{folder.vectors:,}: few enough to compare each with a question"
        )
    sql = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"
    if not session.fetch(sql, (f"vectors_{folder.folder}_hnsw",)):
        return DatabaseCheck(
            name,
            False,
            f"{folder.vectors:,}, and no index of their own: the next `thumbindex engine publish` "
            "makes it",
        )
    return DatabaseCheck(name, True, f"{folder.vectors:,}, found by an index of their own")
