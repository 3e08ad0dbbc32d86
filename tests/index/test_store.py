"""The store keeps all of a transaction or nothing, and never mixes models."""

import json
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.errors import IndexDamagedError, IndexTooNewError
from thumbindex.index.store import Store, document_from_row
from thumbindex.index.stored_vectors import packed, unpacked
from thumbindex.model import Abbreviation
from thumbindex.text import embedded_text, text_key


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def test_a_transaction_that_fails_leaves_nothing(tmp_path, note):
    store = Store(tmp_path / "s")

    def fail() -> None:
        with store.transaction():
            store.add_document(*note("a.md", "text"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (store.documents(), store.generation) == ([], 0)


def test_each_transaction_is_a_generation(tmp_path, note):
    store = Store(tmp_path / "s")
    for path in ("a.md", "b.md"):
        with store.transaction():
            store.add_document(*note(path, "text"))
    assert store.generation == 2


def test_a_document_put_again_replaces_the_one_at_its_path(tmp_path, note):
    store = Store(tmp_path / "s")
    for text in ("old", "new"):
        with store.transaction():
            store.add_document(*note("a.md", text))
    rows = [row for row, _, _ in store.chunk_rows()]
    assert [chunk.text for chunk in store.chunks(rows).values()] == ["new"]


def test_row_ids_are_never_used_twice(tmp_path, note):
    store = Store(tmp_path / "s")
    seen = []
    for text in ("one", "two"):
        with store.transaction():
            store.remove_documents(["a.md"])
            store.add_document(*note("a.md", text))
        seen.append(store.chunk_rows()[0][0])
    assert seen == [2, 4]


def test_vectors_of_two_models_of_one_dimension_never_mix(tmp_path, note):
    store = Store(tmp_path / "s")
    key = text_key(embedded_text(("a",), "text"))
    with store.transaction():
        store.add_document(*note("a.md", "text"))
        store.add_vectors("one", [key], unit(1, 0)[None])
    assert [len(store.vector_rows(model)) for model in ("one", "two")] == [1, 0]


def test_a_text_that_stands_twice_is_pending_once_and_gets_its_vector_in_both_places(tmp_path, note):
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("a.md", "same", title="T"))
        store.add_document(*note("b.md", "same", title="T"))
    pending = store.pending("m")
    with store.transaction():
        store.add_vectors("m", [key for key, _ in pending], unit(1, 0)[None])
    assert (len(pending), len(store.vector_rows("m"))) == (1, 2)


def test_the_newest_documents_are_embedded_first(tmp_path, note):
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("old.md", "old", modified=1.0))
        store.add_document(*note("new.md", "new", modified=2.0))
    rows = [row for _, row in store.pending("m")]
    assert [store.chunks([row])[row].text for row in rows] == ["new", "old"]


def test_once_all_is_embedded_only_later_rows_are_looked_at(tmp_path, note):
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("a.md", "text"))
        store.note_embedded("m")  # not so
        store.add_vectors("m", [text_key(embedded_text(("a",), "text"))], unit(1, 0)[None])
        store.note_embedded("m")
    with store.transaction():
        store.add_document(*note("b.md", "new"))
    assert (store.embedded_to("m"), store.embedded_to("n")) == (2, 0)
    assert ([row for _, row in store.pending("m")], len(store.pending("n")), store.counts("m")) == ([4], 2, (2, 2, 1))


def test_vectors_that_nothing_needs_are_dropped_and_the_others_stay(tmp_path, note):
    store = Store(tmp_path / "s")
    kept = text_key(embedded_text(("a",), "text"))
    with store.transaction():
        store.add_document(*note("a.md", "text"))
        store.add_vectors("m", [kept, b"orphan", b"vocabulary"], np.stack([unit(1, 0)] * 3))
    with store.transaction():
        assert store.drop_orphan_vectors("m", [b"vocabulary"]) == 1
    assert set(store.vectors("m", [kept, b"orphan", b"vocabulary"])) == {kept, b"vocabulary"}


def test_all_chunks_are_counted_once_after_a_change_however_many_are_missing(build, note):
    store, _ = build(note("a.md", "apples"), note("b.md", "pears"), note("c.md", "plums"))
    first, second, third = sorted(row for row in store.rows() if row > 0)
    statements: list[str] = []
    store._db.set_trace_callback(statements.append)

    def counted(row: int) -> int:
        statements.clear()
        assert store.chunks([row]) == {}
        return sum("NOT INDEXED" in each for each in statements)

    build(removed=("a.md", "b.md"))
    seen = [counted(first), counted(second)]
    build(removed=("c.md",))
    assert [*seen, counted(third), counted(first)] == [1, 0, 1, 0]


def test_an_index_of_a_later_version_is_refused_with_a_sentence(tmp_path):
    with sqlite3.connect(tmp_path / "s") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(IndexTooNewError, match="upgrade thumbindex"):
        Store(tmp_path / "s")


def test_a_file_that_is_no_database_is_named_as_damaged(tmp_path):
    (tmp_path / "s").write_bytes(b"not a database, and long enough to be read as one" * 50)
    with pytest.raises(IndexDamagedError, match="rebuilds it from the notes"):
        Store(tmp_path / "s")


def test_pages_that_do_not_hold_together_are_told_in_one_sentence(tmp_path):
    store = Store(tmp_path / "index.sqlite3")
    with store.transaction():
        store._write("PRAGMA writable_schema = ON")
        store._write("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'links'")
    store.close()
    with pytest.raises(IndexDamagedError) as told:
        Store(tmp_path / "index.sqlite3", read_only=True).scrub()
    assert str(told.value) == (
        f"{tmp_path / 'index.sqlite3'} is damaged (its pages do not hold together): "
        "run `thumbindex index`, which keeps it aside and rebuilds it from the notes."
    )


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_vector_that_was_stored_is_stored_as_the_same_again_and_hardly_turned(rows):
    matrix = np.array(rows, dtype=np.float32) + np.float32(0.001)
    kept = packed(matrix)
    units = unpacked([row.tobytes() for row in kept])
    right = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    assert np.array_equal(packed(kept), kept)
    assert np.array_equal(packed(units), kept)
    assert np.abs(units - right).max() <= 1 / 127


def test_a_documents_facts_are_those_that_it_has_and_are_read_as_they_were(tmp_path, note):
    store = Store(tmp_path / "s")
    plain, full = note("a.md", "text"), note("b.md", "text", aliases=("B",), tags=("t",), language="de", abbreviations=(Abbreviation("AB", "a b"),))
    with store.transaction():
        store.add_document(*plain)
        store.add_document(*full)
    rows = store.documents()
    assert [rows[0][4], *json.loads(rows[1][4])] == ["{}", "abbreviations", "aliases", "language", "tags"]
    assert [document_from_row(*row[1:], "") for row in rows] == [parsed.document for _, parsed in (plain, full)]
    assert [each.aliases for each in store.names()] == [(), ("B",)]


@pytest.mark.parametrize("group", [Store.reading, Store.transaction])
def test_where_memory_runs_out_among_reads_or_writes_the_file_is_not_called_damaged(tmp_path, group):
    store = Store(tmp_path / "s")
    with pytest.raises(MemoryError), group(store):
        raise MemoryError
