"""A vector is kept as what it is, or not at all."""

import numpy as np
import pytest

from thumbindex.errors import ModelError
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
