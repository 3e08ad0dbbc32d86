from hypothesis import given
from hypothesis import strategies as st

from thumbindex.corpus.chunk import base_salience
from thumbindex.model import BlockKind


def test_a_first_paragraph_under_a_high_heading_comes_near_one() -> None:
    assert base_salience(BlockKind.PROSE, 0, 0, 0, 40, 400) == 1.0
    assert base_salience(BlockKind.PROSE, 1, 0, 2, 40, 400) > 0.9


def test_a_one_line_tail_under_a_deep_heading_comes_near_zero() -> None:
    assert base_salience(BlockKind.PROSE, 6, 9, 39, 40, 10) == 0.04


def test_each_part_of_the_formula_counts() -> None:
    best = base_salience(BlockKind.PROSE, 1, 0, 0, 10, 200)
    worse = [
        (BlockKind.CODE, 1, 0, 0, 200),
        (BlockKind.PROSE, 2, 0, 0, 200),
        (BlockKind.PROSE, 1, 1, 0, 200),
        (BlockKind.PROSE, 1, 0, 1, 200),
    ]
    assert all(
        base_salience(kind, depth, place, ordinal, 10, size) < best
        for kind, depth, place, ordinal, size in [*worse, (BlockKind.PROSE, 1, 0, 0, 99)]
    )


@given(
    st.sampled_from(BlockKind),
    st.integers(0, 9),
    st.integers(0, 999),
    st.integers(0, 999),
    st.integers(0, 500),
)
def test_salience_lies_between_zero_and_one(
    kind: BlockKind, depth: int, place: int, ordinal: int, size: int
) -> None:
    assert 0 <= base_salience(kind, depth, place, ordinal, 1000, size) <= 1
