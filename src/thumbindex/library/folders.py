"""A folder that is indexed, with the place of its index and the configuration that holds for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thumbindex.config import resolve_folders, with_folder_file
from thumbindex.index.location import index_location, index_parent, refuse_network_drive
from thumbindex.index.snapshot import Places
from thumbindex.index.writer import indexed_root
from thumbindex.library.tuned import tuned_config
from thumbindex.settings import Config


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is indexed."""

    name: str
    root: Path  # absolute, symlinks resolved
    places: Places
    config: Config  # with the folder's own `thumbindex.toml`, and what was tuned for it, taken in


def place_of(directory: str, root: Path) -> Places:
    """Return the place of a folder's index; refuse one on a network drive or inside the folder."""
    location = index_location(directory, root)
    refuse_network_drive(location)
    return Places(location)


def find_folders(config: Config, names: Sequence[str | Path], directory: str) -> tuple[tuple[str, Path], ...]:
    """Return name and absolute root of each folder; one that is away just now will do where it has an index. Raises UnknownFolderError."""
    return resolve_folders(config, names, lambda root: place_of(directory, root).store.exists())


def opened_folder(name: str, root: Path, directory: str, config: Config) -> Folder:
    """Return a folder with the configuration that holds for it: what tuning found instead of defaults, then its own file over the user's."""
    places = place_of(directory, root)
    return Folder(name, root, places, tuned_config(with_folder_file(config, root), places))


def find_indexes(directory: str, config: Config) -> tuple[Folder, ...]:
    """Return the folders whose indexes lie in the index directory, by name, whether the folders are still there or not."""
    parent = index_parent(directory)
    found = []
    for place in sorted(parent.iterdir()) if parent.is_dir() else ():
        root = indexed_root(Places(place))
        if root is not None:
            found.append(Folder(root.name or "root", root, Places(place), config))
    return tuple(sorted(found, key=lambda folder: (folder.name, folder.root)))
