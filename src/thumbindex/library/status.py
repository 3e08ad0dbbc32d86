"""Report a folder index's status (size, counts, writers, problems) and its model's health."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from thumbindex.encode.models import BUNDLED, BUNDLED_FILES, bundled_folder, find_model
from thumbindex.errors import (
    IndexBusyError,
    IndexDamagedError,
    IndexTooNewError,
    ModelError,
    StorageError,
)
from thumbindex.index.builds import find_damage
from thumbindex.index.files import folder_size
from thumbindex.index.locks import is_held
from thumbindex.index.store import Store
from thumbindex.library.answering import folder_index_state
from thumbindex.library.commit_dates import commit_dates_problem
from thumbindex.library.freshness import PUBLISHER_TIMEOUT_SECONDS, current_progress
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import hidden_paths
from thumbindex.model import FolderStatus, IndexState, LinkCounts, Problem, flags_of

__all__ = ["SCHEMA", "ModelHealth", "examine_model", "is_intact", "verify_named"]

SCHEMA = Store.version
"""The schema version of new indexes."""

_SHA256 = 64
"""Hex digits of a SHA-256 digest. The Hugging Face cache names large files by their digests."""


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """A model and the number of its verified files."""

    name: str
    folder: Path
    dimensions: int
    verified: int  # files with known, matching digests


def examine_model(name: str) -> ModelHealth:
    """Find a model on this machine and verify its files. Raises ModelError."""
    card = find_model(name, offline=True)
    if card.name == BUNDLED:
        bundled_folder(check_digests=True)
    verified = len(BUNDLED_FILES) if card.name == BUNDLED else verify_named(card.folder)
    return ModelHealth(card.name, card.folder, card.dimensions, verified)


def verify_named(folder: Path) -> int:
    """Verify the model files that the Hugging Face cache names by digest; return their number.

    Raises ModelError.
    """
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink() and path.is_file()]
    digest_named = [path for path in links if len(path.resolve().name) == _SHA256]
    for path in digest_named:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != path.resolve().name:
                raise ModelError(
                    f"{path} is damaged (checksum mismatch): delete {path.resolve()} and fetch "
                    "the model again."
                )
    return len(digest_named)


def is_intact(folder: Folder) -> bool:
    """Return whether a folder's index is undamaged. Raises StorageError."""
    return not find_damage(folder.index_paths)


MAX_FLAGGED = 100
"""Maximum flags that a folder's status lists."""

_FAILURES = {
    IndexDamagedError: "damaged",
    IndexBusyError: "busy",
    IndexTooNewError: "of a later version",
}


def status_of(reader: Reader) -> FolderStatus:
    """Return the status of one folder's index. A damaged index is reported as a problem."""
    folder, database = reader.folder, reader.database
    status = FolderStatus(
        folder.name,
        reader.location if database else str(folder.root),
        reader.location,
        reader.indexed,
        0,
        IndexState(0, 0, 0, 0, "", 0),
        folder.problems,
        LinkCounts(),
        writing=False,
        updated="",
    )
    if database and status.indexed:
        now, published = database.confirmed(folder.name)
        status = _with_contents(replace(status, updated=_iso(published)), reader)
        is_written = status.index.pending > 0 and now - published < PUBLISHER_TIMEOUT_SECONDS
        return replace(status, writing=is_written)
    if database:  # the folder's index was deleted since it was opened
        return status
    index_paths, progress = folder.index_paths, current_progress(folder)
    status = replace(
        status,
        progress=progress,
        writing=progress is not None or is_held(index_paths.lock),
        is_missing=not os.path.isdir(folder.root),  # noqa: PTH112 - an unreadable one is no error
    )
    if not status.indexed:
        return status
    status = replace(
        status,
        size_bytes=folder_size(index_paths.folder),
        updated=_iso(_written_at(index_paths.store)),
    )
    try:
        return _with_contents(status, reader)
    except StorageError as error:
        problem = Problem(str(index_paths.store), None, str(error))
        failure = _FAILURES.get(type(error), "unreadable")
        return replace(status, skipped=(*status.skipped, problem), failure=failure)


def _with_contents(status: FolderStatus, reader: Reader) -> FolderStatus:
    """Add the index's counts and problems to a status."""
    store, folder, state = reader.store, reader.folder, folder_index_state(reader)
    flagged, problems = flags_of(store.flagged()), (*status.skipped, *store.problems())
    hidden = hidden_paths({flag.path for flag in flagged}, reader)
    flagged = tuple(flag for flag in flagged if flag.path not in hidden)
    if isinstance(store, Store) and (problem := commit_dates_problem(folder, store)):
        problems += (Problem(".git", None, problem),)
    is_measured = folder.config.index.ingest.metrics and state.vectors
    return replace(
        status,
        index=state,
        skipped=problems,
        links=store.link_counts(),
        ingestion=store.duplicates.ingestion() if is_measured else (),
        flagged=flagged[:MAX_FLAGGED],
        flagged_count=len({flag.path for flag in flagged}),
        # a run was cut off before its last file
        unfinished=store.meta("links") == "stale" and not status.writing,
    )


def _written_at(store: Path) -> float:
    """Return the last write time of a database and its write-ahead log; 0 if both are missing."""
    newest = 0.0
    for path in (store, store.with_name(f"{store.name}-wal")):
        with suppress(OSError):
            newest = max(newest, path.stat().st_mtime)
    return newest


def _iso(seconds: float) -> str:
    when = datetime.fromtimestamp(seconds).astimezone()
    return when.isoformat(timespec="seconds") if seconds else ""
