"""The state of a query that stages pass on, and the tools that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thumbindex.model import (
    Candidate,
    ChunkId,
    DocumentId,
    DroppedChunk,
    NameKind,
    Passage,
    Query,
    QueryKind,
    RankedList,
    Term,
    TypedFilter,
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
    """A term and another form of it, both folded, words joined by one space."""

    term: str
    form: str


class ReferenceMatch(NamedTuple):
    """How a query matches the name, path, heading or date of a note; the smallest is the best."""

    # 0 equal but for case, 1 but for accents and punctuation, 2 a prefix of the note's name
    distance: int
    priority: int  # of its kind
    omitted_folders: int  # folders of the note's path that were not typed
    kind: NameKind
    heading: str = ""
    chunk: ChunkId | None = None  # the first one under that heading, if known


@dataclass(frozen=True, slots=True, eq=False)
class Phrasing:
    """The query's own words, a rewording, or a hypothetical answer."""

    name: str  # `query`, `also 1` and so on, or `passage`
    text: str
    terms: tuple[Term, ...] = ()
    identifiers: tuple[Term, ...] = ()
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The state of a query. A stage returns a copy with its results."""

    query: Query
    text: str  # the searched text: the query with its spelling corrected
    # notes that the whole query names, by find_by_reference
    reference_matches: Mapping[DocumentId, ReferenceMatch] = field(default_factory=dict)
    # notes of the day that the query names
    date_matches: Mapping[DocumentId, ReferenceMatch] = field(default_factory=dict)
    kind: QueryKind = QueryKind.EXPLORATORY
    # retriever -> factor of its weight for this kind of query, from classify
    weight_factors: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()  # words and phrases for search_keyword
    identifiers: tuple[Term, ...] = ()  # identifiers, their parts and plain words for search_code
    embedding_text: str = ""  # the text to embed, if it is not `text`
    other_forms: tuple[OtherForm, ...] = ()
    searchable: Selection | None = None  # chunks that pass the filters; None means all
    typed_filters: tuple[TypedFilter, ...] = ()  # filters typed in the query
    unmet: tuple[UnmetFilter, ...] = ()  # those that no note meets
    undated: int = 0  # documents without a date that `since` or `until` excludes, if few passages
    listed: int | None = None  # documents that match a query of filters alone
    other_phrasings: tuple[Phrasing, ...] = ()  # rewordings and the hypothetical answer
    query_vector: Vector | None = None  # of the query's own words
    vector: Vector | None = None  # mean of all phrasings, the one that is searched
    # results by retriever, and of the stage salience
    lists: Mapping[str, RankedList] = field(default_factory=dict)
    seeds: tuple[DocumentId, ...] = ()  # whose links search_graph followed, best first
    fused: tuple[ChunkId, ...] = ()  # all chunks after fusion, best first
    candidates: tuple[Candidate, ...] = ()  # best first
    # chunks of each passage, those beyond the limit included; best first
    passage_chunks: tuple[tuple[ChunkId, ...], ...] = ()
    passages: tuple[Passage, ...] = ()  # best first
    dropped: tuple[DroppedChunk, ...] = ()  # by all stages so far
    confidence: float = 0.0
    confidence_level: str = "low"
    answerable: bool = True
    nearest: tuple[Candidate, ...] = ()  # one a document, if nothing answers

    @property
    def all_phrasings(self) -> tuple[Phrasing, ...]:
        """All phrasings, the query's own words first."""
        own = Phrasing("query", self.text, self.terms, self.identifiers, self.query_vector)
        return (own, *self.other_phrasings)

    def keep_searchable(self, chunks: Sequence[ChunkId]) -> Sequence[ChunkId]:
        """Return the chunks that are searchable."""
        if self.searchable is None:
            return chunks
        mask = self.searchable.among(chunks).tolist()
        return [n for n, is_searchable in zip(chunks, mask, strict=True) if is_searchable]


@dataclass(frozen=True, slots=True)
class Tools:
    """What stages may use: the snapshot, the settings, and the models that are loaded."""

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
"""A pure function: a stage never logs, reads a file or asks the clock."""
