"""Indexed folders: their index paths and configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from thumbindex.config import (
    FOLDER_FILE,
    configured_roots,
    folder_names,
    resolve_folders,
    with_folder_file,
)
from thumbindex.index.builds import indexed_root
from thumbindex.index.files import IndexPaths, index_location, index_parent, refuse_network_drive
from thumbindex.index.refresh_requests import pending_requests
from thumbindex.model import Problem
from thumbindex.settings import Config

_LOG = logging.getLogger(__name__)

FileFacts = tuple[tuple[int, ...], ...]
"""Mode, inode, size and times of a file, and of the file that it is a symlink to; empty if there is
none.
"""


@dataclass(frozen=True, slots=True)
class Folder:
    """An indexed folder."""

    name: str
    root: Path  # absolute, symlinks resolved
    index_paths: IndexPaths
    config: Config  # with the folder's own `thumbindex.toml` taken in
    # the user's configuration alone; None if the folder's own file is not read again
    users: Config | None = None
    own_file: FileFacts = ()  # of the folder's own file when it was read

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problem of the folder's own settings file."""
        path, _, reason = self.config.folder_file_error.partition(": ")
        return (Problem(path, None, reason),) if path else ()

    @property
    def has_refresh_request(self) -> bool:
        """Return whether a reader waits for current files to be indexed."""
        return bool(pending_requests(self.index_paths.folder))


def with_current_privacy(folder: Folder) -> Folder:
    """Return the folder with the current private rules of its own file, if that has changed.

    Earlier rules stay: an editor may delete the file before it writes the new one.
    """
    facts = _facts_of_own_file(folder.root)
    if folder.users is None or facts == folder.own_file:
        return folder
    now, before = with_folder_file(folder.users, folder.root), folder.config.corpus
    kept = (glob for glob in before.private.globs if not glob.startswith("!"))
    globs, tags = (
        (*now.corpus.private.globs, *kept),
        (*now.corpus.private.tags, *before.private.tags),
    )
    private = replace(
        before.private, globs=tuple(dict.fromkeys(globs)), tags=tuple(dict.fromkeys(tags))
    )
    config = replace(
        folder.config,
        corpus=replace(before, private=private),
        blocks_indexing=now.blocks_indexing,
        folder_file_error=now.folder_file_error,
    )
    return replace(folder, config=config, own_file=facts)


def _facts_of_own_file(root: Path) -> FileFacts:
    """Return the facts that differ after a change of a folder's own file."""
    found: list[tuple[int, ...]] = []
    for look in (os.lstat, os.stat):
        with suppress(OSError):
            facts = look(root / FOLDER_FILE)
            found.append(
                (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            )
    return tuple(found)


def index_paths_of(directory: str, root: Path) -> IndexPaths:
    """Return the paths of a folder's index; refuse a network drive or the folder itself."""
    location = index_location(directory, root)
    refuse_network_drive(location)
    return IndexPaths(location)


def find_folders(
    config: Config, names: Sequence[str | Path], directory: str
) -> tuple[tuple[str, Path], ...]:
    """Return name and absolute root of each folder. A missing folder counts if it has an index.

    Other missing folders raise UnknownFolderError if they were named, or if none is left;
    configured ones are left out with a warning.
    """

    def is_indexed(root: Path) -> bool:
        return index_paths_of(directory, root).store.exists()

    roots = configured_roots(config)
    missing = [
        name
        for name, root in roots.items()
        if not names and not root.is_dir() and not is_indexed(root)
    ]
    if 0 < len(missing) < len(roots):
        for name in missing:
            _LOG.warning(
                "Going on without %s: there is no folder %s; check its path in the "
                "configuration's [folders].",
                name,
                roots[name],
            )
        config = replace(
            config,
            folders={name: path for name, path in config.folders.items() if name not in missing},
        )
    return resolve_folders(config, names, is_indexed)


def open_folder(name: str, root: Path, directory: str, config: Config) -> Folder:
    """Return a folder with its configuration: its own file over the user's."""
    index_paths, own_file = index_paths_of(directory, root), _facts_of_own_file(root)
    folder = Folder(name, root, index_paths, with_folder_file(config, root), config, own_file)
    if folder.config.folder_file_error:
        _LOG.warning(
            "The folder %s is served without its own file: %s",
            name,
            folder.config.folder_file_error,
        )
    return folder


def find_indexes(directory: str, config: Config) -> tuple[Folder, ...]:
    """Return the folders of all indexes in the index directory, missing folders included."""
    parent = index_parent(directory)
    directories = sorted(parent.iterdir()) if parent.is_dir() else []
    indexes = [IndexPaths(directory) for directory in directories]
    found = {root: index for index in indexes if (root := indexed_root(index)) is not None}
    names = folder_names(configured_roots(config), found)
    return tuple(Folder(name, root, found[root], config) for name, root in sorted(names.items()))
