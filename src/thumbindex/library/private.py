"""Private notes, as the library sees them: nobody hears of them, in names or in numbers, and who asks for one hears what is said of none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from thumbindex.config import with_folder_file
from thumbindex.corpus.changes import Comparison
from thumbindex.corpus.decode import decode
from thumbindex.corpus.private import is_private_folder, is_private_path, is_private_text
from thumbindex.corpus.read import read_bytes
from thumbindex.library.folders import Folder
from thumbindex.model import FileState, Problem
from thumbindex.settings import Config


def open_directories(folders: Sequence[tuple[str, Path]], config: Config) -> dict[Path, Callable[[str], bool]]:
    """Return for each folder what tells whether a directory of its first level may be named."""
    return {root: partial(_may_be_named, with_folder_file(config, root)) for _, root in folders}


def _may_be_named(config: Config, name: str) -> bool:
    return not (config.closed or is_private_path(name, config.corpus) or is_private_folder(name, config.corpus))


def split_private(comparison: Comparison, private: Mapping[str, FileState]) -> tuple[Comparison, tuple[FileState, ...]]:
    """Split off the files that are private and as they were; one of them that was changed is as good as new."""
    if not private:
        return comparison, ()
    changes = comparison.changes
    again = {*changes.added, *changes.changed}
    same = tuple(state for state in comparison.states if state.path in private and state.path not in again)
    added = tuple(sorted({*changes.added, *(path for path in changes.changed if path in private)}))
    changed = tuple(path for path in changes.changed if path not in private)
    changes = replace(changes, added=added, changed=changed, unchanged=changes.unchanged - len(same))
    return replace(comparison, changes=changes, touched=tuple(path for path in comparison.touched if path not in private)), same


def without_private(problems: Sequence[Problem], private: Iterable[FileState]) -> tuple[Problem, ...]:
    """Leave out what a walk says of symlinks to private notes."""
    paths = tuple(f" -> {state.path}" for state in private)
    return tuple(problem for problem in problems if not (paths and problem.path.endswith(paths)))


def is_private_now(folder: Folder, path: str) -> bool:
    """Tell whether a file of the folder is private as it is now, whatever the index knows of it; one that cannot be read says nothing."""
    settings = folder.config.corpus
    if is_private_path(path, settings) or is_private_folder(path, settings):
        return True
    try:
        own = os.path.relpath(os.path.realpath(folder.root / path), folder.root).replace(os.sep, "/")
    except (OSError, ValueError):  # it is swapped for another just now, or no name at all
        return False
    if is_private_path(own, settings):
        return True
    data = read_bytes(folder.root, path, settings) if path.lower().endswith(settings.extensions) else b""
    return not isinstance(data, Problem) and is_private_text(path, decode(path, data)[0], settings)
