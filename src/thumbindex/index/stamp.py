"""The commit of the index of words: a small file that says what the index shows, and of which files
it is made.

A writer writes segments and a table of contents, then the stamp, by one rename, then deletes what
the stamp does not name. A reader opens just what the stamp names, and only when sizes and checksums
are right: the table of contents is a pickle. Without a stamp, or with one of another version, there
is no index of words; whoever writes next begins it anew from the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from thumbindex.errors import IndexDamagedError
from thumbindex.index.files import (
    is_in_use,
    read_shared,
    storage_error,
    sync_folder,
    write_whole,
    writing,
)

VERSION = "8"
"""Changes when the analysis of words or the form of the files changes."""

STAMP = "stamp"

_BLOCK = 1 << 20

_checked: dict[Path, dict[str, tuple[tuple[int, int, int], int]]] = {}
"""Each file's inode, size and time when this process read it, and its checksum, by folder and name:
an edit costs the new files only.
"""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the index shows, and size and checksum of each file that it is made of."""

    generation: int  # of the store
    # rows of that generation that it still lacks: the rest of a large file comes in slices
    behind: int
    files: Mapping[str, tuple[int, int]]

    @property
    def text(self) -> str:
        """Return what tells it from the stamp of another state, as `stamp_text` does."""
        return f"{VERSION} {self.generation} {self.behind}"


def read_stamp(folder: Path) -> Stamp | None:
    """Return the stamp of the index in a folder; None where there is none, or it is of another
    version or not as it was written.
    """
    lines = _read_lines(folder)
    if not lines:
        return None
    (_, generation, behind), *files = (line.split(" ") for line in lines)
    return Stamp(
        int(generation), int(behind), {name: (int(size), int(check)) for name, size, check in files}
    )


def stamp_text(folder: Path) -> str:
    """Return what tells one state of the index from another: empty without an index, "damaged"
    where the stamp is not as it was written.
    """
    lines = _read_lines(folder)
    return "" if lines is None else lines[0] if lines else "damaged"


def write_stamp(folder: Path, generation: int, behind: int, names: Iterable[str]) -> None:
    """Commit: say what the index shows and of which files it is made; readers open it anew."""
    before = read_stamp(folder)
    listed = before.files if before else {}
    with writing(folder):
        lines = [Stamp(generation, behind, {}).text]
        for name in sorted(names):
            # segments never change: one that was listed with this size is not read again
            size, held = (folder / name).stat().st_size, listed.get(name)
            lines.append(
                f"{name} {size} "
                f"{held[1] if held and held[0] == size else _file_checksum(folder / name)}"
            )
        write_whole(folder / STAMP, "\n".join([*lines, str(_checksum(lines))]))


def read_at_commit(folder: Path, read: Callable[[Stamp], _T]) -> _T:
    """Read something of the index as its stamp names it, all files verified before; raise
    IndexDamagedError.

    Where the next commit takes files away meanwhile, read it as that one left it.
    """
    while True:
        stamp = read_stamp(folder)
        if stamp is None:
            raise _damaged(folder, "its stamp is missing or not as it was written")
        try:
            _verify(folder, stamp)
            return read(stamp)
        except OSError as error:
            if read_stamp(folder) == stamp:
                raise _damaged(folder, error) from error


def is_verified(folder: Path, *, anew: bool = False) -> bool:
    """Tell whether there is an index, and all of its files are as they were written; `anew` reads
    those again that were read before.
    """
    if anew:
        _checked.pop(folder, None)
    try:
        read_at_commit(folder, lambda _: None)
    except IndexDamagedError:
        return False
    return True


def refuse_lost(folder: Path, text: str, generation: int) -> None:
    """Raise IndexDamagedError where a stamp shows what its store, looked at later, has not come to:
    the store has lost commits.
    """
    facts = text.split(" ")
    if len(facts) == 3 and int(facts[1]) > generation:
        raise _damaged(folder, "the index has lost what was written last")


def sweep(folder: Path) -> None:
    """Delete what the stamp does not name: what a writer that died had begun, or what a commit has
    replaced.

    For who holds the writer's lock.
    """
    stamp = read_stamp(folder)
    if stamp is not None:
        _delete(folder, {STAMP, *stamp.files})


def clear(folder: Path) -> None:
    """Delete all of the index, its stamp first: half an index must not count, nor one of another
    store that a power cut brings back.
    """
    with writing(folder):
        if (folder / STAMP).exists():
            (folder / STAMP).unlink()
            sync_folder(folder)
    _delete(folder, set())


def make_durable(folder: Path) -> None:
    """Have all files of the index on the disk, under their names alone: a power cut brings none
    back that was deleted.

    No commit waits for that: what a power cut takes of the index of words is made anew from the
    store.
    """
    with writing(folder):
        for path in folder.glob("*"):
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        sync_folder(folder)


def _delete(folder: Path, keep: set[str]) -> None:
    for path in folder.glob("*"):
        try:
            if path.name not in keep:
                path.unlink()
        except OSError:
            continue  # somebody has it open (Windows): the next sweep takes it


def _read_lines(folder: Path) -> list[str] | None:
    """Return the lines of a stamp, none where it is not as it was written; None where there is no
    stamp of this version.
    """
    try:
        *lines, check = read_shared(folder / STAMP).decode("utf-8", "replace").split("\n")
    except OSError as error:
        if is_in_use(error):
            raise storage_error(folder, error) from error
        return None
    if not lines or check != str(_checksum(lines)):
        return []
    return lines if lines[0].startswith(f"{VERSION} ") else None


def _verify(folder: Path, stamp: Stamp) -> None:
    """Compare each file with the stamp; raise OSError.

    A file that this process has read is not read again while nobody has written it.
    """
    before, read = _checked.get(folder, {}), {}
    for name, expected in stamp.files.items():
        found = (folder / name).stat()
        facts = (found.st_ino, found.st_size, found.st_mtime_ns)
        read[name] = (
            before[name]
            if name in before and before[name][0] == facts
            else (facts, _file_checksum(folder / name))
        )
        if (found.st_size, read[name][1]) != expected:
            raise OSError(f"{name} is not as it was written")
    _checked[folder] = read


def _checksum(lines: list[str]) -> int:
    return crc32("\n".join(lines).encode())


def _file_checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum


def _damaged(folder: Path, what: object) -> IndexDamagedError:
    return IndexDamagedError(
        f"The keyword index in {folder} cannot be opened ({what}): run `thumbindex index` to "
        "build it anew."
    )
