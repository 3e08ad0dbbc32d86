"""Read files of the folder, and of nowhere else, and decode them to text with one kind of line end."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from pathlib import Path

from thumbindex.corpus.hidden import strip_invisible
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END = re.compile(r"\r\n?")


def decode(path: str, data: bytes) -> tuple[str, tuple[Problem, ...]]:
    """Return a file's text with line feeds only, no byte order mark and no NUL, and what had to be guessed or replaced."""
    mark, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    body = data[len(mark) :]
    problems: list[Problem] = []
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        text, how = _guess(body, encoding)
        line = _lines(body[: error.start].decode(encoding, "replace"))
        problems.append(Problem(path, line, f"not {encoding.upper()}: {how}; save the file as UTF-8"))
    text = _LINE_END.sub("\n", text) if "\r" in text else text
    nul = text.find("\0")
    if nul >= 0:
        problems.append(Problem(path, _lines(text[:nul]), f"{text.count(chr(0))} NUL characters, replaced; is this a text file?"))
        text = text.replace("\0", "\ufffd")
    return text, tuple(problems)


def decode_seen(path: str, data: bytes) -> str:
    """Return a file's text as it is shown and searched: without what nobody sees."""
    return strip_invisible(decode(path, data)[0])


def _guess(data: bytes, encoding: str) -> tuple[str, str]:
    """Read bytes that are not what they should be: as Windows-1252 unless some of them are valid UTF-8 beyond ASCII."""
    if encoding == "utf-8" and not any("\x7f" < c < "\ud800" or c > "\udfff" for c in set(data.decode("utf-8", "surrogateescape"))):
        return data.decode("cp1252", "replace"), "read as Windows-1252"
    return data.decode(encoding, "replace"), "what is not was replaced"


def _lines(text: str) -> int:
    return len(_LINE_END.sub("\n", text).split("\n"))


# no following of a link that was put there meanwhile, no waiting for a pipe; Windows has neither flag
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

_STEPS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
"""Whether a path can be opened one folder after the other, none of them a symlink."""

_OUT = "leads out of the folder: not read"


def read_bytes(root: Path, path: str, settings: CorpusSettings) -> bytes | Problem:
    """Read one file of a folder; a symlink out of the folder, a device, a file over the maximum give the problem."""
    found = read_inside(os.path.realpath(root), os.path.join(root, path), settings.max_file_bytes)  # noqa: PTH118
    if isinstance(found, int):
        return too_large(path, found, settings)
    return Problem(path, None, found) if isinstance(found, str) else found


def read_inside(root: str, path: str, most: int) -> bytes | str | int:
    """Read a file whose real path lies below a real folder; return in words why it cannot be read, or its size where that is more than `most`."""
    try:
        descriptor = _open_inside(root, os.path.realpath(path))
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if descriptor is None:
        return _OUT
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return "not a regular file: not read"
        if facts.st_size > most:
            return facts.st_size
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    finally:
        os.close(descriptor)


def inside(root: str, real: str) -> str | None:
    """Return a real path as one in a real folder, with slashes; "." for the folder itself, None where it is outside."""
    if real == root:
        return "."
    start = root.rstrip(os.sep) + os.sep
    return real[len(start) :].replace(os.sep, "/") if real.startswith(start) else None


def _open_inside(root: str, real: str) -> int | None:
    """Open a real path below a real folder, None where it is not below it; a folder on the way that has become a symlink meanwhile is an error."""
    own = inside(root, real)
    if own is None or own == ".":
        return None
    if not _STEPS:
        return _open_and_compare(root, real)
    *folders, name = own.split("/")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _FLAGS, dir_fd=at)
    finally:
        os.close(at)


def _open_and_compare(root: str, real: str) -> int | None:
    """Open a file by its whole path, and see afterwards that it still lies where it did (Windows)."""
    descriptor = os.open(real, _FLAGS)
    now = os.path.realpath(real)
    try:
        if now == real and os.path.samestat(os.fstat(descriptor), Path(now).stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


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
