"""Where a folder's index lives on disk, and which places are refused."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

from thumbindex.errors import UsageError

NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ncpfs", "davfs"})
"""Where SQLite's write-ahead log and file locks do not work."""


def index_location(directory: str, root: Path) -> Path:
    """Return the folder that holds the index of `root`: a readable name and a digest of the absolute path."""
    parent = index_parent(directory)
    if parent == root or parent.is_relative_to(root):
        raise UsageError(
            f"The index directory {parent} lies inside the folder {root}, which is to be indexed: "
            "name another folder with --folder (without it, it is the current one), or another index directory with --index."
        )
    name = re.sub(r"[^\w.-]+", "-", root.name).strip("-")[:40] or "root"
    return parent / f"{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def index_parent(directory: str) -> Path:
    """Return the folder that holds all indexes: the one that is set, else the platform's."""
    return (Path(directory).expanduser() if directory else user_data_path("thumbindex") / "indexes").resolve()


def refuse_network_drive(location: Path, mounts: str | None = None) -> None:
    """Raise UsageError where `location` is on a network drive, as far as the system's mount table tells."""
    table = mounts if mounts is not None else _mount_table()
    best = ("", "")
    for line in table.splitlines():
        fields = line.split()
        if len(fields) > 2 and location.is_relative_to(fields[1].replace("\\040", " ")) and len(fields[1]) >= len(best[0]):
            best = (fields[1], fields[2])
    if best[1] in NETWORK_FILE_SYSTEMS:
        raise UsageError(f"{location} is on a network drive ({best[1]}): an index needs a local disk; choose one with --index.")


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder, in which a writer may be at work: what goes meanwhile does not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


def _mount_table() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
