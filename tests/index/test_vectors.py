"""A changed copy of vectors equals a new one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.vectors import VECTOR_DTYPE, FaissVectors, Part

DIMENSIONS = 4


def unit(row: int) -> bytes:
    """Return a unit vector rounded to half precision, so that storing it loses nothing."""
    vector = np.random.default_rng(row).normal(size=DIMENSIONS).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(VECTOR_DTYPE).astype(np.float32).tobytes()


def units(rows: list[int]) -> np.ndarray:
    return np.frombuffer(b"".join(map(unit, rows)), dtype=np.float32).reshape(-1, DIMENSIONS)


def view_of(rows: list[int]) -> FaissVectors:
    return FaissVectors(DIMENSIONS, len(rows), [Part(rows, units(rows))] if rows else [])


def contents(view: FaissVectors) -> dict[int, bytes]:
    rows = view.rows()
    return {
        row: vector.tobytes()
        for row, vector in zip(rows.tolist(), view.matrix_at(np.arange(len(rows))), strict=True)
    }


@settings(deadline=None)
@given(
    st.sets(st.integers(1, 40), max_size=8),
    st.lists(
        st.tuples(st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40), max_size=8)), max_size=8
    ),
)
def test_changed_vectors_contain_additions_without_removals(
    first: set[int], steps: list[tuple[set[int], set[int]]]
) -> None:
    view, expected = view_of(sorted(first)), {row: unit(row) for row in first}
    for removed, added in steps:
        expected = {row: vector for row, vector in expected.items() if row not in removed}
        new = sorted(added - expected.keys())
        gone = np.array(sorted(removed), dtype=np.int64)
        view = view.with_changes(gone, [Part(new, units(new))], len(new))
        expected |= {row: unit(row) for row in new}
    query = np.frombuffer(unit(7), dtype=np.float32)
    cosines = {
        row: float(query @ np.frombuffer(vector, dtype=np.float32))
        for row, vector in expected.items()
    }
    at, scores = view.search(query, 5)
    assert contents(view) == expected
    assert view.rows()[at].tolist() == sorted(cosines, key=lambda row: -cosines[row])[:5]
    assert scores == pytest.approx(sorted(cosines.values(), reverse=True)[:5], abs=1e-6)
    of, rows, near_cosines = view.range_search(np.stack([query, -query]), -1.0, 5)
    assert rows[of == 0].tolist() == view.rows()[at].tolist()
    assert near_cosines[of == 0] == pytest.approx(scores, abs=1e-6)
    assert rows[of == 1].tolist() == sorted(cosines, key=lambda row: (cosines[row], row))[:5]
    assert all(cosine >= 0.2 for cosine in view.range_search(query.reshape(1, -1), 0.2, 5)[2])


def test_fewer_vectors_than_announced_are_accepted() -> None:
    view = FaissVectors(DIMENSIONS, 3, [Part([1, 2], np.eye(2, DIMENSIONS, dtype=np.float32))])
    assert (view.rows().tolist(), view.matrix_at(np.arange(2)).tolist()) == (
        [1, 2],
        np.eye(2, DIMENSIONS).tolist(),
    )
    assert view.search(np.eye(1, DIMENSIONS, dtype=np.float32)[0], 3)[0].tolist() == [0, 1]
