"""Dates of documents: from their files, observed edits and Git commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from unicodedata import normalize

from thumbindex.index.store import TIMES, Store
from thumbindex.model import Document, DocumentTimes


def document_versions(store: Store, paths: Iterable[str]) -> dict[str, tuple[str, DocumentTimes]]:
    """Return the digest and times of some documents, keyed by path."""
    sql = f"SELECT path, digest, {TIMES} FROM documents WHERE path IN ({{}})"
    return {
        path: (digest, DocumentTimes(*times))
        for path, digest, *times in store.fetch_in(sql, list(paths))
    }


def newest_time(store: Store) -> float:
    """Return the latest modification time of indexed files in seconds, or 0 if there are none."""
    return float(store.fetch("SELECT coalesce(max(modified), 0) FROM documents")[0][0])


def with_history(
    document: Document, digest: str, version: tuple[str, DocumentTimes] | None, newest: float
) -> Document:
    """Return a document with an edit date, and with the commit dates of its stored `version`.

    `newest` is the latest modification time in the index. An unknown edit date is 0.
    """
    if version is None:
        # no edit dates in the first run (`newest` is 0) or for copied files with old times
        if 0 < newest < document.modified:
            return replace(document, edited=document.modified)
        return document
    before, times = version
    # a changed text without a later file time was edited at an unknown time
    last = document.modified if document.modified > times.modified else 0.0
    edited = times.edited if digest == before else last
    return replace(
        document, edited=edited, first_commit=times.first_commit, last_commit=times.last_commit
    )


def set_commit_days(store: Store, days: Mapping[str, tuple[str, str]]) -> None:
    """Store the first and last commit day of each path. A new commit clears the edit date."""
    for path, _, edited, *stored in store.fetch(f"SELECT path, {TIMES} FROM documents"):
        # macOS may decompose accented letters in paths
        commits = list(days.get(normalize("NFC", path), ("", "")))
        if commits != stored:
            is_new = commits[1] not in ("", stored[1])
            store.execute(
                "UPDATE documents SET edited = ?, first_commit = ?, last_commit = ? WHERE path = ?",
                (0.0 if is_new else edited, *commits, path),
            )


def mark_dates_unknown(store: Store) -> None:
    """If a document's commits were never read, store that the document has no commits."""
    store.execute(
        "UPDATE documents SET first_commit = '', last_commit = '' WHERE last_commit IS NULL"
    )


def undated_paths(store: Store) -> frozenset[str]:
    """Return the paths of documents whose commits were never read, in Unicode NFC."""
    rows = store.fetch("SELECT path FROM documents WHERE last_commit IS NULL")
    return frozenset(normalize("NFC", path) for (path,) in rows)
