"""A snapshot never mixes moments: searches keep theirs, and none is shown without its words."""

import numpy as np

from thumbindex.index.keyword_view import KeywordView
from thumbindex.index.snapshot import Places, open_snapshot
from thumbindex.index.stamp import read_stamp
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer
from thumbindex.model import Term
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})


def add_vectors(folder):
    """Give every chunk of an index a vector."""
    with Writer.open(folder) as writer:
        writer.note("fingerprint", "m", dimensions="2", model="m")
        writer.keep_vectors("m", {key: np.array([1, 0], dtype=np.float32) for key, _ in writer.store.pending("m")})
        writer.sync_vectors("m", 2)


def test_a_view_that_was_begun_and_not_filled_does_not_count(tmp_path):
    KeywordView(tmp_path).create()
    assert read_stamp(tmp_path) is None


def test_words_that_arrive_after_the_commit_make_a_new_snapshot(build, note, tmp_path):
    build(note("a.md", "apples"))
    places = Places(tmp_path / "index")
    with Writer.open(tmp_path / "index") as writer:
        with writer.store.transaction():
            writer.store.add_document(*note("b.md", "pears"))
        between = open_snapshot(Store(places.store, read_only=True), places, "")
        writer.sync_keyword()
    assert not between.is_current(Store(places.store, read_only=True), places)


def test_new_vectors_leave_the_words_open_and_the_running_search_as_it_was(build, note, tmp_path):
    store, places = build(note("a.md", "apples"))
    before = open_snapshot(store, places, "")
    add_vectors(tmp_path / "index")
    after = open_snapshot(store, places, "", last=before)
    assert after.snapshot.keyword is before.snapshot.keyword
    assert (len(before.snapshot.vector), len(after.snapshot.vector)) == (0, 1)


def test_a_search_that_runs_keeps_the_words_with_which_it_began(build, note):
    store, places = build(note("a.md", "apples"))
    before = open_snapshot(store, places, "").snapshot
    build(removed=("a.md",))
    assert [hit.chunk for hit in before.keyword.search([Term("apples")], BODY, 5).hits] == [0]
