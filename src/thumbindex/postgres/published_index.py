"""A published folder opened for reading: its rows as the views that an index on the disk has, and
its vectors, which stay in the database.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.duplicate_clusters import DuplicateRecords, StoreDuplicates, pairs_of_rows
from thumbindex.index.graph import NetworkxLinkGraph
from thumbindex.index.snapshot import build_link_graph
from thumbindex.ports import Snapshot
from thumbindex.postgres.database import DatabaseSession
from thumbindex.postgres.published_keyword_index import (
    PostingsCache,
    PublishedKeywordIndex,
    read_segments,
)
from thumbindex.postgres.published_store import FolderState, PublishedStore
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS, PostgresVectorIndex


@dataclass(frozen=True, slots=True)
class PublishedIndex:
    """A snapshot, and what it is a snapshot of."""

    snapshot: Snapshot
    catalog: StoreCatalog
    keyword: PublishedKeywordIndex
    graph: NetworkxLinkGraph
    duplicates: StoreDuplicates
    postings: PostingsCache
    state: FolderState

    @property
    def fingerprint(self) -> str:
        """What the model is known by that made the vectors."""
        return str(self.state.facts["fingerprint"])

    @property
    def model(self) -> str:
        """Its name."""
        return str(self.state.facts["model"])

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.catalog.paths)


def open_published(
    store: PublishedStore, last: PublishedIndex | None = None, exact: int = MAX_EXACT_VECTORS
) -> PublishedIndex:
    """Open a folder in the snapshot of a query.

    What is still true of `last`, of the same epoch, is kept. Among more than `exact` chunks an
    index of vectors is asked for the nearest.
    """
    state = store.state
    catalog = StoreCatalog(store, state.name, None if last is None else last.catalog)
    postings = PostingsCache(store) if last is None else last.postings
    segments = read_segments(store, postings, () if last is None else last.keyword.segments)
    keyword = PublishedKeywordIndex(segments, catalog, postings)
    graph = build_link_graph(catalog, None if last is None else last.graph)
    duplicates = StoreDuplicates(
        catalog, _read_duplicates(store, None if last is None else last.duplicates.records)
    )
    snapshot = Snapshot(
        state.generation,
        catalog,
        keyword,
        PostgresVectorIndex(store, catalog, exact),
        graph,
        None,
        duplicates,
    )
    return PublishedIndex(snapshot, catalog, keyword, graph, duplicates, postings, state)


def _read_duplicates(store: PublishedStore, last: DuplicateRecords | None) -> DuplicateRecords:
    """Read what is known of duplicates, or return the last time's if nothing has changed since."""
    generation = store.meta("duplicates")
    if last is not None and last.generation == generation:
        return last
    known = store.duplicates.read()
    same = [pair for pair in known["alike"] if pair[3] == "same"]
    return DuplicateRecords(
        generation,
        pairs_of_rows(known["repeats"]),
        np.array([row for row, _ in known["boosted"]], dtype=np.int64),
        np.array([salience for _, salience in known["boosted"]], dtype=np.float64),
        pairs_of_rows([pair[:2] for pair in same]),
        np.array([pair[2] for pair in same], dtype=np.float64),
        store.decisions(),
        dict(known["texts"]),
    )


def read_folders(
    session: DatabaseSession, known: Collection[FolderState] = ()
) -> list[FolderState]:
    """Return the folders that are published, by name; what is `known` of a generation is not read
    again.
    """
    held = {(each.folder, each.mark): each for each in known}
    columns = "folder, name, generation, extract(epoch FROM published)::float8, md5(facts)"
    rows = session.fetch(f"SELECT {columns} FROM folders ORDER BY name")
    new = [row[0] for row in rows if (row[0], row[4]) not in held]
    told: dict[int, str] = (
        dict(session.fetch("SELECT folder, facts FROM folders WHERE folder = ANY(%s)", (new,)))
        if new
        else {}
    )
    states = []
    for folder, name, generation, published, mark in rows:
        facts = json.loads(told[folder]) if folder in told else held[folder, mark].facts
        states.append(FolderState(folder, name, generation, published, facts, mark))
    return states
