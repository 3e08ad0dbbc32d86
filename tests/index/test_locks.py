"""One writer at a time, an index that is deleted under those who wait for it, and files that are
replaced while they are open.
"""

import threading
import time
from pathlib import Path

import pytest

from thumbindex.index.builds import delete_index
from thumbindex.index.files import IndexPaths, retry_while_in_use
from thumbindex.index.locks import delete_lock, hold_lock, is_held
from thumbindex.index.writer import Writer


class InUseError(PermissionError):
    """What Windows says of a file that another process has open."""

    winerror = 32


def test_whoever_waits_for_a_lock_that_is_dropped_takes_a_new_one(tmp_path):
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


def test_a_deleted_index_leaves_no_folder_behind(tmp_path):
    with Writer.open(tmp_path / "index"):
        pass
    delete_index(IndexPaths(tmp_path / "index"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_somebody_has_open_is_replaced_as_soon_as_he_closes_it(tmp_path):
    (tmp_path / "new").write_text("new")
    refusals = iter([InUseError(13, "in use"), InUseError(13, "in use"), None])

    def attempt() -> None:
        if refused := next(refusals):
            raise refused
        (tmp_path / "new").replace(tmp_path / "old")

    retry_while_in_use(attempt)
    assert (tmp_path / "old").read_text() == "new"


def test_a_file_that_stays_open_is_not_waited_for_without_end():
    def attempt() -> None:
        raise InUseError(13, "in use")

    began = time.monotonic()
    with pytest.raises(PermissionError, match="in use"):
        retry_while_in_use(attempt, seconds=0.05)
    assert time.monotonic() - began < 10
