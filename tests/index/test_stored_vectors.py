"""A vector is kept as what it is, or not at all."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from thumbindex.errors import IndexDamagedError, ModelError
from thumbindex.index.snapshot import stored_vectors
from thumbindex.index.store import Store
from thumbindex.index.stored_vectors import packed, unpacked
from thumbindex.index.writer import Writer


def test_nothing_is_a_vector_of_zeros():
    assert packed(np.zeros((1, 3), dtype=np.float32)).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("length", [1e-44, 1e-38, 1e-20, 1.0, 1e38])
def test_a_vector_of_any_length_is_kept_as_where_it_points(length):
    stored = packed(np.array([[0, -length, length]], dtype=np.float32))
    assert stored.tolist() == [[0, -127, 127]]


def test_what_was_stored_becomes_the_same_again():
    stored = np.random.default_rng(1).integers(-127, 128, size=(200, 16), dtype=np.int8)
    stored[:, 3] = 127
    assert (packed(stored.astype(np.float32)) == stored).all()
    assert (packed(unpacked([vector.tobytes() for vector in stored])) == stored).all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_vector_that_points_nowhere_is_refused_and_its_text_still_lacks_one(number, build, note, tmp_path):
    build(note("a.md", "apples"))
    with Writer.open(tmp_path / "index") as writer:
        keys = [key for key, _ in writer.store.pending("m")]
        with pytest.raises(ModelError, match="Name another model"):
            writer.keep_vectors("m", {keys[0]: np.array([number, 1], dtype=np.float32)})
        assert [key for key, _ in writer.store.pending("m")] == keys


# ------------------------------------------------------------------ read in the order in which they lie


@pytest.fixture
def whole(build, note, tmp_path):
    """Return the places of an index of 1,003 chunks, two of them of one text, that have all their vectors and lie beside some that nobody needs."""
    _, places = build(note("a.md", *(f"apples {n}" for n in range(1001))), note("b.md", "pears"), note("c.md", "pears", title="b"))
    with Writer.open(tmp_path / "index") as writer:
        writer.note("fingerprint", "m", dimensions="3", model="m")
        chance = np.random.default_rng(1)
        writer.keep_vectors("m", {n.to_bytes(16): chance.normal(size=3) for n in range(5)})
        writer.keep_vectors("m", {key: chance.normal(size=3) for key, _ in writer.store.pending("m")}, last=True)
    return places


def test_vectors_that_are_read_as_they_lie_are_those_that_are_looked_up(whole):
    with closing(Store(whole.store, read_only=True)) as store:
        rows, matrix = store.chunk_matrix("m", store.vector_rows("m"))
        statements: list[str] = []
        store._db.set_trace_callback(statements.append)
        view = stored_vectors(store)
    order = np.argsort(view.rows())
    assert (len(rows), view.rows()[order].tolist()) == (1003, rows)
    assert view.matrix()[order] == pytest.approx(matrix, abs=1e-3)
    assert sum(" JOIN " in statement for statement in statements) == 1  # for the text that is there twice


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vectors SET vector = x'7f0101' WHERE rowid = 700",
        "UPDATE vectors SET key = x'00' WHERE rowid = 700",
        "UPDATE vectors SET sum = 'x' WHERE rowid = 700",
        "UPDATE vectors SET model = x'00' WHERE rowid = 700",
        "DELETE FROM vectors WHERE rowid = 700",
        "DELETE FROM chunks WHERE id = 700",
        "UPDATE chunks SET key = x'00' WHERE id = 700",
    ],
)
def test_damage_is_found_by_whoever_reads_all_vectors(whole, change):
    with closing(sqlite3.connect(whole.store)) as db:
        db.execute(change)
        db.commit()
    with closing(Store(whole.store, read_only=True)) as store, pytest.raises(IndexDamagedError):
        stored_vectors(store)
