"""Files of an index: where they lie, how one is put in place of another, and what a full or failing
disk means.

What is made of the notes lies in an edition, a folder with a number. It is built anew in the next
one, beside it, and then switched to: who has the old one open keeps it, and it is deleted as soon
as the system allows that.
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

_EDITION = "edition"
"""The file that names the present edition; without it, it is the first."""


KEYWORD = "keyword"
"""The folder of the index of words, beside the store."""

VECTORS = "vectors"
"""The folder of the vectors of all folders, beside their indexes."""


class _Named:
    """A file of an index by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, places: Places, owner: type[Places]) -> Path:
        return places.folder / self._name


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one folder's index, at its present edition or at one that is named."""

    folder: Path
    edition: int = 0  # 0 is the present one, whichever that is when it is asked for

    judged = _Named("judged.json")  # what the owner judged of answers
    judged_set = _Named("judged.jsonl")  # the same as a set for `eval`
    lock = _Named("writer.lock")  # the writer's
    rebuild = _Named("rebuild.lock")  # of the process that builds the next edition
    watch = _Named("watch.lock")  # of the server that watches the folder
    repair = _Named("repair")  # asks the process that watches the folder for a repair

    def at(self, edition: int = 0) -> Places:
        """Return the places of one edition, that of now where none is named: a switch changes
        nothing for who holds them.
        """
        return Places(self.folder, edition or self.present)

    @property
    def present(self) -> int:
        """The number of the edition that is read."""
        try:
            return int(read_shared(self.folder / _EDITION))
        except OSError as error:
            # to take another edition for the present one would delete this one
            if is_in_use(error):
                raise storage_error(self.folder, error) from error
            return 1
        except ValueError:
            return 1

    @property
    def made(self) -> Path:
        """The edition's folder: all that can be made anew from the notes."""
        return self.folder / str(self.edition or self.present)

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.made / "index.sqlite3"

    @property
    def keyword(self) -> Path:
        """Whoosh's folder."""
        return self.made / KEYWORD

    def switch(self, edition: int) -> None:
        """Make an edition the present one. For who holds the writer's lock."""
        write_whole(self.folder / _EDITION, str(edition), durable=True)

    def sweep(self, *keep: int) -> bool:
        """Delete every edition but the present one and those to `keep`; tell whether that was
        possible: Windows deletes no file that is open.
        """
        kept = {str(edition) for edition in (self.present, *keep)}
        old = [
            path
            for path in self.folder.glob("*")
            if path.name.isdecimal() and path.name not in kept
        ]
        for path in old:
            rmtree(path, ignore_errors=True)
        return not any(path.exists() for path in old)


def write_whole(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a small file, whole or not at all: one process at a time.

    With `durable`, for what cannot be made anew, it is on the disk then under its name: of a rename
    alone a power cut may leave the old file.
    """
    # one name: what a process that is killed here leaves goes with the next
    new = path.with_name(f"{path.name}.new")
    with writing(path.parent):
        # as text, Windows would write other line ends than are compared
        with new.open("wb") as file:
            file.write(text.encode())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        patiently(lambda: new.replace(path))
        if durable:
            sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder with those above it, for their owner alone: an index holds the texts of notes
    that others may not read.

    Their names are on the disk then, without which nothing in them is found after a power cut.
    """
    if path.is_dir():
        return
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


_NOT_SYNCED = {errno.EINVAL, errno.EBADF, errno.EACCES, getattr(errno, "ENOTSUP", errno.EINVAL)}
"""What a file system says that has no such call for folders, and a folder that may be written and
not read.
"""


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk: who waits for a file's data only may find it under no
    name, or an old one, after a power cut.

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
        if error.errno not in _NOT_SYNCED:
            raise


def make_durable(folder: Path) -> None:
    """Have all files of a folder on the disk, and no other names: a power cut brings no file back
    that was deleted.
    """
    with writing(folder):
        for path in folder.glob("*"):
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        sync_folder(folder)


def delete_database(path: Path) -> None:
    """Delete an SQLite file, its log first: after a power cut SQLite would write a log that came
    back into the file that is there then.
    """
    with writing(path.parent):
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        sync_folder(path.parent)
        path.unlink(missing_ok=True)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Tell an OSError that comes up while a file of the index is written as a StorageError: what
    happened, and what to do next.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(place, error) from error


def storage_error(place: Path, error: OSError) -> StorageError:
    """Return what an error of the system means."""
    what = error.strerror or str(error)
    if is_in_use(error):
        return StorageError(
            f"{place} cannot be written ({what}): another program has it open, or permissions "
            "forbid it. Quit the MCP clients that serve this folder and run it again, or choose "
            "another place with --index."
        )
    return not_written(place, what)


def not_written(place: Path, what: str) -> StorageError:
    """Return the error that a file or folder cannot be written."""
    return StorageError(
        f"{place} cannot be written ({what}): an index needs a folder that can be written. Check "
        "its permissions and free space and run it again, or choose another place with --index; "
        "what was indexed is as it was."
    )


_PATIENCE_SECONDS = 2.0
"""How long a file that is open elsewhere is waited for: Windows refuses to replace one, and readers
have a small file open for well under a second.
"""

_PAUSE_SECONDS = 0.01

_Result = TypeVar("_Result")


def read_shared(path: Path) -> bytes:
    """Return the content of a small file of an index, which another process may be replacing.

    Raises OSError.
    """
    return patiently(path.read_bytes)


def is_in_use(error: OSError) -> bool:
    """Tell whether another process may have the file open: on Windows, where errors have one more
    number, that reads as a lack of permission.
    """
    return isinstance(error, PermissionError) and hasattr(error, "winerror")


def patiently(attempt: Callable[[], _Result], seconds: float = _PATIENCE_SECONDS) -> _Result:
    """Try what Windows refuses while a file is open elsewhere until it succeeds; raise the last
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
"""Where SQLite's write-ahead log and file locks do not work."""


def index_location(directory: str, root: Path) -> Path:
    """Return the folder that holds the index of `root`: a readable name and a digest of the
    absolute path.
    """
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
    """Return the folder that holds all indexes: the one that is set, else the platform's."""
    return (
        Path(directory).expanduser() if directory else user_data_path("thumbindex") / "indexes"
    ).resolve()


def refuse_network_drive(location: Path, mounts: str | None = None) -> None:
    """Raise UsageError where `location` is on a network drive, as far as the system's mount table
    or, on Windows, the path tells.
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


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder, in which a writer may be at work: what goes
    meanwhile does not count.
    """
    return sum(
        size_of_file(Path(place, name)) for place, _, names in os.walk(folder) for name in names
    )


def size_of_file(path: Path) -> int:
    """Return the bytes of a file; 0 for one that has gone meanwhile."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _mount_table() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
