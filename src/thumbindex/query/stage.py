"""The state of a query between stages, and the tools that stages use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
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
    """A term and an abbreviation, long form or other spelling of the term.

    `term` and `form` consist of folded words or tokens with single spaces between them.
    """

    term: str
    form: str


class ReferenceMatch(NamedTuple):
    """A match of the query with a note's name, path, heading or date.

    The best match sorts first.
    """

    # 0: equal, ignoring case; 1: equal, ignoring accents and punctuation, too;
    # 2: the note's name only begins with the date
    distance: int
    priority: int  # of `kind`; the lowest is the best
    omitted_folders: int  # folders of the note's path that the query omits
    kind: NameKind
    heading: str = ""
    chunk: ChunkId | None = None  # the first chunk under the heading, if known


@dataclass(frozen=True, slots=True, eq=False)
class Phrasing:
    """A text to search for: the query's own words, a rewording, or a hypothetical answer."""

    name: str  # `query`, `also 1` and so on, or `passage`
    text: str
    terms: tuple[Term, ...] = ()
    identifiers: tuple[Term, ...] = ()
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The state of a query. Each stage returns a copy with its results."""

    query: Query
    text: str  # the searched text: the query without filters, with its spelling corrected
    # notes whose name, path or link is the whole query
    reference_matches: Mapping[DocumentId, ReferenceMatch] = field(default_factory=dict)
    # notes named after the day or month in the query
    date_matches: Mapping[DocumentId, ReferenceMatch] = field(default_factory=dict)
    kind: QueryKind = QueryKind.EXPLORATORY
    # retriever -> factor for its weight, which depends on `kind`
    weight_factors: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()  # words and phrases for search_keyword
    identifiers: tuple[Term, ...] = ()  # identifiers, their parts and plain words for search_code
    embedding_text: str = ""  # the text to embed, if it is not `text`
    other_forms: tuple[OtherForm, ...] = ()
    searchable: Selection | None = None  # chunks that pass the filters; None means all
    typed_filters: tuple[TypedFilter, ...] = ()  # filters typed in the query
    unmet: tuple[UnmetFilter, ...] = ()  # typed filters that no note matches
    # number of undated documents that `since` or `until` excludes, if there are few passages
    undated: int = 0
    listed: int | None = None  # number of matching documents, if the query has only filters
    other_phrasings: tuple[Phrasing, ...] = ()  # rewordings and the hypothetical answer
    query_vector: Vector | None = None  # of the query's own words
    vector: Vector | None = None  # mean of all phrasings, used for search
    lists: Mapping[str, RankedList] = field(default_factory=dict)  # by retriever; also "salience"
    seeds: tuple[DocumentId, ...] = ()  # documents whose links search_graph followed, best first
    fused: tuple[ChunkId, ...] = ()  # all chunks after fusion, best first
    candidates: tuple[Candidate, ...] = ()  # best first
    # chunks of each passage, including passages beyond the limit; best first
    passage_chunks: tuple[tuple[ChunkId, ...], ...] = ()
    passages: tuple[Passage, ...] = ()  # best first
    weaker: tuple[Passage, ...] = ()  # left out of `passages` as weaker
    dropped: tuple[DroppedChunk, ...] = ()  # by all stages so far
    confidence: float = 0.0
    confidence_level: str = "low"
    found: bool = True

    @property
    def all_phrasings(self) -> tuple[Phrasing, ...]:
        """All phrasings, the query's own words first."""
        own = Phrasing("query", self.text, self.terms, self.identifiers, self.query_vector)
        return (own, *self.other_phrasings)

    def keep_searchable(self, chunks: Sequence[ChunkId]) -> Sequence[ChunkId]:
        """Return the given chunks that are searchable, in the same order."""
        if self.searchable is None:
            return chunks
        mask = self.searchable.among(chunks).tolist()
        return [n for n, is_searchable in zip(chunks, mask, strict=True) if is_searchable]


@dataclass(frozen=True, slots=True)
class Tools:
    """The snapshot, the settings and the loaded models, for all stages."""

    snapshot: Snapshot
    settings: QuerySettings = field(default_factory=QuerySettings)
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    today: date | None = None  # None: no note expires

    def limit(self, query: Query) -> int:
        """Return the maximum number of passages in the answer to a query."""
        return query.limit or self.settings.limit

    def cosines(self, chunks: Sequence[ChunkId], query: Vector) -> Cosines:
        """Return each chunk's cosine with a query, shape (chunks,).

        A chunk without a vector has NaN.
        """
        if not len(self.snapshot.vector):
            return np.full(len(chunks), np.nan, dtype=np.float32)
        return inner_products(self.snapshot.vector.vectors(chunks), query)


Stage = Callable[[Search, Tools], Search]
"""A pure function: a stage never logs, reads files or reads the clock."""
