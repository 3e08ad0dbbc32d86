"""What a folder's store tells of its documents, texts, links and problems, as it was published: the
part that those ask who only read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thumbindex.index.duplicate_tables import Alike
from thumbindex.index.postgres.view import FolderView, read_document
from thumbindex.model import (
    BlockKind,
    Chunk,
    Decision,
    Document,
    FileState,
    FileTimes,
    IngestionCounts,
    Link,
    LinkCounts,
    LinkKind,
    Problem,
    Section,
)


class PublishedStore:
    """One folder's store, read at the moment of a question."""

    def __init__(self, view: FolderView) -> None:
        self._view = view
        self.duplicates = PublishedDuplicates(view)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Group reads: all of a question see one moment as it is."""
        yield

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Make something of rows: the database answers for them itself."""
        yield

    @property
    def generation(self) -> int:
        """The builder's generation that is published."""
        return self._view.state.generation

    def meta(self, key: str, default: str = "") -> str:
        """Return a fact of the folder as a whole."""
        return str(self._view.state.facts.get(key, default))

    def decisions(self) -> tuple[Decision, ...]:
        """Return what the owner decided about duplicates."""
        return tuple(Decision(*each) for each in self._view.state.facts["decisions"])

    def counts(self) -> tuple[int, int, int]:
        """Count documents, chunks, and chunks with a vector."""
        facts = self._view.state.facts
        return int(facts["documents"]), int(facts["chunks"]), int(facts["vectors"])

    def link_counts(self) -> LinkCounts:
        """Count the links that lead to a document and those that dangle."""
        facts = self._view.state.facts
        return LinkCounts(int(facts["links_resolved"]), int(facts["links_dangling"]))

    # -------------------------------------------------------------- documents

    def manifest(self, paths: Iterable[str] | None = None) -> dict[str, FileState]:
        """Return the size and digest of each file that was published, of all paths or of these."""
        sql = "SELECT path, size, digest FROM documents WHERE folder = %s"
        rows = (
            self._view.fetch(sql)
            if paths is None
            else self._view.fetch(f"{sql} AND path = ANY(%s)", list(paths))
        )
        return {path: FileState(path, size, 0, 0, digest) for path, size, digest in rows}

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return how many bytes the files at some paths had."""
        return dict(
            self._view.fetch(
                "SELECT path, size FROM documents WHERE folder = %s AND path = ANY(%s)", list(paths)
            )
        )

    def flagged(self) -> list[Document]:
        """Return the documents in which something is flagged, by path."""
        rows = self._view.fetch(
            "SELECT path, record FROM documents WHERE folder = %s AND flagged ORDER BY path"
        )
        return [read_document(record, path, "") for path, record in rows]

    def documents(self, rows: Sequence[int]) -> list[tuple[int, str, str, FileTimes, str]]:
        """Return row id, path, title, times and facts (JSON) of the documents with these row ids,
        by path.
        """
        found = self._view.fetch(
            "SELECT id, path, record FROM documents WHERE folder = %s AND id = ANY(%s) ORDER "
            "BY path",
            list(rows),
        )
        parts = ((row, path, json.loads(record)) for row, path, record in found)
        return [
            (row, path, title, FileTimes(*times), facts)
            for row, path, (title, times, facts) in parts
        ]

    def source(self, path: str) -> str | None:
        """Return a note's text as it was when it was published; of one whose file was another one
        by then, its sections in their order.
        """
        rows = self._view.fetch(
            "SELECT id, source FROM documents WHERE folder = %s AND path = %s", path
        )
        if not rows:
            return None
        ((row, source),) = rows
        if source is not None:
            return read_text(source)
        lines: list[str] = []
        for section in self._sections(row):
            lines += [""] * (section.start_line - 1 - len(lines))
            lines += section.text.split("\n")
        return "\n".join(lines)

    def sections_at(self, path: str) -> tuple[Section, ...]:
        """Return the sections of the document at a path."""
        rows = self._view.fetch("SELECT id FROM documents WHERE folder = %s AND path = %s", path)
        return tuple(self._sections(rows[0][0])) if rows else ()

    def _sections(self, row: int) -> Iterator[Section]:
        sql = (
            "SELECT ordinal, start_line, end_line, text FROM sections WHERE folder = %s AND "
            "document = %s ORDER BY ordinal"
        )
        return (
            Section(ordinal, start, end, read_text(text))
            for ordinal, start, end, text in self._view.fetch(sql, row)
        )

    def paths_with_digests(self, digests: Collection[str]) -> set[str]:
        """Return the paths of documents with a section whose text has one of these digests."""
        sql = (
            "SELECT DISTINCT d.path FROM sections s JOIN documents d ON d.folder = s.folder AND "
            "d.id = s.document"
            " WHERE s.folder = %s AND s.digest = ANY(%s)"
        )
        return {path for (path,) in self._view.fetch(sql, list(digests))}

    # -------------------------------------------------------------- chunks

    def chunk_rows(self) -> list[tuple[int, int, int]]:
        """Return row id, document's row id and ordinal of every chunk."""
        rows = self._view.fetch("SELECT id, document FROM chunks WHERE folder = %s")
        return [(row, document, row - document - 1) for row, document in rows]

    def chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        found = self._view.fetch(
            "SELECT id, headings, record FROM chunks WHERE folder = %s AND id = ANY(%s)", list(rows)
        )
        return {row: read_chunk(headings, record) for row, headings, record in found}

    # -------------------------------------------------------------- links and problems

    def links(self, paths: Iterable[str] | None = None) -> list[tuple[str, int, Link]]:
        """Return every link, or those in the documents at these paths, with its document's path and
        its ordinal there.
        """
        sql = (
            "SELECT d.path, l.ordinal, l.record FROM links l JOIN documents d ON d.folder = "
            "l.folder AND d.id = l.document WHERE l.folder = %s"
        )
        rows = (
            self._view.fetch(sql)
            if paths is None
            else self._view.fetch(f"{sql} AND d.path = ANY(%s)", list(paths))
        )
        return sorted(
            ((path, ordinal, read_link(record)) for path, ordinal, record in rows),
            key=lambda row: row[:2],
        )

    def links_to(self, path: str) -> list[tuple[str, Link]]:
        """Return the links that lead to a document, with the paths of those that they stand in, by
        path and line.
        """
        sql = (
            "SELECT d.path, l.record FROM links l JOIN documents d ON d.folder = l.folder AND d.id "
            "= l.document"
            " WHERE l.folder = %s AND l.resolved = %s AND d.path <> %s"
        )
        found = [
            (source, read_link(record)) for source, record in self._view.fetch(sql, path, path)
        ]
        return sorted(found, key=lambda each: (each[0], each[1].line))

    def problems(self) -> tuple[Problem, ...]:
        """Return what was reported about files, by path and line."""
        rows = self._view.fetch("SELECT path, line, reason FROM problems WHERE folder = %s")
        return tuple(
            Problem(*row) for row in sorted(rows, key=lambda row: (row[0], row[1] or 0, row[2]))
        )


class PublishedDuplicates:
    """What a folder's store tells of texts that say the same."""

    def __init__(self, view: FolderView) -> None:
        self._view = view

    def alike(self) -> list[Alike]:
        """Return the pairs of chunks that are one text twice, or for the owner to decide."""
        sql = (
            "SELECT first, second, cosine, zone, rule, differs FROM alike WHERE folder = %s ORDER "
            "BY first, second"
        )
        return [tuple(row) for row in self._view.fetch(sql)]

    def ingestion(self) -> tuple[IngestionCounts, ...]:
        """Return what ingestion did, by the documents' type."""
        counts = self._view.state.facts.get("ingestion_counts", ())
        return tuple(IngestionCounts(*each) for each in counts)


def read_chunk(headings: str, record: bytes) -> Chunk:
    """Return a chunk from what was published of it."""
    ordinal, section, kind, start, end, text, salience, language = json.loads(record)
    return Chunk(
        ordinal,
        section,
        BlockKind(kind),
        tuple(json.loads(headings)),
        start,
        end,
        text,
        salience,
        language,
    )


def read_link(record: str) -> Link:
    """Return a link from what was published of it."""
    values: list[Any] = json.loads(record)
    return Link(LinkKind(values[0]), *values[1:])


def read_text(data: bytes) -> str:
    """Return a text from what was published of it."""
    return bytes(data).decode("utf-8", "surrogatepass")
