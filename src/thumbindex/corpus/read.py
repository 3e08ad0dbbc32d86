"""Files read from the folder, and from nowhere else."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from thumbindex.corpus.parse import parse_document
from thumbindex.model import ParsedDocument, Problem
from thumbindex.settings import CorpusSettings

# no following of a link that was put there meanwhile, no waiting for a pipe; Windows has neither flag
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_document(root: Path, path: str, settings: CorpusSettings, modified: float = 0.0) -> ParsedDocument | Problem:
    """Read and parse one file of a folder; a file that cannot be read gives the problem."""
    data = read_bytes(root, path, settings)
    return data if isinstance(data, Problem) else parse_document(path, data, settings, modified)


def read_bytes(root: Path, path: str, settings: CorpusSettings) -> bytes | Problem:
    """Read one file of a folder; a symlink out of the folder, a device, a file over the maximum give the problem."""
    real_root = os.path.realpath(root)
    real = os.path.realpath(root / path)
    if not real.startswith(real_root.rstrip(os.sep) + os.sep):
        return Problem(path, None, "leads out of the folder: not read")
    try:
        descriptor = os.open(real, _FLAGS)
    except OSError as error:
        return Problem(path, None, f"cannot be read: {error.strerror or error}")
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Problem(path, None, "not a regular file: not read")
        if facts.st_size > settings.max_file_bytes:
            return too_large(path, facts.st_size, settings)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(settings.max_file_bytes)
    except OSError as error:
        return Problem(path, None, f"cannot be read: {error.strerror or error}")
    finally:
        os.close(descriptor)


def too_large(path: str, size: int, settings: CorpusSettings) -> Problem:
    """Report a file over the maximum."""
    return Problem(path, None, f"{size:,} bytes, more than corpus.max_file_bytes ({settings.max_file_bytes:,}): left out")


def digest_of(data: bytes) -> str:
    """Return the sha256 of a file's bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_digest(root: Path, path: str, settings: CorpusSettings) -> str:
    """Return the digest of one file of a folder; empty where it cannot be read, which equals no digest."""
    data = read_bytes(root, path, settings)
    return "" if isinstance(data, Problem) else digest_of(data)
