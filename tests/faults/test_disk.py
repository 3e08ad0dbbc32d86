"""A full disk, a read-only folder or a held lock is reported, and the next run finishes."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from dump import dump
from faults.vault import Built, Child, new_notes, old_notes, open_library, true_answers, write_notes
from servers import index_folder
from thumbindex.errors import StorageError
from thumbindex.index.files import IndexPaths
from thumbindex.index.writer import Writer

NOBODY = 65534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def check_refused(result: dict[str, Any]) -> None:
    """Check that an unfinished run says what to do next."""
    hints = ("free some space", "permissions", "check the disk", "run it again")
    assert result["outcome"] in ("done", "refused"), result
    assert result["outcome"] == "done" or any(hint in result["message"] for hint in hints), result


def check_finishes(root: Path, index: Path, expected: dict[str, list[Any]]) -> None:
    with open_library(root, index) as library:
        assert (library.index().repaired, dump(library)) == ((), expected)
        keyword = library.opened[0].index_paths.segments_folder
        # failed runs leave no files behind
        listed = {segment.name for segment in library._readers[0].store.segments()}
        assert {path.name for path in keyword.iterdir()} == listed


FAILING = {
    "full from then on": (1, errno.ENOSPC),
    "full once": (0, errno.ENOSPC),
    "fails once": (0, errno.EIO),
}
WRITES = [
    pytest.param(False, "full from then on", 1, 140, marks=pytest.mark.slow, id="few"),
    pytest.param(True, "full once", 20, 140, marks=pytest.mark.slow, id="few, updating"),
    pytest.param(False, "fails once", 40, 210, marks=pytest.mark.slow, id="few that fail"),
] + [
    pytest.param(update, how, first, len(FAILING), marks=pytest.mark.long, id=f"{how}, {update=}")
    for update in (False, True)
    for first, how in enumerate(FAILING, 1)
]
"""Failing writes: of a build or an update, kind of failure, first one and step.

The long rows together fail each write once.
"""


@pytest.mark.parametrize(("update", "how", "first", "step"), WRITES)
def test_full_disk_at_any_write_is_reported_and_loses_nothing(
    update: bool, how: str, first: int, step: int, child_on_a_disk: Child, scratch: Path
) -> None:
    root, index, before = scratch / "vault", scratch / "index", scratch / "before"
    versions = [dict(list(old_notes().items())[:6]), dict(list(new_notes().items())[2:8])]
    versions = versions[: 1 + update]
    write_notes(root, versions[0])
    before.mkdir()
    if update:
        child_on_a_disk.do(root=root, index=before)
        write_notes(root, versions[1])
    with open_library(root, scratch / "fresh") as library:
        library.index()
        expected = dump(library)

    def run(at: int) -> dict[str, Any]:
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(before, index)
        return child_on_a_disk.do(root=root, index=index, full=[at, *FAILING[how]])

    # about 700: files created, written, truncated, renamed and synced
    writes = run(0)["asked"]
    assert writes > 100
    moments = range(first, writes + 1, step)
    missed = 0
    for at in moments:
        result = run(at)
        if result["asked"] < at:  # this run had fewer writes than the first
            missed += 1
            continue
        check_refused(result)
        with open_library(root, index) as library:
            true_answers(library, *versions)
        check_finishes(root, index, expected)
    assert missed <= max(1, len(moments) // 20), f"{missed} of {len(moments)} writes not reached"


@pytest.mark.slow
def test_file_size_limit_is_reported_like_a_full_disk(
    child: Child, old: Built, scratch: Path
) -> None:
    result = child.do(root=old.root, index=scratch / "index", largest_file=40 * 1024)
    check_refused(result)
    check_finishes(old.root, scratch / "index", old.dump)


@pytest.mark.long
def test_read_only_disk_is_reported(old: Built, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        shutil.copytree(old.index, disk / "index")
        for path in (disk / "index").rglob("*.sqlite3-*"):
            path.unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with open_library(old.root, disk / "index") as library:
            with pytest.raises(StorageError, match="Cannot write"):
                library.query("apples")
            with pytest.raises(StorageError, match="Cannot write"):
                library.index()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_index_of_another_user_is_refused_and_unchanged(
    child: Child, old: Built, scratch: Path
) -> None:
    # root ignores permissions, so this needs another user
    root, index = scratch / "vault", scratch / "index"
    shutil.copytree(old.root, root)
    with open_library(root, index) as library:
        library.index()
    for folder in (scratch, index, *index.iterdir()):
        folder.chmod(0o755)  # shared: by default it is private to its owner
    before = {path: path.read_bytes() for path in index.rglob("*") if path.is_file()}
    result = child.do(root=root, index=index, user=NOBODY)
    assert (result["outcome"], "permissions" in result["message"]) == ("refused", True)
    assert {path: path.read_bytes() for path in index.rglob("*") if path.is_file()} == before
    result = child.do(root=root, index=index, user=NOBODY, ask="apple cellar")
    assert (result["outcome"], "permissions" in result["message"]) == ("refused", True)


@pytest.mark.slow
def test_lock_of_another_process_is_waited_for_and_is_not_damage(old: Built, scratch: Path) -> None:
    shutil.copytree(old.index, scratch / "index")
    folder = index_folder(scratch / "index")
    assert folder is not None
    paths = IndexPaths(folder).of_build()
    other = sqlite3.connect(paths.store, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    commit = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    commit.start()
    with Writer.open(paths.folder) as writer:
        writer.set_meta("key", "value")
        assert (writer.store.meta("key"), commit.finished.is_set()) == ("value", True)
    commit.join()
    other.close()
    check_finishes(old.root, scratch / "index", old.dump)
