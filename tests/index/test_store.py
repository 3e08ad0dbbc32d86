"""The store: row ids, pending texts, packed vectors and errors."""

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.errors import IndexDamagedError
from thumbindex.index.chunk_vectors import chunks_without_vector, unique_keys
from thumbindex.index.store import Store
from thumbindex.index.vector_store import packed, unpacked
from thumbindex.text import text_key
from thumbindex.visible_text import embedded_text


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def test_row_ids_are_never_reused(tmp_path, note):
    store = Store(tmp_path / "s")
    rows = []
    for text in ("one", "two"):
        with store.transaction():
            store.remove_documents(["a.md"])
            store.add_document(*note("a.md", text))
        rows.append(store.chunk_rows()[0][0])
    assert rows == [2, 4]


@pytest.fixture
def store(tmp_path):
    """Return a store with the model "m", in a folder that can hold vectors."""
    (tmp_path / "index" / "1").mkdir(parents=True)
    with closing(Store(tmp_path / "index" / "1" / "s")) as store:
        with store.transaction():
            store.set_meta("fingerprint", "m")
        yield store


def test_duplicate_text_is_embedded_once_for_both_chunks(store, note):
    with store.transaction():
        store.add_document(*note("a.md", "same", title="T"))
        store.add_document(*note("b.md", "same", title="T"))
    pending = unique_keys(chunks_without_vector(store))
    store.vectors.add([key for key, _ in pending], unit(1, 0)[None])
    assert (len(pending), store.counts()) == (1, (2, 2, 2, 0))


def test_the_newest_documents_are_embedded_first(store, note):
    with store.transaction():
        store.add_document(*note("old.md", "old", modified=1.0))
        store.add_document(*note("new.md", "new", modified=2.0))
    rows = [row for _, row in unique_keys(chunks_without_vector(store))]
    assert [store.chunks([row])[row].text for row in rows] == ["new", "old"]


def test_text_is_pending_without_a_vector_and_after_its_removal(store, note):
    with store.transaction():
        store.add_document(*note("a.md", "text"))
        store.add_document(*note("b.md", "new"))
    key = text_key(embedded_text(("a",), "text"))
    store.vectors.add([key], unit(1, 0)[None])
    assert (len(unique_keys(chunks_without_vector(store))), store.counts()) == (1, (2, 2, 1, 0))
    store.vectors.remove_unused(store.vectors.keys() - {key})
    assert (len(unique_keys(chunks_without_vector(store))), store.counts()) == (2, (2, 2, 0, 0))


def test_corrupted_pages_are_reported_in_one_sentence(tmp_path):
    store = Store(tmp_path / "index.sqlite3")
    with store.transaction():
        store.execute("PRAGMA writable_schema = ON")
        store.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'links'")
    store.close()
    with pytest.raises(IndexDamagedError) as error:
        Store(tmp_path / "index.sqlite3", read_only=True).verify()
    assert str(error.value) == (
        f"{tmp_path / 'index.sqlite3'} is damaged (its pages are corrupted): run "
        "`thumbindex index` to rebuild it from the notes."
    )


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_packing_a_vector_is_idempotent_and_nearly_lossless(rows):
    matrix = np.array(rows, dtype=np.float32) + np.float32(0.001)
    stored = packed(matrix)
    units = unpacked([row.tobytes() for row in stored])
    expected = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    assert np.array_equal(packed(stored), stored)
    assert np.array_equal(packed(units), stored)
    assert np.abs(units - expected).max() <= 1 / 127


@pytest.mark.parametrize("group", [Store.read_transaction, Store.transaction])
def test_memory_error_in_a_transaction_is_not_damage(tmp_path, group):
    store = Store(tmp_path / "s")
    with pytest.raises(MemoryError), group(store):
        raise MemoryError
