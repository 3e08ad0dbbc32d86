"""What is known of duplicates in a published folder: repeats, clusters, and what the owner
decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thumbindex.index.postgres.ids import as_rows
from thumbindex.index.postgres.view import FolderView
from thumbindex.model import ChunkId, Verdict
from thumbindex.ports import Duplicates, Salience, Selection


class PostgresDuplicates(Duplicates):
    """Duplicates over one published folder, for one question: the copies of all chunks whose
    salience was asked for are looked up together.
    """

    def __init__(self, view: FolderView) -> None:
        self._view = view
        self._asked: dict[ChunkId, None] = {}  # whose copies may be asked for
        # what says the same as each, itself included, ascending
        self._groups: dict[ChunkId, Sequence[ChunkId]] = {}

    def repeated(self) -> Selection | None:
        if not self._view.state.facts["repeats"]:
            return None
        return self._view.once("repeated", self._repeated)

    def _repeated(self) -> Selection:
        layout = self._view.layout
        rows = self._view.fetch("SELECT chunk FROM repeats WHERE folder = %s")
        at = layout.chunk_positions(as_rows(row for (row,) in rows))
        return layout.only([ChunkId(n) for n in at[at >= 0].tolist()])

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        self._asked.update(dict.fromkeys(chunks))
        rows = self._view.layout.chunk_rows(chunks).tolist()
        found: dict[int, float] = dict(
            self._view.fetch(
                "SELECT id, salience FROM chunks WHERE folder = %s AND id = ANY(%s)", rows
            )
        )
        return np.array([found[row] for row in rows], dtype=np.float64)

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        if chunk not in self._groups:
            self._groups.update(
                self._grouped(
                    [chunk, *(n for n in self._asked if n not in self._groups and n != chunk)]
                )
            )
        return tuple(n for n in self._groups[chunk] if n != chunk)

    def _grouped(self, chunks: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[ChunkId]]:
        """Return with each chunk its keeper, what repeats that one, and its copies: those that
        repeat are in no cluster themselves.
        """
        rows = self._view.layout.chunk_rows(chunks).tolist()
        keepers = self._keepers(rows)
        groups = {row: {row} for row in set(keepers.values())}
        for keeper, row in self._repeating(list(groups)):
            groups[keeper].add(row)
        clusters: dict[int, set[int]] = {}
        for cluster, row in self._clustered(list(groups)):
            clusters.setdefault(cluster, set()).add(row)
        for members in clusters.values():
            for row in members & groups.keys():
                groups[row] |= members
        ordered = {keeper: self._chunks(group) for keeper, group in groups.items()}
        return {n: ordered[keepers[row]] for n, row in zip(chunks, rows, strict=True)}

    def _chunks(self, rows: Iterable[int]) -> Sequence[ChunkId]:
        """Return the chunks at some rows, ascending; those that are gone are missing."""
        at = np.sort(self._view.layout.chunk_positions(as_rows(rows)))
        return [ChunkId(n) for n in at[at >= 0].tolist()]

    def _keepers(self, rows: Sequence[int]) -> dict[int, int]:
        """Return for each row the one that it repeats, else itself."""
        keepers = {row: row for row in rows}
        if self._view.state.facts["repeats"]:
            keepers.update(
                self._view.fetch(
                    "SELECT chunk, keeper FROM repeats WHERE folder = %s AND chunk = ANY(%s)",
                    list(rows),
                )
            )
        return keepers

    def _repeating(self, keepers: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Yield keepers with what repeats them."""
        if not self._view.state.facts["repeats"]:
            return []
        rows = self._view.fetch(
            "SELECT keeper, chunk FROM repeats WHERE folder = %s AND keeper = ANY(%s)",
            list(keepers),
        )
        return [(keeper, row) for keeper, row in rows]

    def _clustered(self, rows: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Yield the clusters in which one of these rows is, each with all of its members."""
        sql = (
            "SELECT DISTINCT o.cluster, o.chunk FROM clusters m JOIN clusters o ON o.folder = "
            "m.folder AND o.cluster = m.cluster"
            " WHERE m.folder = %s AND m.chunk = ANY(%s)"
        )
        return [(cluster, row) for cluster, row in self._view.fetch(sql, list(rows))]

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        decided: Mapping[tuple[str, str], Verdict] = self._view.once("decisions", self._decisions)
        if not decided:
            return None
        digests = self._view.once("decided", self._digests)
        rows = self._view.layout.chunk_rows([first, second]).tolist()
        one, other = sorted(digests.get(row, "") for row in rows)
        return decided.get((one, other))

    def _decisions(self) -> Mapping[tuple[str, str], Verdict]:
        return {
            (first, second): verdict
            for first, second, verdict, *_ in self._view.state.facts["decisions"]
        }

    def _digests(self) -> dict[int, str]:
        return dict(self._view.fetch("SELECT chunk, digest FROM decided WHERE folder = %s"))
