"""A folder in which nothing changed since nothing was left to do: told by one look at what the system lists, without the rules and the manifest."""

from __future__ import annotations

from thumbindex.corpus.listing import Seen, is_as_seen
from thumbindex.errors import StorageError
from thumbindex.index.seen import Facts, SeenState, read_seen, write_seen
from thumbindex.library.folders import Folder
from thumbindex.text import text_key

WALK_VERSION = 1
"""Changes when the same folder would be walked, or its listing be digested, in another way."""


def count_unchanged(folder: Folder, cutting: str) -> int | None:
    """Return how many files are indexed where the folder and the index are as they were when nothing was left to do; None where they may not be.

    `cutting` is what decides how a file is cut.
    """
    try:
        state = read_seen(folder.places, _read_as(folder, cutting))
    except StorageError:
        return None  # whoever compares tells what is wrong with it
    if state is None or not is_as_seen(folder.root, folder.config.corpus, Seen(state.salt, state.folders)):
        return None
    return state.files


def note_unchanged(folder: Folder, cutting: str, seen: Seen, files: int, generation: int, store: Facts) -> None:
    """Keep what a walk saw that found nothing to do; `store` is what the store's file was before it was compared with, in that generation."""
    write_seen(folder.places, SeenState(_read_as(folder, cutting), seen.salt, seen.folders, files, generation, store))


def _read_as(folder: Folder, cutting: str) -> str:
    return text_key(f"{WALK_VERSION} {cutting} {folder.config.corpus!r}").hex()  # names in globs may be private
