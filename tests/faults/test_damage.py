"""A damaged index file gives the same answers or none, and the next run repairs it without
embedding texts again.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dump import dump
from fakes import FakeEmbedder
from faults.vault import Built, answers, old_notes, open_library, true_answers
from servers import index_folder
from thumbindex.errors import IndexTooNewError, StorageError, UsageError
from thumbindex.index.files import IndexPaths
from thumbindex.index.store import Store

FILES = {
    "store": "*/1/index.sqlite3",
    "log": "*/1/index.sqlite3-wal",
    "segment": "*/1/keyword/*.seg",
    "vectors": "vectors/*.sqlite3",
}


def file_of(index: Path, target: str) -> Path:
    return max(index.glob(FILES[target]), key=lambda path: path.stat().st_size)


Damage = Callable[[bytearray, int, random.Random], bytes]


def flip(data: bytearray, at: int, chance: random.Random) -> bytes:
    data[at] ^= chance.randrange(1, 256)
    return bytes(data)


def flip_written(data: bytearray, _: int, chance: random.Random) -> bytes:
    """Flip a byte in a used range: much of SQLite's pages is unused."""
    places = range(len(data) // 8, len(data))
    return flip(data, next(at for at in places if all(data[at : at + 8])), chance)


def zero(data: bytearray, at: int, _: random.Random) -> bytes:
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    return bytes(data)


def truncate(data: bytearray, at: int, _: random.Random) -> bytes:
    return bytes(data[:at])


def noise(data: bytearray, _: int, chance: random.Random) -> bytes:
    return chance.randbytes(len(data))


EVERY = [flip, zero, truncate, flip, flip] * 10 + [lambda *_: b"", noise, None]
"""Kinds of damage; None deletes the file."""


def damage(path: Path, how: Damage | None, chance: random.Random) -> None:
    """Damage a file without a change of its times, like a failing disk."""
    if how is None:
        path.unlink()
        return
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(how(bytearray(data), chance.randrange(len(data)), chance))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture(scope="session")
def unclosed(old: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index as a killed process leaves it, with data only in SQLite's log."""
    folder = tmp_path_factory.mktemp("unclosed")
    with open_library(old.root, folder / "index") as library:
        library.index(complete=False)
        (reader,) = library._readers
        assert reader.store.generation  # keeps the log open
        library.index()
        shutil.copytree(folder / "index", folder / "copy")
    return folder / "copy"


def check(old: Built, index: Path, target: str) -> None:
    """Read the index, repair it by indexing, and compare it with the undisturbed one."""
    with open_library(old.root, index) as library:
        results = true_answers(library, old_notes())
        matches = [
            isinstance(result, str) or result == expected
            for result, expected in zip(results, old.answers, strict=True)
        ]
        # a damaged title, missing vectors or an earlier state may change the ranking
        assert all(matches) or target in ("store", "vectors", "log")
        with suppress(StorageError, UsageError):
            library.duplicates()
    embedder = FakeEmbedder()
    with open_library(old.root, index, embedder) as library:
        library.index()
        library.index(verify=True)
        assert library.index(verify=True).repaired == ()
        assert embedder.embedded == 0 or target == "vectors"
        # titles and line numbers have no checksum
        assert answers(library) == old.answers or target in ("store", "log")
        library.index(rebuild=target in ("store", "log"))
        assert (dump(library), answers(library)) == (old.dump, old.answers)


DAMAGES = [
    *(
        pytest.param(name, [flip_written], marks=pytest.mark.slow, id=f"{name}, flipped")
        for name in FILES
    ),
    pytest.param("store", [zero, truncate], marks=pytest.mark.slow, id="store, zeroed and cut"),
    *(pytest.param(name, EVERY, marks=pytest.mark.long, id=name) for name in FILES),
]


@pytest.mark.parametrize(("target", "hows"), DAMAGES)
def test_damage_anywhere_is_detected_and_repaired(
    target: str, hows: list[Damage | None], old: Built, unclosed: Path, scratch: Path
) -> None:
    chance = random.Random(f"damage {target}")
    for how in hows:
        index = scratch / "index"
        shutil.copytree(unclosed if target == "log" else old.index, index)
        damage(file_of(index, target), how, chance)
        check(old, index, target)
        shutil.rmtree(index)


# ------------------------------------------------------------------ other versions of thumbindex


def of_schema(index: Path, version: int) -> Path:
    """Turn a store into one of another version of thumbindex, without its meta table."""
    folder = index_folder(index)
    assert folder is not None
    store = IndexPaths(folder).store
    with closing(sqlite3.connect(store)) as other:
        other.execute("DROP TABLE meta")
        other.execute(f"PRAGMA user_version = {version}")
    return store


@pytest.mark.slow
def test_index_of_an_earlier_schema_is_rebuilt_and_reported(old: Built, scratch: Path) -> None:
    shutil.copytree(old.index, scratch / "index")
    of_schema(scratch / "index", Store.version - 1)
    with open_library(old.root, scratch / "index") as library:
        report = library.index()
        assert ("of an earlier version" in report.repaired[0], dump(library)) == (True, old.dump)
        assert answers(library) == old.answers


@pytest.mark.slow
def test_index_of_a_later_schema_is_refused_and_unchanged(old: Built, scratch: Path) -> None:
    shutil.copytree(old.index, scratch / "index")
    store = of_schema(scratch / "index", Store.version + 1)
    before = store.read_bytes()
    with (
        open_library(old.root, scratch / "index") as library,
        pytest.raises(IndexTooNewError, match="upgrade thumbindex"),
    ):
        library.index()
    assert store.read_bytes() == before
