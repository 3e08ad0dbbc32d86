"""List a folder, read the files inside it, and decode them to text with line feeds."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import sys
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings
from thumbindex.text import strip_invisible

# ------------------------------------------------------------------ a folder

_LISTS_BY_FD = os.scandir in os.supports_fd and hasattr(os, "O_DIRECTORY")
"""True if folders can be listed by descriptor, which makes each stat call 25% faster."""

_FOLDER_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)

_WINDOWS, _MOUNT_POINT = sys.platform == "win32", 0xA0000003
"""Whether the system is Windows, and the reparse tag of a Windows junction.

The module `stat` defines the tag only on Windows.
"""


class FolderEntry(NamedTuple):
    """One entry of a folder."""

    name: str
    is_folder: bool  # False for a symlink
    # the real path of a symlink's target, empty if unknown; None if not a symlink
    target: str | None = None
    # stat result, or error, of a possible document, an ignore file or a symlink's target
    stat: os.stat_result | OSError | None = None


def list_folder(real: str, settings: CorpusSettings) -> list[FolderEntry]:
    """List a folder by its real path; raise OSError if that fails."""
    target = os.open(real, _FOLDER_FLAGS) if _LISTS_BY_FD else real
    try:
        with os.scandir(target) as entries:
            return [_entry(real, entry, settings) for entry in entries]
    finally:
        if isinstance(target, int):
            os.close(target)


def _entry(real: str, entry: os.DirEntry[str], settings: CorpusSettings) -> FolderEntry:
    name, target = entry.name, None
    if entry.is_symlink() or _is_junction(entry):
        target = ""
    elif entry.is_dir(follow_symlinks=False):
        return FolderEntry(name, is_folder=True)
    elif not name.lower().endswith(settings.extensions) and name not in settings.ignore_files:
        return FolderEntry(name, is_folder=False)
    try:
        if target is None:
            return FolderEntry(name, False, None, entry.stat(follow_symlinks=False))
        target = os.path.realpath(os.path.join(real, name))  # noqa: PTH118
        return FolderEntry(name, False, target, os.stat(target))  # noqa: PTH116
    except OSError as error:  # just deleted
        return FolderEntry(name, False, target, error)


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a Windows junction, which Python reports as a folder."""
    if not _WINDOWS:
        return False
    return getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0) == _MOUNT_POINT


# ------------------------------------------------------------------ a file

# do not follow a symlink or wait for a pipe that has replaced the file; Windows lacks both flags
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)

_HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
"""Whether a path can be opened step by step, without following symlinks."""

_OUTSIDE = "points outside the folder: not read"

MAX_WINDOWS_PATH = 259
"""Maximum characters of a path on Windows without long paths."""


def read_bytes(root: Path, path: str, settings: CorpusSettings) -> bytes | Problem:
    """Read a file of the folder `root`. Return a Problem if the file is not read.

    Files that are too large, outside the folder or not regular are not read.
    """
    real = os.path.realpath(root)
    content = read_inside(real, os.path.join(real, path), settings.max_file_bytes)  # noqa: PTH118
    if isinstance(content, int):
        return too_large_problem(path, content, settings)
    return Problem(path, None, content) if isinstance(content, str) else content


def read_inside(root: str, path: str, max_bytes: int) -> bytes | str | int:
    """Read a file in the folder `root`, a real path.

    Returns the reason if the file cannot be read or its real path is outside `root`. If the file is
    larger than `max_bytes`, returns its size instead.
    """
    try:
        descriptor = _open_inside(root, os.path.realpath(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        advice = (
            f" (its path has {len(path)} characters: shorten it, or enable long paths in Windows)"
        )
        is_long = _WINDOWS and len(path) > MAX_WINDOWS_PATH
        return f"cannot be read: {reason}{advice if is_long else ''}"
    if descriptor is None:
        return _OUTSIDE
    try:
        stat = os.fstat(descriptor)
        if not S_ISREG(stat.st_mode):
            return "not a regular file: not read"
        if stat.st_size > max_bytes:
            return stat.st_size
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    finally:
        os.close(descriptor)


def path_inside(root: str, real: str) -> str | None:
    """Return a real path relative to the folder `root`, with slashes; None if outside.

    The path of the folder itself is ".".
    """
    if real == root:
        return "."
    start = root.rstrip(os.sep) + os.sep
    return real[len(start) :].replace(os.sep, "/") if real.startswith(start) else None


def _open_inside(root: str, real: str) -> int | None:
    """Open a file by its real path; return None if the path is outside the folder `root`.

    Raises OSError if a folder in the path has become a symlink.
    """
    relative = path_inside(root, real)
    if relative is None or relative == ".":
        return None
    return _open_steps(root, relative) if _HAS_DIR_FD else _open_and_compare(real)


def _open_steps(root: str, path: str) -> int:
    """Open a path in the folder `root` step by step, without following symlinks."""
    *folders, name = path.split("/")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            next_descriptor = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = next_descriptor
        return os.open(name, _FLAGS, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _open_and_compare(real: str) -> int | None:
    """Open a file by its full path (Windows). Return None if the path now leads elsewhere."""
    descriptor = os.open(real, _FLAGS)
    current = os.path.realpath(real)
    try:
        if current == real and os.path.samestat(os.fstat(descriptor), Path(current).stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def too_large_problem(path: str, size: int, settings: CorpusSettings) -> Problem:
    """Return a problem that reports a file over the maximum size."""
    return Problem(
        path,
        None,
        f"{size:,} bytes, more than corpus.max_file_bytes ({settings.max_file_bytes:,}): "
        "not indexed",
    )


def content_digest(data: bytes) -> str:
    """Return the hexadecimal sha256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_digest(root: Path, path: str, settings: CorpusSettings) -> str:
    """Return the digest of a file in a folder, or an empty string if the file is unreadable."""
    data = read_bytes(root, path, settings)
    return "" if isinstance(data, Problem) else content_digest(data)


# ------------------------------------------------------------------ the text of a file

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END = re.compile(r"\r\n?")


_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\v\f\r\x1b")
"""Control characters that do not occur in text. ESC is not listed: terminal logs contain it."""

_MAX_CONTROL_SHARE, _MAX_STRAY_CONTROLS = 1 / 20, 16
"""Maximum control characters of a text: this fraction of its bytes, or this number if greater.

In compressed files, images and random bytes, the fraction is a tenth or more.
"""


def is_text(data: bytes) -> bool:
    """Return whether a file has a byte order mark, or hardly any control characters."""
    if data.startswith(tuple(mark for mark, _ in _BOMS)):
        return True
    data = data.rstrip(b"\0")  # a crash may leave NULs after the text
    return len(data) - len(data.translate(None, _CONTROLS)) <= max(
        _MAX_STRAY_CONTROLS, len(data) * _MAX_CONTROL_SHARE
    )


def decode(path: str, data: bytes) -> tuple[str, tuple[Problem, ...]]:
    """Return a file's text, and the problems found in it.

    The text has no BOM. Its lines end with line feeds, and U+FFFD replaces each NUL.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8")
    )
    body = data[len(mark) :]
    problems: list[Problem] = []
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        text, treatment = _decode_invalid(body, encoding)
        line = _lines(body[: error.start].decode(encoding, "replace"))
        problems.append(
            Problem(path, line, f"not {encoding.upper()}: {treatment}; save the file as UTF-8")
        )
    text = _LINE_END.sub("\n", text) if "\r" in text else text
    nul = text.find("\0")
    if nul >= 0:
        problems.append(
            Problem(
                path,
                _lines(text[:nul]),
                f"{text.count(chr(0))} NUL characters were replaced; is this a text file?",
            )
        )
        text = text.replace("\0", "\ufffd")
    return text, tuple(problems)


def decode_visible(path: str, data: bytes) -> str:
    """Return a file's text without invisible characters; empty if it is not text."""
    return strip_invisible(decode(path, data)[0]) if is_text(data) else ""


def _decode_invalid(data: bytes, encoding: str) -> tuple[str, str]:
    """Decode a file that is not valid in `encoding`. Return the text and how it was decoded.

    A file without any valid non-ASCII UTF-8 is decoded as Windows-1252. In any other file, the
    invalid bytes are replaced.
    """
    if encoding == "utf-8" and not any(
        "\x7f" < c < "\ud800" or c > "\udfff" for c in set(data.decode("utf-8", "surrogateescape"))
    ):
        return data.decode("cp1252", "replace"), "decoded as Windows-1252"
    return data.decode(encoding, "replace"), "invalid bytes were replaced"


def _lines(text: str) -> int:
    return len(_LINE_END.sub("\n", text).split("\n"))
