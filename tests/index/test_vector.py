"""What came and went since a base was made is as good as one index of all."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.vectors import HELD, LATE_ROWS, VectorView

DIMENSIONS = 4


def unit(row: int) -> bytes:
    """Return a vector of length 1, as near as halves come to it: what is held is then what was
    added.
    """
    vector = np.random.default_rng(row).normal(size=DIMENSIONS).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(HELD).astype(np.float32).tobytes()


def add(view: VectorView, rows: list[int]) -> dict[int, bytes]:
    new = {row: unit(row) for row in rows}
    view.add(rows, np.frombuffer(b"".join(new.values()), dtype=np.float32).reshape(-1, DIMENSIONS))
    return new


def held(view: VectorView) -> dict[int, bytes]:
    rows = view.rows()
    return {
        row: vector.tobytes()
        for row, vector in zip(rows.tolist(), view.take(np.arange(len(rows))), strict=True)
    }


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(1, 40), max_size=8)), max_size=8),
    st.booleans(),
)
def test_copies_hold_what_was_added_and_not_what_was_removed(
    steps: list[tuple[bool, set[int]]], merged: bool
) -> None:
    view, wanted = VectorView(DIMENSIONS), dict[int, bytes]()
    for adds, rows in steps:
        view = view.copy()
        if adds:
            wanted |= add(view, sorted(rows - wanted.keys()))
        else:
            view.remove(np.array(sorted(rows), dtype=np.int64))
            wanted = {row: vector for row, vector in wanted.items() if row not in rows}
        if merged:
            view._merge()
    query = np.frombuffer(unit(7), dtype=np.float32)
    cosines = {
        row: float(query @ np.frombuffer(vector, dtype=np.float32))
        for row, vector in wanted.items()
    }
    found, scores = view.search(query, 5, None)
    assert held(view) == wanted
    assert found.tolist() == sorted(cosines, key=lambda row: -cosines[row])[:5]
    assert scores == pytest.approx(sorted(cosines.values(), reverse=True)[:5], abs=1e-6)
    at, near, alike = view.near(np.stack([query, -query]), -1.0, 5)
    assert near[at == 0].tolist() == found.tolist()
    assert alike[at == 0] == pytest.approx(scores, abs=1e-6)
    assert near[at == 1].tolist() == sorted(cosines, key=lambda row: (cosines[row], row))[:5]
    assert all(cosine >= 0.2 for cosine in view.near(query.reshape(1, -1), 0.2, 5)[2])
    assert [vector.tobytes() for vector in view.take(np.arange(len(wanted)))] == list(
        held(view).values()
    )


def test_a_copy_that_changes_leaves_the_one_that_is_searched_as_it_was() -> None:
    view = VectorView(DIMENSIONS)
    add(view, [1, 2, 3])
    copy = view.copy()
    copy.remove(np.array([2]))
    add(copy, list(range(10, 10 + LATE_ROWS)))
    assert (sorted(held(view)), len(held(copy))) == ([1, 2, 3], LATE_ROWS + 2)


@pytest.mark.parametrize("first", [1, 300_000_000])
def test_what_a_search_is_bounded_with_grows_with_the_rows_and_not_with_their_ids(
    first: int,
) -> None:
    view, query = VectorView(DIMENSIONS), np.frombuffer(unit(1), dtype=np.float32)
    matrix = np.stack([np.frombuffer(unit(row), dtype=np.float32) for row in range(20)])
    view.add(list(range(first, first + 20)), matrix)
    tracemalloc.start()
    try:
        found, cosines = view.search(query, 20, np.arange(first + 2, first + 20, 3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    wanted = sorted(range(2, 20, 3), key=lambda n: -float(matrix[n] @ query))
    assert (found - first).tolist() == wanted
    assert cosines == pytest.approx([float(matrix[n] @ query) for n in wanted], abs=1e-6)
    assert peak < 100_000


def test_a_view_of_which_fewer_vectors_were_read_than_there_are_chunks_holds_those() -> None:
    view = VectorView(DIMENSIONS)
    view.fill(3, [([1, 2], np.eye(2, DIMENSIONS, dtype=np.float32))])
    assert (view.rows().tolist(), view.take(np.arange(len(view.rows()))).tolist()) == (
        [1, 2],
        np.eye(2, DIMENSIONS).tolist(),
    )
    assert view.search(np.eye(1, DIMENSIONS, dtype=np.float32)[0], 3, None)[0].tolist() == [1, 2]
