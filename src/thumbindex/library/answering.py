"""Answer a query: unite the folders' snapshots and run the pipeline over them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from urllib.parse import unquote

import numpy as np

from thumbindex.index.analysis import highlight_spans
from thumbindex.index.union import unite
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import PrivacyFilter
from thumbindex.model import Answer, ChunkId, IndexState, Query
from thumbindex.ports import (
    Embedder,
    FolderSnapshot,
    Matrix,
    Reranker,
    Selection,
    Snapshot,
    Vector,
    VectorIndex,
)
from thumbindex.query.explain import explain_passages
from thumbindex.query.parents import chunk_place
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings

MAX_CONCURRENT_QUERIES = 2
"""Maximum concurrent queries: one runs Python code while the other multiplies vectors."""


def answer_query(
    query: Query,
    readers: Sequence[Reader],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
    *,
    explain: bool = False,
) -> Answer:
    """Run a query over some folders as one snapshot; with `explain`, explain each passage."""
    wanted = query.filters.folder
    indexed: Mapping[Reader, FolderSnapshot] = {
        each: each.opened()
        for each in readers
        if each.indexed and (not wanted or each.folder.name in wanted)
    }
    opened = list(indexed.values())
    state = _sum_states([_index_state(each, embedder) for each in opened])
    if not opened:
        nothing = Search(query, query.text)
        return Answer(query.text, None, nothing.kind, False, 0.0, "low", (), (), state)
    tools = build_tools(opened, settings, embedder, reranker)
    seen: list[tuple[str, Search]] = []

    def observe(stage: str, search: Search) -> None:
        if explain:
            seen.append((stage, search))

    asked = replace(query, text=_folder_relative(query.text, [each.folder for each in indexed]))
    search, trace = run_pipeline(
        without_folder_filter(asked, len(opened)), tools, time.perf_counter, observe
    )
    passages = search.passages if search.answerable else ()
    passages = explain_passages(passages, seen, tools) if explain else passages
    ways = search.all_phrasings if search.listed is None else ()
    found = Answer(
        query.text,
        None,
        search.kind,
        bool(passages),
        search.confidence,
        search.confidence_level,
        passages,
        trace,
        state,
        filters=search.typed_filters,
        unmet=search.unmet,
        undated=search.undated,
        listed=search.listed,
        terms=tuple(term for way in ways for term in (*way.terms, *way.identifiers)),
        nearest=tuple(chunk_place(each, tools.snapshot.catalog) for each in search.nearest),
    )
    return PrivacyFilter(search, tools, indexed).filter_answer(found)


def mark_terms(found: Answer, readers: Sequence[Reader]) -> Answer:
    """Return an answer whose passages say where the words stand that were looked up."""
    languages = frozenset[str]().union(
        *(reader.opened().snapshot.keyword.languages for reader in readers if reader.indexed)
    )
    return replace(
        found,
        passages=tuple(
            replace(each, marks=highlight_spans(each.text, found.terms, languages))
            for each in found.passages
        ),
    )


def _folder_relative(text: str, folders: Sequence[Folder]) -> str:
    """Return the path in an index for a query that is, whole, an absolute path or a `file:` address
    inside a folder of it; else the query.
    """
    typed = text.strip()
    if typed.startswith("file://"):
        typed = unquote(typed.removeprefix("file://").removeprefix("localhost"))
        if PureWindowsPath(typed.lstrip("/")).drive:
            typed = typed.lstrip("/")
    if "\0" in typed:  # no path has one, and `expanduser` raises ValueError
        return text
    path = PurePath(os.path.expanduser(typed))  # noqa: PTH111 - Path's raises without a home
    for each in folders:
        if path != each.root and path.is_relative_to(each.root):
            return f"{each.name}/{path.relative_to(each.root).as_posix()}"
    return text


def build_tools(
    opened: Sequence[FolderSnapshot],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> Tools:
    """Return the tools of the pipeline over some folders' snapshots."""
    if embedder:
        model_fingerprint = embedder.fingerprint
    else:
        model_fingerprint = next((each.fingerprint for each in opened if each.fingerprint), "")
    snapshots = [
        without_foreign_vectors(each.snapshot, each.fingerprint, model_fingerprint)
        for each in opened
    ]
    return Tools(unite(snapshots), settings, embedder, reranker)


def _sum_states(states: Sequence[IndexState]) -> IndexState:
    """Add up the counts of several indexes."""
    models = sorted({state.model for state in states if state.model})
    return IndexState(
        sum(s.documents for s in states),
        sum(s.chunks for s in states),
        sum(s.vectors for s in states),
        sum(s.pending for s in states),
        ", ".join(models),
        sum(s.generation for s in states),
    )


def _index_state(opened: FolderSnapshot, embedder: Embedder | None) -> IndexState:
    """Return the counts of a snapshot; vectors of another model do not count."""
    snapshot, chunks = opened.snapshot, len(opened.snapshot.catalog)
    is_same_model = embedder is None or embedder.fingerprint == opened.fingerprint
    vectors = len(snapshot.vector) if is_same_model else 0
    return IndexState(
        opened.documents, chunks, vectors, chunks - vectors, opened.model, snapshot.generation
    )


def folder_state(reader: Reader) -> IndexState:
    """Return the counts of one folder's index."""
    if not reader.indexed:
        return IndexState(0, 0, 0, 0, "", 0)
    store = reader.store
    documents, chunks, vectors = store.counts()
    return IndexState(
        documents, chunks, vectors, chunks - vectors, store.meta("model"), store.generation
    )


def without_foreign_vectors(
    snapshot: Snapshot, fingerprint: str, model_fingerprint: str
) -> Snapshot:
    """Drop vectors of another model: cosines between models mean nothing."""
    if fingerprint == model_fingerprint:
        return snapshot
    return replace(snapshot, vector=_NoVectors(), vocabulary=None)


def without_folder_filter(query: Query, folders: int) -> Query:
    """Drop the folder filter, which has been applied already."""
    return replace(query, filters=replace(query.filters, folder=())) if folders else query


class _NoVectors(VectorIndex):
    """A VectorIndex without vectors."""

    def __len__(self) -> int:
        return 0

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[()]:
        return ()

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        return np.full((len(chunks), 1), np.nan, dtype=np.float32)
