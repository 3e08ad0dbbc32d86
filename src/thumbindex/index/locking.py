"""The writer's lock of one folder's index, which the system takes back from whoever dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from thumbindex.index.failures import told, writing


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock, waiting for whoever has it and calling `waiting` now and then."""
    lock = FileLock(path)
    mark = mark_of(path)
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            if waiting:
                waiting()
        except FileNotFoundError:  # the index was deleted while it was waited for
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise told(path.parent, error) from error
    try:
        with writing(path.parent):
            mark.touch()
        yield
    finally:
        with suppress(OSError):  # a mark that stays is seen through
            mark.unlink(missing_ok=True)
        lock.release()


def is_writing(lock: Path) -> bool:
    """Tell whether some process holds the writer's lock; a mark that a killed one left is seen through."""
    return mark_of(lock).exists() and is_held(lock)


def is_held(lock: Path) -> bool:
    """Tell whether some process holds a lock; where it is free it is held for the moment of looking."""
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


def mark_of(lock: Path) -> Path:
    """Return the file that stands beside a lock while it is held: looking is cheap and disturbs nobody."""
    return lock.with_suffix(".writing")


def drop_lock(path: Path) -> bool:
    """Delete a lock by who holds it: whoever waits for it makes a new one. Tell whether it is gone: Windows deletes no file that is open."""
    mark_of(path).unlink(missing_ok=True)
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True
