"""Files of an index: their paths, atomic and durable writes, and errors of the disk.

All that is made of the notes is one build, in a numbered folder. A rebuild writes the next build
beside it and then switches to it. Readers of the old build keep it; it is deleted as soon as the
system allows that.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from shutil import rmtree
from typing import TypeVar

from platformdirs import user_data_path

from thumbindex.errors import StorageError, UsageError

_CURRENT = "current"
"""The file that holds the number of the current build; without it, that is the first."""

KEYWORD_FOLDER = "keyword"
"""The folder of the index of words, beside the store."""

VECTORS_FOLDER = "vectors"
"""The folder of the vectors of all folders, beside their indexes."""


class _PathInFolder:
    """The path of a file in an index's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: IndexPaths, owner: type[IndexPaths]) -> Path:
        return paths.folder / self._name


@dataclass(frozen=True, slots=True)
class IndexPaths:
    """The paths of one folder's index, at its current build or at a given one."""

    folder: Path
    build: int = 0  # 0: the current one at the time of each access

    judged = _PathInFolder("judged.json")  # the owner's judgments of answers
    judged_set = _PathInFolder("judged.jsonl")  # the same as a labeled set for `eval`
    lock = _PathInFolder("writer.lock")
    rebuild = _PathInFolder("rebuild.lock")  # held by the process that makes the next build
    watch = _PathInFolder("watch.lock")  # held by the server that indexes the folder
    repair = _PathInFolder("repair")  # requests a repair of that server

    def of_build(self, build: int = 0) -> IndexPaths:
        """Return the paths of one build, by default the current one; a later switch does not change
        them.
        """
        return IndexPaths(self.folder, build or self.current_build)

    @property
    def current_build(self) -> int:
        """The number of the build that is read."""
        try:
            return int(read_with_retry(self.folder / _CURRENT))
        except OSError as error:
            # a wrong number would have the current build deleted
            if is_in_use(error):
                raise storage_error(self.folder, error) from error
            return 1
        except ValueError:
            return 1

    @property
    def build_folder(self) -> Path:
        """The build's folder: all that can be made again from the notes."""
        return self.folder / str(self.build or self.current_build)

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.build_folder / "index.sqlite3"

    @property
    def segments_folder(self) -> Path:
        """The folder of the keyword index's segments."""
        return self.build_folder / KEYWORD_FOLDER

    def set_current_build(self, build: int) -> None:
        """Make a build the current one. The caller holds the writer's lock."""
        write_atomically(self.folder / _CURRENT, str(build), durable=True)

    def delete_other_builds(self, *keep: int) -> bool:
        """Delete every build but the current one and those to `keep`; return whether all are gone:
        Windows deletes no file that is open.
        """
        kept = {str(build) for build in (self.current_build, *keep)}
        old = [
            path
            for path in self.folder.glob("*")
            if path.name.isdecimal() and path.name not in kept
        ]
        for path in old:
            rmtree(path, ignore_errors=True)
        return not any(path.exists() for path in old)


def write_atomically(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a small file, whole or not at all; one process at a time.

    With `durable`, for content that cannot be made again, the new file survives a power cut.
    """
    # always the same name: the next call replaces the leftover of a killed process
    new = path.with_name(f"{path.name}.new")
    with as_storage_errors(path.parent):
        # in text mode, Windows would change line ends
        with new.open("wb") as file:
            file.write(text.encode())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        retry_while_in_use(lambda: new.replace(path))
        if durable:
            fsync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, readable by their owner alone, and fsync their names."""
    if path.is_dir():
        return
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        fsync_folder(each.parent)


_NO_FOLDER_FSYNC = {
    errno.EINVAL,
    errno.EBADF,
    errno.EACCES,
    getattr(errno, "ENOTSUP", errno.EINVAL),
}
"""Errors of file systems without fsync of folders, and of folders that cannot be read."""


def fsync_folder(folder: Path) -> None:
    """Fsync the names in a folder, so that its files have them after a power cut.

    On Windows a folder cannot be opened for that, and NTFS keeps names in its journal.
    """
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FSYNC:
            raise


def fsync_files(folder: Path) -> None:
    """Fsync all files of a folder and their names: a power cut brings no deleted file back."""
    with as_storage_errors(folder):
        for path in folder.glob("*"):
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        fsync_folder(folder)


def delete_sqlite_file(path: Path) -> None:
    """Delete an SQLite file, its log first: a log that outlives its file would be applied to the
    next one.
    """
    with as_storage_errors(path.parent):
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        fsync_folder(path.parent)
        path.unlink(missing_ok=True)


@contextmanager
def as_storage_errors(place: Path) -> Iterator[None]:
    """Raise an OSError inside this block as a StorageError."""
    try:
        yield
    except OSError as error:
        raise storage_error(place, error) from error


def storage_error(place: Path, error: OSError) -> StorageError:
    """Return the StorageError for an error of the system."""
    what = error.strerror or str(error)
    if is_in_use(error):
        return StorageError(
            f"{place} cannot be written ({what}): another program has it open, or permissions "
            "forbid it. Quit the MCP clients that serve this folder and run it again, or choose "
            "another place with --index."
        )
    return unwritable(place, what)


def unwritable(place: Path, what: str) -> StorageError:
    """Return the error that a file or folder cannot be written."""
    return StorageError(
        f"{place} cannot be written ({what}): an index needs a folder that can be written. Check "
        "its permissions and free space and run it again, or choose another place with --index; "
        "what was indexed is as it was."
    )


_RETRY_SECONDS = 2.0
"""How long to retry while a file is open elsewhere (Windows); readers need far less."""

_PAUSE_SECONDS = 0.01

_Result = TypeVar("_Result")


def read_with_retry(path: Path) -> bytes:
    """Return the content of a small file that another process may be replacing.

    Raises OSError.
    """
    return retry_while_in_use(path.read_bytes)


def is_in_use(error: OSError) -> bool:
    """Return whether another process may have the file open: Windows reports that as a lack of
    permission.
    """
    return isinstance(error, PermissionError) and hasattr(error, "winerror")


def retry_while_in_use(attempt: Callable[[], _Result], seconds: float = _RETRY_SECONDS) -> _Result:
    """Retry an attempt that Windows refuses while a file is open elsewhere; raise the last
    PermissionError when the time is up.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except PermissionError as error:
            if not is_in_use(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)


NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ncpfs", "davfs"}
)
"""File systems on which SQLite's write-ahead log and file locks do not work."""


def index_location(directory: str, root: Path) -> Path:
    """Return the folder of the index of `root`, named by its name and a digest of its path."""
    parent = index_parent(directory)
    # (a Path raises where it may not look)
    if os.path.exists(parent) and not os.path.isdir(parent):  # noqa: PTH110, PTH112
        raise UsageError(
            f"The index directory {parent} is a file: choose another place with --index."
        )
    if parent == root or parent.is_relative_to(root):
        raise UsageError(
            f"The index directory {parent} lies inside the folder {root}, which is to be indexed: "
            "name another folder with --folder (without it, it is the current one), or another "
            "index directory with --index."
        )
    name = re.sub(r"[^\w.-]+", "-", root.name).strip("-")[:40] or "root"
    return parent / f"{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def index_parent(directory: str) -> Path:
    """Return the folder of all indexes: the configured one, else the platform's."""
    return (
        Path(directory).expanduser() if directory else user_data_path("thumbindex") / "indexes"
    ).resolve()


def refuse_network_drive(location: Path, mounts: str | None = None) -> None:
    """Raise UsageError if `location` is on a network drive, by the mount table or, on Windows, by
    its path.
    """
    table = mounts if mounts is not None else _mount_table()
    best = ("", "")
    for line in table.splitlines():
        fields = line.split()
        if (
            len(fields) > 2
            and location.is_relative_to(fields[1].replace("\\040", " "))
            and len(fields[1]) >= len(best[0])
        ):
            best = (fields[1], fields[2])
    shared = PureWindowsPath(location).drive
    # what a drive letter stands for was resolved before
    if shared.startswith("\\\\") and not shared.startswith(("\\\\?\\", "\\\\.\\")):
        best = ("", shared)
    if best[1] in NETWORK_FILE_SYSTEMS or best[1].startswith("\\\\"):
        raise UsageError(
            f"{location} is on a network drive ({best[1]}): an index needs a local disk; "
            "choose one with --index."
        )


def folder_size(folder: Path) -> int:
    """Return the bytes of all files below a folder; files that are deleted meanwhile count 0."""
    return sum(
        _file_size(Path(place, name)) for place, _, names in os.walk(folder) for name in names
    )


def _file_size(path: Path) -> int:

    with suppress(OSError):
        return path.stat().st_size
    return 0


def _mount_table() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
