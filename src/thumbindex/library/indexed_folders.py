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
    absolute_path,
    configured_roots,
    folder_names,
    obsidian_vault,
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
"""Mode, inode, size and times of a file, then of its symlink's target; empty if no file exists."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with its index paths and configuration."""

    name: str
    root: Path  # absolute, symlinks resolved
    index_paths: IndexPaths
    config: Config  # the user's, overridden by the folder's own `thumbindex.toml`
    # the user's alone; None if the folder's own file is not read again
    user_config: Config | None = None
    own_file: FileFacts = ()  # of the folder's own file when it was last read

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problem with the settings file in the folder, if any."""
        path, _, reason = self.config.folder_file_error.partition(": ")
        return (Problem(path, None, reason),) if path else ()

    def is_in_vault(self, path: str) -> bool:
        """Return whether a note is in an Obsidian vault, perhaps by a symlink."""
        configured = absolute_path(self.config.folders.get(self.name, self.root))
        paths = {self.root / path, configured / path, Path(os.path.realpath(self.root / path))}
        return any(map(obsidian_vault, paths))

    @property
    def has_refresh_request(self) -> bool:
        """Whether a reader is waiting for current files to be indexed."""
        return bool(pending_requests(self.index_paths.folder))


def with_current_privacy(folder: Folder) -> Folder:
    """Add the privacy rules of the settings file in the folder, if the file has changed.

    Earlier rules stay, because an editor may delete the file before writing it again.
    """
    facts = _own_file_facts(folder.root)
    if folder.user_config is None or facts == folder.own_file:
        return folder
    current, corpus = with_folder_file(folder.user_config, folder.root), folder.config.corpus
    earlier_globs = (glob for glob in corpus.private.globs if not glob.startswith("!"))
    globs, tags = (
        (*current.corpus.private.globs, *earlier_globs),
        (*current.corpus.private.tags, *corpus.private.tags),
    )
    private = replace(
        corpus.private, globs=tuple(dict.fromkeys(globs)), tags=tuple(dict.fromkeys(tags))
    )
    config = replace(
        folder.config,
        corpus=replace(corpus, private=private),
        blocks_indexing=current.blocks_indexing,
        folder_file_error=current.folder_file_error,
    )
    return replace(folder, config=config, own_file=facts)


def _own_file_facts(root: Path) -> FileFacts:
    all_facts: list[tuple[int, ...]] = []
    for stat in (os.lstat, os.stat):
        with suppress(OSError):
            facts = stat(root / FOLDER_FILE)
            all_facts.append(
                (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            )
    return tuple(all_facts)


def index_paths_of(directory: str, root: Path) -> IndexPaths:
    """Return a folder's index paths.

    Raises UsageError if the index would be on a network drive or inside the folder.
    """
    location = index_location(directory, root)
    refuse_network_drive(location)
    return IndexPaths(location)


def find_folders(
    config: Config, names: Sequence[str | Path], directory: str
) -> tuple[tuple[str, Path], ...]:
    """Return the name and absolute root of each folder that exists or has an index.

    Without `names`, missing folders are skipped with a warning. Raises UnknownFolderError
    for a missing named folder, or if no folder remains.
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
                "Skipping the folder %s: %s does not exist. Check its path under [folders] in "
                "your configuration.",
                name,
                roots[name],
            )
        config = replace(
            config,
            folders={name: path for name, path in config.folders.items() if name not in missing},
        )
    return resolve_folders(config, names, is_indexed)


def open_folder(name: str, root: Path, directory: str, config: Config) -> Folder:
    """Open a folder. The settings file in the folder overrides the user's configuration."""
    index_paths, own_file = index_paths_of(directory, root), _own_file_facts(root)
    folder = Folder(name, root, index_paths, with_folder_file(config, root), config, own_file)
    if folder.config.folder_file_error:
        _LOG.warning(
            "Invalid settings file in the folder %s: %s",
            name,
            folder.config.folder_file_error,
        )
    return folder


def find_indexes(directory: str, config: Config) -> tuple[Folder, ...]:
    """Return the folders of all indexes in the index directory, including missing folders."""
    parent = index_parent(directory)
    directories = sorted(parent.iterdir()) if parent.is_dir() else []
    indexes = [IndexPaths(directory) for directory in directories]
    index_by_root = {root: index for index in indexes if (root := indexed_root(index)) is not None}
    names = folder_names(configured_roots(config), index_by_root)
    return tuple(
        Folder(name, root, index_by_root[root], config) for name, root in sorted(names.items())
    )
