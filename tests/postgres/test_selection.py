"""Selections of a published folder are sets of chunks, whether they name what they have or what
they have not.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.index.postgres.ids import ORDINAL_BITS, as_rows
from thumbindex.index.postgres.selection import RowSelection
from thumbindex.index.postgres.view import FolderView
from thumbindex.model import ChunkId

DOCUMENTS = ((10, 700, 3), (14, 5, 1), (40, 90, 0), (41, 60, 4), (90, 6, 2))
"""Row, place and number of chunks of each, by row: what was written last need not stand last."""

CHUNKS = {
    row + 1 + n: place << ORDINAL_BITS | n for row, place, size in DOCUMENTS for n in range(size)
}
"""The chunks' ids by their rows."""


class FewDocuments:
    """A view of a few documents, which answers the two questions that selections ask of their
    table.
    """

    state = SimpleNamespace(chunks=len(CHUNKS))

    def rows_of(self, chunks: Sequence[ChunkId]) -> Any:
        rows = {chunk: row for row, chunk in CHUNKS.items()}
        return np.array([rows.get(n, -1) for n in chunks], dtype=np.int64)

    def fetch(self, sql: str, *parameters: Any) -> list[tuple[int, int, int]]:
        if "unnest" in sql:  # whose these rows are
            (first,) = parameters
            return sorted({max(each for each in DOCUMENTS if each[0] < row) for row in first})
        after, most = parameters  # the next documents by place
        return sorted(
            (place, row, size) for row, place, size in DOCUMENTS if place > after and size
        )[:most]


VIEW = cast(FolderView, FewDocuments())
Rows = frozenset[int]
some_rows = st.frozensets(st.sampled_from(sorted(CHUNKS)))


def selection(rows: Rows, but: bool) -> RowSelection:
    return RowSelection(VIEW, as_rows(rows), but)


def meant(rows: Rows, but: bool) -> Rows:
    return frozenset(CHUNKS) - rows if but else rows


def held(chosen: RowSelection) -> Rows:
    """Return the rows that a selection has, by its ids."""
    chunks = list(chosen.first(len(chosen)))
    assert chunks == sorted(chunks)
    return frozenset(row for row, chunk in CHUNKS.items() if chunk in chunks)


@given(some_rows, st.booleans(), some_rows, st.booleans())
def test_selections_are_combined_as_sets(
    mine: Rows, but: bool, yours: Rows, but_yours: bool
) -> None:
    first, second = selection(mine, but), selection(yours, but_yours)
    one, other = meant(mine, but), meant(yours, but_yours)
    assert [held(each) for each in (first & second, first | second, first - second)] == [
        one & other,
        one | other,
        one - other,
    ]


@given(some_rows, st.booleans(), st.integers(0, 12))
def test_a_selection_counts_tells_and_begins_with_its_first(
    rows: Rows, but: bool, most: int
) -> None:
    chosen, ids = selection(rows, but), sorted(CHUNKS[row] for row in meant(rows, but))
    assert (len(chosen), bool(chosen), list(chosen.first(most))) == (
        len(ids),
        bool(ids),
        ids[:most],
    )
    asked = [ChunkId(n) for n in CHUNKS.values()]
    assert chosen.among(asked).tolist() == [n in ids for n in asked]


@given(some_rows, st.booleans())
def test_a_selection_widens_to_whole_documents(rows: Rows, but: bool) -> None:
    own = meant(rows, but)
    parts = (range(row + 1, row + 1 + size) for row, _, size in DOCUMENTS)
    assert held(selection(rows, but).of_documents()) == frozenset(
        n for part in parts if own.intersection(part) for n in part
    )


@given(some_rows, st.booleans())
def test_what_a_selection_has_of_a_document_comes_in_its_order(rows: Rows, but: bool) -> None:
    own, chosen = meant(rows, but), selection(rows, but)
    assert [chosen.left_in(row, size).tolist() for row, _, size in DOCUMENTS] == [
        [n for n in range(size) if row + 1 + n in own] for row, _, size in DOCUMENTS
    ]


def test_a_chunk_that_is_gone_is_in_no_selection() -> None:
    gone = ChunkId(1 << ORDINAL_BITS)
    assert [selection(frozenset({11}), but).among([gone]).tolist() for but in (False, True)] == [
        [False],
        [False],
    ]
