"""Some of the chunks of a published folder: rows, or everything but some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from thumbindex.index.postgres.ids import NO_ROWS, ORDINAL_BITS, Rows
from thumbindex.index.postgres.view import FolderView
from thumbindex.model import ChunkId
from thumbindex.ports import Mask, Selection

LISTED_AT_ONCE = 1_000
"""Documents of a page of those that are all gone through."""

_T = TypeVar("_T")


def once(view: FolderView, key: str, make: Callable[[], _T]) -> _T:
    """Return what is made once a generation."""
    if key in view.recent.made:
        found: _T = view.recent.made[key]
        return found
    made = view.recent.made[key] = make()
    return made


# ---------------------------------------------------------- rows and the documents that they are of


class Owners(NamedTuple):
    """The documents that rows of chunks are of: their row ids, ascending, their places and how many
    chunks they have; and whose each row is.
    """

    documents: Rows
    places: Rows
    sizes: Rows
    rows: Rows  # of chunks, ascending: those that are there
    of: Rows  # shape (rows,): positions in `documents`

    @property
    def counts(self) -> Rows:
        """How many of the rows each document has."""
        return np.bincount(self.of, minlength=len(self.documents))

    @property
    def ids(self) -> Rows:
        """The chunks' ids, in the order of the rows."""
        return (self.places[self.of] << ORDINAL_BITS) | (self.rows - self.documents[self.of] - 1)


def owners(view: FolderView, rows: Rows) -> Owners:
    """Look up whose these rows are.

    Between the chunks of two documents is a row that is no chunk's, so that one look-up a run is
    enough.
    """
    sql = (
        "SELECT DISTINCT d.id, d.place, d.chunks FROM (SELECT %s::int AS folder) f CROSS JOIN "
        "unnest(%s::bigint[]) AS first (id) CROSS JOIN LATERAL"
        " (SELECT id, place, chunks FROM documents WHERE folder = f.folder AND id < first.id ORDER "
        "BY id DESC LIMIT 1) d ORDER BY d.id"
    )
    found = view.fetch(sql, rows[np.diff(rows, prepend=-2) != 1].tolist()) if len(rows) else []
    # each column by itself in memory: `documents` is searched
    documents, places, sizes = np.array(found, dtype=np.int64).reshape(-1, 3).T.copy()
    of = np.searchsorted(documents, rows) - 1
    there = of >= 0
    there[there] = rows[there] <= (documents + sizes)[of[there]]
    return Owners(documents, places, sizes, rows[there], of[there])


def ids_by_row(view: FolderView, rows: Rows) -> dict[int, ChunkId]:
    """Return the ids of chunks by their rows, ascending; those that are gone are missing."""
    found = owners(view, rows)
    return {row: ChunkId(n) for row, n in zip(found.rows.tolist(), found.ids.tolist(), strict=True)}


def rows_of_documents(documents: Rows, sizes: Rows) -> Rows:
    """Return the rows of all chunks of documents, ascending."""
    order = np.argsort(documents)
    return spans(documents[order], sizes[order])


def spans(documents: Rows, sizes: Rows) -> Rows:
    """Return the same of documents that ascend."""
    before = np.cumsum(sizes) - sizes
    rows: Rows = np.arange(int(sizes.sum())) + np.repeat(documents + 1 - before, sizes)
    return rows


def united(*parts: Rows) -> Rows:
    """Return rows ascending, each once: NumPy's own `unique` takes ten times as long for a
    million.
    """
    filled = [part for part in parts if len(part)]
    ascending = np.sort(np.concatenate([NO_ROWS, *filled]))
    found: Rows = ascending[
        np.append(np.ones(min(len(ascending), 1), dtype=np.bool_), ascending[1:] != ascending[:-1])
    ]
    return found


def is_among(rows: Rows, sorted_rows: Rows) -> Mask:
    """Tell which rows are among those that are sorted."""
    if not len(sorted_rows):
        return np.zeros(len(rows), dtype=np.bool_)
    at = np.minimum(np.searchsorted(sorted_rows, rows), len(sorted_rows) - 1)
    return np.asarray(sorted_rows[at] == rows, dtype=np.bool_)


class RowSelection(Selection):
    """Selection by the chunks' rows, ascending; with `but`, of all that are not among these."""

    def __init__(self, view: FolderView, rows: Rows, but: bool = False) -> None:
        self.view, self.rows, self.but = view, rows, but

    def __len__(self) -> int:
        return self.view.state.chunks - len(self.rows) if self.but else len(self.rows)

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        if not len(self.rows):
            return np.full(len(chunks), self.but, dtype=np.bool_)
        rows = self.view.rows_of(chunks)
        found: Mask = (is_among(rows, self.rows) != self.but) & (rows >= 0)
        return found

    def first(self, most: int) -> Sequence[ChunkId]:
        if self.but:
            return self._first_but(most)
        return [ChunkId(n) for n in np.sort(self.owners.ids)[: max(most, 0)].tolist()]

    def _first_but(self, most: int) -> list[ChunkId]:
        sql = (
            "SELECT place, id, chunks FROM documents WHERE folder = %s AND place > %s AND chunks "
            "> 0 ORDER BY place LIMIT %s"
        )
        found: list[ChunkId] = []
        place, page = -1, min(LISTED_AT_ONCE, max(most, 0))
        while len(found) < most and (rows := self.view.fetch(sql, place, page)):
            for place, document, size in rows:
                found += [
                    ChunkId(place << ORDINAL_BITS | n)
                    for n in self.left_in(document, size).tolist()
                ]
        return found[: max(most, 0)]

    def left_in(self, document: int, size: int) -> Rows:
        """Return which chunks it has of a document that has so many: their places in it,
        ascending.
        """
        first, last = np.searchsorted(self.rows, [document + 1, document + 1 + size])
        named: Rows = self.rows[first:last] - document - 1
        found: Rows = (
            np.setdiff1d(np.arange(size), named, assume_unique=True) if self.but else named
        )
        return found

    @cached_property
    def owners(self) -> Owners:
        """Whose its rows are; with `but`, whose those are that it has not."""
        return owners(self.view, self.rows)

    @property
    def whole(self) -> Rows:
        """The documents, by row, all of whose chunks are among its rows."""
        found: Rows = self.owners.documents[self.owners.counts == self.owners.sizes]
        return found

    def of_documents(self) -> RowSelection:
        found = self.owners
        meant = (
            found.counts == found.sizes
            if self.but
            else np.ones(len(found.documents), dtype=np.bool_)
        )
        return self._made(rows_of_documents(found.documents[meant], found.sizes[meant]), self.but)

    def __and__(self, other: Selection) -> RowSelection:
        yours = selection_of(other)
        if self.but and yours.but:
            return self._made(united(self.rows, yours.rows), True)
        if self.but or yours.but:
            few, left_out = (yours, self) if self.but else (self, yours)
            return self._made(few.rows[~is_among(few.rows, left_out.rows)], False)
        return self._made(np.intersect1d(self.rows, yours.rows, assume_unique=True), False)

    def __or__(self, other: Selection) -> RowSelection:
        return (self._rest() - other)._rest()

    def __sub__(self, other: Selection) -> RowSelection:
        return self & selection_of(other)._rest()

    def _rest(self) -> RowSelection:
        """Return all that it has not."""
        return self._made(self.rows, not self.but)

    def _made(self, rows: Rows, but: bool) -> RowSelection:
        return RowSelection(self.view, rows, but)


def selection_of(selection: Selection) -> RowSelection:
    """Return a selection of a published folder as what it is.

    Raises TypeError for one of another kind of index.
    """
    if not isinstance(selection, RowSelection):
        raise TypeError(f"{selection!r} is a selection of another kind of index.")
    return selection
