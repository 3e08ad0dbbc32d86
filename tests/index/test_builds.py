"""What is made of the notes is built anew beside the old one and switched to; a view that shows
another store is no view.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from thumbindex.errors import IndexDamagedError, StorageError
from thumbindex.index.builds import begin_build, find_damage, repair_index, switch_build
from thumbindex.index.files import IndexPaths
from thumbindex.index.locks import hold_lock
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer

FACTS = {"fingerprint": "m", "dimensions": "2", "model": "m"}


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def places(build, note, tmp_path) -> IndexPaths:
    """Return an index of three notes, made with a model."""
    _, places = build(*(note(f"{n}.md", f"apples {n}") for n in range(3)))
    with Writer.open(tmp_path / "index") as writer:
        writer.set_meta("model", "m", fingerprint="m", dimensions="2")
    return places


def test_a_whole_index_is_left_alone(places):
    assert (find_damage(places), repair_index(places), places.current_build) == ("", "", 1)


def test_a_text_that_is_not_what_was_written_is_found_and_not_returned(places):
    execute(places.store, "UPDATE sections SET text = 'b' || substr(text, 2)")
    assert find_damage(places) == "a text is corrupted"
    with (
        closing(Store(places.store, read_only=True)) as store,
        pytest.raises(IndexDamagedError, match="rebuild it from the notes"),
    ):
        store.chunks(list(store.signed_row_ids()))


def test_a_damaged_index_is_begun_anew_with_its_model_and_who_has_the_old_one_open_keeps_it(places):
    with closing(Store(places.store, read_only=True)) as old:
        execute(places.store, "UPDATE sections SET text = 'b' WHERE rowid = 1")
        assert "rebuilt from the notes" in repair_index(places)
        assert (len(old.documents()), places.current_build, repair_index(places)) == (3, 2, "")
    with closing(Store(places.store)) as new:
        assert ({key: new.meta(key) for key in FACTS}, new.documents()) == (FACTS, [])


def test_a_flipped_byte_of_the_words_is_found_whatever_time_the_file_has(places):
    file = max(places.segments_folder.iterdir(), key=lambda path: path.stat().st_size)
    facts, data = file.stat(), file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(bytes([data[0] ^ 1]))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert find_damage(places) == f"{file.name} is corrupted"


def test_a_segment_that_no_commit_lists_is_deleted_by_the_next_writer(places):
    listed = sorted(places.segments_folder.iterdir())
    (places.segments_folder / "begun.seg").write_bytes(b"words")
    with Writer.open(places.folder):
        assert sorted(places.segments_folder.iterdir()) == listed


def test_a_flipped_version_is_damage_and_no_later_version(places):
    execute(places.store, f"PRAGMA user_version = {Store.version + 64}")
    with pytest.raises(IndexDamagedError):
        Store(places.store)


def test_a_build_that_is_not_switched_to_is_seen_by_nobody_and_stays_until_it_is(
    places, note, build
):
    with hold_lock(places.rebuild):
        number = begin_build(places.folder, lambda store: False)
        assert (
            number,
            places.current_build,
            len(Store(places.store, read_only=True).documents()),
        ) == (
            2,
            1,
            3,
        )
        build(note("x.md", "pears"))
        assert (places.folder / "2").is_dir()
        switch_build(places.folder, number)
    assert (
        places.current_build,
        (places.folder / "1").exists(),
        Store(places.store, read_only=True).documents(),
    ) == (2, False, [])


def test_a_build_that_was_begun_goes_on_where_it_may(places):
    def begin(keep: bool) -> str:
        with Writer.open(
            places.folder, build=begin_build(places.folder, lambda store: keep)
        ) as writer:
            found = writer.store.meta("half")
            writer.set_meta("half", "done")
            return found

    assert [begin(keep=False), begin(keep=True), begin(keep=False)] == ["", "done", ""]


def test_a_name_of_a_build_that_cannot_be_read_is_that_of_the_first(places):
    (places.folder / "current").write_bytes(b"\xff\x00")
    assert places.current_build == 1


def test_a_folder_in_the_place_of_the_store_is_told_in_words(tmp_path):
    (tmp_path / "1" / "index.sqlite3").mkdir(parents=True)
    with pytest.raises(StorageError, match="permissions"), Writer.open(tmp_path):
        pass
