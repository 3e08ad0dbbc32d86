"""A folder that is indexed, with the place of its index and the configuration that holds for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thumbindex.index.location import index_location, refuse_network_drive
from thumbindex.index.snapshot import Places
from thumbindex.settings import Config


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is indexed."""

    name: str
    root: Path  # absolute, symlinks resolved
    places: Places
    config: Config  # with the folder's own `thumbindex.toml` taken in


def place_of(directory: str, root: Path) -> Places:
    """Return the place of a folder's index; refuse one on a network drive or inside the folder."""
    location = index_location(directory, root)
    refuse_network_drive(location)
    return Places(location)
