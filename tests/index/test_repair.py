"""What is damaged or of an earlier schema is put aside and begun anew with all that proves to be what was written."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from thumbindex.errors import IndexDamagedError, StorageError
from thumbindex.index.checksum import row_sum
from thumbindex.index.database import SCHEMA_VERSION
from thumbindex.index.repair import mend, open_store, put_aside
from thumbindex.index.salvage import salvage
from thumbindex.index.snapshot import Places
from thumbindex.index.stamp import Stamp, read_at_commit, read_stamp
from thumbindex.index.store import Store
from thumbindex.index.words import KeywordView
from thumbindex.index.writer import Writer

FACTS = {"fingerprint": "m", "dimensions": "2", "model": "m"}


def with_vectors(build, note, tmp_path: Path) -> Places:
    """Build an index of three notes, each with a vector."""
    _, places = build(*(note(f"{n}.md", f"apples {n}") for n in range(3)))
    with Writer.open(tmp_path / "index") as writer:
        writer.note("fingerprint", "m", dimensions="2", model="m")
        writer.keep_vectors("m", {key: np.array([1, 0], dtype=np.float32) for key, _ in writer.store.pending("m")})
    return places


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def vectors_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM vectors").fetchone()[0])


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("documents", "title = 'B' || title"),
        ("chunks", "start_line = start_line + 1"),
        ("sections", "text = 'b'"),
        ("vectors", "vector = x'7f40'"),
        ("meta", "value = value || '1'"),
    ],
)
def test_a_row_that_was_changed_behind_our_back_is_found(build, note, tmp_path, table, change):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, f"UPDATE {table} SET {change}")
    with pytest.raises(IndexDamagedError, match="keeps it aside"):
        Store(places.store).scrub()


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("documents", "rows of documents are missing"),
        ("chunks", "rows of chunks are missing"),
        ("sections", "a chunk does not match its checksum"),  # its text stands in its section
        ("vectors", "vectors are missing"),
        ("meta", "a fact about the index is missing"),
    ],
)
def test_a_row_that_is_gone_is_missed(build, note, tmp_path, table, damage):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, "PRAGMA foreign_keys = OFF", f"DELETE FROM {table} WHERE {'key' if table == 'meta' else 'rowid'} IN ('dimensions', 2, 3)")
    with pytest.raises(IndexDamagedError, match=re.escape(f"({damage})")):
        Store(places.store).scrub()


def test_a_whole_index_is_left_alone(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    assert (mend(places), put_aside(places), vectors_of(places.store)) == ("", (), 3)


def test_a_damaged_store_is_kept_aside_and_its_whole_vectors_are_taken_over(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, "UPDATE vectors SET vector = x'7f40' WHERE rowid = 2")
    sentence = mend(places)
    assert ("2 vectors were kept" in sentence, len(put_aside(places)), vectors_of(places.store)) == (True, 1, 2)
    assert {key: Store(places.store).meta(key) for key in FACTS} == FACTS


def test_views_of_the_old_store_do_not_outlive_it(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    places.store.write_bytes(b"damaged" * 1000)
    mend(places)
    assert read_stamp(places.keyword) is None


def test_views_without_a_store_are_dropped_since_a_new_one_counts_from_the_beginning(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    places.store.unlink()
    open_store(places).close()
    assert read_stamp(places.keyword) is None


def test_a_repair_that_was_cut_off_is_finished(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, "UPDATE chunks SET text = 'b' WHERE rowid = 2")
    mend(places)
    places.store.rename(tmp_path / "index/index.sqlite3.new")
    store = open_store(places)
    assert (store.count_vectors("m"), list(tmp_path.glob("index/*.new"))) == (3, [])


def test_a_new_store_that_was_not_finished_is_begun_again(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    Store(tmp_path / "index/index.sqlite3.new").close()
    assert open_store(places).count_vectors("m") == 3


def test_an_index_of_an_earlier_schema_is_built_anew_and_nothing_of_it_is_taken_for_what_it_is_today(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, f"UPDATE meta SET value = '6', sum = {row_sum('schema', '6')} WHERE key = 'schema'", "PRAGMA user_version = 6")
    with pytest.raises(IndexDamagedError, match="earlier schema, 6"):
        Store(places.store, read_only=True)
    assert ("0 vectors were kept" in mend(places), vectors_of(places.store), len(put_aside(places))) == (True, 0, 1)


def test_it_tells_how_far_a_repair_is(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, "UPDATE chunks SET text = 'b' WHERE rowid = 2")
    told: list[tuple[str, int, int]] = []
    mend(places, lambda *step: told.append(step))
    assert told == [("repairing", 0, 3), ("repairing", 3, 3)]


def test_a_repair_that_cannot_count_is_done_all_the_same(tmp_path):
    old, new = Store(tmp_path / "old"), Store(tmp_path / "new")
    old.close()
    execute(tmp_path / "old", "DROP TABLE vectors")
    counted: list[tuple[int, int]] = []
    assert salvage(tmp_path / "old", new, count=lambda *step: counted.append(step)).vectors == 0
    assert counted == [(0, 0), (0, 0)]


def test_rows_of_kept_tables_are_taken_over_where_they_are_whole(tmp_path):
    old, new = Store(tmp_path / "old"), Store(tmp_path / "new")
    old.close()
    rows = [("a.md", None, "is bad", row_sum("a.md", None, "is bad")), ("b.md", None, "is worse", 0)]
    for row in rows:
        execute(tmp_path / "old", f"INSERT INTO problems VALUES ('{row[0]}', NULL, '{row[2]}', {row[3]})")
    found = salvage(tmp_path / "old", new, ("problems",))
    assert (found.rows, [problem.path for problem in new.problems()]) == (1, ["a.md"])


def test_a_flipped_version_is_damage_and_no_other_version(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    execute(places.store, f"PRAGMA user_version = {SCHEMA_VERSION + 64}")
    with pytest.raises(IndexDamagedError):
        Store(places.store)
    assert "3 vectors were kept" in mend(places)


def test_a_store_that_has_lost_what_its_view_shows_drops_the_view(build, note, tmp_path):
    places = with_vectors(build, note, tmp_path)
    shown = read_stamp(places.keyword)
    assert shown
    KeywordView(places.keyword).write_stamp(shown.generation + 100, 0)
    open_store(places).close()
    assert read_stamp(places.keyword) is None


def stamped(places: Places) -> Stamp:
    """Return the stamp of an index of which every file is as it says."""
    return read_at_commit(places.keyword, lambda stamp: stamp)


def test_a_commit_that_no_stamp_vouches_for_is_swept_away(build, note, tmp_path):
    _, places = build(note("a.md", "apples"))
    before = stamped(places)
    KeywordView(places.keyword).apply([], [], [(99, next(iter(note("b.md", "pears")[1].chunks)), "")])
    assert (stamped(places) == before, len(list(places.keyword.glob("*.toc")))) == (True, 2)
    open_store(places).close()
    assert (stamped(places) == before, len(list(places.keyword.glob("*.toc")))) == (True, 1)


def test_a_stamp_that_was_flipped_vouches_for_nothing(build, note, tmp_path):
    _, places = build(note("a.md", "apples"))
    stamp = places.keyword / "stamp"
    stamp.write_bytes(stamp.read_bytes().replace(b"toc", b"tic"))
    assert read_stamp(places.keyword) is None


def test_a_folder_in_the_place_of_the_store_is_told_in_words(tmp_path):
    (tmp_path / "index.sqlite3").mkdir()
    with pytest.raises(StorageError, match="permissions"):
        open_store(Places(tmp_path))
