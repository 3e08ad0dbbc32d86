"""All kinds of indexes report the same duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import NoDuplicates, document, memory_snapshot
from thumbindex.index.duplicate_tables import DuplicateFindings
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.union import unite
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import ChunkId, Decision, FileState, Verdict
from thumbindex.ports import Snapshot
from thumbindex.text import text_key

DOCUMENTS = [
    document("a.md", "# A\n\nApples.\n\nApples!\n\nPears."),
    document("b.md", "# B\n\nApples.\n\nPlums."),
    document("c.md", "# C\n\nApples.\n\nPrunes."),
]
# Chunks 0-2 are in a.md, 3-4 in b.md, 5-6 in c.md. Chunk 1 repeats 0, which is boosted to 0.65.
# Chunks 0, 3 and 5 are copies; so are 4 and 6, by decision; 2 and 4 are kept apart.


def write(folder: Path) -> None:
    """Write an index with these duplicates."""
    states = [
        FileState(parsed.document.path, 1, 1_000, n, str(n)) for n, parsed in enumerate(DOCUMENTS)
    ]
    with Writer.open(folder) as writer:
        writer.apply(
            Batch(list(zip(states, DOCUMENTS, strict=True))), lambda _: lambda link, _: None
        )
        rows = [row for row, *_ in sorted(writer.store.chunk_rows())]
        digest = {
            n: text_key(chunk.text).hex()
            for n, chunk in enumerate(writer.store.chunks(rows).values())
        }
        with writer.store.transaction():
            pairs = [
                (rows[0], rows[3], 0.99, "same", "equal", ""),
                (rows[3], rows[5], 0.98, "same", "equal", ""),
                (rows[2], rows[4], 0.9, "grey", "", ""),
            ]
            digests = [(row, bytes.fromhex(digest[n])) for n, row in enumerate(rows)]
            writer.store.duplicates.add_pairs(pairs)
            writer.store.duplicates.save_findings(
                DuplicateFindings(
                    "settings 9", digests, [(rows[1], rows[0], 0)], [(rows[0], 0.15, 0.65)], pairs
                )
            )
        writer.store_decisions(
            [Decision(digest[6], digest[4], "same"), Decision(digest[2], digest[4], "apart")]
        )


def on_disk(folder: Path) -> Snapshot:
    write(folder)
    return open_snapshot(Store(IndexPaths(folder).store, read_only=True), "").snapshot


def united(folder: Path) -> Snapshot:
    """Return a union with a second folder without duplicates."""
    return unite([on_disk(folder), replace(memory_snapshot(DOCUMENTS), duplicates=NoDuplicates())])


@pytest.fixture(scope="module", params=["disk", "united", "postgres"])
def indexed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DuplicatesByPosition:
    folder = tmp_path_factory.mktemp("indexed") / "index"
    if request.param == "postgres":
        write(folder)
        return DuplicatesByPosition(request.getfixturevalue("publish_index")(folder).snapshot)
    return DuplicatesByPosition({"disk": on_disk, "united": united}[request.param](folder))


class DuplicatesByPosition:
    """The duplicates of a snapshot by positions of chunks, since chunk ids differ by index."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.duplicates, self.chunks = (
            snapshot.duplicates,
            list(snapshot.catalog.every_nth(1, None)),
        )

    def positions(self, chunks: Iterable[ChunkId]) -> list[int]:
        return [self.chunks.index(n) for n in chunks]

    def verdict(self, first: int, second: int) -> Verdict | None:
        return self.duplicates.verdict(self.chunks[first], self.chunks[second])


class TestDuplicates:
    def test_repeats_are_known(self, indexed: DuplicatesByPosition) -> None:
        repeated = indexed.duplicates.repeats()
        assert repeated is not None
        assert indexed.positions(repeated.first(9)) == [1]

    def test_repeats_raise_salience(self, indexed: DuplicatesByPosition) -> None:
        assert indexed.duplicates.salience([indexed.chunks[3], indexed.chunks[0]]).tolist() == [
            0.5,
            0.65,
        ]

    @pytest.mark.parametrize(
        ("chunk", "copies"), [(0, [1, 3, 5]), (1, [0, 3, 5]), (3, [0, 5]), (2, []), (4, [6])]
    )
    def test_copies_include_repeats_and_the_cluster(
        self, indexed: DuplicatesByPosition, chunk: int, copies: list[int]
    ) -> None:
        # a repeat has its keeper's copies, too
        assert indexed.positions(indexed.duplicates.copies(indexed.chunks[chunk])) == copies

    def test_decision_is_found_in_either_order(self, indexed: DuplicatesByPosition) -> None:
        pairs = [(4, 6), (6, 4), (2, 4), (4, 2), (0, 3)]
        assert [indexed.verdict(a, b) for a, b in pairs] == ["same", "same", "apart", "apart", None]


def test_union_with_a_folder_without_duplicates(tmp_path):
    union = DuplicatesByPosition(united(tmp_path / "index"))
    first, last = union.chunks[0], union.chunks[7]
    assert (
        union.duplicates.salience([last, first]).tolist(),
        union.duplicates.copies(last),
        union.verdict(4, 11),
    ) == ([0.5, 0.65], (), None)


def test_index_without_duplicates_has_no_repeats(tmp_path):
    snapshot = on_disk(tmp_path / "index")
    with closing(Store(IndexPaths(tmp_path / "index").store)) as store, store.transaction():
        store.duplicates.clear_findings()
    assert snapshot.duplicates.repeats() is not None
    with closing(Store(IndexPaths(tmp_path / "index").store, read_only=True)) as store:
        assert open_snapshot(store, "").snapshot.duplicates.repeats() is None
