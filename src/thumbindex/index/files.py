"""Files of an index: paths, atomic and durable writes, and disk errors.

Everything derived from the notes is in a build, a numbered folder. A rebuild writes the next build
and makes it the current build. Open readers keep using the old build. The old build is deleted as
soon as the operating system allows the deletion.
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
"""Name of the file with the number of the current build. If there is none, build 1 is current."""

KEYWORD_FOLDER = "keyword"
"""Name of the keyword index's folder, beside the store."""

VECTORS_FOLDER = "vectors"
"""Name of the vectors' folder, beside the indexes that share it."""


class _PathInFolder:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: IndexPaths, owner: type[IndexPaths]) -> Path:
        return paths.folder / self._name


@dataclass(frozen=True, slots=True)
class IndexPaths:
    """The paths of one folder's index, in a given build or in whichever build is current."""

    folder: Path
    build: int = 0  # 0: the current build at each access

    judged = _PathInFolder("judged.json")  # the user's judgments of answers
    judged_set = _PathInFolder("judged.jsonl")  # the same, as a labeled set for `eval`
    lock = _PathInFolder("writer.lock")
    rebuild = _PathInFolder("rebuild.lock")  # held by the process that writes the next build
    watch = _PathInFolder("watch.lock")  # held by the server that indexes the folder
    repair = _PathInFolder("repair")  # a file that asks that server for a repair

    def of_build(self, build: int = 0) -> IndexPaths:
        """Return the paths of a build, by default the current one.

        A later switch to another build does not change these paths.
        """
        return IndexPaths(self.folder, build or self.current_build)

    @property
    def current_build(self) -> int:
        """The number of the current build."""
        try:
            return int(read_with_retry(self.folder / _CURRENT))
        except OSError as error:
            # a wrong number would make callers delete the current build
            if is_in_use(error):
                raise storage_error(self.folder, error) from error
            return 1
        except ValueError:
            return 1

    @property
    def build_folder(self) -> Path:
        """The folder of the build. It contains everything derived from the notes."""
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
        """Delete all builds except the current one and `keep`.

        Returns False if some remain, because Windows cannot delete open files.
        """
        excluded = {str(build) for build in (self.current_build, *keep)}
        old = [
            path
            for path in self.folder.glob("*")
            if path.name.isdecimal() and path.name not in excluded
        ]
        for path in old:
            rmtree(path, ignore_errors=True)
        return not any(path.exists() for path in old)


def write_atomically(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a small file atomically. Only one process may write the file at a time.

    With `durable`, the new file survives a power cut.
    """
    # a fixed name, so that the next call overwrites a file left by a killed process
    new = path.with_name(f"{path.name}.new")
    with as_storage_errors(path.parent):
        # binary, because text mode on Windows changes line endings
        with new.open("wb") as file:
            file.write(text.encode())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        retry_while_in_use(lambda: new.replace(path))
        if durable:
            fsync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Durably create a folder and any missing parents, private to the user."""
    if path.is_dir():
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        fsync_folder(folder.parent)


_NO_FOLDER_FSYNC = {
    errno.EINVAL,
    errno.EBADF,
    errno.EACCES,
    getattr(errno, "ENOTSUP", errno.EINVAL),
}
"""`fsync_folder` ignores these errors: some folders are unreadable, and some file systems cannot
fsync folders.
"""


def fsync_folder(folder: Path) -> None:
    """Fsync a folder's entries, so that new and renamed files survive a power cut."""
    if os.name == "nt":  # NTFS journals names
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
    """Fsync a folder's files and entries, so that a power cut cannot restore deleted files."""
    with as_storage_errors(folder):
        for path in folder.glob("*"):
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        fsync_folder(folder)


def delete_sqlite_file(path: Path) -> None:
    """Delete an SQLite file. Its log is deleted first: SQLite would apply it to a new file."""
    with as_storage_errors(path.parent):
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        fsync_folder(path.parent)
        path.unlink(missing_ok=True)


@contextmanager
def as_storage_errors(path: Path) -> Iterator[None]:
    """Convert an OSError in this block to a StorageError about a path."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


def storage_error(path: Path, error: OSError) -> StorageError:
    """Return the StorageError for an OSError about a path."""
    reason = error.strerror or str(error)
    if is_in_use(error):
        return StorageError(
            f"Cannot write {path}: {reason}. Another program has it open, or you do not have "
            "permission. Quit the MCP clients that use this folder and try again, or choose "
            "another index directory with --index."
        )
    return write_error(path, reason)


def write_error(path: Path, reason: str) -> StorageError:
    """Return the error for a file or folder that cannot be written."""
    return StorageError(
        f"Cannot write {path}: {reason}. Check permissions and free space, then try again or "
        "choose another index directory with --index. The existing index is intact."
    )


_RETRY_SECONDS = 2.0
"""How long to retry while another process has a file open (Windows)."""

_PAUSE_SECONDS = 0.01

_Result = TypeVar("_Result")


def read_with_retry(path: Path) -> bytes:
    """Return the content of a small file that another process may be replacing. Raises OSError."""
    return retry_while_in_use(path.read_bytes)


def is_in_use(error: OSError) -> bool:
    """Return whether an error may mean that another process has the file open (Windows)."""
    # Windows reports that as a lack of permission
    return isinstance(error, PermissionError) and hasattr(error, "winerror")


def retry_while_in_use(attempt: Callable[[], _Result], seconds: float = _RETRY_SECONDS) -> _Result:
    """Return the result of `attempt`. Retry while another process has a file open (Windows).

    Raises PermissionError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except PermissionError as error:
            if not is_in_use(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ncpfs", "davfs"}
)
"""File systems on which file locks and SQLite's write-ahead log do not work."""


def index_location(directory: str, root: Path) -> Path:
    """Return the index folder for `root`, named after `root` and a digest of its full path.

    Raises UsageError if the index directory is a file or inside `root`.
    """
    parent = index_parent(directory)
    # os.path: Path methods raise if access is denied
    if os.path.exists(parent) and not os.path.isdir(parent):  # noqa: PTH110, PTH112
        raise UsageError(
            f"The index directory {parent} is a file: choose a directory with --index."
        )
    if parent == root or parent.is_relative_to(root):
        raise UsageError(
            f"The index directory {parent} is inside the folder {root}: choose another "
            "index directory with --index, or another folder with --folder (default: the current "
            "directory)."
        )
    name = re.sub(r"[^\w.-]+", "-", root.name).strip("-")[:40] or "root"
    return parent / f"{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def index_parent(directory: str) -> Path:
    """Return the directory that contains all indexes, by default in the user's data folder."""
    return (
        Path(directory).expanduser() if directory else user_data_path("thumbindex") / "indexes"
    ).resolve()


def refuse_network_drive(location: Path, mounts: str | None = None) -> None:
    """Raise UsageError if `location` is on a network drive.

    The check uses the mount table or, on Windows, the path.
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
    # drive letters are already resolved to network paths
    shared = PureWindowsPath(location).drive
    if shared.startswith("\\\\") and not shared.startswith(("\\\\?\\", "\\\\.\\")):
        best = ("", shared)
    if best[1] in NETWORK_FILE_SYSTEMS or best[1].startswith("\\\\"):
        raise UsageError(
            f"{location} is on a network drive ({best[1]}): choose a directory on a local disk "
            "with --index."
        )


def folder_size(folder: Path) -> int:
    """Return the total size of the files below a folder, in bytes."""
    return sum(
        _file_size(Path(parent, name)) for parent, _, names in os.walk(folder) for name in names
    )


def _file_size(path: Path) -> int:
    with suppress(OSError):  # deleted in the meantime
        return path.stat().st_size
    return 0


def _mount_table() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
