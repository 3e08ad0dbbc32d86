"""A disk that is full, a folder that may not be written and a lock that is held cost a sentence,
and the next run finishes.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from thumbindex.errors import IndexBusyError, StorageError
from thumbindex.index.files import Places
from thumbindex.index.writer import Writer
from thumbindex.testing import FakeEmbedder

NOBODY = 65534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return an empty file system in memory, whose size is set by mounting it anew."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
    ).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def set_size(disk: Path, kilobytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)


def check_refused(told: dict, count, name: str) -> None:
    """A run that could not finish said what to do next, in one sentence or two."""
    assert told["outcome"] in ("done", "refused"), told
    assert told["outcome"] == "done" or any(
        hint in told["message"]
        for hint in ("free some space", "permissions", "check the disk", "run it again")
    )
    count[f"{name}: {told['outcome']}"] += 1


def check_finishes(faults, root: Path, index: Path, built) -> None:
    with faults.open_library(root, index, FakeEmbedder()) as library:
        assert library.index().mended == ()
        assert faults.dump(library) == built.dump
        keyword = library.opened[0].places.keyword
        # stamp, contents: no parts of what failed pile up
        assert len(list(keyword.iterdir())) <= 2 + len(list(keyword.glob("*.seg")))


@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_a_full_disk_costs_a_sentence_and_nothing_that_was_indexed(
    update, full, count, child, faults, old, new, small_disk, scratch
):
    built, root = (new, scratch / "vault") if update else (old, old.root)
    versions = (faults.old_notes(), faults.new_notes()) if update else (faults.old_notes(),)
    if update:
        faults.write_notes(root, faults.old_notes())
        child.do(root=root, index=scratch / "before", steps=True)
        faults.write_notes(root, faults.new_notes())
    used = (
        sum(path.stat().st_size for path in (scratch if update else old.index).rglob("*")) // 1024
    )
    # the log comes beside what is there in the end
    sizes = range(used if update else 4, 3 * used, used // (10 if full else 1))
    for size in sizes:
        set_size(small_disk, 64 * 1024)
        shutil.rmtree(small_disk / "index", ignore_errors=True)
        if update:
            shutil.copytree(scratch / "before", small_disk / "index")
        set_size(small_disk, size)
        told = child.do(root=root, index=small_disk / "index", steps=True)
        check_refused(told, count, f"full disk, {'updating' if update else 'building'}")
        with faults.open_library(root, small_disk / "index") as library:
            faults.true_answers(library, *versions)
        set_size(small_disk, 64 * 1024)
        check_finishes(faults, root, small_disk / "index", built)


FAILING = {
    "full from then on": (1, errno.ENOSPC),
    "full once": (0, errno.ENOSPC),
    "fails once": (0, errno.EIO),
}


@pytest.mark.parametrize(("lasting", "error"), FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_a_disk_that_is_full_at_any_one_write_costs_a_sentence(
    update, lasting, error, full, count, child_on_a_disk, faults, scratch
):
    root, index, before = scratch / "vault", scratch / "index", scratch / "before"
    versions = [
        dict(list(faults.old_notes().items())[:6]),
        dict(list(faults.new_notes().items())[2:8]),
    ][: 1 + update]
    faults.write_notes(root, versions[0])
    before.mkdir()
    if update:
        child_on_a_disk.do(root=root, index=before, steps=True)
        faults.write_notes(root, versions[1])
    with faults.open_library(root, scratch / "fresh", FakeEmbedder()) as library:
        library.index()
        right = faults.dump(library)

    def run(at: int) -> dict:
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(before, index)
        return child_on_a_disk.do(root=root, index=index, steps=True, full=[at, lasting, error])

    # 700 at the time of writing: files made, written, cut, renamed and synced
    writes = run(0)["asked"]
    assert writes > 100
    moments, tried = range(1, writes + 1, 1 if full else writes // 5), 0
    for at in moments:
        how = f"{errno.errorcode[error]} {'from then on' if lasting else 'once'}"
        told, name = run(at), f"a write of {'updating' if update else 'building'}, {how}"
        tried += told["asked"] >= at
        if told["asked"] < at:  # this run had fewer writes than the first
            count[f"{name}: NOT tried"] += 1
            continue
        check_refused(told, count, name)
        with faults.open_library(root, index) as library:
            faults.true_answers(library, *versions)
        with faults.open_library(root, index, FakeEmbedder()) as library:
            assert (library.index().mended, faults.dump(library)) == ((), right), f"write {at}"
    assert len(moments) - tried <= max(1, len(moments) // 20), (
        f"only {tried} of {len(moments)} writes were reached"
    )


def test_a_disk_that_became_read_only_answers_and_says_that_it_cannot_be_written(
    faults, old, small_disk, scratch
):
    set_size(small_disk, 64 * 1024)
    old.copy(small_disk / "index")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with faults.open_library(old.root, small_disk / "index") as library:
        assert faults.answers(library) == old.answers
        with pytest.raises(StorageError, match="cannot be written"):
            library.index()
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)


@pytest.mark.parametrize("largest", [8, 40, 120, 400])
def test_a_file_that_may_not_grow_is_a_full_disk(largest, count, child, faults, old, scratch):
    told = child.do(root=old.root, index=scratch / "index", steps=True, largest_file=largest * 1024)
    check_refused(told, count, "largest file")
    check_finishes(faults, old.root, scratch / "index", old)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
class TestAnotherUser:
    """Root may write anything: what a folder's permissions do shows to another user only."""

    @pytest.fixture
    def shared(self, faults, old, scratch):
        """Return an index that everybody may read and only root may write."""
        scratch.chmod(0o755)
        shutil.copytree(old.root, scratch / "vault")
        with faults.open_library(scratch / "vault", scratch / "index") as library:
            library.index()
        for each in (scratch / "index", *(scratch / "index").iterdir()):
            each.chmod(0o755)  # as who shares an index does: it is made for its owner alone
        return scratch / "vault", scratch / "index"

    def test_an_index_that_may_not_be_written_is_named_and_stays_as_it_was(self, child, shared):
        root, index = shared
        before = {path: path.read_bytes() for path in index.rglob("*") if path.is_file()}
        told = child.do(root=root, index=index, user=NOBODY)
        assert (told["outcome"], "permissions" in told["message"]) == ("refused", True)
        assert {path: path.read_bytes() for path in index.rglob("*") if path.is_file()} == before

    def test_an_index_that_may_only_be_read_answers(self, child, faults, shared):
        root, index = shared
        with faults.open_library(root, index) as library:
            right = [
                [p.path, p.start_line, p.end_line] for p in library.query("apple cellar").passages
            ]
        told = child.do(root=root, index=index, user=NOBODY, ask="apple cellar")
        assert told == {"outcome": "answered", "passages": right, "seconds": told["seconds"]}

    def test_an_index_that_may_not_be_read_is_named(self, child, shared):
        root, index = shared
        next(index.glob("*/*/index.sqlite3")).chmod(0o600)
        told = child.do(root=root, index=index, user=NOBODY, ask="apple cellar")
        assert (told["outcome"], "permissions" in told["message"]) == ("refused", True)


def test_a_lock_that_another_process_holds_is_waited_for(faults, old, scratch):
    index = old.copy(scratch / "index")
    places = Places(old.folder(index)).at()
    other = sqlite3.connect(places.store, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    commit = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    commit.start()
    with Writer.open(places.folder) as writer:
        writer.note("key", "value")
        assert (writer.store.meta("key"), commit.finished.is_set()) == ("value", True)
    commit.join()
    other.close()
    with faults.open_library(old.root, index) as library:
        assert (library.index().mended, faults.dump(library)) == ((), old.dump)


def test_a_writers_lock_is_named_as_busy_and_not_as_damage(old, scratch):
    index = old.copy(scratch / "index")
    places = Places(old.folder(index))

    def busy() -> None:
        raise IndexBusyError

    with FileLock(places.lock), pytest.raises(IndexBusyError), Writer.open(places.folder, busy):
        pass
