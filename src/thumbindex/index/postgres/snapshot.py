"""A published folder opened for one question: its catalog, words, vectors, links and duplicates, as
the ports that the pipeline knows.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from thumbindex.index.postgres.catalog import PostgresCatalog, PostgresLinkGraph
from thumbindex.index.postgres.database import Session
from thumbindex.index.postgres.duplicates import PostgresDuplicates
from thumbindex.index.postgres.ids import FolderState
from thumbindex.index.postgres.store import PublishedStore
from thumbindex.index.postgres.vectors import EXACT, PostgresVectorIndex
from thumbindex.index.postgres.view import FolderView, Kept
from thumbindex.index.postgres.words import PostgresKeywordIndex
from thumbindex.ports import Snapshot


@dataclass(frozen=True, slots=True)
class PublishedIndex:
    """A snapshot, and what it is a snapshot of."""

    snapshot: Snapshot
    catalog: PostgresCatalog
    store: PublishedStore
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
        return int(self.state.facts["documents"])


def open_published(
    session: Session, state: FolderState, kept: Kept, exact: int = EXACT
) -> PublishedIndex:
    """Open a folder at the moment of a session; among more than `exact` chunks an index of vectors
    is asked for the nearest.
    """
    view = FolderView(session, state, kept)
    catalog = PostgresCatalog(view)
    words, vectors = PostgresKeywordIndex(view), PostgresVectorIndex(view, exact)
    snapshot = Snapshot(
        state.generation,
        catalog,
        words,
        vectors,
        PostgresLinkGraph(view),
        None,
        PostgresDuplicates(view),
    )
    return PublishedIndex(snapshot, catalog, PublishedStore(view), state)


def read_folders(session: Session, known: Collection[FolderState] = ()) -> list[FolderState]:
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
