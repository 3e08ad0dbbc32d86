"""A file of the index that is not what was written gives the same answers or none, and the next run
repairs it; derived views ask no model.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from thumbindex.errors import StorageError
from thumbindex.index.files import Places
from thumbindex.index.store import Store
from thumbindex.testing import FakeEmbedder

TARGETS = ("store", "log", "segment", "contents", "stamp", "vectors")
FEW = 3
"""Places of each kind of file that are damaged in the short form."""


def file_of(index: Path, target: str) -> Path:
    pattern = {
        "store": "*/1/index.sqlite3",
        "log": "*/1/index.sqlite3-wal",
        "segment": "*/1/keyword/*.seg",
        "contents": "*/1/keyword/*.toc",
        "stamp": "*/1/keyword/stamp",
        "vectors": "vectors/*.sqlite3",
    }
    return max(index.glob(pattern[target]), key=lambda path: path.stat().st_size)


def flip(data: bytearray, at: int, chance: random.Random) -> bytes:
    data[at] ^= chance.randrange(1, 256)
    return bytes(data)


def zero(data: bytearray, at: int, _: random.Random) -> bytes:
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    return bytes(data)


def truncate(data: bytearray, at: int, _: random.Random) -> bytes:
    return bytes(data[:at])


def empty(_data: bytearray, _at: int, _: random.Random) -> bytes:
    return b""


def noise(data: bytearray, _: int, chance: random.Random) -> bytes:
    return chance.randbytes(len(data))


PLACES: tuple[Callable[[bytearray, int, random.Random], bytes], ...] = (
    flip,
    zero,
    truncate,
    flip,
    flip,
)
WHOLE = (empty, noise)


def damage(
    path: Path, how: Callable[[bytearray, int, random.Random], bytes], chance: random.Random
) -> None:
    """Damage a file as a failing disk does, which changes no times."""
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(how(bytearray(data), chance.randrange(len(data)), chance))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def check(faults, old, built, index: Path, count, target: str) -> None:
    """Read, repair by indexing, and compare with the undisturbed index; note what was seen when."""
    notes = faults.old_notes()
    with faults.open_library(old.root, index) as library:
        found = faults.answers(library)
        # a log that ends early is an earlier state of the index: the next run does the rest of the
        # work again
        earlier = target == "log" and library.status()[0].state.generation < built.generation
    wrong = [said for said, right in zip(found, old.answers, strict=True) if said != right]
    for said in wrong:
        assert isinstance(said, str) or all(
            any(p.text in text for text in notes.values()) for p in said
        ), "a wrong text"
    embedder = FakeEmbedder()
    with faults.open_library(old.root, index, embedder) as library:
        first = library.index()
        second = library.index(verify=True)
        assert library.index(verify=True).mended == ()
        asked = embedder.embedded
        assert asked == 0 or target == "vectors"
        # a title or a line that was flipped is no text
        assert faults.answers(library) == old.answers or target in ("store", "log")
        library.index(rebuild=target in ("store", "log"))
        assert (faults.dump(library), faults.answers(library)) == (old.dump, old.answers)
    said = {
        "an earlier state": earlier,
        "a reader said so": bool(wrong),
        "index repaired it": bool(first.mended),
        "index --verify found it": bool(second.mended),
        "without effect": True,
    }
    when = next(name for name, holds in said.items() if holds)
    count[f"damage to {target}: {when}"] += 1
    count[f"damage to {target}: texts that were embedded again"] += asked


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_anywhere_it_is_found_and_not_believed(
    target, full, count, faults, old, unclosed, scratch
):
    built, chance = unclosed if target == "log" else old, random.Random(f"damage {target}")
    hows = [PLACES[n % len(PLACES)] for n in range(50 if full else FEW)] + [
        *WHOLE[: 2 if full else 1]
    ]
    for n, how in enumerate(hows):
        index = built.copy(scratch / str(n))
        damage(file_of(index, target), how, chance)
        check(faults, old, built, index, count, target)
        shutil.rmtree(index)


def test_a_zeroed_sector_of_the_store_leaves_answers_the_same_or_none_and_no_error_is_foreign(
    full, faults, old, scratch
):
    index = old.copy(scratch / "index")
    path = file_of(index, "store")
    written = path.read_bytes()
    for at in range(0 if full else 2048, len(written), 512 if full else 4096):
        path.write_bytes(zero(bytearray(written), at, random.Random()))
        with faults.open_library(old.root, index) as library:
            for said, right in zip(faults.answers(library), old.answers, strict=True):
                assert said == right or isinstance(said, str), at
            with suppress(StorageError):
                library.duplicates()


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_that_is_gone_is_made_again(target, faults, old, unclosed, count, scratch):
    built = unclosed if target == "log" else old
    index = built.copy(scratch / "index")
    file_of(index, target).unlink()
    check(faults, old, built, index, count, target)


def test_repairing_again_and_again_works_and_leaves_nothing_behind(faults, old, scratch):
    index = old.copy(scratch / "index")
    folder = old.folder(index)
    for _ in range(4):
        Places(folder).store.write_bytes(b"damaged" * 1000)
        with faults.open_library(old.root, index) as library:
            assert len(library.index().mended) == 1
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["5"]
    with faults.open_library(old.root, index) as library:
        assert (library.index().mended, faults.dump(library)) == ((), old.dump)


@pytest.mark.parametrize("target", ["store", "segment"])
def test_a_process_that_reads_goes_on_across_a_repair_by_another(
    target, child, faults, old, scratch
):
    index = old.copy(scratch / "index")
    wrong: list[object] = []
    repaired = threading.Event()

    def ask() -> None:
        while not repaired.is_set():
            for query, right in zip(faults.queries, old.answers, strict=True):
                with suppress(StorageError):
                    found = library.query(query)
                    # while the index fills that takes the place of the damaged one, an answer says
                    # that it is not whole yet
                    is_whole = (found.index.documents, found.index.pending) == (
                        len(faults.old_notes()),
                        0,
                    )
                    if is_whole and faults.undated(found) != right:
                        wrong.append(found)

    with faults.open_library(old.root, index) as library:
        assert faults.answers(library) == old.answers
        before = library._readers[0].store
        asking = threading.Thread(target=ask)
        asking.start()
        path = file_of(index, target)
        damage(path, zero_the_middle, random.Random(target))
        assert child.do(root=old.root, index=index, verify=True)["mended"] != []
        repaired.set()
        asking.join()
        assert (wrong, faults.answers(library)) == ([], old.answers)
        assert library._readers[0].store is not before


def zero_the_middle(data: bytearray, _at: int, chance: random.Random) -> bytes:
    """Zero half a kilobyte where something is written: the very middle of a small store is an empty
    page of a table without rows.
    """
    return zero(
        data,
        next(at for at in range(len(data) // 2, len(data), 512) if any(data[at : at + 512])),
        chance,
    )


def of_schema(store: Path, version: int) -> None:
    """Make a store one that another version of thumbindex wrote: its facts are nowhere that we
    know.
    """
    with closing(sqlite3.connect(store)) as other:
        other.execute("DROP TABLE meta")
        other.execute(f"PRAGMA user_version = {version}")


def test_an_index_of_an_earlier_schema_is_built_anew_from_the_notes_and_says_so(
    faults, old, scratch
):
    index = old.copy(scratch / "index")
    of_schema(Places(old.folder(index)).store, Store.version - 1)
    with faults.open_library(old.root, index) as library:
        report = library.index()
        assert ("another schema" in report.mended[0], faults.dump(library)) == (True, old.dump)
        assert faults.answers(library) == old.answers


def test_an_index_of_a_later_schema_is_refused_and_stays_as_it_was(child, old, scratch):
    index = old.copy(scratch / "index")
    store = Places(old.folder(index)).store
    of_schema(store, Store.version + 1)
    before = store.read_bytes()
    told = child.do(root=old.root, index=index)
    assert (told["outcome"], told["error"], "upgrade thumbindex" in told["message"]) == (
        "refused",
        "IndexTooNewError",
        True,
    )
    assert store.read_bytes() == before
