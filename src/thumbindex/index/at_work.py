"""Who brings an index up to date just now, and how far that is: told by one process to all others, through a file beside the index.

The writer's lock is held for commits alone; another one is held for a whole run, so that what the file says is known to be of one who lives.
Nothing depends on it: where the file cannot be written, a run goes on unseen.
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

from thumbindex.index.locking import is_held

_LOCK, _FILE = "work.lock", "work.json"

_TOLD_SECONDS = 0.5
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
    """Let others know of a run that goes on in an index's folder; call what this gives with phase, done and total. Of several runs one is told of."""
    lock = FileLock(folder / _LOCK)
    began = Work(os.getpid(), time.monotonic_ns())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        yield lambda phase, done, total: None
        return
    last = 0.0

    def tell(phase: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _TOLD_SECONDS:
            last = time.monotonic()
            _write(folder, Work(began.pid, began.run, phase, done, total))

    _write(folder, began)
    try:
        yield tell
    finally:
        with suppress(OSError):
            (folder / _FILE).unlink(missing_ok=True)
        lock.release()


def work_in(folder: Path) -> Work | None:
    """Return the run that goes on in an index's folder, whoever's it is; None where there is none that is told of."""
    try:
        written = (folder / _FILE).read_text(encoding="utf-8")
        work = Work(**json.loads(written))
    except (OSError, ValueError, TypeError):
        return None
    return work if is_held(folder / _LOCK) else None  # a process that was killed leaves its file


def _write(folder: Path, work: Work) -> None:
    with suppress(OSError):
        (folder / _FILE).write_text(json.dumps(asdict(work)), encoding="utf-8")
