"""What can be found out about models and indexes by reading them whole, without changing anything."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from thumbindex.encode.digest import file_digest
from thumbindex.encode.models import AUTO, BUNDLED, BUNDLED_HASHES, find_model
from thumbindex.errors import ModelError
from thumbindex.index.database import SCHEMA_VERSION
from thumbindex.index.repair import looks_whole
from thumbindex.library.folders import Folder

__all__ = ["AUTO", "SCHEMA", "ModelHealth", "examine_model", "is_whole"]

SCHEMA = SCHEMA_VERSION
"""The version in which this program writes indexes."""

_SHA256 = 64
"""Hex digits of a sha256: the hub's cache names a large file by it."""


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """A model that was found, its files read whole."""

    name: str
    folder: Path
    dimensions: int
    verified: int  # files whose digests are known and right


def examine_model(name: str) -> ModelHealth:
    """Find a model on this machine, network or not, and compare its files with every digest that is known; raise ModelError."""
    # A cache that is empty remembers no digests: the files themselves are read.
    with tempfile.TemporaryDirectory(prefix="thumbindex-doctor-") as cache:
        card = find_model(name, offline=True, cache=Path(cache))
        named = {} if card.name == BUNDLED else _named_by_digest(card.folder)
        for path, digest in named.items():
            if file_digest(path, Path(cache)) != digest:
                raise ModelError(f"{path} is not the file that was published: delete {path.resolve()} and fetch the model again.")
    return ModelHealth(card.name, card.folder, card.dimensions, len(named) or (len(BUNDLED_HASHES) if card.name == BUNDLED else 0))


def is_whole(folder: Folder) -> bool:
    """Read a folder's index whole and tell whether there is nothing to mend; raise StorageError where it cannot be read at all."""
    return looks_whole(folder.places)


def _named_by_digest(folder: Path) -> dict[Path, str]:
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink() and path.is_file()]
    return {path: path.resolve().name for path in links if len(path.resolve().name) == _SHA256}
