"""What can be found out about models and indexes by reading them whole, without changing anything."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from thumbindex.encode.models import AUTO, BUNDLED, BUNDLED_HASHES, find_model
from thumbindex.errors import ModelError
from thumbindex.index.database import SCHEMA_VERSION
from thumbindex.index.repair import looks_whole
from thumbindex.library.folders import Folder

__all__ = ["AUTO", "SCHEMA", "ModelHealth", "examine_model", "is_whole", "verify_named"]

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
    verified = len(BUNDLED_HASHES) if card.name == BUNDLED else verify_named(card.folder)
    return ModelHealth(card.name, card.folder, card.dimensions, verified)


def verify_named(folder: Path) -> int:
    """Compare the files of a folder in the hub's cache with the digests that they are named by; return how many have one, raise ModelError."""
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink() and path.is_file()]
    named = [path for path in links if len(path.resolve().name) == _SHA256]
    for path in named:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != path.resolve().name:
                raise ModelError(f"{path} is not the file that was published: delete {path.resolve()} and fetch the model again.")
    return len(named)


def is_whole(folder: Folder) -> bool:
    """Read a folder's index whole and tell whether there is nothing to mend; raise StorageError where it cannot be read at all."""
    return looks_whole(folder.places)
