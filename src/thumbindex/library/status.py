"""Status of one folder's index: how large and complete it is, who writes it, what is wrong; and the
health of its model.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.encode.models import AUTO, BUNDLED, BUNDLED_HASHES, find_model
from thumbindex.errors import (
    IndexBusyError,
    IndexDamagedError,
    IndexTooNewError,
    ModelError,
    StorageError,
)
from thumbindex.index.editions import damage
from thumbindex.index.files import size_of
from thumbindex.index.locks import is_writing
from thumbindex.index.store import Store
from thumbindex.library.answering import folder_state
from thumbindex.library.folders import Folder
from thumbindex.library.freshness import SILENT_SECONDS, progress_of
from thumbindex.library.indexing import problem_of_dates
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.model import (
    FolderStatus,
    IndexState,
    IngestionCounts,
    LinkCounts,
    Problem,
    flags_of,
)

if TYPE_CHECKING:
    from thumbindex.library.engine import PublishedFolders

__all__ = ["AUTO", "SCHEMA", "ModelHealth", "examine_model", "is_whole", "verify_named"]

SCHEMA = Store.version
"""The version in which this program writes indexes."""

_SHA256 = 64
"""Hex digits of a sha256: the hub's cache names a large file by it."""


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """A model that was found, its files read whole."""

    name: str
    folder: Path
    dimensions: int
    verified: int  # files whose digests are known and right


def examine_model(name: str) -> ModelHealth:
    """Find a model on this machine, network or not, and compare its files with every digest that is
    known; raise ModelError.
    """
    # A cache that is empty remembers no digests: the files themselves are read.
    with tempfile.TemporaryDirectory(
        prefix="thumbindex-doctor-", ignore_cleanup_errors=True
    ) as cache:
        card = find_model(name, offline=True, cache=Path(cache))
    verified = len(BUNDLED_HASHES) if card.name == BUNDLED else verify_named(card.folder)
    return ModelHealth(card.name, card.folder, card.dimensions, verified)


def verify_named(folder: Path) -> int:
    """Compare the files of a folder in the hub's cache with the digests that they are named by;
    return how many have one, raise ModelError.
    """
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink() and path.is_file()]
    named = [path for path in links if len(path.resolve().name) == _SHA256]
    for path in named:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != path.resolve().name:
                raise ModelError(
                    f"{path} is not the file that was published: delete {path.resolve()} and "
                    "fetch the model again."
                )
    return len(named)


def is_whole(folder: Folder) -> bool:
    """Read a folder's index whole and tell whether there is nothing to mend; raise StorageError
    where it cannot be read at all.
    """
    return not damage(folder.places)


MOST_FLAGGED = 100
"""Flags that are listed: all notes are counted."""

_NOTHING = IndexState(0, 0, 0, 0, "", 0)

_FAILURES = {
    IndexDamagedError: "damaged",
    IndexBusyError: "busy",
    IndexTooNewError: "of a later version",
}


def _written(store: Path) -> Iterator[float]:
    """Yield when an SQLite file and its log were written: what is committed stands in the log at
    first.
    """
    for path in (store, store.with_name(f"{store.name}-wal")):
        with suppress(OSError):
            yield path.stat().st_mtime


def _published_status(reader: Reader, database: PublishedFolders) -> FolderStatus:
    """Return the state of a folder that lies in a database."""
    store, state = reader.store, folder_state(reader)
    now, published = database.confirmed(reader.folder.name)
    flagged = flags_of(store.flagged())
    return FolderStatus(
        reader.folder.name,
        reader.place,
        reader.place,
        True,
        0,
        state,
        store.problems(),
        store.link_counts(),
        writing=state.pending > 0 and now - published < SILENT_SECONDS,
        updated=datetime.fromtimestamp(published).astimezone().isoformat(timespec="seconds"),
        ingestion=store.duplicates.ingestion() if state.vectors else (),
        flagged=flagged[:MOST_FLAGGED],
        flagged_count=len({each.path for each in flagged}),
    )


def status_of(reader: Reader) -> FolderStatus:
    """Return the state of one folder's index; a damaged one says so and hides none of the
    others.
    """
    if reader.database and reader.indexed:
        return _published_status(reader, reader.database)
    if not isinstance(reader, DiskReader):  # somebody has forgotten it since this was opened
        return FolderStatus(
            reader.folder.name,
            reader.place,
            reader.place,
            False,
            0,
            _NOTHING,
            (),
            LinkCounts(),
            writing=False,
            updated="",
        )
    folder, places = reader.folder, reader.folder.places
    state, problems, links, failure, size, updated = (
        _NOTHING,
        folder.problems,
        LinkCounts(),
        "",
        0,
        "",
    )
    ingestion: tuple[IngestionCounts, ...] = ()
    flagged: tuple[Problem, ...] = ()
    is_stale = False
    if reader.indexed:
        size = size_of(places.folder)
        with suppress(ValueError):  # gone meanwhile
            updated = (
                datetime.fromtimestamp(max(_written(places.store)))
                .astimezone()
                .isoformat(timespec="seconds")
            )
        try:
            # until a run has read its last file
            links, is_stale = reader.store.link_counts(), reader.store.meta("links") == "stale"
            state, problems = folder_state(reader), (*folder.problems, *reader.store.problems())
            if said := problem_of_dates(folder, reader.store):
                problems += (Problem(".git", None, said),)
            flagged = flags_of(reader.store.flagged())
            ingestion = (
                reader.store.duplicates.ingestion()
                if folder.config.index.ingest.metrics and state.vectors
                else ()
            )
        except StorageError as error:
            state, problems, links = (
                _NOTHING,
                (*folder.problems, Problem(str(places.store), None, str(error))),
                LinkCounts(),
            )
            failure = _FAILURES.get(type(error), "unreadable")
    progress = progress_of(folder)
    writing = progress is not None or is_writing(places.lock)
    return FolderStatus(
        folder.name,
        str(folder.root),
        str(places.folder),
        reader.indexed,
        size,
        state,
        problems,
        links,
        writing,
        updated,
        failure,
        progress,
        ingestion,
        flagged=flagged[:MOST_FLAGGED],
        flagged_count=len({each.path for each in flagged}),
        away=not os.path.isdir(folder.root),  # noqa: PTH112 - a closed one is no error
        unfinished=is_stale and not writing,
    )
