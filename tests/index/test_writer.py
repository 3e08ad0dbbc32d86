"""Views converge to the store from whatever state they are in."""

import pytest

from dump import logical_dump
from thumbindex.errors import IndexDamagedError
from thumbindex.index.snapshot import open_snapshot
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import DocumentTimes, Term
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})


def nowhere(documents):
    """Resolve no link."""
    return lambda link, path: None


def found(store, places, word):
    """Return the texts of the chunks that hold a word."""
    snapshot = open_snapshot(store, "notes").snapshot
    hits = snapshot.keyword.search([Term(word)], BODY, 10).hits
    return [snapshot.catalog.chunks([hit.chunk])[hit.chunk].text for hit in hits]


def test_an_edit_keeps_a_notes_commits_and_takes_the_time_of_its_file(build, note):
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


def test_many_small_edits_are_merged_when_there_is_time_and_nothing_else_changes(
    build, note, tmp_path
):
    for number in range(12):
        store, places = build(
            note("a.md", f"apples {number}"), note(f"{number}.md", f"pears {number}")
        )
    before, segments = logical_dump(store, places), len(list(places.segments_folder.glob("*.seg")))
    with Writer.open(tmp_path / "index") as writer:
        writer.merge_keyword()
    assert logical_dump(store, places) == before
    assert len(list(places.segments_folder.glob("*.seg"))) < segments


def test_an_edit_over_a_damaged_index_of_words_says_so_and_changes_nothing(build, note):
    store, places = build(note("a.md", "apples"))
    for path in places.segments_folder.glob("*.seg"):
        path.unlink()
    with pytest.raises(IndexDamagedError, match="thumbindex index"):
        build(note("b.md", "pears"))
    assert list(store.manifest()) == ["a.md"]


def test_apply_skips_notes_another_process_changed(build, note, tmp_path):
    build(note("a.md", "newer"), note("b.md", "kept"))
    old, new, other = note("a.md", "stale"), note("c.md", "new"), note("d.md", "was not there")
    with Writer.open(tmp_path / "index") as writer:
        seen = {**writer.store.manifest(), "a.md": old[0], "d.md": other[0]}
        passed_over = writer.apply(
            Batch([old, new, other], removed=["a.md", "b.md"], expected_states=seen), nowhere
        )
    store, places = build()
    assert (passed_over, sorted(store.manifest())) == (3, ["a.md", "c.md"])
    assert (
        found(store, places, "newer"),
        found(store, places, "stale"),
        found(store, places, "kept"),
    ) == (["newer"], [], [])


def test_a_note_that_becomes_private_leaves_nothing_of_what_it_said_before(build, note, tmp_path):
    _, places = build(note("a.md", "first secret"), note("b.md", "plums"))
    with Writer.open(tmp_path / "index") as writer:
        writer.apply(Batch([note("a.md", "second secret")], last=False), nowhere)
        assert b"first secret" in b"".join(
            each.read_bytes() for each in places.store.parent.glob("index.sqlite3*")
        )
        writer.apply(Batch(removed=["a.md"], erase=frozenset({"a.md"}), last=False), nowhere)
        assert writer.erase_private()
        assert b"secret" not in b"".join(
            each.read_bytes() for each in places.store.parent.glob("index.sqlite3*")
        )
