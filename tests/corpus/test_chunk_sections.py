from dataclasses import replace

from thumbindex.corpus.chunk import DraftChunk, Fragment, group_sections
from thumbindex.model import BlockKind
from thumbindex.settings import ChunkSettings

SETTINGS = ChunkSettings(parent_min=60, parent_max=100)


def drafts(*regions: tuple[str, list[int]]) -> list[DraftChunk]:
    """Make chunks of the given sizes under heading paths; each heading is two characters long."""
    chunks: list[DraftChunk] = []
    position = 0
    for path, sizes in regions:
        for ordinal, size in enumerate(sizes):
            start, position = position, position + (0 if ordinal else 2)
            headings = tuple(filter(None, path.split("/")))
            chunks.append(
                DraftChunk(
                    Fragment(position, position + size, BlockKind.PROSE),
                    start,
                    headings,
                    ordinal,
                )
            )
            position += size
    return chunks


def test_document_that_fits_is_one_section() -> None:
    assert group_sections(drafts(("", [20]), ("A", [20]), ("A/B", [20])), SETTINGS) == [(0, 3)]


def test_small_siblings_are_merged_before_other_neighbors() -> None:
    sections = group_sections(
        drafts(("A", [50]), ("B", [30]), ("B/C", [30]), ("B/D", [30]), ("E", [50])), SETTINGS
    )
    assert sections == [(0, 1), (1, 4), (4, 5)]


def test_long_region_is_split_evenly() -> None:
    assert group_sections(drafts(("A", [20] * 9)), SETTINGS) == [(0, 4), (4, 9)]
    assert group_sections(drafts(("A", [40] * 3)), SETTINGS) == [(0, 2), (2, 3)]


def test_long_region_is_split_before_an_item_and_not_inside_it() -> None:
    chunks = drafts(("A", [20] * 6))
    for ordinal in (2, 3):
        nested = replace(chunks[ordinal].fragment, depth=1)
        chunks[ordinal] = replace(chunks[ordinal], fragment=nested)
    settings = replace(SETTINGS, child_max=20)
    assert group_sections(chunks, settings) == [(0, 4), (4, 6)]


def test_preamble_of_a_long_section_joins_its_first_part() -> None:
    assert group_sections(drafts(("A", [10]), ("A/B", [70]), ("A/C", [70])), SETTINGS) == [
        (0, 2),
        (2, 3),
    ]
