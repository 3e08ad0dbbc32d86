from thumbindex.corpus.chunk import Fragment, merge_fragments
from thumbindex.model import BlockKind
from thumbindex.settings import ChunkSettings

P, C, L, T = BlockKind.PROSE, BlockKind.CODE, BlockKind.LIST, BlockKind.TABLE
SETTINGS = ChunkSettings(child_min=20, child_max=50)


def joined(
    *sizes: tuple[int, BlockKind], settings: ChunkSettings = SETTINGS
) -> list[tuple[int, BlockKind]]:
    pieces, position = [], 0
    for size, kind in sizes:
        pieces.append(Fragment(position, position + size, kind))
        position += size
    return [(piece.end - piece.start, piece.kind) for piece in merge_fragments(pieces, settings)]


def test_neighbors_are_merged_up_to_the_maximum() -> None:
    assert joined((20, P), (20, P), (20, P), (25, P)) == [(40, P), (45, P)]


def test_long_enough_blocks_of_different_kinds_are_not_merged() -> None:
    assert joined((20, P), (25, C), (20, T)) == [(20, P), (25, C), (20, T)]


def test_small_block_merges_across_kinds_into_prose() -> None:
    assert joined((10, P), (30, C)) == [(40, P)]
    assert joined((30, L), (10, P)) == [(40, P)]


def test_small_tail_takes_fragments_from_its_neighbor() -> None:
    assert joined((20, P), (15, P), (15, P), (10, P)) == [(35, P), (25, P)]


def test_rows_merge_under_one_header_but_not_with_prose() -> None:
    head, *rows = (Fragment(i * 10, i * 10 + 10, T, prefix="H" * 9 if i else "") for i in range(8))
    merged = [
        (piece.start, piece.end, piece.prefix)
        for piece in merge_fragments([head, *rows, Fragment(80, 90, P)], SETTINGS)
    ]
    assert merged == [(0, 50, ""), (50, 80, "H" * 9), (80, 90, "")]
