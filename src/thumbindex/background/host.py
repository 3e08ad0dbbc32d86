"""A server's background work: open the library, run the indexer, load models, follow changes."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from thumbindex.background.supervisor import IndexerSupervisor, indexer_command
from thumbindex.config import FOLDER_FILE
from thumbindex.errors import (
    IndexDamagedError,
    ModelError,
    StorageError,
    ThumbindexError,
    UnknownFolderError,
)
from thumbindex.model import Changes, Progress
from thumbindex.opening import OpenOptions, is_local_path, open_library
from thumbindex.process import resume_garbage_collection

if TYPE_CHECKING:
    from thumbindex.library import Folder, Library

# ------------------------------------------------------------------ changes of the indexes

POLL_SECONDS = 0.25
"""Interval between checks for new generations of the indexes."""

Listener = Callable[[Mapping[str, Changes]], None]
"""Receives changes by folder. Called in the follower's thread, so it must return at once."""


class IndexFollower:
    """Polls the indexes for changes until stopped. Ignores errors, since queries report them."""

    def __init__(self, pause: float = POLL_SECONDS) -> None:
        self._pause = pause
        self._listeners: dict[object, tuple[Listener, Collection[str] | None]] = {}
        self._change_counts: Counter[str] = Counter()  # by folder
        self._started_at = time.time_ns()
        self._stopped = threading.Event()

    def listen(
        self, listener: Listener, only: Collection[str] | None = None
    ) -> Callable[[], object]:
        """Call `listener` after every change of a folder in `only`, by default of any folder.

        Returns a function that unsubscribes the listener.
        """
        key = object()
        self._listeners[key] = (listener, only)
        return partial(self._listeners.pop, key, None)

    def revision(self, only: Collection[str] | None = None) -> str:
        """Return an id that is new after every change of a folder in `only`, by default any folder.

        Later queries see all changes up to this id. Each process has its own ids.
        """
        counts = list(self._change_counts.items())
        total = sum(count for name, count in counts if only is None or name in only)
        return f"{self._started_at}-{total}"

    def start(self, library: Library) -> None:
        """Run `follow` in a new thread."""
        threading.Thread(target=self.follow, args=(library,), name="follower", daemon=True).start()

    def follow(self, library: Library) -> None:
        """Poll the indexes for changes until `stop` is called."""
        changes = library.track_changes()
        while not self._stopped.is_set():
            started = time.monotonic()
            for name, _ in library.folders:
                with suppress(ThumbindexError, OSError):
                    library.warm_up([name])
                    self._notify(changes.poll([name]))
            resume_garbage_collection()  # only the first call has an effect
            # opening large indexes leaves time for queries
            self._stopped.wait(max(self._pause, time.monotonic() - started))

    def _notify(self, changes: Mapping[str, Changes]) -> None:
        self._change_counts.update(changes.keys())
        for listener, only in list(self._listeners.values()):
            visible = {n: change for n, change in changes.items() if only is None or n in only}
            if visible:
                listener(visible)

    def stop(self) -> None:
        """Make `follow` return; called from another thread."""
        self._stopped.set()


# ------------------------------------------------------------------ the host

_LOG = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Closeable(Protocol):
    """A server that can be closed."""

    def close(self) -> None:
        """Stop listening."""


StartCommandServer = Callable[["Library"], Closeable | None]
"""Starts a command server for an open library, or returns None on systems without support."""

WORDS_WAIT_SECONDS = 20.0
"""Maximum time that a tool call waits for a first index or a repair.

Then the call answers from what is indexed, or fails. Clients give up after 30 to 60 s.
"""

MODEL_WAIT_SECONDS = 2.0
"""Queries wait for the embedding model until this many seconds after the library opened."""

_POLL_SECONDS = 0.1

_SHORT_POLL_SECONDS = 0.02

_MODEL_POLL_SECONDS = 1.0


_WITHOUT_MODEL = (
    "The model is not loaded: queries search keywords only. The server's administrator can find "
    "the reason with `thumbindex status`."
)
"""Message without the reason, for users who see only some folders."""


def ignore_progress(progress: Progress) -> None:
    """Do nothing."""


def never() -> bool:
    """Return False."""
    return False


@dataclass
class _State:
    """State shared by a host and the restricted hosts that its `only` returned."""

    opening: OpenOptions
    library: Future[Library] = field(default_factory=Future)
    indexer: IndexerSupervisor | None = None
    command_server: Closeable | None = None
    model_problem: str = ""
    model_deadline: float = float("inf")
    is_started: bool = False


class LibraryHost:
    """Opens a server's library in a thread on first use, so that the server stays responsive."""

    def __init__(
        self,
        opening: OpenOptions,
        open_it: Callable[[OpenOptions], Library] = open_library,
        command: Sequence[str] | None = None,
        start_command_server: StartCommandServer | None = None,
    ) -> None:
        self.follower = IndexFollower()
        self._state = _State(opening)
        self._only: Collection[str] | None = None  # visible folders; None for all
        self._open = open_it
        self._command = command
        self._start_command_server = start_command_server
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def only(self, folders: Collection[str]) -> LibraryHost:
        """Return a host restricted to `folders`, which hides all other folders."""
        host = copy(self)
        host._only = folders
        return host

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the served folders; empty before the library is open."""
        if self._only is not None:
            return tuple(sorted(self._only))
        library = self.opened_library()
        return tuple(name for name, _ in library.folders) if library else ()

    def listen(self, listener: Listener) -> Callable[[], object]:
        """Call `listener` after each change. Returns a function that unsubscribes the listener."""
        return self.follower.listen(listener, self._only)

    def revision(self) -> str:
        """Return `IndexFollower.revision` for the visible folders."""
        return self.follower.revision(self._only)

    @property
    def opening(self) -> OpenOptions:
        """The options that the server opens its library with."""
        return self._state.opening

    def start(self) -> None:
        """Start the background work; a second call does nothing."""
        with self._lock:
            if self._state.is_started:
                return
            self._state.is_started = True
        threading.Thread(target=self._run, name="library-host", daemon=True).start()

    def start_soon(self, seconds: float = 0.5) -> None:
        """Start after a delay, so that the current reply is sent first."""
        timer = threading.Timer(seconds, self.start)
        timer.daemon = True
        timer.start()

    def library(self) -> Library:
        """Return the library as soon as it is open.

        If the library cannot be opened, raises the error. A restricted host raises an error
        without details.
        """
        self.start()
        if self._only is None:
            return self._state.library.result()
        try:
            return self._state.library.result().only(self._only)
        except ThumbindexError as error:
            _LOG.warning("Cannot open the folders: %s", error)
            raise StorageError(
                "Cannot open the notes right now. The server's administrator can find the reason "
                "in its log."
            ) from None

    @property
    def is_ready(self) -> bool:
        """Return whether the library is open and every folder is searchable."""
        library = self.opened_library()
        return library is not None and library.is_searchable

    def opened_library(self) -> Library | None:
        """Return the library, or None before it is open."""
        future = self._state.library
        if not future.done() or future.exception():
            return None
        return future.result() if self._only is None else future.result().only(self._only)

    def await_words(
        self,
        seconds: float = WORDS_WAIT_SECONDS,
        on_progress: Callable[[Progress], None] = ignore_progress,
        interrupted: Callable[[], bool] = never,
    ) -> None:
        """Wait until keywords can be searched, at most `seconds`, and report progress.

        Returns early if the indexer fails or `interrupted` returns true. Raises StorageError if no
        index can be made.
        """
        library, until = self.library(), time.monotonic() + seconds
        while not (library.indexed or self._indexer_is_stuck) and time.monotonic() < until:
            if interrupted():
                return
            for progress in self.progress():
                on_progress(progress)
            time.sleep(_POLL_SECONDS)
        index_failures = self.index_failures()
        if index_failures and not any(state.documents for state in library.index_states().values()):
            raise StorageError(" ".join(index_failures))

    @property
    def _indexer_is_stuck(self) -> bool:
        indexer = self._state.indexer
        return indexer is not None and indexer.has_failed

    def index_failures(self) -> tuple[str, ...]:
        """Return the reasons why the indexer cannot make the missing indexes."""
        library, indexer = self.library(), self._state.indexer
        if indexer is None or library.indexed:
            return ()
        missing = {name for name, _ in library.folders if not library.only([name]).indexed}
        if not indexer.is_running:
            return indexer.notes(None if self._only is None else missing)
        return indexer.write_failures(missing)

    def await_model(self, interrupted: Callable[[], bool] = never) -> None:
        """Wait until the model has loaded or failed to load.

        Returns at once if no index has vectors. Returns early when `interrupted` returns true or
        the time limit has passed.
        """
        self.library()
        # A restricted library keeps the models that it was created with: get a new one each time.
        while (
            time.monotonic() < self._state.model_deadline
            and not self._state.model_problem
            and not interrupted()
            and self.library().awaits_model
        ):
            time.sleep(_SHORT_POLL_SECONDS)

    def answer_after_repair(
        self,
        ask: Callable[[], _Result],
        interrupted: Callable[[], bool] = never,
    ) -> _Result:
        """Return the result of `ask`. If the index is damaged, request a repair and retry.

        If the index is still damaged after `WORDS_WAIT_SECONDS`, raises the last error.
        """
        until = time.monotonic() + WORDS_WAIT_SECONDS
        damaged = False
        while True:
            try:
                return ask()
            except StorageError as error:
                # While a damaged index is rebuilt, it may be locked or missing.
                damaged = damaged or isinstance(error, IndexDamagedError)
                if (
                    not damaged
                    or not (self.has_indexer or self.library().watched_folders())
                    or time.monotonic() >= until
                    or interrupted()
                ):
                    raise
            self.library().request_repair()
            time.sleep(_POLL_SECONDS)
            self.await_words(until - time.monotonic(), interrupted=interrupted)

    @property
    def has_indexer(self) -> bool:
        """Return whether this server has a running indexer."""
        return self._state.indexer is not None and self._state.indexer.is_running

    def notes(self) -> tuple[str, ...]:
        """Return messages about problems in the background.

        The messages of a restricted host do not name other folders.
        """
        state, sees_all = self._state, self._only is None
        model_note = state.model_problem if sees_all or not state.model_problem else _WITHOUT_MODEL
        library = self.opened_library()
        file_notes = tuple(
            f"The folder {folder.name} is served without its own file {FOLDER_FILE}: `status` "
            "shows the reason."
            for folder in (library.opened if library else ())
            if folder.problems
        )
        indexer_notes = state.indexer.notes(self._only) if state.indexer else ()
        return tuple(note for note in (*file_notes, *indexer_notes, model_note) if note)

    def progress(self) -> tuple[Progress, ...]:
        """Return the indexing progress of each folder that this or another process is indexing."""
        library = self.opened_library()
        return library.progress() if library else ()

    def stop(self) -> None:
        """Stop the indexer, the follower and the command server."""
        self.follower.stop()
        self._stopping.set()
        with self._lock:
            if self._state.indexer is not None:
                self._state.indexer.stop()
            if self._state.command_server is not None:
                self._state.command_server.close()

    def _run(self) -> None:
        library = self._opened()
        if library is None:
            return
        # folders in a database are indexed by a separate builder
        local_folders = [folder for folder in library.opened if is_local_path(folder.root)]
        if self._command or (self._command is None and local_folders):
            with self._lock:
                if not self._stopping.is_set():
                    self._state.indexer = self._start_indexer(library, local_folders)
        self._state.model_deadline = time.monotonic() + MODEL_WAIT_SECONDS
        self._state.library.set_result(library)
        self.follower.start(library)
        try:
            self._load_models(library)
        except ModelError as error:
            self._state.model_problem = f"{error} Queries run without the model."
        except ThumbindexError as error:
            self._state.model_problem = str(error)
        start = self._start_command_server
        if start and library.config.serve.answer_commands and library.has_model:
            with self._lock:
                if not self._stopping.is_set():
                    self._state.command_server = start(library)

    def _start_indexer(self, library: Library, folders: Sequence[Folder]) -> IndexerSupervisor:
        opening, is_watched = self._state.opening, library.config.serve.watch.enabled
        if len(folders) < len(library.opened):
            opening = replace(opening, folder=tuple(str(folder.root) for folder in folders))
        if self._command is not None:
            command = self._command
            indexer = IndexerSupervisor(lambda _: command, ())
        else:
            indexer = IndexerSupervisor(
                partial(indexer_command, opening), folders if is_watched else ()
            )
        indexer.start()
        return indexer

    def _opened(self) -> Library | None:
        """Open the library; return None after an error or `stop`.

        While a folder is missing, retry.
        """
        while True:
            try:
                return self._open(self._state.opening)
            except BaseException as error:
                self._state.library.set_exception(error)  # raised by `library`
                if not isinstance(error, UnknownFolderError) or self._stopping.wait(
                    _MODEL_POLL_SECONDS
                ):
                    return None
                self._state.library = Future()

    def _load_models(self, library: Library) -> None:
        """Load the models as soon as the index names an embedding model."""
        while not self._stopping.is_set():
            try:
                library.load_models()
                self._state.model_problem = ""
            except StorageError as error:  # the index may be under repair
                self._state.model_problem = str(error)
            if library.has_model or self._state.indexer is None:
                return
            self._stopping.wait(_MODEL_POLL_SECONDS)
