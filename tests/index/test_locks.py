"""Locks of deleted indexes, and replacement of open files."""

import threading
import time
from pathlib import Path

import pytest

from thumbindex.index.builds import delete_index
from thumbindex.index.files import IndexPaths, retry_while_in_use
from thumbindex.index.locks import delete_lock, hold_lock, is_held
from thumbindex.index.writer import Writer


class InUseError(PermissionError):
    """The error on Windows for a file that another process has open."""

    winerror = 32


def test_waiter_takes_a_new_lock_after_deletion(tmp_path):
    lock, waited = tmp_path / "index" / "writer.lock", []
    lock.parent.mkdir()
    with hold_lock(lock):
        waiter = threading.Thread(target=lambda: _take(lock, waited), daemon=True)
        waiter.start()
        time.sleep(0.2)
        delete_lock(lock)
        lock.parent.rmdir()
        waiter.join(10)
    assert waited == [True]


def _take(lock: Path, waited: list[bool]) -> None:
    with hold_lock(lock):
        waited.append(is_held(lock))


def test_deleting_an_index_removes_its_folder(tmp_path):
    with Writer.open(tmp_path / "index"):
        pass
    delete_index(IndexPaths(tmp_path / "index"))
    assert list(tmp_path.iterdir()) == []


def test_retry_replaces_an_open_file_once_it_is_closed(tmp_path):
    (tmp_path / "new").write_text("new")
    refusals = iter([InUseError(13, "in use"), InUseError(13, "in use"), None])

    def attempt() -> None:
        if refusal := next(refusals):
            raise refusal
        (tmp_path / "new").replace(tmp_path / "old")

    retry_while_in_use(attempt)
    assert (tmp_path / "old").read_text() == "new"


def test_retry_gives_up_on_a_file_that_stays_open():
    def attempt() -> None:
        raise InUseError(13, "in use")

    started = time.monotonic()
    with pytest.raises(PermissionError, match="in use"):
        retry_while_in_use(attempt, seconds=0.05)
    assert time.monotonic() - started < 10
