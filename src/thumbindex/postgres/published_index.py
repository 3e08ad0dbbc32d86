"""Open a published folder as a snapshot, like an index on disk.

Texts and vectors stay in the database until a query reads them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.duplicate_clusters import DuplicateRecords, StoreDuplicates, pairs_of_rows
from thumbindex.index.keyword_index import SegmentKeywordIndex
from thumbindex.index.snapshot import FolderSnapshot, build_link_graph
from thumbindex.ports import Snapshot
from thumbindex.postgres.database import DatabaseSession
from thumbindex.postgres.published_keyword_index import read_segments
from thumbindex.postgres.published_store import FolderState, PublishedStore
from thumbindex.postgres.published_vectors import MAX_EXACT_VECTORS, PostgresVectorIndex


@dataclass(frozen=True, slots=True)
class PublishedIndex(FolderSnapshot):
    """The snapshot of a published folder."""

    state: FolderState


def open_published(
    store: PublishedStore, last: PublishedIndex | None = None, exact: int = MAX_EXACT_VECTORS
) -> PublishedIndex:
    """Open the published folder of `store`, in the database snapshot that `store` reads.

    Reuses the unchanged parts of `last`, an earlier index of the same epoch. Vector searches
    over more than `exact` chunks use an HNSW index.
    """
    state = store.state
    catalog = StoreCatalog(store, state.name, None if last is None else last.catalog)
    segments = read_segments(store, () if last is None else last.keyword.segments)
    keyword = SegmentKeywordIndex(segments, catalog)
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
    fingerprint, model = store.meta("fingerprint"), store.meta("model")
    return PublishedIndex(snapshot, catalog, keyword, graph, duplicates, fingerprint, model, state)


def _read_duplicates(store: PublishedStore, last: DuplicateRecords | None) -> DuplicateRecords:
    """Read the duplicate records, or return `last` if they have not changed."""
    generation = store.meta("duplicates")
    if last is not None and last.generation == generation:
        return last
    published = store.duplicates.read()
    same_pairs = [pair for pair in published["alike"] if pair[3] == "same"]
    return DuplicateRecords(
        generation,
        "",
        pairs_of_rows(published["repeats"]),
        pairs_of_rows(published["shared"]),
        np.array([row for row, _ in published["boosted"]], dtype=np.int64),
        np.array([salience for _, salience in published["boosted"]], dtype=np.float64),
        pairs_of_rows([pair[:2] for pair in same_pairs]),
        np.array([pair[2] for pair in same_pairs], dtype=np.float64),
        store.decisions(),
        dict(published["texts"]),
    )


def read_folders(session: DatabaseSession, last: Collection[FolderState] = ()) -> list[FolderState]:
    """Return the published folders, sorted by name. Unchanged facts are taken from `last`."""
    facts = {state.publication: state.facts for state in last}
    sql = (
        "SELECT folder, name, publication, generation, extract(epoch FROM published)::float8,"
        " CASE WHEN publication <> ALL(%s) THEN facts END FROM folders ORDER BY name"
    )
    states = []
    for folder, name, publication, generation, published, new in session.fetch(sql, (list(facts),)):
        known = facts[publication] if new is None else json.loads(new)
        states.append(FolderState(folder, name, publication, generation, published, known))
    return states
