"""Fixtures that query a few small documents with chosen stages and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from fakes import NoDuplicates, memory_snapshot
from stages import with_stages, without_stages
from thumbindex.model import Candidate, ChunkId, ParsedDocument, Query, TraceStep, Verdict
from thumbindex.ports import Embedder, Reranker, Salience, Selection, Snapshot
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings


def settings_with(off: str = "", on: str = "", **tables: dict[str, Any]) -> QuerySettings:
    """Return the default settings with stages turned off or on, and tables changed."""
    settings = without_stages(with_stages(QuerySettings(), *on.split()), *off.split())
    for name, keys in tables.items():
        settings = replace(settings, **{name: replace(getattr(settings, name), **keys)})
    return settings


class FakeDuplicates(NoDuplicates):
    """Repeats, copies, saliences and verdicts from a test."""

    def __init__(
        self,
        size: int,
        repeats: Sequence[int] = (),
        shared: Sequence[int] = (),
        copies: Mapping[int, tuple[int, ...]] | None = None,
        saliences: Mapping[int, float] | None = None,
        verdicts: Mapping[tuple[int, int], Verdict] | None = None,
    ) -> None:
        self._repeated, self._shared = (
            Selection(np.isin(np.arange(size), chunks), np.arange(size))
            for chunks in (repeats, shared)
        )
        self._copies, self._saliences, self._verdicts = (
            copies or {},
            saliences or {},
            verdicts or {},
        )

    def repeats(  # type: ignore[override]
        self, within: Selection | None = None
    ) -> Selection | None:
        return self._repeated or None

    def shared(self) -> Selection | None:  # type: ignore[override]
        return self._shared or None

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        return np.array([self._saliences.get(n, 0.5) for n in chunks], dtype=np.float64)

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:  # type: ignore[override]
        return tuple(map(ChunkId, self._copies.get(chunk, ())))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:  # type: ignore[override]
        return self._verdicts.get((min(first, second), max(first, second)))


@pytest.fixture
def with_duplicates() -> Callable[..., Snapshot]:
    """Return a function that adds duplicates to a snapshot."""
    return lambda snapshot, **duplicates: replace(
        snapshot, duplicates=FakeDuplicates(len(snapshot.catalog), **duplicates)
    )


@pytest.fixture
def settings_of() -> Callable[..., QuerySettings]:
    """Return `settings_with`."""
    return settings_with


@pytest.fixture
def ask() -> Callable[..., tuple[Search, tuple[TraceStep, ...]]]:
    """Return a function that queries documents or a snapshot, and returns the search and trace."""

    def run(
        documents: Sequence[ParsedDocument] | Snapshot,
        text: str | Query,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        off: str = "",
        on: str = "",
        **tables: dict[str, Any],
    ) -> tuple[Search, tuple[TraceStep, ...]]:
        snapshot = documents
        if not isinstance(snapshot, Snapshot):
            snapshot = memory_snapshot(snapshot, embedder)
        tools = Tools(snapshot, settings_with(off, on, **tables), embedder, reranker)
        query = text if isinstance(text, Query) else Query(text, limit=10)
        return run_pipeline(query, tools, count().__next__)

    return run


@pytest.fixture
def candidates() -> Callable[..., tuple[Candidate, ...]]:
    """Return a function that makes a candidate of every chunk with a score, best first."""

    def make(snapshot: Snapshot, *scores: float) -> tuple[Candidate, ...]:
        ids = list(snapshot.catalog.every_nth(1, None))
        chunks = snapshot.catalog.chunks(ids)
        all_scores = scores or [1.0 - 0.001 * n for n in ids]
        unsorted = [
            Candidate(n, snapshot.catalog.document_of(n), chunks[n], score)
            for n, score in zip(ids, all_scores, strict=True)
        ]
        return tuple(sorted(unsorted, key=lambda candidate: (-candidate.score, candidate.id)))

    return make
