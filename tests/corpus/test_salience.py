from thumbindex.corpus.chunk import base_salience
from thumbindex.model import BlockKind


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
