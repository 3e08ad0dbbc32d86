"""One shape for every stage: a search goes in, a search comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thumbindex.model import (
    Candidate,
    ChunkId,
    Condition,
    DocumentId,
    DroppedChunk,
    NameKind,
    Passage,
    Query,
    QueryKind,
    RankedList,
    Term,
    UnmetFilter,
)
from thumbindex.ports import (
    Cosines,
    Embedder,
    Reranker,
    Selection,
    Snapshot,
    Vector,
    inner_products,
)
from thumbindex.settings import QuerySettings


class OtherForm(NamedTuple):
    """A form that was asked for and another one of the same, both folded, words joined by one
    space.
    """

    term: str
    form: str


class NameMatch(NamedTuple):
    """How a note bears a name. The least claim is the best one."""

    # 0 as it is written but for its case, 1 but for accents and punctuation, too, 2 where the
    # note's name only begins with it
    distance: int
    priority: int
    omitted_folders: int  # folders of its path that were not typed
    kind: NameKind
    heading: str = ""
    chunk: ChunkId | None = None  # where that heading stands, if it is known


@dataclass(frozen=True, slots=True, eq=False)
class Phrasing:
    """One way to say a query: its own words, a rewording that came with it, or an answer as it
    might read.
    """

    name: str  # `query`, `also 1` and so on, or `passage`
    text: str
    terms: tuple[Term, ...] = ()
    identifiers: tuple[Term, ...] = ()
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A query on its way to an answer. Each stage puts back what it found out."""

    query: Query
    text: str  # what is searched: the query, spelling corrected
    # the documents that bear the query as their name
    name_matches: Mapping[DocumentId, NameMatch] = field(default_factory=dict)
    # the notes that are called as the one day or month in the query is
    date_matches: Mapping[DocumentId, NameMatch] = field(default_factory=dict)
    kind: QueryKind = QueryKind.EXPLORATORY
    weights: Mapping[str, float] = field(default_factory=dict)  # retriever -> factor from classify
    terms: tuple[Term, ...] = ()  # words and phrases for search_keyword
    identifiers: tuple[Term, ...] = ()  # whole identifiers and parts for search_code
    embedding_text: str = ""  # what is embedded, where that is not `text`
    # forms that were asked for, each with another one that counts as it
    other_forms: tuple[OtherForm, ...] = ()
    # what may be found: what filters let through, without repeats; None where that is everything
    within: Selection | None = None
    conditions: tuple[Condition, ...] = ()  # filters that were read in the query
    unmet: tuple[UnmetFilter, ...] = ()  # filters read in the query that no note meets
    # documents that `since` and `until` leave out of a short answer because no day of theirs is
    # known
    undated: int = 0
    # where the query is filters alone, how many documents they let through
    listed: int | None = None
    phrasings: tuple[Phrasing, ...] = ()  # that came with the query; never corrected
    query_vector: Vector | None = None  # of the query's own words, set by search_vector
    vector: Vector | None = None  # by which is searched: of all phrasings together
    lists: Mapping[str, RankedList] = field(default_factory=dict)  # by retriever
    seeds: tuple[DocumentId, ...] = ()  # whose links search_graph followed, best first
    fused: tuple[ChunkId, ...] = ()  # all that may go on from fusion, best first
    candidates: tuple[Candidate, ...] = ()  # best first
    # the chunks of each passage, best first; those beyond the limit, too
    families: tuple[tuple[ChunkId, ...], ...] = ()
    passages: tuple[Passage, ...] = ()  # best first
    dropped: tuple[DroppedChunk, ...] = ()  # by all stages so far
    confidence: float = 0.0
    confidence_level: str = "low"
    answerable: bool = True
    nearest: tuple[Candidate, ...] = ()  # where nothing is answerable, one a document

    @property
    def all_phrasings(self) -> tuple[Phrasing, ...]:
        """All phrasings, the query's own words first."""
        return Phrasing(
            "query", self.text, self.terms, self.identifiers, self.query_vector
        ), *self.phrasings

    def findable(self, chunks: Sequence[ChunkId]) -> Sequence[ChunkId]:
        """Return those of some chunks that may be found."""
        if self.within is None:
            return chunks
        return [
            n
            for n, is_found in zip(chunks, self.within.among(chunks).tolist(), strict=True)
            if is_found
        ]


@dataclass(frozen=True, slots=True)
class Tools:
    """What stages may use: the snapshot, models where they are ready, and the configuration."""

    snapshot: Snapshot
    settings: QuerySettings = field(default_factory=QuerySettings)
    embedder: Embedder | None = None
    reranker: Reranker | None = None

    def cosines(self, chunks: Sequence[ChunkId], query: Vector) -> Cosines:
        """Return the cosine of each chunk with a query; NaN for chunks that have no vector yet."""
        if not len(self.snapshot.vector):
            return np.full(len(chunks), np.nan, dtype=np.float32)
        return inner_products(self.snapshot.vector.vectors(chunks), query)


Stage = Callable[[Search, Tools], Search]
"""A stage takes a search and returns another; it never logs, times, reads a file or asks the
clock.
"""
