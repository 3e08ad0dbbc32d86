"""The documents and chunks of a published folder: by id, by name and day, and as selections of rows
that filters let through.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import translate
from hashlib import blake2b
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

from thumbindex.globs import meets
from thumbindex.index.filters import by_form, nearest, place_names, tag_names
from thumbindex.index.postgres.database import Row
from thumbindex.index.postgres.ids import NO_ROWS, ORDINAL_BITS, Rows, as_rows, ordinal_of, place_of
from thumbindex.index.postgres.selection import (
    LISTED_AT_ONCE,
    RowSelection,
    once,
    owners,
    rows_of_documents,
    selection_of,
)
from thumbindex.index.postgres.store import read_chunk, read_text
from thumbindex.index.postgres.view import (
    FolderView,
    Known,
    Placed,
    looked_up,
    read_document,
    stored,
)
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

MOST_SELECTIONS, MOST_ROWS = 64, 4_000_000
"""Selections of a generation that are kept, and how many rows they may have together: 32 MB."""

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

_CHUNKS_ASKED = (
    "(SELECT %s::int AS folder) f CROSS JOIN unnest(%s::bigint[], %s::int[]) AS q (place, ordinal)"
    " JOIN documents d ON d.folder = f.folder AND d.place = q.place"
    " JOIN chunks c ON c.folder = f.folder AND c.id = d.id + 1 + q.ordinal AND c.document = d.id"
)


def placed_of(view: FolderView, document: DocumentId) -> Placed:
    """Return where a document stands. Raises IndexError where it is not there."""
    found = view.placed_at([document]).get(document)
    if found is None:
        raise IndexError(f"There is no document {document}.")
    return found


class PublishedDocuments:
    """The documents of a published folder."""

    def __init__(self, view: FolderView) -> None:
        self._view = view

    def __getitem__(self, document: DocumentId, /) -> Document:
        """Return a document."""
        return self.known(document).document

    def known(self, document: DocumentId) -> Known:
        """Return a document and where it stands. Raises IndexError where it is not there."""
        found = self._view.by_place([document]).get(document)
        if found is None:
            raise IndexError(f"There is no document {document}.")
        return found


class PostgresCatalog:
    """Catalog over one published folder, at the moment of a question; the chunks that it has read
    it keeps for that question.
    """

    def __init__(self, view: FolderView) -> None:
        self._view = view
        self._folder = view.state.name
        self._read: dict[ChunkId, Chunk] = {}
        self.documents = PublishedDocuments(view)

    def __len__(self) -> int:
        return self._view.state.chunks

    @property
    def languages(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self._view.state.facts["languages"]
        return found

    def at(self, path: str) -> DocumentId | None:
        rows = self._view.fetch(
            "SELECT place FROM documents WHERE folder = %s AND path = %s", stored(path)
        )
        return DocumentId(rows[0][0]) if rows else None

    def every_path(self) -> Iterator[tuple[DocumentId, str]]:
        return ((DocumentId(place), path) for place, path in self._pages("path", LISTED_AT_ONCE))

    def every_document(self) -> Iterator[tuple[DocumentId, Document]]:
        return self._listed(LISTED_AT_ONCE)

    def _listed(
        self, page: int, which: str = "", *parameters: Any
    ) -> Iterator[tuple[DocumentId, Document]]:
        rows = self._pages("path, record", page, which, *parameters)
        return (
            (DocumentId(place), read_document(record, path, self._folder))
            for place, path, record in rows
        )

    def _pages(self, columns: str, page: int, which: str = "", *parameters: Any) -> Iterator[Row]:
        """Yield places and columns of documents by place, no more than a page of them at once."""
        sql, place = (
            (
                f"SELECT place, {columns} FROM documents WHERE folder = %s AND place > %s{which} "
                "ORDER BY place LIMIT %s"
            ),
            -1,
        )
        while rows := self._view.fetch(sql, place, *parameters, page):
            yield from rows
            place = rows[-1][0]

    def document_of(self, chunk: ChunkId) -> DocumentId:
        return place_of(chunk)

    def chunk_ids(self, document: DocumentId) -> range:
        first = document << ORDINAL_BITS
        return range(first, first + placed_of(self._view, document).chunks)

    # -------------------------------------------------------------- chunks

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks, with the documents that they are of; those that are gone are missing."""
        if lacking := [n for n in dict.fromkeys(ids) if n not in self._read]:
            new = {place_of(n) for n in lacking} - self._view.recent.by_place.keys()
            columns = (
                "q.place, q.ordinal, c.headings, c.record, d.id, d.chunks, d.path, CASE WHEN "
                "d.place = ANY(n.places) THEN d.record END"
            )
            sql = (
                f"SELECT {columns} FROM {_CHUNKS_ASKED} CROSS JOIN (SELECT %s::bigint[] AS "
                "places) n"
            )
            documents = dict[int, Row]()
            for place, ordinal, headings, chunk, row, size, path, record in self._view.fetch(
                sql, *_parts(lacking), sorted(new)
            ):
                self._read[ChunkId(place << ORDINAL_BITS | ordinal)] = read_chunk(headings, chunk)
                if record is not None:
                    documents[place] = (row, place, size, path, record)
            self._view.keep(documents.values())
        return {n: self._read[n] for n in ids if n in self._read}

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        if not ids:
            return {}
        sql = (
            f"SELECT array_agg(q.place << {ORDINAL_BITS} | q.ordinal), s.ordinal, s.start_line, "
            f"s.end_line, s.text FROM {_CHUNKS_ASKED}"
            " JOIN sections s ON s.folder = f.folder AND s.document = c.document AND s.ordinal = "
            "c.section"
            " GROUP BY s.folder, s.document, s.ordinal"
        )
        found: dict[int, Section] = {}
        for chunks, ordinal, start, end, text in self._view.fetch(
            sql, *_parts(list(dict.fromkeys(ids)))
        ):
            found.update(dict.fromkeys(chunks, Section(ordinal, start, end, read_text(text))))
        return {n: found[n] for n in ids if n in found}

    # -------------------------------------------------------------- which chunks

    def everything(self) -> RowSelection:
        return RowSelection(self._view, NO_ROWS, True)

    def only(self, chunks: Sequence[ChunkId]) -> RowSelection:
        return RowSelection(
            self._view, as_rows(row for row in self._view.rows_of(chunks).tolist() if row >= 0)
        )

    def select(self, filters: Filters) -> Selection | None:
        if filters == Filters():
            return None
        return self._lately(("select", filters), lambda: self._selected(filters))

    def _lately(self, key: Any, make: Callable[[], RowSelection]) -> RowSelection:
        """Return a selection of those that were last asked for, or make it."""
        held: OrderedDict[Any, tuple[Rows, bool]] = once(self._view, "selections", OrderedDict)
        with self._view.kept.lock:
            if key in held:
                held.move_to_end(key)
                return RowSelection(self._view, *held[key])
        made = make()
        with self._view.kept.lock:
            held[key] = made.rows, made.but
            while (
                len(held) > MOST_SELECTIONS
                or sum(len(rows) for rows, _ in held.values()) > MOST_ROWS
            ):
                held.popitem(last=False)
        return made

    def _selected(self, filters: Filters) -> RowSelection:
        if filters.folder and self._folder not in filters.folder:
            return RowSelection(self._view, NO_ROWS)
        left_out = [stored(path) for path in filters.without]
        chosen = self._passing(filters)
        if left_out:
            return chosen - self._chunks_of(_Asked("path = ANY(%s)", (left_out,)))
        return chosen

    def _passing(self, filters: Filters) -> RowSelection:
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

    def _chunks_of(self, asked: _Asked, column: str = "folded") -> RowSelection:
        """Return all chunks of the documents that meet what is asked; a column is read where it
        decides.
        """
        columns = f"id, chunks, {column}" if asked.is_met else "id, chunks"
        found = self._view.fetch(
            f"SELECT {columns} FROM documents WHERE folder = %s AND chunks > 0 AND {asked.sql}",
            *asked.parameters,
        )
        if asked.is_met:
            found = [row for row in found if asked.is_met(row[2])]
        return RowSelection(
            self._view,
            rows_of_documents(
                *(np.array([row[n] for row in found], dtype=np.int64) for n in (0, 1))
            ),
        )

    def meeting(self, condition: Condition) -> Selection:
        return self._lately(
            (condition.field, condition.value), lambda: self._chunks_of(_asked(condition))
        )

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

    def every(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        chosen = self.everything() if within is None else selection_of(within)
        sample = self._view.state.facts["sample"]
        if (step, start) == (sample["step"], 0) and self._is_sampled(chosen, sample["but_repeats"]):
            return self._ids(
                once(
                    self._view,
                    "sample",
                    lambda: np.sort(owners(self._view, as_rows(sample["rows"])).ids),
                )
            )
        key = (
            "every",
            step,
            start,
            chosen.but,
            blake2b(chosen.rows.tobytes(), digest_size=16).digest(),
        )
        return self._ids(
            self._lately(
                key, lambda: RowSelection(self._view, self._spread(step, chosen, start))
            ).rows
        )

    def _ids(self, numbers: Rows) -> list[ChunkId]:
        return [ChunkId(n) for n in numbers.tolist()]

    def _is_sampled(self, chosen: RowSelection, but_repeats: bool) -> bool:
        """Tell whether a selection is the one of which the folder's sample is: all chunks but
        repeats.
        """
        if not chosen.but:
            return False
        if not but_repeats:
            return not len(chosen.rows)
        if len(chosen.rows) != self._view.state.facts["repeats"]:
            return False
        return np.array_equal(chosen.rows, repeated_rows(self._view))

    def _spread(self, step: int, chosen: RowSelection, start: int) -> Rows:
        """Return the ids of every so manieth chunk; of all but a few, documents are counted in the
        database.
        """
        if not chosen.but:
            return np.sort(chosen.owners.ids)[start::step]
        sql = (
            "SELECT s.place, s.id, s.chunks, at - s.until + s.size FROM (SELECT d.place, d.id, "
            "d.chunks, d.chunks - coalesce(g.count, 0) AS size,"
            " sum(d.chunks - coalesce(g.count, 0)) OVER (ORDER BY d.place) AS until FROM (SELECT * "
            "FROM documents WHERE folder = %s) d"
            " LEFT JOIN unnest(%s::bigint[], %s::int[]) AS g (id, count) ON g.id = d.id) s"
            " CROSS JOIN (SELECT %s::bigint AS start, %s::bigint AS step) k CROSS JOIN LATERAL"
            " generate_series(k.start + (greatest(s.until - s.size - k.start, 0) + k.step - 1) / "
            "k.step * k.step, s.until - 1, k.step) AS at"
            " ORDER BY s.place, at"
        )
        gone = chosen.owners
        rows = self._view.fetch(sql, gone.documents.tolist(), gone.counts.tolist(), start, step)
        left = {row: chosen.left_in(row, size) for _, row, size, _ in rows}
        return np.array(
            [place << ORDINAL_BITS | int(left[row][nth]) for place, row, _, nth in rows],
            dtype=np.int64,
        )

    # -------------------------------------------------------------- names

    def near(self, field: FilterField, value: str) -> tuple[str, ...]:
        if field == "title":
            return ()
        return nearest(
            field,
            value,
            once(
                self._view,
                "tags" if field == "tag" else "places",
                self._tags if field == "tag" else self._places,
            ),
        )

    def _tags(self) -> Mapping[str, str]:
        documents = self._listed(LISTED_AT_ONCE, " AND tags <> '{}'")
        return by_form("tag", tag_names(tag for _, document in documents for tag in document.tags))

    def _places(self) -> Mapping[str, str]:
        return by_form("path", place_names([path for _, path in self.every_path()]))

    def named(self, letters: str, longest: int) -> Sequence[DocumentId]:
        sql = (
            "SELECT place, names, lengths FROM documents WHERE folder = %s AND names @> "
            "ARRAY[%s]::text[] ORDER BY place"
        )
        key = looked_up(letters)
        documents = []
        for place, names, lengths in self._view.fetch(sql, key):
            own = [length for name, length in zip(names, lengths, strict=True) if name == key]
            if own and min(own) <= longest:
                documents.append(DocumentId(place))
        return documents

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

    def newest_day(self, last: date | None) -> date | None:
        sql = "SELECT max(day) FROM documents WHERE folder = %s AND day <= %s"
        found: date | None = once(
            self._view,
            f"newest day to {last}",
            lambda: self._view.fetch(sql, last or date.max)[0][0],
        )
        return found

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        chosen = self.everything() if within is None else selection_of(within)
        which, rows = self._documents_of(chosen)
        ordered = (
            f"SELECT id, place, chunks FROM documents WHERE {which} ORDER BY day DESC NULLS LAST, "
            "place LIMIT %s"
        )
        found = self._view.fetch(ordered, rows, limit)
        ((count,),) = self._view.fetch(f"SELECT count(*) FROM documents WHERE {which}", rows)
        return [
            ChunkId(place << ORDINAL_BITS | int(chosen.left_in(row, size)[0]))
            for row, place, size in found
        ], count

    def undated(self, within: Selection | None) -> int:
        which, rows = self._documents_of(
            self.everything() if within is None else selection_of(within)
        )
        sql = f"SELECT count(*) FROM documents WHERE {which} AND day IS NULL"
        ((count,),) = self._view.fetch(sql, rows)
        return int(count)

    def _documents_of(self, chosen: RowSelection) -> tuple[str, list[int]]:
        """Return which documents have a chunk in a selection: an expression, and the row ids in
        it.
        """
        if chosen.but:
            return "folder = %s AND chunks > 0 AND NOT (id = ANY(%s))", chosen.whole.tolist()
        return "folder = %s AND id = ANY(%s)", chosen.owners.documents.tolist()


def _parts(ids: Sequence[ChunkId]) -> tuple[list[int], list[int]]:
    """Return the places of chunks' documents, and theirs in these."""
    return [int(place_of(n)) for n in ids], [ordinal_of(n) for n in ids]


def repeated_rows(view: FolderView) -> Rows:
    """Return the rows of the chunks that repeat another one of their document, ascending."""
    if not view.state.facts["repeats"]:
        return NO_ROWS
    sql = "SELECT chunk FROM repeats WHERE folder = %s"
    return once(view, "repeats", lambda: as_rows(row for (row,) in view.fetch(sql)))


# ------------------------------------------------------------------ links


class PostgresLinkGraph:
    """LinkGraph over one published folder."""

    def __init__(self, view: FolderView) -> None:
        self._view, self._documents = view, PublishedDocuments(view)

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        sql = (
            "SELECT DISTINCT d.id, d.place, d.chunks FROM links l JOIN documents d ON d.folder = "
            "l.folder AND d.path = l.resolved"
            " WHERE l.folder = %s AND l.document = %s AND d.id <> l.document ORDER BY d.place"
        )
        return self._found(sql, placed_of(self._view, document).row)

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        sql = (
            "SELECT DISTINCT d.id, d.place, d.chunks FROM links l JOIN documents d ON d.folder = "
            "l.folder AND d.id = l.document"
            " WHERE l.folder = %s AND l.resolved = %s AND d.path <> l.resolved ORDER BY d.place"
        )
        return self._found(sql, self._documents[document].path)

    def _found(self, sql: str, of: Any) -> tuple[DocumentId, ...]:
        return tuple(
            DocumentId(each.place) for each in self._view.keep_placed(self._view.fetch(sql, of))
        )
