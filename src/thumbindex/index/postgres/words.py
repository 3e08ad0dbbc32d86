"""Words in PostgreSQL: each term's postings as columns in bytes, from which the index on the disk's
own BM25F takes its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from thumbindex.index.analysis import DOCUMENT_FIELDS
from thumbindex.index.bm25f import Column, Lengths
from thumbindex.index.positions import Positions
from thumbindex.index.postgres.ids import NO_ROWS, Rows
from thumbindex.index.postgres.postings import Postings, columns_of, decode_postings
from thumbindex.index.postgres.view import FolderView, looked_up
from thumbindex.index.segments import FIELDS, decode_places
from thumbindex.index.words import NOWHERE, ColumnKeywordIndex, TermColumns

POSTING_BYTES = 128 << 20
"""Bytes of postings that are kept of a folder: a word that stands in a million chunks takes ten
million.
"""

T = TypeVar("T")

Pair = tuple[str, str]
"""A field and a stem in it."""


class Part(NamedTuple):
    """A term's postings in one segment, as they are kept; `places` is None where nobody asked for
    them yet.
    """

    columns: bytes
    places: bytes | None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.columns) + len(self.places or b"") + 200


class _Wanted:
    """Notes which postings a question asks for, and whether their places too; gives none."""

    def __init__(self) -> None:
        self.pairs: dict[Pair, bool] = {}

    def column(self, name: str, stem: str) -> Column:
        self.pairs.setdefault((name, stem), False)
        return NOWHERE[name in DOCUMENT_FIELDS]

    def phrase(self, name: str, stems: Sequence[str]) -> Positions:
        for stem in stems:
            self.pairs[name, stem] = self.pairs.get((name, stem), False) or len(stems) > 1
        return NO_ROWS


class PostgresKeywordIndex(ColumnKeywordIndex):
    """KeywordIndex over what is published of one folder, for one question; what is kept it does
    not read again.
    """

    def __init__(self, view: FolderView) -> None:
        super().__init__(view.layout, frozenset(view.state.facts["keyword_languages"]))
        self._view, self._layout = view, view.layout
        self._parts: dict[Pair, Sequence[Part]] = {}  # by segment, those that were asked for
        self._columns: dict[Pair, Column] = {}
        self._lengths: dict[str, Lengths] = {}

    def words(self, lengths: range) -> Collection[str]:
        """Return the word forms of these lengths; those of deleted chunks too, as long as they are
        published.
        """
        if not lengths:
            return []
        sql = "SELECT DISTINCT word FROM words WHERE folder = %s AND length = ANY(%s)"
        return [word for (word,) in self._view.fetch(sql, list(lengths))]

    def _ask(self, ask: Callable[[TermColumns], T]) -> T:
        """Read all postings that something asks for in one statement, and ask it of these."""
        wanted = _Wanted()
        ask(TermColumns(self.languages, wanted.column, wanted.phrase))
        self._read(wanted.pairs)
        return ask(TermColumns(self.languages, self._column, self._phrase))

    # -------------------------------------------------------------- at the layout's positions

    def _length(self, name: str) -> Lengths:
        """Return a field's lengths, those that were read with the postings of a term: of others
        nobody asks.
        """
        if name not in self._lengths:
            facts: Mapping[str, int] = self._view.state.facts["lengths"].get(name, {})
            rows = np.zeros(len(self._layout), dtype=np.float32)
            documents = np.zeros(len(self._layout.document_rows), dtype=np.float32)
            self._lengths[name] = Lengths(
                documents if name in DOCUMENT_FIELDS else rows,
                _mean(facts, "sum", "count"),
                documents,
                _mean(facts, "document_sum", "document_count"),
            )
        return self._lengths[name]

    def _column(self, name: str, stem: str) -> Column:
        """Compose a term's column, and note the lengths at its positions."""
        if (pair := (name, stem)) not in self._columns:
            whole, lengths = name in DOCUMENT_FIELDS, self._length(name)
            found = [decode_postings(part.columns) for part in self._parts[pair] if part.columns]
            postings = _joined(found)
            at = self._positions(name, postings)
            order = np.argsort(at, kind="stable")
            order = order[at[order] >= 0]
            at = at[order]
            lengths.rows[at] = postings.lengths[order]
            if not whole:
                documents = self._layout.document_ids[at]
                lengths.documents[documents] = postings.document_lengths[order]
            frequencies = postings.frequencies[order].astype(np.float32)
            self._columns[pair] = Column(at.astype(np.int32), frequencies, whole)
        return self._columns[pair]

    def _phrase(self, name: str, stems: Sequence[str]) -> Positions:
        """Return where stems stand one after the other; a row's words are all in one segment."""
        self._column(name, stems[0])  # notes the lengths there
        segments = zip(*(self._parts[name, stem] for stem in stems), strict=True)
        found = [self._positions(name, _phrase_postings(parts)) for parts in segments]
        at: Positions = np.concatenate([NO_ROWS, *found])
        return at[at >= 0]

    def _positions(self, name: str, postings: Postings) -> Positions:
        """Return where postings stand; -1 where their document is gone."""
        if name in DOCUMENT_FIELDS:
            return self._layout.document_positions(postings.documents)
        return self._layout.chunk_positions(_keys(postings))

    # -------------------------------------------------------------- postings

    def _segments(self) -> Mapping[str, int]:
        """Return the number of each segment by its name: a number may be given again."""
        sql = "SELECT name, segment FROM segments WHERE folder = %s ORDER BY segment"
        return self._view.once("segments", lambda: dict(self._view.fetch(sql)))

    def _read(self, pairs: Mapping[Pair, bool]) -> None:
        """Read terms' postings in all segments, with their places if that is asked; what is not
        kept comes in one statement.
        """
        kept, segments = self._view.kept, self._segments() if pairs else {}
        keys = {(pair, name): has_places for pair, has_places in pairs.items() for name in segments}
        found: dict[tuple[Pair, str], Part] = {}
        with kept.lock:
            for key, has_places in keys.items():
                part: Part | None = kept.postings.get(key)
                if part is not None and not (has_places and part.places is None):
                    found[key] = part
                    kept.postings.move_to_end(key)
        lacking = {key: has_places for key, has_places in keys.items() if key not in found}
        if lacking:
            new = self._fetched(lacking, segments)
            self._keep(new)
            found.update(new)
        self._parts.update({pair: [found[pair, name] for name in segments] for pair in pairs})

    def _fetched(
        self, lacking: Mapping[tuple[Pair, str], bool], segments: Mapping[str, int]
    ) -> dict[tuple[Pair, str], Part]:
        asked = {
            (FIELDS.index(field), looked_up(stem), segments[name]): ((field, stem), name)
            for (field, stem), name in lacking
        }
        rows = self._view.fetch(
            _POSTINGS, *map(list, zip(*asked, strict=True)), list(lacking.values())
        )
        found = dict.fromkeys(lacking, _NOTHING)
        for field, term, segment, columns, places in rows:
            found[asked[field, term, segment]] = Part(columns, places)
        return found

    def _keep(self, parts: Mapping[tuple[Pair, str], Part]) -> None:
        """Keep postings, those asked for last the longest."""
        kept = self._view.kept
        with kept.lock:
            for key, part in parts.items():
                before: Part | None = kept.postings.pop(key, None)
                kept.posting_bytes += part.size - (before.size if before else 0)
                kept.postings[key] = part
            while kept.posting_bytes > POSTING_BYTES:
                kept.posting_bytes -= kept.postings.popitem(last=False)[1].size


def _joined(parts: Sequence[Postings]) -> Postings:
    """Join a term's postings in several segments."""
    if not parts:
        return Postings(*(NO_ROWS,) * 5)
    return Postings(*map(np.concatenate, zip(*map(columns_of, parts), strict=True)))


def _phrase_postings(parts: Sequence[Part]) -> Postings:
    """Return the postings of the first term in one segment that the others stand behind."""
    if not all(part.columns for part in parts):
        return Postings(*(NO_ROWS,) * 5)
    first, *others = (decode_postings(part.columns) for part in parts)
    keys, kept = _keys(first), np.arange(len(first.documents))
    if others:
        found = None
        for after, (part, postings) in enumerate(zip(parts, (first, *others), strict=True)):
            own, places = _keys(postings), decode_places(part.places or b"", postings.frequencies)
            # a row has too many bits to stand in one number with a place
            at = np.where(np.isin(own, keys), np.searchsorted(keys, own), -1)
            is_wanted = np.repeat(at >= 0, postings.frequencies)
            starts = ((np.repeat(at, postings.frequencies) << 32) + places - after)[is_wanted]
            found = starts if found is None else found[np.isin(found, starts)]
        kept = np.unique(found >> 32) if found is not None else kept
    return Postings(*(column[kept] for column in columns_of(first)))


def _keys(postings: Postings) -> Rows:
    """Return a number a posting by which a segment's rows of one field are told apart, ascending: a
    chunk's row in a field of chunks.
    """
    return postings.documents + 1 + postings.ordinals


def _mean(facts: Mapping[str, int], total: str, count: str) -> float:
    """Return a mean as `bm25f` has it."""
    return facts[total] / facts[count] if facts.get(count) else 1.0


_NOTHING = Part(b"", b"")

_POSTINGS = (
    "SELECT p.field, p.term, p.segment, p.columns, CASE WHEN asked.placed THEN p.places END"
    " FROM (SELECT * FROM postings WHERE folder = %s) AS p"
    " JOIN unnest(%s::smallint[], %s::text[], %s::int[], %s::boolean[]) AS asked (field, term, "
    "segment, placed)"
    " ON p.field = asked.field AND p.term = asked.term AND p.segment = asked.segment"
)
