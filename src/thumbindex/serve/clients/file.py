"""A file of another program: read as it is, written whole or not at all, with what was there before kept beside it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thumbindex.errors import UsageError

BACKUP = ".thumbindex-backup"
"""What the names of backups end with; a later one has a number behind it."""

_BOM = "\ufeff"


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends and byte order mark as they are, None where there is no file. Raises UsageError."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start}): nothing was changed. Save it as UTF-8 and run this again.") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): nothing was changed.") from error


def without_mark(text: str) -> tuple[str, str]:
    """Return a text's byte order mark, which may be empty, and the rest."""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def lines_of(text: str) -> list[str]:
    """Return a text's lines with their ends; `splitlines` would cut at characters that end no line of a file."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def place(text: str, offset: int) -> str:
    """Return line and column of an offset, as editors count them."""
    line = text.count("\n", 0, offset) + 1
    return f"{line}:{offset - text.rfind(chr(10), 0, offset)}"


def backups(path: Path) -> Iterator[Path]:
    """Yield the backups of a file, the newest first."""
    found, number = list[Path](), 1
    while (each := _numbered(path, number)).exists():
        found.append(each)
        number += 1
    return reversed(found)


def back_up(path: Path) -> Path | None:
    """Keep what a file holds beside it, never over an older backup; return the new one, None where one says the same or there is no file."""
    if not path.exists():
        return None
    kept = list(backups(path))
    if any(each.read_bytes() == path.read_bytes() for each in kept):
        return None
    new = _numbered(path, len(kept) + 1)
    shutil.copy2(path, new)
    return new


def write_text(path: Path, text: str | None, before: str | None) -> None:
    """Put a text in the place of what is there, through symlinks and with its permissions, or no file; raise UsageError where that cannot be done.

    `before` is what the change was made from: where another program has written meanwhile, nothing is changed.
    """
    try:
        refuse_other(path, before)
        target = path.resolve()
        if text is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, text)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error}): check who may write there.") from error


def refuse_other(path: Path, before: str | None) -> None:
    """Raise UsageError where a file no longer holds what it held, or was made read-only: a rename would get around what somebody wanted."""
    if read_text(path) != before:
        raise UsageError(f"{path}: another program has changed it meanwhile, and nothing was written: run this again.")
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{path}: is read-only, and nothing was changed: make it writable (chmod u+w) and run this again.")


def _replace(target: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor has no path
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        Path(temporary).replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{BACKUP}" + (f"-{number}" if number > 1 else ""))
