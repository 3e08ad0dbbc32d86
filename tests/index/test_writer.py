"""The writer applies batches, merges segments and erases private notes."""

import pytest

from dump import logical_dump
from thumbindex.errors import IndexDamagedError, StorageError
from thumbindex.index.builds import begin_build, delete_index, switch_build
from thumbindex.index.locks import hold_lock
from thumbindex.index.snapshot import open_snapshot
from thumbindex.index.writer import Batch, Writer, keep_stores_open
from thumbindex.model import DocumentTimes, Term
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})


def nowhere(documents):
    return lambda link, path: None


def texts_with(store, word):
    """Return the texts of the chunks that contain a word."""
    snapshot = open_snapshot(store, "notes").snapshot
    hits = snapshot.keyword.search([Term(word)], BODY, 10).hits
    return [snapshot.catalog.chunks([hit.chunk])[hit.chunk].text for hit in hits]


def test_edit_keeps_commit_dates_and_takes_the_file_time(build, note):
    store, _ = build(
        note("a.md", "apples", modified=10.0, first_commit="2020-01-01", last_commit="2021-01-01"),
        note("b.md", "pears", modified=10.0),
    )
    build(note("a.md", "plums", modified=20.0))
    times = [row[3] for row in store.documents()]
    assert times == [
        DocumentTimes(20.0, 20.0, "2020-01-01", "2021-01-01"),
        DocumentTimes(10.0, 0.0),
    ]


def test_merging_small_segments_changes_nothing_else(build, note, tmp_path):
    for number in range(12):
        store, paths = build(
            note("a.md", f"apples {number}"), note(f"{number}.md", f"pears {number}")
        )
    before, segments = logical_dump(store, paths), len(list(paths.segments_folder.glob("*.seg")))
    with Writer.open(tmp_path / "index") as writer:
        writer.merge_keyword()
    assert logical_dump(store, paths) == before
    assert len(list(paths.segments_folder.glob("*.seg"))) < segments


def test_edit_of_a_damaged_keyword_index_fails_without_changes(build, note):
    store, paths = build(note("a.md", "apples"))
    for path in paths.segments_folder.glob("*.seg"):
        path.unlink()
    with pytest.raises(IndexDamagedError, match="thumbindex index"):
        build(note("b.md", "pears"))
    assert list(store.manifest()) == ["a.md"]


def test_apply_skips_notes_another_process_changed(build, note, tmp_path):
    build(note("a.md", "newer"), note("b.md", "original"))
    old, new, other = note("a.md", "stale"), note("c.md", "new"), note("d.md", "unexpected")
    with Writer.open(tmp_path / "index") as writer:
        expected = {**writer.store.manifest(), "a.md": old[0], "d.md": other[0]}
        skipped = writer.apply(
            Batch([old, new, other], removed=["a.md", "b.md"], expected_states=expected), nowhere
        )
    store, _ = build()
    assert (skipped, sorted(store.manifest())) == (3, ["a.md", "c.md"])
    assert [texts_with(store, word) for word in ("newer", "stale", "original")] == [
        ["newer"],
        [],
        [],
    ]


def test_private_note_is_erased_from_all_files(build, note, tmp_path):
    _, paths = build(note("a.md", "first secret"), note("b.md", "plums"))
    with Writer.open(tmp_path / "index") as writer:
        writer.apply(Batch([note("a.md", "second secret")], last=False), nowhere)
        assert b"first secret" in b"".join(
            path.read_bytes() for path in paths.store.parent.glob("index.sqlite3*")
        )
        writer.apply(Batch(removed=["a.md"], erase=frozenset({"a.md"}), last=False), nowhere)
        assert writer.erase_private()
        assert b"secret" not in b"".join(
            path.read_bytes() for path in paths.store.parent.glob("index.sqlite3*")
        )


def test_kept_store_follows_a_new_build_and_a_deleted_index(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"))
    with keep_stores_open():
        with Writer.open(paths.folder) as first:
            pass
        with Writer.open(paths.folder) as again:
            assert again.store is first.store
        with hold_lock(paths.rebuild):
            switch_build(paths.folder, begin_build(paths.folder, keep=lambda store: False))
        with Writer.open(paths.folder) as rebuilt:
            assert list(rebuilt.store.manifest()) == []
        delete_index(paths)
        with Writer.open(paths.folder) as new:
            assert new.store.path == paths.store
            assert new.store.generation == 0
    with pytest.raises(StorageError, match="closed"):
        new.store.meta("words")
