"""Nothing changed costs nothing, and nothing that changed passes for that."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from counting import files_read, statements
from thumbindex.config import load_config
from thumbindex.index.files import Places
from thumbindex.index.unchanged import UnchangedState, store_facts, write_unchanged
from thumbindex.index.writer import Writer
from thumbindex.library import Library
from thumbindex.library.indexing import count_unchanged, cutting
from thumbindex.testing import FakeEmbedder

TRUSTED_SECONDS = 2.1
"""A file that was written just before is read again, whatever its time says."""

NAMES = ("a.md", "b.md", "c.md")


def open_library(root: Path, *overrides: str) -> Library:
    config = load_config(user_file=root / "none", overrides=overrides)
    return Library.open([root], index=root.parent / "index", config=config, embedder=FakeEmbedder())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a vault that has lain there long enough; each test leaves it with three notes, and
    indexed.
    """
    made = tmp_path_factory.mktemp("unchanged") / "vault"
    made.mkdir()
    for name in NAMES:
        (made / name).write_text(f"# Note {name}\n\nWritten as {name}.\n")
    time.sleep(TRUSTED_SECONDS)
    return made


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    """Open the vault's index where nothing is left to do, and that is known."""
    with open_library(root) as library:
        library.index()
        library.index()
        assert known(library) == 3
        yield library


def known(library: Library) -> int | None:
    (folder,) = library.opened
    return count_unchanged(folder, cutting(folder))


def unchanged_file(library: Library) -> Path:
    return library.opened[0].places.unchanged


def store(library: Library) -> Path:
    return library.opened[0].places.store


def test_nothing_changed_reads_no_note_asks_no_model_commits_nothing_and_leaves_the_manifest(
    library: Library,
) -> None:
    before = library.index()
    with files_read(frozenset(NAMES)) as read, statements() as quick:
        again = library.index(words_only=True)
    unchanged_file(library).unlink()
    with statements() as compared:
        library.index(words_only=True)
    assert (again.embedded, again.generation - before.generation, read.total()) == (0, 0, 0)
    assert quick.total() < compared.total()


def test_a_run_that_finds_nothing_reports_as_one_that_compared(library: Library) -> None:
    quick = library.index()
    unchanged_file(library).unlink()
    compared = library.index()
    assert [getattr(quick, name) for name in quick.__slots__ if name != "seconds"] == [
        getattr(compared, name) for name in compared.__slots__ if name != "seconds"
    ]


def test_what_is_gone_is_seen_and_what_comes_back_as_it_was(library: Library, root: Path) -> None:
    (root / "a.md").rename(root.parent / "a.md")
    gone = library.index().removed
    (root.parent / "a.md").rename(root / "a.md")
    os.utime(root / "b.md")
    assert (gone, library.index().added) == (1, 1)
    time.sleep(TRUSTED_SECONDS)


def test_another_setting_is_another_folder(library: Library, root: Path) -> None:
    with open_library(root, "corpus.exclude=['c.md']") as other:
        assert known(other) is None
        assert other.index().removed == 1
    assert library.index().added == 1


def test_files_are_compared_whole_where_that_is_asked_for(library: Library) -> None:
    with files_read(frozenset(NAMES)) as read:
        library.index(verify=True)
    assert read.total() == len(NAMES)


def test_a_time_far_ahead_stops_no_run(library: Library, root: Path) -> None:
    # 2400: its nanoseconds do not fit in 64 bits with a sign
    os.utime(root / "b.md", (13_569_465_600, 13_569_465_600))
    assert library.index().unchanged == 3
    os.utime(root / "b.md")
    time.sleep(TRUSTED_SECONDS)


def test_a_text_that_changed_under_its_facts_is_found_by_verify(library: Library) -> None:
    with closing(sqlite3.connect(store(library))) as damaged:
        damaged.execute("UPDATE sections SET text = 'Another'")
        damaged.commit()
    forge_facts(library)
    assert known(library) == 3  # as decision 0020 says
    assert library.index(verify=True).mended != ()


def forge_facts(library: Library) -> None:
    """Have `unchanged` hold for the store's file as it is now."""
    places = library.opened[0].places
    write_unchanged(places, replace(state_in(places), store=store_facts(places)))


def state_in(places: Places) -> UnchangedState:
    return UnchangedState(
        **json.loads(places.unchanged.read_text(encoding="utf-8").partition("\n")[2])
    )


def test_what_a_process_left_that_was_killed_while_it_wrote_goes_with_the_next(
    library: Library,
) -> None:
    left = unchanged_file(library).with_name("unchanged.new")
    left.write_text("half")
    forge_facts(library)
    assert known(library) == 3
    assert not list(unchanged_file(library).parent.glob("unchanged.*"))


def test_nothing_is_kept_of_an_index_that_is_gone(library: Library, tmp_path: Path) -> None:
    write_unchanged(Places(tmp_path), state_in(library.opened[0].places))
    assert not list(tmp_path.iterdir())


def touched(path: Path) -> None:
    os.utime(path)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", [touched, flipped, Path.unlink])
def test_what_was_kept_is_not_believed_where_anything_is_amiss(
    library: Library, how: Callable[[Path], None]
) -> None:
    for path in (unchanged_file(library), store(library)):
        if (path, how) not in {
            (unchanged_file(library), touched),
            (store(library), flipped),
            (store(library), Path.unlink),
        }:
            how(path)
            assert known(library) is None
            assert library.index().unchanged == 3


def test_a_commit_since_makes_it_old(library: Library) -> None:
    with Writer.open(library.opened[0].places.folder) as writer:
        writer.note("corpus", "as an earlier version cut it")
    assert known(library) is None
    assert library.index().changed == 3
