"""Folders in PostgreSQL: published by a builder, and opened for reading by any number of
servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from platform import node
from typing import Any, TypeVar

from thumbindex.config import NO_ROOT
from thumbindex.corpus.read import content_digest, decode_visible
from thumbindex.errors import (
    EngineConnectionError,
    EngineError,
    IndexBusyError,
    StorageError,
    UnknownFolderError,
    UsageError,
)
from thumbindex.index.builds import INCOMPLETE
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer, is_wiped
from thumbindex.library.folders import Folder
from thumbindex.library.visibility import folder_note_states, read_visible
from thumbindex.model import DatabaseStatus, Problem
from thumbindex.postgres.database import Engine as Engine
from thumbindex.postgres.database import Session
from thumbindex.postgres.diagnosis import examine as examine
from thumbindex.postgres.diagnosis import published_folders as published_folders
from thumbindex.postgres.publish import (
    INCARNATION,
    Published,
    Publisher,
    Tell,
    forget_published,
    index_vectors,
    new_incarnation,
)
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders
from thumbindex.postgres.published_store import FolderState, PublishedStore
from thumbindex.postgres.published_vectors import EXACT
from thumbindex.settings import Config
from thumbindex.text import text_digest

BEAT_SECONDS = 1.0
"""How often a builder says that what it published is what there is."""

LAGGING_SECONDS = 5.0
"""So far behind a standby is said to be: less is a matter of course."""

LAG_KNOWN_SECONDS = 30.0
"""So long what a standby said of it holds."""

_Told = TypeVar("_Told")


# ------------------------------------------------------------------ read by servers


class PublishedFolders:
    """The folders that a database holds, as one process reads them: its connections, and what it
    keeps between questions.
    """

    def __init__(self, url: str, exact: int = EXACT) -> None:
        self.engine = Engine(url)
        self._exact = exact
        self._opened: dict[str, PublishedIndex] = {}  # the latest of each folder, by name
        self._states: list[FolderState] = []
        self._is_up = True
        self._here = threading.local()  # the session of the question that this thread answers
        self._guard = threading.Lock()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Have all that this thread reads be of one moment; inside another moment it is that
        one's.
        """
        if getattr(self._here, "session", None) is not None:
            yield
            return
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self.engine.question())
            except EngineError:
                self._is_up = False
                raise
            self._is_up, self._here.session = True, session
            self._here.states, self._here.opened = None, {}
            try:
                yield
            finally:
                self._here.session = self._here.states = self._here.opened = None

    def in_one_snapshot(self, ask: Callable[[], _Told]) -> _Told:
        """Ask at one moment. If the connection breaks, or a standby ends the question, ask all of
        it once more at a new moment.

        Raises EngineError.
        """
        if getattr(self._here, "session", None) is not None:
            return ask()  # whoever began this moment asks again
        try:
            with self.pinned():
                return ask()
        except EngineConnectionError:
            with self.pinned():
                return ask()

    def status(self) -> DatabaseStatus:
        """Tell which server answers, how far it is behind, and what was asked since this process
        began; that none answers is told, too.
        """
        if getattr(self._here, "session", None) is not None:
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
        seconds = self.engine.lag(within=LAG_KNOWN_SECONDS)
        return seconds if seconds >= LAGGING_SECONDS else 0.0

    def is_there(self, name: str) -> bool:
        """Tell whether a folder was published, and the database to be had, when that was asked
        last.
        """
        return self._is_up and any(state.name == name for state in self._states)

    def states(self) -> list[FolderState]:
        """Return what is published, as of this moment."""
        with self.pinned():
            if self._here.states is None:
                try:
                    self._here.states = self._states = read_folders(self.session, self._states)
                    published = {state.name for state in self._states}
                    for name in [each for each in list(self._opened) if each not in published]:
                        self._opened.pop(name, None)
                except EngineError:
                    self._is_up = False
                    raise
            found: list[FolderState] = self._here.states
            return found

    def store(self, name: str) -> PublishedStore:
        """Return a folder's rows as of this moment.

        Raises UnknownFolderError where it is not published any more.
        """
        for state in self.states():
            if state.name == name:
                return PublishedStore(lambda *asked: self.session.fetch(*asked), state)
        raise UnknownFolderError(
            f"The folder {name} is not published to {self.engine.where} any more."
        )

    def open(self, name: str) -> PublishedIndex:
        """Open a folder as of this moment; what is still true of the latest generation that was
        opened is kept.

        Raises UnknownFolderError where it is not published any more.
        """
        opened: dict[str, PublishedIndex] = self._here.opened
        if name not in opened:
            store = self.store(name)
            with self._guard:  # who comes while a folder is opened waits, and shares it
                opened[name] = self._of(store.state) or self._open(store)
        return opened[name]

    def _of(self, state: FolderState) -> PublishedIndex | None:
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
    def session(self) -> Session:
        """The session of this moment."""
        session: Session | None = getattr(self._here, "session", None)
        if session is None:
            raise RuntimeError(
                "A published folder is read outside of a moment: see Library.in_one_moment."
            )
        return session

    def close(self) -> None:
        """Close the connections."""
        self.engine.close()


class PublishedReader:
    """One published folder, open for reading.

    What it gives is of the moment that its library asks in.
    """

    is_published = True

    def __init__(self, folder: Folder, folders: PublishedFolders) -> None:
        self.folder, self.database = folder, folders

    @property
    def indexed(self) -> bool:
        """Tell whether the folder is published at this moment: then there are words to search."""
        return any(state.name == self.folder.name for state in self.database.states())

    @property
    def is_searchable(self) -> bool:
        """Tell whether the folder was there when the database was asked last; it is not asked
        now.
        """
        return self.database.is_there(self.folder.name)

    @property
    def store(self) -> PublishedStore:
        """What the folder's store tells, as of this moment."""
        return self.database.store(self.folder.name)

    def opened(self) -> PublishedIndex:
        """Return the snapshot with what it is a snapshot of."""
        return self.database.open(self.folder.name)

    @property
    def location(self) -> str:
        """Where the index lies, without user and password."""
        return self.database.engine.where

    def pinned(self) -> AbstractContextManager[None]:
        """Have all that this thread reads of the database be of one moment."""
        return self.database.pinned()

    def version(self) -> object:
        """Return what tells this publication from every other: a generation comes again of an index
        that was built anew.
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
    there = {state.name: state for state in folders.states()}
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


# ------------------------------------------------------------------ published by builders


class Publishing:
    """Publishes some folders' indexes whenever they have changed."""

    def __init__(
        self, folders: Sequence[Folder], url: str, tell: Tell = lambda progress: None
    ) -> None:
        self.engine = Engine(url, writes=True)
        self.failure: StorageError | None = None
        try:
            self.engine.check()
        except BaseException:
            self.engine.close()
            raise
        self._folders = [_PublishedFolder(each, self.engine, tell) for each in folders]

    def look(self) -> tuple[Published, ...]:
        """Publish what has changed since the last look; of a folder that fails the others do not
        wait.

        Raises StorageError where one failed and none was published, else `failure` has it: the
        next look tries again.
        """
        self.failure, found = None, list[Published]()
        for each in self._folders:
            try:
                found += [published] if (published := each.look()) else []
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
        return any(each.holds_private for each in self._folders)

    def tidy(self) -> None:
        """Make the indexes that large folders need."""
        index_vectors(self.engine)

    def close(self) -> None:
        """Close the files and connections."""
        for each in self._folders:
            each.close()
        self.engine.close()


class _PublishedFolder:
    """One folder on its way into the database."""

    def __init__(self, folder: Folder, engine: Engine, tell: Tell) -> None:
        self._folder = folder
        self._publisher = Publisher(engine, folder.name, self._text, tell)
        self._store: Store | None = None
        self._opened: Opened | None = None
        self.holds_private = False
        self._identity: tuple[int, int] | None = None
        self._beat_at = 0.0

    def look(self) -> Published | None:
        """Publish the index where it has changed and is whole; a text that is just being taken in
        comes with the next look.
        """
        places = self._folder.places.at()
        if not places.store.exists():
            return None
        store = self._opened_store(places)
        if self._opened is not None and self._opened.is_current(store) and store.meta(INCARNATION):
            self._beat()
            return None
        if not store.meta(INCARNATION):
            with Writer.open(self._folder.places.folder) as writer:
                if not writer.store.meta(INCARNATION):
                    writer.note(INCARNATION, new_incarnation())
        try:
            return self._publish(store, places)
        except BaseException:
            self._opened = None
            raise

    def _publish(self, store: Store, places: IndexPaths) -> Published | None:
        opened = open_snapshot(store, self._folder.name, last=self._opened)
        with store.read_transaction():
            if not opened.is_current(store) or store.meta(INCOMPLETE):
                return None  # while an index is built anew, the published one stays whole
            if not is_wiped(store) and any(len(each.deleted) for each in store.segments()):
                self.holds_private = True  # files of its words may hold a private note's still
                return None
            looks = folder_note_states(self._folder, opened.catalog.paths, store)
            self.holds_private = "private" in looks.values()
            if self.holds_private:  # the index forgets it first
                return None
            published = self._publisher.publish(opened, store, self._facts())
        self._opened, self._beat_at = opened, time.monotonic() + BEAT_SECONDS
        return published

    # -------------------------------------------------------------- what is published

    def _opened_store(self, places: IndexPaths) -> Store:
        """Return the store of the present edition, opened anew where it was built anew."""
        found = places.store.stat()
        identity = (found.st_dev, found.st_ino)
        if self._store is None or identity != self._identity:
            if self._store is not None:
                self._store.close()
            self._store, self._identity, self._opened = (
                Store(places.store, read_only=True),
                identity,
                None,
            )
            self._publisher.forget()  # a backup may have been put back
        return self._store

    def _facts(self) -> Mapping[str, Any]:
        folder = self._folder
        about = folder.config.about.get(folder.name, "")
        return {
            "about": about,
            "origin": text_digest(f"{node()} {folder.root}"),
        }

    def _text(self, path: str) -> str | None:
        """Return a note's text where its file is still the one that was indexed, and may be
        shown.
        """
        data = read_visible(self._folder, path, self._store)
        if data is None or isinstance(data, Problem):
            return None
        indexed = self._store.manifest([path]).get(path) if self._store else None
        return (
            decode_visible(path, data)
            if indexed and indexed.digest == content_digest(data)
            else None
        )

    def _beat(self) -> None:
        if time.monotonic() >= self._beat_at:
            # somebody has forgotten the folder: it is published anew
            if not self._publisher.beat():
                self._opened = None
            self._beat_at = time.monotonic() + BEAT_SECONDS

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def publish_folders(
    folders: Sequence[Folder], url: str, tell: Tell = lambda progress: None
) -> tuple[Published, ...]:
    """Publish the indexes of some folders as they are now; return those that had changed.

    Raises EngineError, IndexBusyError, UsageError.

    `tell` hears how a first load goes.
    """
    lacking = [each.name for each in folders if not each.places.store.exists()]
    if lacking:
        raise UsageError(
            f"There is no index of {', '.join(lacking)} yet: `thumbindex index` makes one."
        )
    with closing(Publishing(folders, url, tell)) as publishing:
        done = publishing.look()
        if publishing.failure:
            raise publishing.failure
        if publishing.holds_private:
            raise IndexBusyError(
                "A note became private since it was indexed: run `thumbindex index`, then "
                "publish again."
            )
        publishing.tidy()
    return done


def forget_folder(url: str, name: str) -> bool:
    """Delete what is published of a folder; tell whether there was anything."""
    with closing(Engine(url, writes=True)) as engine:
        engine.check()
        return forget_published(engine, name)
