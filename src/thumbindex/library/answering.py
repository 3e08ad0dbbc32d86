"""Answer a query: run the pipeline over the folders' combined snapshots."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from thumbindex.index.analysis import highlight_spans
from thumbindex.index.snapshot import FolderSnapshot
from thumbindex.index.union import unite
from thumbindex.library.reader import Reader
from thumbindex.library.refining import count_refined, with_exact_candidates
from thumbindex.library.visibility import PrivacyFilter
from thumbindex.model import Answer, ChunkId, IndexState, Query, Term
from thumbindex.ports import (
    Embedder,
    Matrix,
    Reranker,
    Selection,
    Snapshot,
    Vector,
    VectorIndex,
)
from thumbindex.query.explain import explain_passages
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Phrasing, Search, Tools
from thumbindex.settings import QuerySettings

MAX_CONCURRENT_QUERIES = 2
"""Maximum queries that a library runs at once; other queries wait.

Two, because one query can run Python code while the other multiplies vectors.
"""


def answer_query(
    query: Query,
    readers: Sequence[Reader],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
    *,
    explain: bool = False,
) -> Answer:
    """Run `query` over the combined snapshots of its folders.

    If `explain` is True, the answer explains each passage's rank.
    """
    folders = query.filters.folder
    snapshots: Mapping[Reader, FolderSnapshot] = {
        reader: reader.folder_snapshot()
        for reader in readers
        if reader.indexed and (not folders or reader.folder.name in folders)
    }
    state = _sum_states([_index_state(index, embedder) for index in snapshots.values()])
    if not snapshots:
        empty = Search(query, query.text)
        return Answer(query.text, None, empty.kind, False, 0.0, "low", (), (), state)
    tools = build_tools(tuple(snapshots.values()), settings, embedder, reranker)
    observed: list[tuple[str, Search]] = []

    def observe(stage: str, search: Search) -> None:
        if explain:
            observed.append((stage, search))

    unfiltered = without_folder_filter(query)
    vector = tools.snapshot.vector
    tools = with_exact_candidates(unfiltered, tools, tuple(snapshots))
    state = count_refined(state, vector, tools.snapshot.vector)
    search, trace = run_pipeline(unfiltered, tools, time.perf_counter, observe)
    passages = search.passages
    passages = explain_passages(passages, observed, tools) if explain else passages
    phrasings = search.all_phrasings if search.listed is None else ()
    answer = Answer(
        query.text,
        None,
        search.kind,
        search.found and bool(passages),
        search.confidence,
        search.confidence_level,
        passages,
        trace,
        state,
        filters=search.typed_filters,
        unmet=search.unmet,
        undated=search.undated,
        listed=search.listed,
        terms=tuple(term for phrasing in phrasings for term in _shown_terms(phrasing)),
        weaker=len(search.weaker),
        folders=len(readers),
    )
    answer = PrivacyFilter(search, tools, snapshots).filter_answer(answer)
    return _mark_terms(answer, tuple(snapshots.values()))


def _shown_terms(phrasing: Phrasing) -> Iterator[Term]:
    """Yield the terms to mark in passages. The words of a quoted phrase are not marked singly."""
    quoted = {word for term in phrasing.terms if term.phrase for word in term.text.split()}
    plain = {term.text for term in phrasing.terms if not term.phrase}
    yield from phrasing.terms
    yield from (term for term in phrasing.identifiers if term.text not in quoted - plain)


def _mark_terms(answer: Answer, folders: Sequence[FolderSnapshot]) -> Answer:
    """Add `marks` to each passage: the offsets of the query's terms."""
    languages = frozenset[str]().union(*(folder.snapshot.keyword.languages for folder in folders))
    passages = tuple(
        replace(passage, marks=highlight_spans(passage.text, answer.terms, languages))
        for passage in answer.passages
    )
    return replace(answer, passages=passages)


def build_tools(
    folder_snapshots: Sequence[FolderSnapshot],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> Tools:
    """Return the pipeline's tools over the folders' snapshots."""
    if embedder:
        model_fingerprint = embedder.fingerprint
    else:
        fingerprints = (folder_snapshot.fingerprint for folder_snapshot in folder_snapshots)
        model_fingerprint = next(filter(None, fingerprints), "")
    snapshots = [
        without_foreign_vectors(
            folder_snapshot.snapshot, folder_snapshot.fingerprint, model_fingerprint
        )
        for folder_snapshot in folder_snapshots
    ]
    return Tools(unite(snapshots), settings, embedder, reranker, date.today())


def _sum_states(states: Sequence[IndexState]) -> IndexState:
    models = sorted({state.model for state in states if state.model})
    return IndexState(
        sum(s.documents for s in states),
        sum(s.chunks for s in states),
        sum(s.vectors for s in states),
        sum(s.pending for s in states),
        ", ".join(models),
        sum(s.generation for s in states),
        sum(s.refining for s in states),
    )


def _index_state(index: FolderSnapshot, embedder: Embedder | None) -> IndexState:
    """Return the counts of `index`. If `embedder` uses another model, no vectors are counted."""
    snapshot, chunks = index.snapshot, len(index.snapshot.catalog)
    is_same_model = embedder is None or embedder.fingerprint == index.fingerprint
    provisional = snapshot.vector.count_provisional() if is_same_model else 0
    vectors = len(snapshot.vector) - provisional if is_same_model else 0
    counts = index.documents, chunks, vectors, chunks - vectors
    return IndexState(*counts, index.model, snapshot.generation, provisional)


def folder_index_state(reader: Reader) -> IndexState:
    """Return the counts of a folder's index; zeros if there is none."""
    if not reader.indexed:
        return IndexState(0, 0, 0, 0, "", 0)
    store = reader.store
    documents, chunks, vectors, provisional = store.counts()
    pending, model = chunks - vectors, store.meta("model")
    return IndexState(documents, chunks, vectors, pending, model, store.generation, provisional)


def without_foreign_vectors(
    snapshot: Snapshot, fingerprint: str, model_fingerprint: str
) -> Snapshot:
    """Drop the snapshot's vectors if their `fingerprint` is not `model_fingerprint`.

    Cosines between vectors of different models are meaningless.
    """
    if fingerprint == model_fingerprint:
        return snapshot
    return replace(snapshot, vector=_NoVectors(), vocabulary=None)


def without_folder_filter(query: Query) -> Query:
    """Drop the folder filter: callers already search only the folders that it allows."""
    return replace(query, filters=replace(query.filters, folder=()))


class _NoVectors(VectorIndex):
    def __len__(self) -> int:
        return 0

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[()]:
        return ()

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        return np.full((len(chunks), 1), np.nan, dtype=np.float32)
