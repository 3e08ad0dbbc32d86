"""Requests by readers to index a folder's current files.

To make a request, a reader creates an empty file in the index's folder. The next run that starts
deletes this file after committing all documents to the keyword index.
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
"""A reader waits at most this long, because MCP clients give up after 30 to 60 seconds."""

REQUESTS = "refresh"
"""Name of the folder of request files, in the index's folder."""


def request_refresh(folder: Path) -> Path:
    """Request a refresh. Return the request file, which is deleted once the folder is indexed.

    Raises StorageError.
    """
    path = folder / REQUESTS / uuid4().hex
    with as_storage_errors(folder):
        make_folder(path.parent)
        path.touch()
    return path


def pending_requests(folder: Path) -> list[Path]:
    """Return the requests in an index's folder whose readers may still be waiting."""
    try:
        paths = [folder / REQUESTS / name for name in os.listdir(folder / REQUESTS)]  # noqa: PTH208
        return [path for path in paths if time.time() - path.stat().st_mtime < MAX_WAIT_SECONDS]
    except OSError:
        return []


def complete_requests(requests: Iterable[Path]) -> None:
    """Delete request files, to tell the waiting readers that the folder is indexed."""
    for path in requests:
        with suppress(OSError):  # already deleted
            path.unlink()
