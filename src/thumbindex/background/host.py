"""What goes on behind a server's answers: the library opens, a child process indexes, models load,
and a follower opens what is new.
"""

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

# ------------------------------------------------------------------ what is new in the indexes

POLL_SECONDS = 0.25
"""Between two looks at the indexes: a new generation is open well within a second.

Where nothing is new a look is a few tiny reads.
"""

_LONGEST_PAUSE_SECONDS = 60.0
"""Opening a large index takes time, which answers miss: between two looks the follower rests as
long as a look took, and no longer than this on a machine that slept meanwhile.
"""

Listener = Callable[[Mapping[str, Changes]], None]
"""Takes by folder what came, went and changed; called in the follower's thread, so it returns at
once.
"""


class IndexFollower:
    """Polls the indexes until it is stopped. It skips errors: queries report them."""

    def __init__(self, pause: float = POLL_SECONDS) -> None:
        self._pause = pause
        self._listeners: dict[object, tuple[Listener, Collection[str] | None]] = {}
        self._change_counts: Counter[str] = Counter()  # by folder, how often there was some
        self._began = time.time_ns()
        self._stopped = threading.Event()

    def listen(
        self, listener: Listener, only: Collection[str] | None = None
    ) -> Callable[[], object]:
        """Call `listener` after every change, with `only` for these folders.

        Return a function that unsubscribes.
        """
        key = object()
        self._listeners[key] = (listener, only)
        return partial(self._listeners.pop, key, None)

    def revision(self, only: Collection[str] | None = None) -> str:
        """Return what differs after each news of these folders, and in each process: what is read
        from then on holds all that it counts.
        """
        changes = list(self._change_counts.items())
        counted = sum(count for name, count in changes if only is None or name in only)
        return f"{self._began}-{counted}"

    def start(self, library: Library) -> None:
        """Follow in a thread of its own."""
        threading.Thread(target=self.follow, args=(library,), name="follower", daemon=True).start()

    def follow(self, library: Library) -> None:
        """Follow until `stop`."""
        changes = library.track_changes()
        while not self._stopped.is_set():
            began = time.monotonic()
            for name, _ in library.folders:
                with suppress(ThumbindexError, OSError):  # for those who ask to see
                    library.warm_up([name])
                    self._notify(changes.poll([name]))
            resume_garbage_collection()  # has an effect once, when the start is over
            self._stopped.wait(
                max(self._pause, min(time.monotonic() - began, _LONGEST_PAUSE_SECONDS))
            )

    def _notify(self, found: Mapping[str, Changes]) -> None:
        self._change_counts.update(found.keys())
        for listener, only in list(self._listeners.values()):
            own = {name: changes for name, changes in found.items() if only is None or name in only}
            if own:
                listener(own)

    def stop(self) -> None:
        """End `follow`, from another thread."""
        self._stopped.set()


# ------------------------------------------------------------------ what goes on behind the answers

_LOG = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Closeable(Protocol):
    """Something that listens until it is closed."""

    def close(self) -> None:
        """Stop listening."""


StartCommandServer = Callable[["Library"], Closeable | None]
"""Starts to answer commands from an open library; None if that is not possible here."""

WORDS_WAIT_SECONDS = 20.0
"""The longest that a query waits for the first words, or for a repair: clients give up after 30 to
60 s.
"""

MODEL_WAIT_SECONDS = 2.0
"""After opening, the longest that queries wait for the model of vectors: it loads in about one, and
a first answer is due within three.
"""

_POLL_SECONDS = 0.1

_SHORT_POLL_SECONDS = 0.02

_MODEL_POLL_SECONDS = 1.0


_WITHOUT_MODEL = (
    "The model is not loaded: answers come from words alone. Whoever runs this server finds the "
    "reason with `thumbindex status`."
)
"""For those who see some folders only: the reason may name another one."""


def ignore_progress(progress: Progress) -> None:
    """Report no progress."""


def never() -> bool:
    """Return False: nothing is interrupted."""
    return False


@dataclass
class _State:
    """The state that a host and its views of single folders share."""

    opening: OpenOptions
    library: Future[Library] = field(default_factory=Future)
    indexer: IndexerSupervisor | None = None
    command_server: Closeable | None = None
    model_problem: str = ""
    model_deadline: float = float("inf")
    is_started: bool = False


class LibraryHost:
    """Opens the library for a server on first use, in a thread: the protocol does not wait."""

    def __init__(
        self,
        opening: OpenOptions,
        open_it: Callable[[OpenOptions], Library] = open_library,
        command: Sequence[str] | None = None,
        start_command_server: StartCommandServer | None = None,
    ) -> None:
        self.follower = IndexFollower()
        self._state = _State(opening)
        self._only: Collection[str] | None = None  # the folders that may be seen; None for all
        self._open = open_it
        self._command = command
        self._start_command_server = start_command_server
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def only(self, folders: Collection[str]) -> LibraryHost:
        """Return what the holder of a token sees: some of the folders, as if there were no
        others.
        """
        view = copy(self)
        view._only = folders
        return view

    @property
    def names(self) -> tuple[str, ...]:
        """Name the folders that are served, as far as that is known."""
        if self._only is not None:
            return tuple(sorted(self._only))
        library = self.opened_library()
        return tuple(name for name, _ in library.folders) if library else ()

    def listen(self, listener: Listener) -> Callable[[], object]:
        """Call a listener on each change from now on; return how to end that."""
        return self.follower.listen(listener, self._only)

    def revision(self) -> str:
        """Return what differs after each change, and in each process."""
        return self.follower.revision(self._only)

    @property
    def opening(self) -> OpenOptions:
        """What is served, as a command of its own would open it."""
        return self._state.opening

    def start(self) -> None:
        """Begin; a second call does nothing."""
        with self._lock:
            if self._state.is_started:
                return
            self._state.is_started = True
        threading.Thread(target=self._run, name="library-host", daemon=True).start()

    def start_soon(self, seconds: float = 0.5) -> None:
        """Begin in a moment, so that the answer that is just being written leaves first."""
        timer = threading.Timer(seconds, self.start)
        timer.daemon = True
        timer.start()

    def library(self) -> Library:
        """Return the library, open; raises what opening it raised, for who sees some of the folders
        without the names in it.
        """
        self.start()
        if self._only is None:
            return self._state.library.result()
        try:
            return self._state.library.result().only(self._only)
        except ThumbindexError as error:
            _LOG.warning("The folders cannot be opened: %s", error)
            raise StorageError(
                "The notes cannot be opened just now: whoever runs this server finds the "
                "reason in its log."
            ) from None

    @property
    def is_ready(self) -> bool:
        """Return whether the library is open and every folder has words to search."""
        library = self.opened_library()
        return library is not None and library.is_searchable

    def opened_library(self) -> Library | None:
        """Return the library; None where it is not open (yet)."""
        opened = self._state.library
        if not opened.done() or opened.exception():
            return None
        return opened.result() if self._only is None else opened.result().only(self._only)

    def await_words(
        self,
        seconds: float = WORDS_WAIT_SECONDS,
        tell: Callable[[Progress], None] = ignore_progress,
        interrupted: Callable[[], bool] = never,
    ) -> None:
        """Wait until there are words to search, the child has ended, the time is up or
        `interrupted` says so; tell how far they are.

        Raises StorageError if there is no index and none can be made.
        """
        library, until = self.library(), time.monotonic() + seconds
        while not (library.indexed or self._indexer_is_stuck) and time.monotonic() < until:
            if interrupted():
                return
            for each in self.progress():
                tell(each)
            time.sleep(_POLL_SECONDS)
        index_failures = self.index_failures()
        if index_failures and not any(state.documents for state in library.index_states().values()):
            raise StorageError(" ".join(index_failures))

    @property
    def _indexer_is_stuck(self) -> bool:
        indexer = self._state.indexer
        return indexer is not None and indexer.has_failed

    def index_failures(self) -> tuple[str, ...]:
        """Return why there is no index of a folder, where the child could make none."""
        library, indexer = self.library(), self._state.indexer
        if indexer is None or library.indexed:
            return ()
        missing = {name for name, _ in library.folders if not library.only([name]).indexed}
        if not indexer.is_running:
            return indexer.notes(None if self._only is None else missing)
        return indexer.write_failures(missing)

    def await_model(self, interrupted: Callable[[], bool] = never) -> None:
        """Wait for the model where there are vectors to search, until it is clear that there is
        none or the time for it is up.
        """
        self.library()
        # asked for again each time: a view keeps the models that were there when it was asked for
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
        """Ask; where that meets damage, have the child repair it and ask again, as long as one
        waits for words.

        Raises what was met last.
        """
        until = time.monotonic() + WORDS_WAIT_SECONDS
        damaged = False
        while True:
            try:
                return ask()
            except StorageError as error:
                # While a damaged index is built anew it may also be locked or not there.
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
        """Return whether there is a child that indexes, or is about to."""
        return self._state.indexer is not None and self._state.indexer.is_running

    def notes(self) -> tuple[str, ...]:
        """Return in words what went wrong behind the answers; empty while all is well.

        A view names and tells of no other folder.
        """
        state, sees_all = self._state, self._only is None
        of_model = state.model_problem if sees_all or not state.model_problem else _WITHOUT_MODEL
        library = self.opened_library()
        of_files = tuple(
            f"The folder {each.name} is served without its own file {FOLDER_FILE}: `status` says "
            "why."
            for each in (library.opened if library else ())
            if each.problems
        )
        of_child = state.indexer.notes(self._only) if state.indexer else ()
        return tuple(note for note in (*of_files, *of_child, of_model) if note)

    def progress(self) -> tuple[Progress, ...]:
        """Return how far the folders are that are being indexed, by whichever process."""
        library = self.opened_library()
        return library.progress() if library else ()

    def stop(self) -> None:
        """End the child and the follower."""
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
        # of a database a builder takes care
        own = [each for each in library.opened if is_local_path(each.root)]
        if self._command or (self._command is None and own):
            with self._lock:
                if not self._stopping.is_set():
                    self._state.indexer = self._started_indexer(library, own)
        self._state.model_deadline = time.monotonic() + MODEL_WAIT_SECONDS
        self._state.library.set_result(library)
        self.follower.start(library)
        try:
            self._load_models(library)
        except ModelError as error:
            self._state.model_problem = f"{error} Answers go on without it."
        except ThumbindexError as error:
            self._state.model_problem = str(error)
        start = self._start_command_server
        if start and library.config.serve.answer_commands and library.has_model:
            with self._lock:
                if not self._stopping.is_set():
                    self._state.command_server = start(library)

    def _started_indexer(self, library: Library, own: Sequence[Folder]) -> IndexerSupervisor:
        """Start what keeps the indexes of this machine's folders up to the disk."""
        opening, is_watched = self._state.opening, library.config.serve.watch.enabled
        if len(own) < len(library.opened):
            opening = replace(opening, folder=tuple(str(each.root) for each in own))
        if self._command is not None:
            given = self._command
            indexer = IndexerSupervisor(lambda _: given, ())
        else:
            indexer = IndexerSupervisor(
                partial(indexer_command, opening), own if is_watched else ()
            )
        indexer.start()
        return indexer

    def _opened(self) -> Library | None:
        """Open the library; wait for a missing folder, report other errors to each caller."""
        while True:
            try:
                return self._open(self._state.opening)
            except BaseException as error:
                self._state.library.set_exception(error)
                if not isinstance(error, UnknownFolderError) or self._stopping.wait(
                    _MODEL_POLL_SECONDS
                ):
                    return None
                self._state.library = Future()

    def _load_models(self, library: Library) -> None:
        """Load the models as soon as the index says which: it keeps the one that it was made with,
        whatever `auto` is.
        """
        while not self._stopping.is_set():
            try:
                library.load_models()
                self._state.model_problem = ""
            except StorageError as error:  # under repair, perhaps
                self._state.model_problem = str(error)
            if library.has_model or self._state.indexer is None:
                return
            self._stopping.wait(_MODEL_POLL_SECONDS)
