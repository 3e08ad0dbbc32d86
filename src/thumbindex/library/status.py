"""What can be told of one folder's index: how large and how far it is, who writes it, and what is wrong with it."""

from __future__ import annotations

from datetime import datetime

from thumbindex.errors import ConfigError, IndexBusyError, IndexDamagedError, IndexTooNewError, StorageError
from thumbindex.index.location import size_of
from thumbindex.index.locking import is_writing
from thumbindex.index.repair import put_aside
from thumbindex.index.snapshot import Places
from thumbindex.library.answering import folder_state
from thumbindex.library.looking import ingestion_counts
from thumbindex.library.others import progress_of
from thumbindex.library.reader import Reader
from thumbindex.library.tuned import read_tuned
from thumbindex.model import FolderStatus, IndexState, IngestionCounts, Problem, flags_of

MOST_FLAGGED = 100
"""Flags that are listed: all notes are counted."""

_NOTHING = IndexState(0, 0, 0, 0, "", 0)

_FAILURES = {
    IndexDamagedError: "damaged",
    IndexBusyError: "busy",
    IndexTooNewError: "of a later version",
}


def status_of(reader: Reader) -> FolderStatus:
    """Return the state of one folder's index; a damaged one says so and hides none of the others."""
    folder, places = reader.folder, reader.folder.places
    state, problems, links, failure, size, updated = _NOTHING, folder.problems, (0, 0), "", 0, ""
    ingestion: tuple[IngestionCounts, ...] = ()
    flagged: tuple[Problem, ...] = ()
    if reader.indexed:
        size, updated = size_of(places.folder), _updated(places)
        try:
            links = reader.store.link_counts()
            state, problems = folder_state(reader), (*folder.problems, *reader.store.problems())
            flagged = flags_of(reader.store.flagged())
            ingestion = ingestion_counts(reader.store) if folder.config.index.ingest.metrics and state.vectors else ()
        except StorageError as error:
            state, problems, links = _NOTHING, (*folder.problems, Problem(str(places.store), None, str(error))), (0, 0)
            failure = _FAILURES.get(type(error), "unreadable")
        problems += _kept_aside(places)
    tuned = None
    try:
        tuned = read_tuned(places)
    except ConfigError as error:
        problems += (Problem(str(places.tuned), None, f"{error} The defaults are used: tune it anew."),)
    progress = progress_of(folder)
    names = (folder.name, str(folder.root), str(places.folder), reader.indexed)
    writing = progress is not None or is_writing(places.lock)
    count = len({each.path for each in flagged})
    flagged = flagged[:MOST_FLAGGED]
    return FolderStatus(
        *names, size, state, problems, *links, writing, updated, failure, progress, ingestion, tuned, flagged, count, not folder.root.is_dir()
    )


def _updated(places: Places) -> str:
    try:
        return datetime.fromtimestamp(places.store.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    except OSError:
        return ""


def _kept_aside(places: Places) -> tuple[Problem, ...]:
    return tuple(Problem(str(path), None, "is an index that was damaged and built anew: delete it when all is well") for path in put_aside(places))
