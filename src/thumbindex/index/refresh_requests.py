"""Requests of readers that a folder be indexed as it is on disk now.

A reader puts an empty file into the index's folder. The process that indexes deletes the files
that it saw before it compared the folder with the disk, once all words are committed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from thumbindex.index.files import as_storage_errors, make_folder

MAX_WAIT_SECONDS = 60.0
"""Longest wait of a reader: clients give up on an answer after 30 to 60 seconds."""

REQUESTS = "refresh"
"""The folder of these files in an index's folder."""


def request_refresh(folder: Path) -> Path:
    """Request a refresh; the file that this returns is gone once the folder is indexed.

    Raises StorageError if the index's folder cannot be written.
    """
    path = folder / REQUESTS / uuid4().hex
    with as_storage_errors(folder):
        make_folder(path.parent)
        path.touch()
    return path


def pending_requests(folder: Path) -> list[Path]:
    """Return the requests of an index's folder, without those that are older than any wait."""
    try:
        paths = [folder / REQUESTS / name for name in os.listdir(folder / REQUESTS)]  # noqa: PTH208
        return [path for path in paths if time.time() - path.stat().st_mtime < MAX_WAIT_SECONDS]
    except OSError:
        return []


def complete_requests(requests: Iterable[Path]) -> None:
    """Tell the readers that the folder is indexed."""
    for path in requests:
        with suppress(OSError):  # the reader has gone
            path.unlink()
