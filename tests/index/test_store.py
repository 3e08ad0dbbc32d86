"""The store keeps all of a transaction or nothing, and never mixes models."""

import gc
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thumbindex.errors import IndexDamagedError, IndexTooNewError
from thumbindex.index.store import Store, document_from_row
from thumbindex.index.vector_store import packed, unpacked
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


@pytest.fixture
def store(tmp_path):
    """Return a store of the model m, with room for vectors beside it."""
    (tmp_path / "index" / "1").mkdir(parents=True)
    with closing(Store(tmp_path / "index" / "1" / "s")) as store:
        with store.transaction():
            store.set_meta("fingerprint", "m")
        yield store


def test_a_text_that_stands_twice_is_pending_once_and_gets_its_vector_in_both_places(store, note):
    with store.transaction():
        store.add_document(*note("a.md", "same", title="T"))
        store.add_document(*note("b.md", "same", title="T"))
    pending = store.pending()
    store.vectors.add([key for key, _ in pending], unit(1, 0)[None])
    assert (len(pending), store.counts()) == (1, (2, 2, 2))


def test_the_newest_documents_are_embedded_first(store, note):
    with store.transaction():
        store.add_document(*note("old.md", "old", modified=1.0))
        store.add_document(*note("new.md", "new", modified=2.0))
    rows = [row for _, row in store.pending()]
    assert [store.chunks([row])[row].text for row in rows] == ["new", "old"]


def test_once_all_is_embedded_only_later_rows_are_looked_at_until_a_vector_is_taken_away(
    store, note
):
    with store.transaction():
        store.add_document(*note("a.md", "text"))
        store.note_embedded()  # not so
        assert store.embedded_to == 0
        store.vectors.add([text_key(embedded_text(("a",), "text"))], unit(1, 0)[None])
        store.note_embedded()
    with store.transaction():
        store.add_document(*note("b.md", "new"))
    assert (store.embedded_to, [row for _, row in store.pending()], store.counts()) == (
        2,
        [4],
        (2, 2, 1),
    )
    store.vectors.remove([text_key(embedded_text(("a",), "text"))])
    assert (store.embedded_to, len(store.pending()), store.counts()) == (0, 2, (2, 2, 0))


# `note` keeps nothing
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "remove", "embed", "take away", "note"]), st.integers(0, 5)
        ),
        max_size=25,
    )
)
def test_a_store_that_counts_what_is_embedded_again_and_again_counts_as_one_that_is_just_opened(
    tmp_path_factory, note, steps
):
    path = tmp_path_factory.mktemp("own") / "index" / "1" / "s"
    path.parent.mkdir(parents=True)
    with closing(Store(path)) as writer, closing(Store(path, read_only=True)) as reader:
        with writer.transaction():
            writer.set_meta("fingerprint", "m")
        for number, (step, which) in enumerate(steps):
            texts = [
                text_key(embedded_text((str(which),), f"text {each}")) for each in range(number + 1)
            ]
            with writer.transaction():
                if step == "write":
                    writer.add_document(*note(f"{which}.md", f"text {number}", title=str(which)))
                elif step == "remove":
                    writer.remove_documents([f"{which}.md"])
                elif step == "embed" and (
                    keys := [key for key, _ in writer.pending()][: which + 1]
                ):
                    writer.vectors.add(keys, np.stack([unit(1, 0)] * len(keys)))
                elif step == "take away":
                    writer.vectors.remove(texts)
                elif step == "note":
                    writer.note_embedded()
            with closing(Store(path, read_only=True)) as fresh:
                assert reader.count_embedded() == fresh.count_embedded()


def test_an_index_of_a_later_version_is_refused_with_a_sentence(tmp_path):
    with sqlite3.connect(tmp_path / "s") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(IndexTooNewError, match="upgrade thumbindex"):
        Store(tmp_path / "s")


def test_a_store_that_nobody_holds_any_more_is_closed(tmp_path):
    store = Store(tmp_path / "s")
    connection = store._db
    gc.disable()  # what a start has made is never looked through for cycles
    try:
        del store
    finally:
        gc.enable()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_file_that_is_no_database_is_named_as_damaged(tmp_path):
    (tmp_path / "s").write_bytes(b"not a database, and long enough to be read as one" * 50)
    with pytest.raises(IndexDamagedError, match="builds it anew from the notes"):
        Store(tmp_path / "s")


def test_pages_that_do_not_hold_together_are_told_in_one_sentence(tmp_path):
    store = Store(tmp_path / "index.sqlite3")
    with store.transaction():
        store.execute("PRAGMA writable_schema = ON")
        store.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'links'")
    store.close()
    with pytest.raises(IndexDamagedError) as told:
        Store(tmp_path / "index.sqlite3", read_only=True).verify()
    assert str(told.value) == (
        f"{tmp_path / 'index.sqlite3'} is damaged (its pages do not hold together): run "
        "`thumbindex index`, which builds it anew from the notes."
    )


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=5)
)
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
    plain, full = (
        note("a.md", "text"),
        note(
            "b.md",
            "text",
            aliases=("B",),
            tags=("t",),
            language="de",
            abbreviations=(Abbreviation("AB", "a b"),),
        ),
    )
    with store.transaction():
        store.add_document(*plain)
        store.add_document(*full)
    rows = store.documents()
    assert [rows[0][4], *json.loads(rows[1][4])] == [
        "{}",
        "abbreviations",
        "aliases",
        "language",
        "tags",
    ]
    assert [document_from_row(*row[1:], "") for row in rows] == [
        parsed.document for _, parsed in (plain, full)
    ]
    assert [each.aliases for each in store.names()] == [(), ("B",)]


@pytest.mark.parametrize("group", [Store.reading, Store.transaction])
def test_where_memory_runs_out_among_reads_or_writes_the_file_is_not_called_damaged(
    tmp_path, group
):
    store = Store(tmp_path / "s")
    with pytest.raises(MemoryError), group(store):
        raise MemoryError
