"""What the folder looked like when nothing was left to do for its words: kept beside the store,
believed only while that is untouched since.

Nothing depends on it: where it is missing, damaged or of another state of the store, the folder is
walked and compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

from thumbindex.errors import StorageError
from thumbindex.index.files import Places, write_whole
from thumbindex.index.store import Store
from thumbindex.index.words import KeywordView

Facts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class UnchangedState:
    """A state of the folder with the state of the store that shows it."""

    read_as: str  # by what settings and versions files are found and read
    salt: str
    folders: Mapping[str, str]  # by digests alone: names may be private
    files: int  # that are no news
    generation: int
    store: Facts  # what was written to the store in any other way than by a transaction shows here


def store_facts(places: Places) -> Facts:
    """Return what changes whenever somebody writes the store's file, or the log beside it; an empty
    log is none.
    """
    return tuple(
        _facts(path) for path in (places.store, places.store.with_name(f"{places.store.name}-wal"))
    )


def _facts(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    if not found.st_size:
        return ()
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def read_unchanged(places: Places, read_as: str) -> UnchangedState | None:
    """Return what was seen, where the index is now as it was then and whole as far as a glance
    tells.

    None where it is not, or where files would be found or read in another way now. Raises
    StorageError where the store cannot be read.
    """
    state = _read(places.unchanged)
    if state is None or state.read_as != read_as or state.store != store_facts(places):
        return None
    with closing(Store(places.store, read_only=True)) as store, store.reading():
        is_same = store.generation == state.generation
        if is_same and KeywordView(places.keyword).lacking(int(store.meta("words", "0"))) == 0:
            return state
        return None


def write_unchanged(places: Places, state: UnchangedState) -> None:
    """Keep what was seen; where that is refused, or the index was deleted meanwhile, the next run
    compares as if there were nothing.

    No lock is held: of two that write the same file at once the checksum tells.
    """
    text = json.dumps(asdict(state))
    with suppress(StorageError):
        if places.store.exists():
            write_whole(places.unchanged, f"{crc32(text.encode())}\n{text}")


def _read(path: Path) -> UnchangedState | None:
    try:
        check, _, text = path.read_text(encoding="utf-8").partition("\n")
        if check != str(crc32(text.encode())):
            return None
        written = json.loads(text)
        return UnchangedState(**{**written, "store": tuple(map(tuple, written["store"]))})
    except (OSError, ValueError, TypeError, KeyError):
        return None
