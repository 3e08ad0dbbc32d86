"""The locks that decide which server runs an indexer, and for which folders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from thumbindex.background.supervisor import IndexerSupervisor
from thumbindex.config import load_config
from thumbindex.library import Folder, Library
from waiting import until

Start = Callable[[], tuple[IndexerSupervisor, list[list[str]]]]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Folder, ...]:
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        root.mkdir()
    config = load_config(user_file=tmp_path / "none")
    with Library.open(roots, index=tmp_path / "index", config=config) as library:
        return library.opened


@pytest.fixture
def start(folders: tuple[Folder, ...]) -> Iterator[Start]:
    """Start a supervisor; return it and the folders of each child that it starts."""
    started = list[IndexerSupervisor]()

    def start_one() -> tuple[IndexerSupervisor, list[list[str]]]:
        names = list[list[str]]()

        def command(folders: Sequence[str]) -> list[str]:
            names.append(list(folders))
            return [sys.executable, "-c", "input()"]

        started.append(IndexerSupervisor(command, folders))
        started[-1].start()
        return started[-1], names

    yield start_one
    for indexer in started:
        indexer.stop()


def test_unlocked_folder_is_indexed_with_the_others(
    start: Start, folders: tuple[Folder, ...]
) -> None:
    watch = folders[1].index_paths.watch
    watch.parent.mkdir(parents=True)
    with FileLock(watch):
        indexer, names = start()
        assert names == [["one"]]
    assert until(lambda: names == [["one"], ["one", "two"]])
    assert until(lambda: indexer.is_running)


def test_deleted_lock_file_is_locked_again(start: Start, folders: tuple[Folder, ...]) -> None:
    _, names = start()
    folders[0].index_paths.watch.unlink()
    assert until(lambda: len(names) == 2)
    assert names[1] == ["one", "two"]
    with pytest.raises(TimeoutError):
        FileLock(folders[0].index_paths.watch).acquire(timeout=0)


def test_unwritable_index_folder_is_reported(start: Start, folders: tuple[Folder, ...]) -> None:
    folder = folders[0].index_paths.folder
    folder.parent.mkdir(parents=True)
    folder.touch()
    indexer, names = start()
    assert names == [["two"]]
    (note,) = indexer.notes({"one"})
    assert note.startswith(f"one: cannot index changes (Cannot write {folder}")
    assert (indexer.write_failures({"one"}), indexer.notes({"two"})) == ((note,), ())
