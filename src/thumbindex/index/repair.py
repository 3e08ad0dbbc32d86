"""A store that cannot be used as it is: put aside, never thrown away, and begun anew with what can still be read of it.

Everything here is for who holds the writer's lock, and can be cut off anywhere: the new store is made beside the old one and takes its place
last, and views go first, since a new store counts its rows from the beginning again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from thumbindex.errors import IndexDamagedError, StorageError
from thumbindex.index.files import put_in_place, writing
from thumbindex.index.salvage import Count, Salvaged, salvage
from thumbindex.index.snapshot import Places
from thumbindex.index.stamp import clear, is_verified, read_stamp, refuse_lost, stamp_text, sweep
from thumbindex.index.store import Store

KEPT_ASIDE = 2
"""Damaged files that are kept, the newest: each is as large as an index."""

REPAIRING = "repairing"

Tell = Callable[[str, int, int], None]
"""Takes REPAIRING, how many of the old store's vectors were looked at, and of how many."""

_FINISHED = "salvaged"
"""The fact that a new store is all that it is going to be."""


def open_store(places: Places) -> Store:
    """Open the store to write, with views that are of no other store; raise IndexDamagedError."""
    _finish(places)
    if not places.store.exists():
        drop_views(places)
    store = Store(places.store)
    try:
        shown = read_stamp(places.keyword)
        if shown and shown.generation > store.generation:  # a backup was put back, or the disk lost what it had confirmed
            drop_views(places)
    except StorageError:
        store.close()
        raise
    sweep(places.keyword)
    return store


def looks_whole(places: Places) -> bool:
    """Read the index whole, without the lock, and tell whether there is nothing to mend; raise StorageError where it cannot be read at all."""
    if not places.store.exists():
        return True
    try:
        store = Store(places.store, read_only=True)
        try:
            store.scrub()
            refuse_lost(places.keyword, stamp_text(places.keyword), store.generation)
        finally:
            store.close()
    except IndexDamagedError:
        return False
    return not stamp_text(places.keyword) or is_verified(places.keyword, anew=True)


def _tell_nobody(phase: str, done: int, total: int) -> None:
    pass


def mend(places: Places, tell: Tell = _tell_nobody) -> str:
    """Read the index whole, put aside what is damaged and begin it anew; return what was done, in words, empty where nothing was."""
    if not places.store.exists():
        return ""
    try:
        store = open_store(places)
        try:
            store.scrub()
        finally:
            store.close()
    except IndexDamagedError as error:
        return _begin_anew(places, str(error).partition(" is damaged (")[2].partition("): run")[0], tell)
    if stamp_text(places.keyword) and not is_verified(places.keyword, anew=True):
        with writing(places.keyword):
            clear(places.keyword)
        return f"The keyword index in {places.folder} was damaged: it is built anew from the store."
    return ""


def put_aside(places: Places) -> tuple[Path, ...]:
    """Return the damaged stores that are kept, the newest first."""
    found = sorted(places.folder.glob(f"{places.store.name}.damaged-*"), reverse=True)
    return tuple(path for path in found if not path.name.endswith(("-wal", "-shm")))


def drop_views(places: Places) -> None:
    """Delete what is made of the store."""
    clear(places.keyword)


def _begin_anew(places: Places, damage: str, tell: Tell) -> str:
    """Put a new store with all that can be salvaged in place of one that is damaged."""
    new = _new(places)
    try:
        salvaged = _salvaged(places, new, partial(tell, REPAIRING))
    except StorageError:
        delete_store(new)  # on a full disk of all places
        raise
    drop_views(places)
    aside = _free_name(places)
    with writing(places.folder):
        _move_aside(places.store, aside)
        put_in_place(new, places.store)
    for path in put_aside(places)[KEPT_ASIDE:]:
        delete_store(path)
    kept = f"{salvaged.vectors:,} vectors were kept"
    return f"The index in {places.folder} was damaged ({damage}): it is kept aside as {aside.name} and built anew from the notes, {kept}."


def _salvaged(places: Places, new: Path, count: Count) -> Salvaged:
    """Make the new store beside the old one."""
    delete_store(new)
    store = Store(new)
    try:
        salvaged = salvage(places.store, store, count=count)
        with store.transaction():
            store.set_meta(_FINISHED, "yes")
    finally:
        store.close()
    return salvaged


def _finish(places: Places) -> None:
    """Finish a repair that was cut off between the old store and the new one; one that was cut off earlier begins again."""
    new = _new(places)
    if not new.exists():
        return
    if not places.store.exists() and _is_finished(new):
        with writing(places.folder):
            drop_views(places)
            delete_store(places.store)  # a log that was left without its store
            put_in_place(new, places.store)
    delete_store(new)


def _is_finished(path: Path) -> bool:
    try:
        store = Store(path)
    except StorageError:
        return False
    try:
        return store.meta(_FINISHED) == "yes"
    except StorageError:
        return False
    finally:
        store.close()  # the last one to close writes the log into the file


def _new(places: Places) -> Path:
    return places.store.with_name(f"{places.store.name}.new")


def _free_name(places: Places) -> Path:
    """Return a name that says when, and that sorts by it."""
    return places.store.with_name(f"{places.store.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")


def _move_aside(path: Path, aside: Path) -> None:
    """Move a store, then its log.

    The store goes first: cut off in between, there is a log without a store, which `_finish` deletes, and never a store without its log.
    """
    put_in_place(path, aside)
    log = path.with_name(f"{path.name}-wal")
    if log.exists():
        put_in_place(log, aside.with_name(f"{aside.name}-wal"))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)


def delete_store(path: Path) -> None:
    """Delete a store with its log."""
    with writing(path.parent):
        for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
            path.with_name(name).unlink(missing_ok=True)
