"""Locks of an index, and the published progress of an indexing run."""

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
from thumbindex.index.files import as_storage_errors, make_folder, storage_error, write_atomically

_PROBE_SECONDS = 0.2
"""How long `publish_run` waits for the lock: another process may hold it briefly in `is_held`."""


@contextmanager
def hold_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock. While another process has it, wait and call `on_wait` twice a second."""
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            if on_wait:
                on_wait()
        except FileNotFoundError:  # the index was deleted
            with as_storage_errors(path.parent):
                make_folder(path.parent)
        except OSError as error:
            raise storage_error(path.parent, error) from error
    try:
        yield
    finally:
        lock.release()


def is_held(lock: Path) -> bool:
    """Return whether a process holds a lock.

    If the lock is free, this takes it briefly, so a concurrent call may return True.
    """
    if not lock.exists():
        return False
    probe = FileLock(lock)
    try:
        probe.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:
        return False
    probe.release()
    return False


def delete_lock(path: Path) -> bool:
    """Delete the file of a lock that the caller holds; return False if Windows refuses.

    Waiting processes create a new file.
    """
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


class WatchLock:
    """The lock of the server that indexes a folder, released when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path, thread_local=False)
        self._inode = self._times = 0

    def try_lock(self) -> int:
        """Take or keep the lock. Return 0 if another process has the lock.

        Otherwise, return how many times this process has taken the lock. If the lock's file was
        deleted with the index, lock a new file. Raises StorageError.
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
        """Release the lock."""
        self._lock.release()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


_LOCK, _FILE = "run.lock", "run.json"

_ENTRY_SECONDS = 0.5
"""The progress file is written at most once in this many seconds."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of an indexing run."""

    pid: int
    run: int  # unique within the process
    phase: str = ""  # as in model.Progress; "" while files are compared
    done: int = 0
    total: int = 0


@contextmanager
def publish_run(folder: Path) -> Iterator[Callable[[str, int, int], None]]:
    """Publish the progress of a run in an index's folder.

    Yields a function that takes phase, done and total. If another run is already published, the
    function does nothing.
    """
    lock = FileLock(folder / _LOCK)
    started = RunProgress(os.getpid(), time.monotonic_ns())
    try:
        make_folder(folder)
        lock.acquire(timeout=_PROBE_SECONDS)
    except (Timeout, OSError):
        yield lambda phase, done, total: None
        return
    last = 0.0  # time of the last write

    def write_progress(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _ENTRY_SECONDS:
            last = now
            _write(folder, RunProgress(started.pid, started.run, phase, done, total))

    _write(folder, started)
    try:
        yield write_progress
    finally:
        with suppress(OSError):
            (folder / _FILE).unlink(missing_ok=True)
        lock.release()


def run_files(folder: Path) -> tuple[Path, Path]:
    """Return the paths of a run's lock file and progress file."""
    return folder / _LOCK, folder / _FILE


def current_run(folder: Path) -> RunProgress | None:
    """Return the progress of the run that is writing an index, in any process, or None."""
    try:
        text = (folder / _FILE).read_text(encoding="utf-8")
        progress = RunProgress(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None
    # a killed process leaves its file behind
    return progress if is_held(folder / _LOCK) else None


def _write(folder: Path, progress: RunProgress) -> None:
    with suppress(StorageError):
        write_atomically(folder / _FILE, json.dumps(asdict(progress)))
