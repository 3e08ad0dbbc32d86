"""Ask whoever indexes a folder to take in what is on disk now.

Who asks puts an empty file into the index's folder. Whoever indexes deletes the files that it
saw there before it compared the folder with the disk, once the words of all of it are committed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from thumbindex.index.files import make_folder, writing

LONGEST_WAIT = 60.0
"""Seconds that anybody waits: clients give up on an answer after 30 to 60."""

ASKS = "asks"
"""The folder of these files in an index's folder."""


def ask(folder: Path) -> Path:
    """Ask for what is on disk now; the file that this returns is gone once it is indexed.

    Raises StorageError if the index's folder cannot be written.
    """
    path = folder / ASKS / uuid4().hex
    with writing(folder):
        make_folder(path.parent)
        path.touch()
    return path


def asks_in(folder: Path) -> list[Path]:
    """Return what is asked of an index's folder and not answered yet; nobody waits for an old
    ask, which may be another user's and stay.
    """
    try:
        asks = [folder / ASKS / name for name in os.listdir(folder / ASKS)]  # noqa: PTH208
        return [each for each in asks if time.time() - each.stat().st_mtime < LONGEST_WAIT]
    except OSError:
        return []


def answer(asks: Iterable[Path]) -> None:
    """Tell those who asked that it is indexed."""
    for path in asks:
        with suppress(OSError):  # who asked has gone
            path.unlink()
