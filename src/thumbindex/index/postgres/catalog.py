"""The documents and chunks of a published folder: by id, by name and day, and as selections of rows
that filters let through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import translate
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

from thumbindex.globs import meets
from thumbindex.index.filters import by_form, nearest, place_names, tag_names
from thumbindex.index.positions import PositionedCatalog
from thumbindex.index.postgres.database import Row
from thumbindex.index.postgres.store import read_chunk, read_text
from thumbindex.index.postgres.view import FolderView, looked_up, read_document, stored
from thumbindex.model import (
    Abbreviation,
    Chunk,
    ChunkId,
    Condition,
    Document,
    DocumentId,
    FilterField,
    Filters,
    Section,
)
from thumbindex.ports import Days, Selection
from thumbindex.text import fold, fold_line, words

LISTED_AT_ONCE = 1_000
"""Documents of a page of those that are all gone through."""

# ------------------------------------------------------------------ what filters ask


class _Asked(NamedTuple):
    """What is asked of documents: an expression over their table, its parameters, and what else
    decides, of a folded path.
    """

    sql: str
    parameters: tuple[Any, ...]
    is_met: Callable[[str], bool] | None = None


def _asked(condition: Condition) -> _Asked:
    """Return what a condition asks, as `FilterIndex.meeting` reads it; whether it excludes what
    meets it is not asked.
    """
    if condition.field == "tag":
        return _Asked("tags @> ARRAY[%s]::text[]", (looked_up(fold_line(condition.value)),))
    wanted = stored(fold_line(condition.value))
    if condition.field == "title":
        return _Asked("strpos(titles, %s) > 0", (stored(f" {' '.join(words(condition.value))} "),))
    wanted, where = (
        wanted.replace("\\", "/"),
        "split_part(folded, '/', -1)" if condition.field == "file" else "folded",
    )
    if "*" not in wanted:
        return _Asked(f"strpos({where}, %s) > 0", (wanted.removeprefix("./"),))
    glob, start = re.compile(translate(wanted)), -1 if condition.field == "file" else 0
    return _Asked(
        f"{where} LIKE %s",
        (_like(wanted),),
        lambda folded: glob.match("/".join(folded.split("/")[start:])) is not None,
    )


def _like(glob: str) -> str:
    """Return a pattern of LIKE that all texts meet which a glob of fnmatch does, and others
    perhaps.
    """
    literal, bracket, _ = glob.partition("[")
    pattern = re.sub(r"[*?]", "%", re.sub(r"([%_\\])", r"\\\1", literal))
    return f"{pattern}%" if bracket else pattern


_UNSURE = re.compile(r"[K;`]|[^\x00-\x7f]")
"""Signs that a path may hold in another form, which NFC makes one with these."""


def _path_like(glob: str) -> str:
    """Return a pattern of LIKE that all paths meet which a glob does, as `globs.meets` reads it,
    and others perhaps.
    """
    glob = normalize("NFC", glob).rstrip()
    if "\\" in glob:
        return "%"
    parts = [
        "%" if name == "**" else f"{_like(_UNSURE.sub('*', name))}/"
        for name in glob.split("/")
        if name
    ]
    return f"{''.join(parts).removesuffix('/')}%"


# ------------------------------------------------------------------ the catalog


class PublishedDocuments:
    """The documents of a published folder."""

    def __init__(self, view: FolderView) -> None:
        self._view = view

    def __getitem__(self, document: DocumentId, /) -> Document:
        """Return a document."""
        row = int(self._view.layout.document_rows[document])
        return self._view.documents([row])[row]


class PostgresCatalog(PositionedCatalog):
    """Catalog over one published folder, at the moment of a question; the chunks that it has read
    it keeps for that question.
    """

    def __init__(self, view: FolderView) -> None:
        self._view, self._layout = view, view.layout
        super().__init__(*self._layout.columns)
        self._folder = view.state.name
        self._read: dict[ChunkId, Chunk] = {}
        self.documents = PublishedDocuments(view)

    @property
    def languages(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self._view.state.facts["languages"]
        return found

    def at(self, path: str) -> DocumentId | None:
        rows = self._view.fetch(
            "SELECT id FROM documents WHERE folder = %s AND path = %s", stored(path)
        )
        return self._found(rows)[0] if rows else None

    def every_path(self) -> Iterator[tuple[DocumentId, str]]:
        for n, (path,) in enumerate(self._pages("path")):
            yield DocumentId(n), path

    def every_document(self) -> Iterator[tuple[DocumentId, Document]]:
        for n, (path, record) in enumerate(self._pages("path, record")):
            yield DocumentId(n), read_document(record, path, self._folder)

    def _pages(self, columns: str, which: str = "") -> Iterator[Row]:
        """Yield columns of documents by path, which comes first, no more than a page of them at
        once.
        """
        sql = (
            f"SELECT {columns} FROM documents WHERE folder = %s AND path > %s{which} "
            f"ORDER BY path LIMIT {LISTED_AT_ONCE}"
        )
        path = ""
        while rows := self._view.fetch(sql, path):
            yield from rows
            path = rows[-1][0]

    def _found(self, rows: Sequence[Row]) -> list[DocumentId]:
        """Return the documents whose row ids stand first in some rows, ascending."""
        at = self._layout.document_positions(np.array([row[0] for row in rows], dtype=np.int64))
        return [DocumentId(n) for n in np.sort(at).tolist()]

    # -------------------------------------------------------------- chunks

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        sql = "SELECT id, headings, record FROM chunks WHERE folder = %s AND id = ANY(%s)"
        lacking = self._wanted(n for n in ids if n not in self._read)
        for row, headings, record in self._view.fetch(sql, list(lacking)) if lacking else ():
            self._read[lacking[row]] = read_chunk(headings, record)
        return {n: self._read[n] for n in ids if n in self._read}

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        sql = (
            "SELECT array_agg(c.id), s.ordinal, s.start_line, s.end_line, s.text FROM chunks c"
            " JOIN sections s ON s.folder = c.folder AND s.document = c.document"
            " AND s.ordinal = c.section"
            " WHERE c.folder = %s AND c.id = ANY(%s) GROUP BY s.folder, s.document, s.ordinal"
        )
        wanted, found = self._wanted(ids), dict[ChunkId, Section]()
        sections = self._view.fetch(sql, list(wanted)) if wanted else []
        for rows, ordinal, start, end, text in sections:
            section = Section(ordinal, start, end, read_text(text))
            found.update({wanted[row]: section for row in rows})
        return {n: found[n] for n in ids if n in found}

    def _wanted(self, ids: Iterable[ChunkId]) -> dict[int, ChunkId]:
        """Return chunks by their rows."""
        chunks = list(dict.fromkeys(ids))
        return dict(zip(self._layout.chunk_rows(chunks).tolist(), chunks, strict=True))

    # -------------------------------------------------------------- which chunks

    def select(self, filters: Filters) -> Selection | None:
        if filters == Filters():
            return None
        if filters.folder and self._folder not in filters.folder:
            return self.only([])
        chosen = self._passing(filters)
        if filters.without:
            left_out = [stored(path) for path in filters.without]
            return chosen - self._chunks_of(_Asked("path = ANY(%s)", (left_out,)))
        return chosen

    def _passing(self, filters: Filters) -> Selection:
        """Return the chunks of the documents that pass path globs (any), tags (all) and the
        dates.
        """
        asked = [
            _Asked("tags @> ARRAY[%s]::text[]", (looked_up(fold(tag.lstrip("#"))),))
            for tag in filters.tag
        ]
        asked += [
            _Asked(f"day {sign} %s", (day,))
            for sign, day in ((">=", filters.since), ("<=", filters.until))
            if day is not None
        ]
        if filters.path:
            likely = " OR ".join(["path LIKE %s"] * len(filters.path))
            asked.append(
                _Asked(f"({likely})", tuple(stored(_path_like(glob)) for glob in filters.path))
            )
        if not asked:
            return self.everything()
        is_met = (
            (lambda path: any(meets(glob, path) for glob in filters.path)) if filters.path else None
        )
        whole = _Asked(
            " AND ".join(each.sql for each in asked),
            tuple(each for one in asked for each in one.parameters),
            is_met,
        )
        return self._chunks_of(whole, "path")

    def _chunks_of(self, asked: _Asked, column: str = "folded") -> Selection:
        """Return all chunks of the documents that meet what is asked; a column is read where it
        decides.
        """
        columns = f"id, {column}" if asked.is_met else "id"
        found = self._view.fetch(
            f"SELECT {columns} FROM documents WHERE folder = %s AND {asked.sql}",
            *asked.parameters,
        )
        if asked.is_met:
            found = [row for row in found if asked.is_met(row[1])]
        mask = np.zeros(len(self.document_rows), dtype=np.bool_)
        mask[self._found(found)] = True
        return self.of_documents(mask)

    def meeting(self, condition: Condition) -> Selection:
        return self._chunks_of(_asked(condition))

    def is_met(self, condition: Condition) -> bool:
        asked = _asked(condition)
        sql = (
            f"SELECT folded FROM documents WHERE folder = %s AND {asked.sql}"
            f"{'' if asked.is_met else ' LIMIT 1'}"
        )
        return any(
            asked.is_met is None or asked.is_met(folded)
            for (folded,) in self._view.fetch(sql, *asked.parameters)
        )

    # -------------------------------------------------------------- names

    def near(self, field: FilterField, value: str) -> tuple[str, ...]:
        if field == "title":
            return ()
        if field == "tag":
            return nearest(field, value, self._view.once("tags", self._tags))
        return nearest(field, value, self._view.once("places", self._places))

    def _tags(self) -> Mapping[str, str]:
        rows = self._pages("path, record", " AND tags <> '{}'")
        documents = (read_document(record, path, self._folder) for path, record in rows)
        return by_form("tag", tag_names(tag for document in documents for tag in document.tags))

    def _places(self) -> Mapping[str, str]:
        return by_form("path", place_names([path for _, path in self.every_path()]))

    def named(self, letters: str, longest: int) -> Sequence[DocumentId]:
        sql = (
            "SELECT id, names, lengths FROM documents WHERE folder = %s AND names @> "
            "ARRAY[%s]::text[]"
        )
        key, rows = looked_up(letters), list[Row]()
        for row, names, lengths in self._view.fetch(sql, key):
            own = [length for name, length in zip(names, lengths, strict=True) if name == key]
            if own and min(own) <= longest:
                rows.append((row,))
        return self._found(rows)

    def defined(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        sql = (
            "SELECT short, long, count(*) FROM abbreviations WHERE folder = %s AND (short = "
            "ANY(%s) OR key = ANY(%s)) GROUP BY short, long"
        )
        asked = sorted(map(stored, forms))
        if not asked:
            return {}
        return {
            Abbreviation(short, long): count
            for short, long, count in self._view.fetch(sql, asked, asked)
        }

    # -------------------------------------------------------------- days

    @property
    def days(self) -> Days:
        first, written = (self._view.state.facts[key] for key in ("first_day", "written_day"))
        return Days(
            date.fromisoformat(first) if first else None,
            date.fromisoformat(written) if written else None,
        )


# ------------------------------------------------------------------ links


class PostgresLinkGraph:
    """LinkGraph over one published folder."""

    def __init__(self, view: FolderView) -> None:
        self._view = view

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        sql = (
            "SELECT DISTINCT d.id FROM links l JOIN documents d ON d.folder = "
            "l.folder AND d.path = l.resolved"
            " WHERE l.folder = %s AND l.document = %s AND d.id <> l.document"
        )
        return self._found(sql, document)

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        sql = (
            "SELECT DISTINCT l.document FROM links l JOIN documents d ON d.folder = l.folder AND "
            "d.path = l.resolved"
            " WHERE l.folder = %s AND d.id = %s AND l.document <> d.id"
        )
        return self._found(sql, document)

    def _found(self, sql: str, document: DocumentId) -> tuple[DocumentId, ...]:
        layout = self._view.layout
        rows = self._view.fetch(sql, int(layout.document_rows[document]))
        at = layout.document_positions(np.array([row for (row,) in rows], dtype=np.int64))
        return tuple(DocumentId(n) for n in np.sort(at[at >= 0]).tolist())
