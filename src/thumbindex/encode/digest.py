"""Tells model files apart by sha256, reading each only when it changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

LARGE = 1_000_000
"""Bytes from which a note costs less than reading the file again."""


def file_digest(path: Path, cache: Path) -> str:
    """Return a file's sha256 in hex; a large one of the size and time that `cache` remembers is not read again."""
    stat = path.stat()
    if stat.st_size < LARGE:
        return _sha256(path)
    version = f"{stat.st_size} {stat.st_mtime_ns}"
    note = cache / "digests" / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    remembered = _read(note)
    if remembered.startswith(f"{version} "):
        return remembered.rpartition(" ")[2]
    digest = _sha256(path)
    _remember(note, f"{version} {digest}")
    return digest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(note: Path) -> str:
    try:
        return note.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _remember(note: Path, line: str) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=note.parent)
        with open(handle, "w", encoding="ascii") as file:  # noqa: PTH123 - an open descriptor has no path
            file.write(line)
        Path(temporary).replace(note)
    except OSError:
        return  # a cache that cannot be written costs time, never an answer
