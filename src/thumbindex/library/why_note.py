"""Explain why a note is or is not among the answers: not on disk, excluded, not indexed yet,
filtered out, or dropped by a stage.
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
    matching_headings,
    unknown_heading_error,
)
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import PrivacyFilter, note_states
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

    Folders that the query names come first, and paths before names. Raises UnknownPathError if
    there is no such file or note, UsageError for several or an unknown heading.
    """
    first = [each for each in readers if each.folder.name in query.filters.folder] or readers
    notes = NoteLookup(first, is_local), NoteLookup(readers, is_local)
    spellings = dict.fromkeys((note, os.path.normpath(note).replace(os.sep, "/")))
    paths = (each.find_path(text) for each in notes for text in spellings)
    found = next(filter(None, paths), None)
    there = [] if found else [entry for each in notes for entry in _on_disk(note, each)]
    try:
        if found is None and not any((each.folder.root / path).is_file() for each, path in there):
            found = _find_by_name(note, *notes)
    except UnknownPathError:
        if not there and is_local and _is_outside(note):
            roots = ", ".join(str(reader.folder.root) for reader in readers)
            reason = f"it lies outside the folders that are searched: {roots}"
            return _not_indexed(query, "", note, reason)
        if not there:
            raise
    if found is None:
        reader, path = there[0]
        return _not_indexed(query, reader.folder.name, path, _why_not_indexed(reader, path))
    return _in_index(found, query, readers, settings, embedder, reranker)


def _find_by_name(note: str, named: NoteLookup, every: NoteLookup) -> FoundNote:
    try:
        return named.find(note)
    except UnknownPathError:
        return every.find(note)


def _on_disk(note: str, notes: NoteLookup) -> list[tuple[Reader, str]]:
    """Return the folder entries, indexed or not, at a path (`path#heading` too)."""
    found = list[tuple[Reader, str]]()
    for path in dict.fromkeys((note, note.partition("#")[0])):
        own = os.path.normpath(path).replace(os.sep, "/")
        found += [
            (reader, own) for reader in notes.readers if path and not Path(path).is_absolute()
        ]
        found += chain.from_iterable(notes.resolve_path(path))
    return [
        (reader, path)
        for reader, path in found
        if path.split("/")[0] not in {"", ".", ".."} and _has_entry(reader, path)
    ]


def _is_outside(note: str) -> bool:
    """Return whether a path leads out of the folders."""
    return Path(note).is_absolute() or Path(os.path.normpath(note)).parts[:1] in {(), ("..",)}


def _has_entry(reader: Reader, path: str) -> bool:
    """Return whether the folder has a public entry at a path; symlinks out of it do not count."""
    if reader.is_published:
        return False
    entry = reader.folder.root / path
    try:
        below = Path(os.path.realpath(entry.parent))
        there = (
            below == reader.folder.root or reader.folder.root in below.parents
        ) and os.path.lexists(entry)
    except (OSError, ValueError):  # a NUL, or a name longer than any
        return False
    return there and not is_private(reader.folder.root, path, reader.folder.config.corpus)


# ------------------------------------------------------------------ not in the index


def _not_indexed(query: Query, folder: str, path: str, reason: str) -> WhyReport:
    return WhyReport(query.text, None, folder, path, "", "not_indexed", "", reason)


def _why_not_indexed(reader: Reader, path: str) -> str:
    """Return why a file is not indexed: a rule excludes it, it cannot be read, or it is new."""
    folder = reader.folder
    try:
        left_out = why_left_out(folder.root, path, folder.config.corpus)
    except UnknownFolderError as error:
        return str(error)
    if left_out:
        return left_out
    if not reader.indexed:
        return f"there is no index of {folder.name} yet: `thumbindex index` makes one"
    if folder.config.blocks_indexing:
        return folder.config.folder_file_error
    data = read_bytes(folder.root, path, folder.config.corpus)
    if isinstance(data, Problem):
        return data.reason
    reasons = (problem.reason for problem in reader.store.problems() if problem.path == path)
    return next(
        reasons,
        "the index does not know it yet: a server that runs takes it in by itself, else "
        "`thumbindex index` does",
    )


# ------------------------------------------------------------------ in the index


def _in_index(
    found: FoundNote,
    query: Query,
    readers: Sequence[Reader],
    settings: QuerySettings,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> WhyReport:
    name, path, names = found.reader.folder.name, found.document.path, query.filters.folder
    if names and name not in names:
        return WhyReport(
            query.text,
            None,
            name,
            path,
            "",
            "filtered",
            "",
            f"the filter `folder` asks for {', '.join(names)}; it is in {name}",
        )
    snapshots = {
        reader: reader.folder_snapshot()
        for reader in readers
        if reader.indexed and (not names or reader.folder.name in names)
    }
    folder_snapshots = list(snapshots.values())
    tools = build_tools(folder_snapshots, settings, embedder, reranker)
    steps: list[tuple[str, Search]] = []
    folder = next(number for number, reader in enumerate(snapshots) if reader.folder.name == name)
    document = folder_snapshots[folder].catalog.document_at(path)
    if document is None:
        raise UnknownPathError(f"No document {path!r} in the index.")
    before = sum(folder_snapshot.documents for folder_snapshot in folder_snapshots[:folder])
    wanted = _chunks_under(found.fragment, DocumentId(before + document), tools)
    answer, _ = run_pipeline(
        without_folder_filter(query),
        tools,
        time.perf_counter,
        lambda stage, search: steps.append((stage, search)),
    )
    outcome = outcome_of(found.document, found.fragment or "", wanted, steps, answer, tools)
    outcome = PrivacyFilter(answer, tools, snapshots).filter_why_report(outcome)
    return replace(outcome, query=query.text, notes=_file_change_notes(found))


def _chunks_under(heading: str | None, document: DocumentId, tools: Tools) -> list[ChunkId]:
    """Return a document's chunks, or the chunks under a heading. Raises UsageError if there is no
    such heading.
    """
    ids = [ChunkId(n) for n in tools.snapshot.catalog.chunk_ids(document)]
    if heading is None:
        return ids
    chunks = tools.snapshot.catalog.chunks(ids)
    chains = {
        n: {chunk.heading_path[: depth + 1] for depth in range(len(chunk.heading_path))}
        for n, chunk in chunks.items()
    }
    every = sorted(set().union(*chains.values()))
    meant = {every[n] for n in matching_headings(heading, every)}
    found = [n for n in ids if meant & chains.get(n, set())]
    if not found:
        raise unknown_heading_error(
            tools.snapshot.catalog.documents[document].path,
            heading,
            (name for chunk in chunks.values() for name in chunk.heading_path),
        )
    return found


def _file_change_notes(found: FoundNote) -> tuple[str, ...]:
    """Return sentences about changes of the file since it was indexed."""
    if found.reader.is_published:
        return ()
    folder, path = found.reader.folder, found.document.path
    look = note_states([(folder.name, path)], [found.reader]).get((folder.name, path))
    try:
        left_out = why_left_out(folder.root, path, folder.config.corpus)
    except UnknownFolderError:
        look, left_out = "gone", ""
    if look == "gone":
        return ("the file is not there any more: what is told is of what was read last",)
    if left_out:
        return (f"the next run of indexing leaves it out: {left_out}",)
    if look != "changed":
        return ()
    return ("the file was changed since it was indexed: what is told is of what was read then",)
