"""The dates of documents: of their files, of the edits that were seen, and of their commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from unicodedata import normalize

from thumbindex.index.store import TIMES, Store
from thumbindex.model import Document, DocumentTimes


def document_versions(store: Store, paths: Iterable[str]) -> dict[str, tuple[str, DocumentTimes]]:
    """Return the digest and the times of the documents at some paths."""
    sql = f"SELECT path, digest, {TIMES} FROM documents WHERE path IN ({{}})"
    return {
        path: (digest, DocumentTimes(*times))
        for path, digest, *times in store.fetch_in(sql, list(paths))
    }


def newest_time(store: Store) -> float:
    """Return when the newest file was modified, in seconds; 0 without files."""
    return float(store.fetch("SELECT coalesce(max(modified), 0) FROM documents")[0][0])


def with_history(
    document: Document, digest: str, version: tuple[str, DocumentTimes] | None, newest: float
) -> Document:
    """Return a document with the dates known of its earlier version.

    A changed text was edited at the time of its file, unless that is older than before. A new
    document is an edit if its file is newer than the `newest` known one: a folder's first index,
    and files copied with their times, are none.
    """
    if version is None:
        if 0 < newest < document.modified:
            return replace(document, edited=document.modified)
        return document
    before, times = version
    last = document.modified if document.modified > times.modified else 0.0
    edited = times.edited if digest == before else last
    return replace(
        document, edited=edited, first_commit=times.first_commit, last_commit=times.last_commit
    )


def set_commit_days(store: Store, days: Mapping[str, tuple[str, str]]) -> None:
    """Save the days of first and last commits, by path; a new commit replaces a seen edit."""
    for path, _, edited, *known in store.fetch(f"SELECT path, {TIMES} FROM documents"):
        # macOS may store letters and accents apart
        found = list(days.get(normalize("NFC", path), ("", "")))
        if found != known:
            is_new = found[1] not in ("", known[1])
            store.execute(
                "UPDATE documents SET edited = ?, first_commit = ?, last_commit = ? WHERE path = ?",
                (0.0 if is_new else edited, *found, path),
            )


def mark_dates_unknown(store: Store) -> None:
    """Mark the commits of documents as unknown if they were never read."""
    store.execute(
        "UPDATE documents SET first_commit = '', last_commit = '' WHERE last_commit IS NULL"
    )


def undated_paths(store: Store) -> frozenset[str]:
    """Return the paths (NFC) of documents whose commits were never read."""
    rows = store.fetch("SELECT path FROM documents WHERE last_commit IS NULL")
    return frozenset(normalize("NFC", path) for (path,) in rows)
