"""Builds are repaired, rebuilt beside the current one and switched to."""

from __future__ import annotations

import os
import shutil
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

MODEL_META = {"fingerprint": "m", "dimensions": "2", "model": "m"}


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def paths(build, note, tmp_path) -> IndexPaths:
    """Return an index of three notes with a model."""
    _, paths = build(*(note(f"{n}.md", f"apples {n}") for n in range(3)))
    with Writer.open(tmp_path / "index") as writer:
        writer.set_meta("model", "m", fingerprint="m", dimensions="2")
    return paths


def test_repair_leaves_an_intact_index_alone(paths):
    assert (find_damage(paths), repair_index(paths), paths.current_build) == ("", "", 1)


def test_corrupted_text_is_detected_and_not_returned(paths):
    execute(paths.store, "UPDATE sections SET text = 'b' || substr(text, 2)")
    assert find_damage(paths) == "a text is corrupted"
    copy = paths.folder.with_name("notes (old)")
    shutil.copytree(paths.folder, copy)
    assert find_damage(IndexPaths(copy)) == "a text is corrupted"
    with (
        closing(Store(paths.store, read_only=True)) as store,
        pytest.raises(IndexDamagedError, match="rebuild it from the notes"),
    ):
        store.chunks(list(store.signed_row_ids()))


def test_repair_keeps_the_model_and_open_readers_of_the_old_build(paths):
    with closing(Store(paths.store, read_only=True)) as old:
        execute(paths.store, "UPDATE sections SET text = 'b' WHERE rowid = 1")
        assert "rebuilt from the notes" in repair_index(paths)
        assert (len(old.documents()), paths.current_build, repair_index(paths)) == (3, 2, "")
    with closing(Store(paths.store)) as new:
        assert ({key: new.meta(key) for key in MODEL_META}, new.documents()) == (MODEL_META, [])


def test_flipped_byte_in_a_segment_is_found_despite_its_old_time(paths):
    file = max(paths.segments_folder.iterdir(), key=lambda path: path.stat().st_size)
    stat, data = file.stat(), file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(bytes([data[0] ^ 1]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert find_damage(paths) == f"{file.name} is corrupted"


def test_next_writer_deletes_unlisted_segments(paths):
    listed = sorted(paths.segments_folder.iterdir())
    (paths.segments_folder / "begun.seg").write_bytes(b"words")
    with Writer.open(paths.folder):
        assert sorted(paths.segments_folder.iterdir()) == listed


def test_corrupted_schema_version_is_damage_not_a_later_version(paths):
    execute(paths.store, f"PRAGMA user_version = {Store.version + 64}")
    with pytest.raises(IndexDamagedError):
        Store(paths.store)


def test_unfinished_build_stays_invisible_until_the_switch(paths, note, build):
    with hold_lock(paths.rebuild):
        number = begin_build(paths.folder, lambda store: False)
        assert (
            number,
            paths.current_build,
            len(Store(paths.store, read_only=True).documents()),
        ) == (
            2,
            1,
            3,
        )
        build(note("x.md", "pears"))
        assert (paths.folder / "2").is_dir()
        switch_build(paths.folder, number)
    assert (
        paths.current_build,
        (paths.folder / "1").exists(),
        Store(paths.store, read_only=True).documents(),
    ) == (2, False, [])


def test_unfinished_build_continues_if_allowed(paths):
    def begin(keep: bool) -> str:
        with Writer.open(
            paths.folder, build=begin_build(paths.folder, lambda store: keep)
        ) as writer:
            before = writer.store.meta("half")
            writer.set_meta("half", "done")
            return before

    assert [begin(keep=False), begin(keep=True), begin(keep=False)] == ["", "done", ""]


def test_unreadable_build_number_means_the_first_build(paths):
    (paths.folder / "current").write_bytes(b"\xff\x00")
    assert paths.current_build == 1


def test_folder_at_the_stores_path_is_reported_in_a_sentence(tmp_path):
    (tmp_path / "1" / "index.sqlite3").mkdir(parents=True)
    with pytest.raises(StorageError, match="permissions"), Writer.open(tmp_path):
        pass
