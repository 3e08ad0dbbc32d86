"""Locks of an index: the writer's, and the run that brings it up to date, told to other
processes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from thumbindex.errors import StorageError
from thumbindex.index.files import make_folder, storage_error, write_whole, writing

LOOK_SECONDS = 0.2
"""How long a lock is tried for that nobody may keep: who looks whether it is held has it for a
moment.
"""


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock, waiting for whoever has it and calling `waiting` now and then."""
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            if waiting:
                waiting()
        except FileNotFoundError:  # the index was deleted while it was waited for
            with writing(path.parent):
                make_folder(path.parent)
        except OSError as error:
            raise storage_error(path.parent, error) from error
    try:
        yield
    finally:
        lock.release()


def is_held(lock: Path) -> bool:
    """Return True if a process holds a lock. Looking takes a free lock for a moment, so of two that
    look at once one may be told True.
    """
    if not lock.exists():
        return False
    held = FileLock(lock)
    try:
        held.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:
        return False
    held.release()
    return False


def drop_lock(path: Path) -> bool:
    """Delete a lock by who holds it: whoever waits for it makes a new one.

    Tell whether it is gone: Windows deletes no file that is open.
    """
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


class WatchLock:
    """The lock of the one server that indexes a folder: the system frees it when that ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path, thread_local=False)
        self._inode = self._times = 0

    def try_lock(self) -> int:
        """Return how often this process has taken the lock if it holds it now, else 0.

        A lock whose file was deleted with the index is given up: another server may have taken the
        new one. Raises StorageError if the index folder cannot be written.
        """
        if self._lock.is_locked and _inode(self._path) != self._inode:
            self._lock.release()
        if not self._lock.is_locked:
            try:
                make_folder(self._path.parent)
                self._lock.acquire(blocking=False)
            except Timeout:
                return 0
            except OSError as error:
                raise storage_error(self._path.parent, error) from error
            self._inode = _inode(self._path)
            self._times += 1
        return self._times

    def release(self) -> None:
        """Let another server have it."""
        self._lock.release()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


_LOCK, _FILE = "work.lock", "work.json"

_ENTRY_SECONDS = 0.5
"""Between two entries of how far a run is."""


@dataclass(frozen=True, slots=True)
class Work:
    """A run of indexing."""

    pid: int
    run: int  # tells one run of a process from another
    phase: str = ""  # as in model.Progress; empty while it compares
    done: int = 0
    total: int = 0


@contextmanager
def at_work(folder: Path) -> Iterator[Callable[[str, int, int], None]]:
    """Let others know of a run that goes on in an index's folder; call what this gives with phase,
    done and total.

    Of several runs one is told of.
    """
    lock = FileLock(folder / _LOCK)
    began = Work(os.getpid(), time.monotonic_ns())
    try:
        make_folder(folder)
        lock.acquire(timeout=LOOK_SECONDS)
    except (Timeout, OSError):
        yield lambda phase, done, total: None
        return
    last = 0.0  # when an entry was written

    def tell(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _ENTRY_SECONDS:
            last = now
            _write(folder, Work(began.pid, began.run, phase, done, total))

    _write(folder, began)
    try:
        yield tell
    finally:
        with suppress(OSError):
            (folder / _FILE).unlink(missing_ok=True)
        lock.release()


def work_files(folder: Path) -> tuple[Path, Path]:
    """Return the lock that a run holds, and the file in which it says how far it is."""
    return folder / _LOCK, folder / _FILE


def work_in(folder: Path) -> Work | None:
    """Return the run that goes on in an index's folder, whoever's it is; None where there is none
    that is told of.
    """
    try:
        written = (folder / _FILE).read_text(encoding="utf-8")
        work = Work(**json.loads(written))
    except (OSError, ValueError, TypeError):
        return None
    return work if is_held(folder / _LOCK) else None  # a process that was killed leaves its file


def _write(folder: Path, work: Work) -> None:
    with suppress(StorageError):
        write_whole(folder / _FILE, json.dumps(asdict(work)))
