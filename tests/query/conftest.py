"""A question to a few small documents, with stages switched and set as a test needs them."""

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
    """Return the defaults with some stages left out or in, and some tables' fields set."""
    settings = without_stages(with_stages(QuerySettings(), *on.split()), *off.split())
    for name, keys in tables.items():
        settings = replace(settings, **{name: replace(getattr(settings, name), **keys)})
    return settings


class Known(NoDuplicates):
    """What a test says that the index knows: repeats, copies and verdicts by chunk, and
    saliences.
    """

    def __init__(
        self,
        size: int,
        repeats: Sequence[int] = (),
        copies: Mapping[int, tuple[int, ...]] | None = None,
        saliences: Mapping[int, float] | None = None,
        verdicts: Mapping[tuple[int, int], Verdict] | None = None,
    ) -> None:
        self._repeated = Selection(np.isin(np.arange(size), repeats), np.arange(size))
        self._copies, self._saliences, self._verdicts = (
            copies or {},
            saliences or {},
            verdicts or {},
        )

    def repeats(self) -> Selection | None:  # type: ignore[override]
        return self._repeated or None

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        return np.array([self._saliences.get(n, 0.5) for n in chunks], dtype=np.float64)

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:  # type: ignore[override]
        return tuple(map(ChunkId, self._copies.get(chunk, ())))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:  # type: ignore[override]
        return self._verdicts.get((min(first, second), max(first, second)))


@pytest.fixture
def knowing() -> Callable[..., Snapshot]:
    """Return a function that gives a snapshot something to know of duplicates."""
    return lambda snapshot, **known: replace(
        snapshot, duplicates=Known(len(snapshot.catalog), **known)
    )


@pytest.fixture
def settings_of() -> Callable[..., QuerySettings]:
    """Return a function that gives the defaults with some stages left out or in, and some tables'
    fields set.
    """
    return settings_with


@pytest.fixture
def ask() -> Callable[..., tuple[Search, tuple[TraceStep, ...]]]:
    """Return a function that asks documents (or a snapshot) a question and gives the search and its
    trace.
    """

    def ask_them(
        asked: Sequence[ParsedDocument] | Snapshot,
        text: str | Query,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        off: str = "",
        on: str = "",
        **tables: dict[str, Any],
    ) -> tuple[Search, tuple[TraceStep, ...]]:
        snapshot = asked if isinstance(asked, Snapshot) else memory_snapshot(asked, embedder)
        tools = Tools(snapshot, settings_with(off, on, **tables), embedder, reranker)
        query = text if isinstance(text, Query) else Query(text, limit=10)
        return run_pipeline(query, tools, count().__next__)

    return ask_them


@pytest.fixture
def candidates() -> Callable[..., tuple[Candidate, ...]]:
    """Return a function that makes a candidate of every chunk, with the given scores, best
    first.
    """

    def make(snapshot: Snapshot, *scores: float) -> tuple[Candidate, ...]:
        ids = list(snapshot.catalog.every_nth(1, None))
        chunks = snapshot.catalog.chunks(ids)
        given = scores or [1.0 - 0.001 * n for n in ids]
        made = [
            Candidate(n, snapshot.catalog.document_of(n), chunks[n], score)
            for n, score in zip(ids, given, strict=True)
        ]
        return tuple(sorted(made, key=lambda each: (-each.score, each.id)))

    return make
