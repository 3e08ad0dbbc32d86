"""The file beside the keyword index that says what it shows, and which files it is made of: it is the commit.

The writer writes segments and a table of contents, then the stamp, by one rename, then deletes what the stamp does not name. So what a stamp
names is there as long as it is the stamp: a reader opens just that, never what a writer has begun, and reads it only when sizes and checksums
are right (the table of contents is a pickle). Where a file is missing and the stamp has changed meanwhile, it reads the new one. Without a
stamp, or with one of another version, there is no keyword index; the next one that writes begins it anew from the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from thumbindex.errors import IndexDamagedError
from thumbindex.index.failures import writing
from thumbindex.index.replacing import put_in_place

STAMP = "stamp"

_BLOCK = 1 << 20

_Read = tuple[tuple[int, int, int], int]
"""A file's inode, size and time when it was read, and its checksum."""

_verified: dict[Path, dict[str, _Read]] = {}
"""What this process has read, by folder and name: an edit costs the new files only."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a keyword index shows."""

    version: str  # of the analysis
    generation: int  # of the store
    behind: int = 0  # rows of that generation that it still lacks: the rest of a large file comes in slices


@dataclass(frozen=True, slots=True)
class Contents:
    """A stamp whole: what is shown, and size and checksum of each file that counts."""

    stamp: Stamp
    files: Mapping[str, tuple[int, int]]


def read_stamp(folder: Path) -> Stamp | None:
    """Return what the index in a folder shows; None where there is none, or its stamp is no stamp."""
    contents = read_contents(folder)
    return contents.stamp if contents else None


def stamp_text(folder: Path) -> str:
    """Return what tells one state of the index from another. Empty where there is none; a stamp that is no stamp is a state too."""
    lines = _lines(folder)
    if lines is None:
        return ""
    return lines[0] if _parsed(lines) else "damaged"


def read_contents(folder: Path) -> Contents | None:
    """Return the stamp with the files that it names; None where there is none, or it is not as it was written."""
    lines = _lines(folder)
    return _parsed(lines) if lines else None


def write_stamp(folder: Path, stamp: Stamp, names: Iterable[str]) -> None:
    """Commit: say what the index shows and of which files it is made; readers open it anew."""
    before = read_contents(folder)
    known = before.files if before else {}
    with writing(folder):
        files = {name: _listed(folder / name, known.get(name)) for name in names}
        lines = [f"{stamp.version} {stamp.generation} {stamp.behind}", *(f"{name} {size} {check}" for name, (size, check) in sorted(files.items()))]
        temporary = folder / f"stamp.{os.getpid()}"
        temporary.write_text("\n".join([*lines, str(_check(lines))]), encoding="utf-8")
        put_in_place(temporary, folder / STAMP)


def verify(folder: Path) -> Contents:
    """Read the files that the stamp names; raise IndexDamagedError where one is not as it was written."""
    while True:
        contents = read_contents(folder)
        if contents is None:
            raise damaged(folder, "its stamp is missing or not as it was written")
        known = _verified.get(folder, {})
        read = {name: _checked(folder / name, known.get(name)) for name in contents.files}
        _verified[folder] = {name: each for name, each in read.items() if each}
        wrong = next((name for name, facts in contents.files.items() if _facts(read[name]) != facts), None)
        if wrong is None:
            return contents
        if read_contents(folder) == contents:
            raise damaged(folder, f"{wrong} is not as it was written")


def is_verified(folder: Path, *, anew: bool = False) -> bool:
    """Tell whether there is an index, and all of its files are as they were written; `anew` reads those again that were read before."""
    if anew:
        _verified.pop(folder, None)
    try:
        verify(folder)
    except IndexDamagedError:
        return False
    return True


def refuse_lost(folder: Path, text: str, generation: int) -> None:
    """Raise IndexDamagedError where a stamp shows what its store, looked at later, has not come to: the store has lost commits."""
    contents = text.split(" ")
    if len(contents) == 3 and int(contents[1]) > generation:
        raise damaged(folder, "the index has lost what was written last")


def sweep(folder: Path) -> None:
    """Delete what the stamp does not name: what a writer that died had begun, or what a commit has replaced. For who holds the writer's lock."""
    contents = read_contents(folder)
    if contents is not None:
        _delete(folder, {STAMP, *contents.files})


def clear(folder: Path) -> None:
    """Delete all of the index, its stamp first: half an index must not count."""
    with writing(folder):
        (folder / STAMP).unlink(missing_ok=True)
    _delete(folder, set())


def _delete(folder: Path, keep: set[str]) -> None:
    for path in (*folder.glob("*/*"), *folder.glob("*")):
        if path.name in keep or path.name.endswith("LOCK"):
            continue
        try:
            path.rmdir() if path.is_dir() else path.unlink()
        except OSError:
            continue  # somebody has it open (Windows): the next sweep takes it


def _lines(folder: Path) -> list[str] | None:
    try:
        return (folder / STAMP).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None


def _parsed(lines: list[str]) -> Contents | None:
    *lines, check = lines
    if not lines or check != str(_check(lines)):
        return None
    (version, generation, behind), *files = (line.split(" ") for line in lines)
    return Contents(Stamp(version, int(generation), int(behind)), {name: (int(size), int(check)) for name, size, check in files})


def _check(lines: list[str]) -> int:
    return crc32("\n".join(lines).encode())


def _listed(path: Path, known: tuple[int, int] | None) -> tuple[int, int]:
    """Return a file's size and checksum; one that was listed before with this size is not read again: segments never change."""
    return known if known and known[0] == path.stat().st_size else _read(path)


def _checked(path: Path, known: _Read | None) -> _Read | None:
    """Return what a file is now; None where it cannot be read."""
    try:
        found = path.stat()
        now = (found.st_ino, found.st_size, found.st_mtime_ns)
        return known if known and known[0] == now else (now, _read(path)[1])
    except OSError:
        return None


def _facts(read: _Read | None) -> tuple[int, int] | None:
    return (read[0][1], read[1]) if read else None


def _read(path: Path) -> tuple[int, int]:
    size = check = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size, check = size + len(block), crc32(block, check)
    return size, check


def damaged(folder: Path, what: object) -> IndexDamagedError:
    """Return what is said of an index that cannot be opened."""
    return IndexDamagedError(f"The keyword index in {folder} cannot be opened ({what}): run `thumbindex index` to build it anew.")
