"""Views converge to the store from whatever state they are in."""

import shutil
from datetime import date

import numpy as np
import pytest

from thumbindex.index.dump import logical_dump
from thumbindex.index.keyword import postings
from thumbindex.index.snapshot import current_vectors, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer
from thumbindex.model import ChunkId, Filters, Term
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})


def found(store, places, word):
    """Return the texts of the chunks that hold a word."""
    snapshot = open_snapshot(store, places, "notes").snapshot
    hits = snapshot.keyword.search([Term(word)], BODY, 10).hits
    return [snapshot.catalog.chunks([hit.chunk])[hit.chunk].text for hit in hits]


def test_what_is_added_is_found_and_what_is_removed_is_not(build, note):
    store, places = build(note("a.md", "apples grow"), note("b.md", "pears grow"))
    assert found(store, places, "grow") == ["apples grow", "pears grow"]
    store, places = build(removed=("a.md",))
    assert found(store, places, "grow") == ["pears grow"]


def test_after_a_delete_nothing_of_the_file_comes_back(build, note):
    build(note("a.md", "apples"))
    store, places = build(removed=("a.md",))
    assert (store.documents(), store.chunk_rows(), store.links(), postings(places.keyword)) == ([], [], [], [])


def test_one_batch_is_one_commit(build, note):
    store, _ = build(*(note(f"{n}.md", "text") for n in range(20)))
    assert store.generation == 1


def test_a_lost_keyword_view_is_built_anew_from_the_store(build, note, tmp_path):
    store, places = build(note("a.md", "apples"))
    shutil.rmtree(places.keyword)
    with Writer.open(tmp_path / "index") as writer:
        writer.sync_keyword()
    assert found(store, places, "apples") == ["apples"]


def test_a_keyword_view_that_missed_a_commit_catches_up(build, note, tmp_path):
    _, places = build(note("a.md", "apples"))
    with Writer.open(tmp_path / "index") as writer:
        with writer.store.transaction():  # the process died between this commit and the view's
            writer.store.remove_documents(["a.md"])
            writer.store.add_document(*note("b.md", "pears"))
        writer.sync_keyword()
    store = Store(places.store, read_only=True)
    assert (found(store, places, "apples"), found(store, places, "pears")) == ([], ["pears"])


def test_a_damaged_vector_file_is_filled_from_the_store_without_a_model(build, note, tmp_path):
    store, places = build(note("a.md", "apples"))
    with Writer.open(tmp_path / "index") as writer:
        with writer.store.transaction():
            for key, value in (("fingerprint", "m"), ("dimensions", "2")):
                writer.store.set_meta(key, value)
            writer.store.add_vectors("m", [key for key, _ in store.pending("m")], np.array([[1, 0]], dtype=np.float32))
        writer.sync_vectors("m", 2)
    for path in places.vector.iterdir():
        path.write_bytes(b"damaged")
    assert current_vectors(store, places).matrix().tolist() == [[1.0, 0.0]]


def test_links_are_resolved_and_come_and_go_with_their_targets(build, note):
    store, _ = build(note("a.md", "text", links=("b", "c")), note("b.md", "text"))
    before = [link.resolved for _, _, link in store.links()]
    build(note("c.md", "text"), removed=("b.md",))
    assert (before, [link.resolved for _, _, link in store.links()]) == (["b.md", None], [None, "c.md"])


def test_the_graph_knows_both_directions(build, note):
    store, places = build(note("a.md", "text", links=("b",)), note("b.md", "text"))
    graph = open_snapshot(store, places, "notes").snapshot.graph
    assert (graph.linked(0), graph.linking(1), graph.linked(1)) == ((1,), (0,), ())


def test_filters_by_path_tag_and_date_select_chunks(build, note):
    store, places = build(
        note("guides/a.md", "x", tags=("lang/rust",), date="2026-01-01"),
        note("b.md", "x", tags=("language",), date="2020-01-01"),
    )
    catalog = open_snapshot(store, places, "notes").snapshot.catalog
    paths = [document.path for document in catalog.documents]
    masks = [catalog.select(Filters(**f)) for f in ({"path": ("guides/**",)}, {"tag": ("lang",)}, {"since": date(2025, 1, 1)})]
    assert paths == ["b.md", "guides/a.md"]
    assert [mask.tolist() for mask in masks] == [[False, True]] * 3


def test_a_second_writer_waits_for_the_first(tmp_path):
    waited = []

    def stop() -> None:
        waited.append(True)
        raise TimeoutError

    with Writer.open(tmp_path / "index"), pytest.raises(TimeoutError), Writer.open(tmp_path / "index", stop):
        pass
    assert waited == [True]


def test_chunks_that_are_gone_are_missing_and_not_an_error(build, note):
    store, places = build(note("a.md", "apples"))
    catalog = open_snapshot(store, places, "notes").snapshot.catalog
    build(removed=("a.md",))
    assert dict(catalog.chunks([ChunkId(0)])) == {}


def test_many_small_edits_are_merged_when_there_is_time_and_nothing_else_changes(build, note, tmp_path):
    for number in range(12):
        store, places = build(note("a.md", f"apples {number}"), note(f"{number}.md", f"pears {number}"))
    before, segments = logical_dump(store, places), len(list(places.keyword.glob("*.seg")))
    with Writer.open(tmp_path / "index") as writer:
        writer.merge_keyword()
    assert logical_dump(store, places) == before
    assert len(list(places.keyword.glob("*.seg"))) < segments


def test_a_keyword_view_that_is_damaged_under_an_edit_is_built_anew(build, note):
    _, places = build(note("a.md", "apples"))
    for path in places.keyword.glob("*.seg"):
        path.unlink()
    store, _ = build(note("b.md", "pears"))
    assert {term for _, field, term, _ in postings(places.keyword) if field == "body"} == {"appl", "pear"}
    assert len(store.documents()) == 2
