"""Explain why a query finds or misses a note.

A missed note is not on disk, excluded, not indexed yet, filtered out, or dropped by a stage.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from thumbindex.corpus.private import is_private
from thumbindex.corpus.read import read_bytes
from thumbindex.corpus.walk import why_left_out
from thumbindex.errors import UnknownFolderError, UnknownPathError
from thumbindex.library.answering import build_tools, without_folder_filter
from thumbindex.library.note_lookup import (
    FoundNote,
    NoteLookup,
)
from thumbindex.library.places import NotePlaces, matching_headings
from thumbindex.library.reader import Reader
from thumbindex.library.reading import current_text
from thumbindex.library.refining import with_exact_candidates
from thumbindex.library.visibility import PrivacyFilter
from thumbindex.model import ChunkId, DocumentId, Problem, Query, WhyReport
from thumbindex.ports import Embedder, Reranker
from thumbindex.query.explain import outcome_of
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings


def explain_note(
    note: str,
    query: Query,
    readers: Sequence[Reader],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
    is_local: bool = True,
) -> WhyReport:
    """Return the outcome of a query for one note, or why the note is not indexed.

    Prefers notes in the query's folders, and paths over names. Raises UnknownPathError for an
    unknown file or note. Raises UsageError for an unknown heading, or if several notes match.
    """
    preferred = [r for r in readers if r.folder.name in query.filters.folder] or readers
    lookups = NoteLookup(preferred, is_local), NoteLookup(readers, is_local)
    spellings = dict.fromkeys((note, os.path.normpath(note).replace(os.sep, "/")))
    by_path = (lookup.find_path(text) for lookup in lookups for text in spellings)
    match = next(filter(None, by_path), None)
    entries = [] if match else [entry for lookup in lookups for entry in _on_disk(note, lookup)]
    try:
        if match is None and not any((r.folder.root / path).is_file() for r, path in entries):
            match = _find_by_name(note, *lookups)
    except UnknownPathError:
        if not entries:
            raise
    if match is None:
        reader, path = entries[0]
        return _not_indexed(query, reader.folder.name, path, _why_not_indexed(reader, path))
    return _in_index(match, query, readers, settings, embedder, reranker)


def _find_by_name(note: str, preferred: NoteLookup, all_notes: NoteLookup) -> FoundNote:
    try:
        return preferred.find(note)
    except UnknownPathError:
        return all_notes.find(note)


def _on_disk(note: str, notes: NoteLookup) -> list[tuple[Reader, str]]:
    """Return the files and directories, indexed or not, at a path (or `path#heading`)."""
    entries = list[tuple[Reader, str]]()
    for path in dict.fromkeys((note, note.partition("#")[0])):
        relative = os.path.normpath(path).replace(os.sep, "/")
        entries += [
            (reader, relative) for reader in notes.readers if path and not Path(path).is_absolute()
        ]
        entries += chain.from_iterable(notes.resolve_path(path))
    return [
        (reader, path)
        for reader, path in entries
        if path.split("/")[0] not in {"", ".", ".."} and _has_entry(reader, path)
    ]


def _has_entry(reader: Reader, path: str) -> bool:
    """Return whether a path exists in the folder and is not private.

    A path that leaves the folder through a symlink does not count.
    """
    if reader.is_published:
        return False
    entry = reader.folder.root / path
    try:
        below = Path(os.path.realpath(entry.parent))
        exists = (
            below == reader.folder.root or reader.folder.root in below.parents
        ) and os.path.lexists(entry)
    except (OSError, ValueError):  # a NUL character, or a name too long for the file system
        return False
    return exists and not is_private(reader.folder.root, path, reader.folder.config.corpus)


# ------------------------------------------------------------------ not in the index


def _not_indexed(query: Query, folder: str, path: str, reason: str) -> WhyReport:
    return WhyReport(query.text, None, folder, path, "", "not_indexed", "", reason)


def _why_not_indexed(reader: Reader, path: str) -> str:
    """Return why a file is not indexed: excluded, unreadable or new."""
    folder = reader.folder
    try:
        left_out = why_left_out(folder.root, path, folder.config.corpus)
    except UnknownFolderError as error:
        return str(error)
    if left_out:
        return left_out
    if not reader.indexed:
        return f"{folder.name} has no index yet: run `thumbindex index`"
    if folder.config.blocks_indexing:
        return folder.config.folder_file_error
    data = read_bytes(folder.root, path, folder.config.corpus)
    if isinstance(data, Problem):
        return data.reason
    reasons = (problem.reason for problem in reader.store.problems() if problem.path == path)
    return next(
        reasons,
        "it is not indexed yet: a running server indexes it soon, otherwise run `thumbindex index`",
    )


# ------------------------------------------------------------------ in the index


def _in_index(
    note: FoundNote,
    query: Query,
    readers: Sequence[Reader],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> WhyReport:
    name, path, names = note.reader.folder.name, note.document.path, query.filters.folder
    if names and name not in names:
        return WhyReport(
            query.text,
            None,
            name,
            path,
            "",
            "filtered",
            "",
            f"it is in {name}; the filter `folder` allows only {', '.join(names)}",
        )
    snapshots = {
        reader: reader.folder_snapshot()
        for reader in readers
        if reader.indexed and (not names or reader.folder.name in names)
    }
    folder_snapshots = list(snapshots.values())
    unfiltered = without_folder_filter(query)
    tools = build_tools(folder_snapshots, settings, embedder, reranker)
    tools = with_exact_candidates(unfiltered, tools, tuple(snapshots))
    steps: list[tuple[str, Search]] = []
    folder = next(number for number, reader in enumerate(snapshots) if reader.folder.name == name)
    document = folder_snapshots[folder].catalog.document_at(path)
    if document is None:
        raise UnknownPathError(f"No note {path!r} in the index.")
    before = sum(folder_snapshot.documents for folder_snapshot in folder_snapshots[:folder])
    chunks = _chunks_under(note, DocumentId(before + document), tools)
    answer, _ = run_pipeline(
        unfiltered,
        tools,
        time.perf_counter,
        lambda stage, search: steps.append((stage, search)),
    )
    outcome = outcome_of(note.document, note.fragment or "", chunks, steps, answer, tools)
    outcome = PrivacyFilter(answer, tools, snapshots).filter_why_report(outcome)
    return replace(outcome, query=query.text)


def _chunks_under(note: FoundNote, document: DocumentId, tools: Tools) -> list[ChunkId]:
    """Return the chunks under the requested heading or at the requested block, or all chunks.

    Raises UsageError for an unknown heading or block.
    """
    ids = [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(document)]
    if note.fragment is None:
        return ids
    chunks = tools.snapshot.catalog.chunks(ids)
    chains = {
        n: {chunk.heading_path[: depth + 1] for depth in range(len(chunk.heading_path))}
        for n, chunk in chunks.items()
    }
    all_chains = sorted(set().union(*chains.values()))
    matching_chains = {all_chains[n] for n in matching_headings(note.fragment, all_chains)}
    if matching := [n for n in ids if matching_chains & chains.get(n, set())]:
        return matching
    text = current_text(note.reader, note.document.path)
    places = NotePlaces(note.document.path, text, note.in_vault)
    if not (ranges := places.ranges(note.fragment)):
        raise places.unknown_error(note.fragment)
    first, last = ranges[0]
    return [
        n for n, chunk in chunks.items() if chunk.start_line <= last and chunk.end_line >= first
    ]
