"""Words in PostgreSQL: each term's postings as columns in bytes, and BM25F over the chunks and
documents that a question's terms stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from thumbindex.index.analysis import DOCUMENT_FIELDS
from thumbindex.index.bm25f import MOST_DOCUMENTS, Column, Floats, Lengths, Scorer, Totals, leaders
from thumbindex.index.postgres.ids import NO_ROWS, Rows, chunk_id
from thumbindex.index.postgres.postings import Postings, columns_of, decode_postings
from thumbindex.index.postgres.selection import (
    RowSelection,
    is_among,
    once,
    selection_of,
    spans,
    united,
)
from thumbindex.index.postgres.view import MOST_POSTINGS, FolderView, looked_up
from thumbindex.index.segments import FIELDS, decode_places
from thumbindex.index.words import NOWHERE, TermColumns
from thumbindex.model import DocumentId, Hit, RankedList, Term
from thumbindex.ports import KeywordWeights, Mask, Selection

POSTING_BYTES = 128 << 20
"""Bytes of postings that are kept of a folder: a word that stands in a million chunks takes ten
million.
"""

DENSE = 16
"""How many rows there may be to each that is touched for all of them to be numbered: four bytes
each.
"""

T = TypeVar("T")


# ------------------------------------------------------------------ what a question touches

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
        """How many bytes it takes."""
        return len(self.columns) + len(self.places or b"")


class _Wanted:
    """Notes which postings a question asks for, and whether their places too; gives none."""

    def __init__(self) -> None:
        self.pairs: dict[Pair, bool] = {}

    def column(self, name: str, stem: str) -> Column:
        self.pairs.setdefault((name, stem), False)
        return NOWHERE[name in DOCUMENT_FIELDS]

    def phrase(self, name: str, stems: Sequence[str]) -> Rows:
        for stem in stems:
            self.pairs[name, stem] = self.pairs.get((name, stem), False) or len(stems) > 1
        return NO_ROWS


class _Rows:
    """Rows that a question touches, ascending, and where each stands among them."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        joined = np.concatenate([NO_ROWS, *parts])
        self._first = int(joined.min()) if len(joined) else 0
        self._rank: npt.NDArray[np.int32] | None = None
        span = int(joined.max()) - self._first + 1 if len(joined) else 0
        if span > DENSE * len(joined):
            self.rows = united(joined)
        else:  # a third of the time that sorting takes
            is_here = np.zeros(span, dtype=np.bool_)
            is_here[joined - self._first] = True
            self.rows = np.flatnonzero(is_here) + self._first
            self._rank = np.cumsum(is_here, dtype=np.int32)

    def positions(self, rows: Rows) -> Rows:
        """Return where rows stand, all of which are here."""
        if self._rank is None:
            return np.searchsorted(self.rows, rows)
        return self._rank[rows - self._first].astype(np.int64) - 1


class _Touched:
    """The postings that a question asks for, and the chunks and documents that they stand in: all
    that it can find.

    `chunks` and `documents` are their rows; a position is one's number among them. All chunks of a
    document are here that was found itself.
    """

    def __init__(
        self, parts: Mapping[Pair, Sequence[tuple[Part, Rows]]], postings: Mapping[Pair, Postings]
    ) -> None:
        """Take the parts of each term, each with the documents of its segment that are gone, and
        its postings of all of them.
        """
        self._parts, self._postings = parts, postings
        documents = _Rows([each.documents for each in postings.values()])
        self.documents = documents.rows
        # chunks of each document; -1 where only chunks of it were found
        self.sizes = np.full(len(self.documents), -1, dtype=np.int64)
        self._at: dict[Pair, Rows] = {}
        for pair, found in postings.items():
            if pair[0] in DOCUMENT_FIELDS:
                self._at[pair] = documents.positions(found.documents)
                self.sizes[self._at[pair]] = found.ordinals
        rows = {
            pair: found.documents + 1 + found.ordinals
            for pair, found in postings.items()
            if pair not in self._at
        }
        self._chunks = _Rows([*rows.values(), spans(self.documents, np.maximum(self.sizes, 0))])
        self.chunks = self._chunks.rows
        # a chunk's document is the last one before it
        self.document_ids = np.searchsorted(self.documents, self.chunks) - 1
        self._at |= {pair: self._chunks.positions(own) for pair, own in rows.items()}

    def column(self, name: str, stem: str) -> Column:
        """Return the column of a stem in a field."""
        return Column(
            self._at[name, stem],
            self._postings[name, stem].frequencies.astype(np.float32),
            name in DOCUMENT_FIELDS,
        )

    def phrase(self, name: str, stems: Sequence[str]) -> Rows:
        """Return where stems stand one after the other; a row's words are all in one segment."""
        segments = zip(*(self._parts[name, stem] for stem in stems), strict=True)
        found = [_phrase_postings([part for part, _ in parts], parts[0][1]) for parts in segments]
        documents, ordinals = (
            np.concatenate([NO_ROWS, *column])
            for column in zip((NO_ROWS, NO_ROWS), *found, strict=True)
        )
        if name in DOCUMENT_FIELDS:
            return np.searchsorted(self.documents, documents)
        return self._chunks.positions(documents + 1 + ordinals)

    def lengths(self, name: str, facts: Mapping[str, int]) -> Lengths:
        """Return a field's lengths as far as they are asked for, and the means of the whole
        folder.
        """
        whole = name in DOCUMENT_FIELDS
        documents = np.zeros(len(self.documents), dtype=np.float32)
        chunks = np.zeros(0 if whole else len(self.chunks), dtype=np.float32)
        for pair, postings in self._postings.items():
            if pair[0] == name and whole:
                documents[self._at[pair]] = postings.lengths
            elif pair[0] == name:
                documents[self.document_ids[self._at[pair]]] = postings.document_lengths
                chunks[self._at[pair]] = postings.lengths
        mean, documents_mean = (
            _mean(facts, "sum", "count"),
            _mean(facts, "document_sum", "document_count"),
        )
        return Lengths(documents if whole else chunks, mean, documents, documents_mean)

    def held(self, found: Iterable[tuple[str, Rows]]) -> Mask:
        """Tell which chunks stand at positions by field, themselves or by their document."""
        chunks, documents = (
            np.zeros(len(self.chunks), dtype=np.bool_),
            np.zeros(len(self.documents), dtype=np.bool_),
        )
        for name, at in found:
            (documents if name in DOCUMENT_FIELDS else chunks)[at] = True
        return chunks | documents[self.document_ids] if documents.any() else chunks


def _composed(parts: Sequence[tuple[Part, Rows]]) -> Postings:
    """Join a term's postings in several segments, without documents that are gone."""
    found = []
    for part, gone in parts:
        if part.columns:
            columns = columns_of(decode_postings(part.columns))
            if len(gone) and (lost := is_among(columns[0], gone)).any():
                columns = tuple(column[~lost] for column in columns)
            found.append(columns)
    if len(found) < 2:
        return Postings(*(found[0] if found else (NO_ROWS,) * 5))
    joined = [np.concatenate(columns) for columns in zip(*found, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    return Postings(*(column[order] for column in joined))


def _phrase_postings(parts: Sequence[Part], gone: Rows) -> tuple[Rows, Rows]:
    """Return document and ordinal of the postings in one segment in which terms stand one after the
    other.
    """
    if not all(part.columns for part in parts):
        return NO_ROWS, NO_ROWS
    first, *others = (decode_postings(part.columns) for part in parts)
    keys, kept = _keys(first), np.arange(len(first.documents))
    if others:
        found = None
        for after, (part, postings) in enumerate(zip(parts, (first, *others), strict=True)):
            own, places = _keys(postings), decode_places(part.places or b"", postings.frequencies)
            # a row has too many bits to stand in one number with a place
            at = np.where(is_among(own, keys), np.searchsorted(keys, own), -1)
            is_wanted = np.repeat(at >= 0, postings.frequencies)
            starts = ((np.repeat(at, postings.frequencies) << 32) + places - after)[is_wanted]
            found = starts if found is None else found[is_among(found, starts)]
        kept = united(found >> 32) if found is not None else kept
    kept = kept[~is_among(first.documents[kept], gone)]
    return first.documents[kept], first.ordinals[kept]


def _keys(postings: Postings) -> Rows:
    """Return a number a posting by which a segment's rows of one field are told apart, ascending: a
    chunk's row in a field of chunks.
    """
    return postings.documents + 1 + postings.ordinals


def _mean(facts: Mapping[str, int], total: str, count: str) -> float:
    """Return a mean as `bm25f` has it."""
    return facts[total] / facts[count] if facts.get(count) else 1.0


# ------------------------------------------------------------------ the index


class PostgresKeywordIndex:
    """KeywordIndex over what is published of one folder; it reads the postings of what is asked,
    and what is kept it does not read again.
    """

    def __init__(self, view: FolderView) -> None:
        self._view = view
        # of this question: its stages ask for the same terms
        self._composed: dict[Pair, Postings] = {}
        self.languages = frozenset[str](view.state.facts["keyword_languages"])

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Score chunks and documents by BM25F over the weighted fields; terms are ORed, phrases
        must match.
        """
        touched, (asked, phrases) = self._asked(
            lambda columns: (
                list(columns.of_terms(terms, weights.fields)),
                [columns.phrase(term.text) for term in terms if term.phrase],
            )
        )
        facts, state = self._view.state.facts["lengths"], self._view.state
        lengths = {name: touched.lengths(name, facts.get(name, {})) for name in weights.fields}
        totals = Totals(state.chunks, state.documents)
        scorer = Scorer(
            touched.document_ids, len(touched.documents), totals, weights, lengths.__getitem__
        )
        for term, columns in asked:
            scorer.add(term.weight, columns)
        chosen = None if within is None else selection_of(within)
        mask = None if chosen is None else is_among(touched.chunks, chosen.rows) ^ chosen.but
        for phrase in phrases:
            held = touched.held(phrase.items())
            mask = held if mask is None else held & mask
        return RankedList(
            self._hits(scorer, touched, mask, limit),
            self._documents(scorer, touched, mask, None if phrases else chosen),
        )

    def holding(self, text: str, fields: Collection[str]) -> Selection:

        def rows_by_word(columns: TermColumns) -> list[list[tuple[str, Rows]]]:
            return [
                [(name, columns.column(name, word).rows) for name in fields]
                for word in columns.analyzed(text, fields)
            ]

        touched, asked = self._asked(rows_by_word)
        found = [touched.held(columns) for columns in asked]
        chunks = touched.chunks[np.logical_and.reduce(found)] if found else NO_ROWS
        return RowSelection(self._view, chunks)

    def holding_phrase(self, text: str) -> Selection:
        touched, found = self._asked(lambda columns: columns.phrase(text))
        return RowSelection(self._view, touched.chunks[touched.held(found.items())])

    def frequency(self, word: str) -> int:
        pair = ("code", word)
        return len(self._postings(self._read({pair: False}))[pair].documents)

    def adjacent(self, text: str) -> int:
        return len(self._asked(lambda columns: columns.form("body", text))[1].rows)

    def words(self, lengths: range) -> Collection[str]:
        """Return the word forms of these lengths; those of deleted chunks too, as long as they are
        published.
        """
        if not lengths:
            return []
        sql = "SELECT DISTINCT word FROM words WHERE folder = %s AND length = ANY(%s)"
        return [word for (word,) in self._view.fetch(sql, list(lengths))]

    # -------------------------------------------------------------- the best

    def _hits(
        self, scorer: Scorer, touched: _Touched, mask: Mask | None, limit: int
    ) -> tuple[Hit, ...]:
        scores = scorer.chunk_scores() if mask is None else np.where(mask, scorer.chunk_scores(), 0)
        of = touched.documents[touched.document_ids]
        best = self._best(scores, limit, of, touched.chunks)
        places, _ = self._placed(of[best])
        ordinals = touched.chunks[best] - of[best] - 1
        rows = zip(
            places.tolist(),
            ordinals.tolist(),
            scores[best].tolist(),
            scorer.coverage(best.tolist()),
            strict=True,
        )
        return tuple(
            Hit(chunk_id(place, ordinal), DocumentId(place), rank, score, share)
            for rank, (place, ordinal, score, share) in enumerate(rows, 1)
        )

    def _documents(
        self, scorer: Scorer, touched: _Touched, mask: Mask | None, chosen: RowSelection | None
    ) -> dict[DocumentId, float]:
        """Return the best documents of which any chunk is allowed: of a selection, one that no term
        stands in too.
        """
        scores = scorer.document_scores()
        if mask is not None:
            allowed = np.zeros(len(scores), dtype=np.bool_)
            allowed[touched.document_ids[mask]] = True
            if chosen is not None:
                self._allow_others(allowed, scores, touched, chosen)
            scores = np.where(allowed, scores, 0)
        best = self._best(scores, MOST_DOCUMENTS, touched.documents, touched.documents)
        places, _ = self._placed(touched.documents[best])
        return {
            DocumentId(place): score
            for place, score in zip(places.tolist(), scores[best].tolist(), strict=True)
        }

    def _allow_others(
        self, allowed: Mask, scores: Floats, touched: _Touched, chosen: RowSelection
    ) -> None:
        """Allow the documents of which chunks are chosen that no term stands in, as far as they can
        be among the best.
        """
        documents, rows = touched.documents, chosen.rows
        first = np.searchsorted(rows, documents + 1)
        is_open = (scores > 0) & ~allowed & (touched.sizes < 0)
        if not chosen.but:  # some of what is chosen lies between it and the next one
            is_open &= np.append(first[1:], len(rows)) > first
        if len(sure := leaders(np.where(allowed, scores, 0), MOST_DOCUMENTS)) >= MOST_DOCUMENTS:
            is_open &= scores >= scores[sure].min()
        at = np.flatnonzero(is_open)
        _, sizes = self._placed(documents[at])
        counts = np.searchsorted(rows, documents[at] + 1 + sizes) - first[at]
        allowed[at] = counts < sizes if chosen.but else counts > 0

    def _best(self, scores: npt.NDArray[Any], limit: int, documents: Rows, rows: Rows) -> Rows:
        """Return the positions of the best scores above 0, best first, equal ones by their
        documents' places, then by their rows.
        """
        found = leaders(scores, limit)
        if len(found) > limit:  # of many equal ones only those of the first documents
            last = scores[found] == scores[found].min()
            first = self._first(
                united(documents[found[last]]), limit - int(np.count_nonzero(~last))
            )
            found = found[~last | is_among(documents[found], first)]
        places, _ = self._placed(documents[found])
        return found[np.lexsort((rows[found], places, -scores[found]))][:limit]

    # -------------------------------------------------------------- places of documents

    def _placed(self, documents: Rows) -> tuple[Rows, Rows]:
        """Return the places of documents, and how many chunks each has."""
        rows = documents.tolist()
        found = self._view.placed(rows)
        table = np.array([found[row][1:] for row in rows], dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def _first(self, documents: Rows, most: int) -> Rows:
        """Return the first documents by their places, at most so many, in the order of their
        rows.
        """
        if len(documents) <= most:
            return documents
        sql = (
            "SELECT id, place, chunks FROM documents WHERE folder = %s AND id = ANY(%s) ORDER BY "
            "place LIMIT %s"
        )
        found = self._view.keep_placed(self._view.fetch(sql, documents.tolist(), max(most, 0)))
        return np.sort(np.array([each.row for each in found], dtype=np.int64))

    # -------------------------------------------------------------- postings

    def _asked(self, ask: Callable[[TermColumns], T]) -> tuple[_Touched, T]:
        """Read all postings that a question asks for, and ask it of these."""
        wanted = _Wanted()
        ask(TermColumns(self.languages, wanted.column, wanted.phrase))
        parts = self._read(wanted.pairs)
        touched = _Touched(parts, self._postings(parts))
        return touched, ask(TermColumns(self.languages, touched.column, touched.phrase))

    def _postings(self, parts: Mapping[Pair, Sequence[tuple[Part, Rows]]]) -> dict[Pair, Postings]:
        """Return each term's postings in all segments; what one stage of a question has composed
        the next one finds.
        """
        for pair in parts.keys() - self._composed.keys():
            self._composed[pair] = _composed(parts[pair])
        return {pair: self._composed[pair] for pair in parts}

    def _segments(self) -> Mapping[str, tuple[int, Rows]]:
        """Return the number of each segment, and the documents in it that are gone, by name: a
        number may be given again.
        """
        with self._view.kept.lock:
            known = once(self._view, "segments", dict[str, tuple[int, Rows]])
        if not known:
            rows = self._view.fetch(
                "SELECT segment, name, gone FROM segments WHERE folder = %s ORDER BY segment"
            )
            known.update(
                {
                    name: (number, united(np.frombuffer(gone, dtype="<i8")))
                    for number, name, gone in rows
                }
            )
        return known

    def _read(self, pairs: Mapping[Pair, bool]) -> dict[Pair, list[tuple[Part, Rows]]]:
        """Return the parts of terms in all segments, in their order; what is not kept is read in
        one statement.
        """
        segments = self._segments() if pairs else {}
        if not segments:
            return {pair: [] for pair in pairs}
        with self._view.kept.lock:
            held: dict[Pair, Mapping[str, Part]] = {
                pair: self._view.kept.postings.get(pair, {}) for pair in pairs
            }
        fresh = {
            pair
            for pair, parts in held.items()
            if not parts or (pairs[pair] and any(part.places is None for part in parts.values()))
        }
        some = {
            name
            for pair, parts in held.items()
            if pair not in fresh
            for name in segments.keys() - parts.keys()
        }
        lacking = [
            pair for pair, parts in held.items() if pair in fresh or segments.keys() - parts.keys()
        ]
        read = self._fetched(lacking, pairs, fresh, [segments[name][0] for name in some])
        for pair in lacking:
            known = {} if pair in fresh else held[pair]
            held[pair] = {
                name: known.get(name) or read.get((*pair, number), _NOTHING)
                for name, (number, _) in segments.items()
            }
        self._keep(held, lacking)
        return {
            pair: [(parts[name], gone) for name, (_, gone) in segments.items()]
            for pair, parts in held.items()
        }

    def _fetched(
        self,
        lacking: Sequence[Pair],
        placed: Mapping[Pair, bool],
        fresh: Collection[Pair],
        segments: Sequence[int],
    ) -> dict[tuple[str, str, int], Part]:
        """Read terms by field, text and segment: of those that are `fresh` all segments, of the
        others these.
        """
        if not lacking:
            return {}
        numbers, texts = (
            [FIELDS.index(name) for name, _ in lacking],
            [looked_up(text) for _, text in lacking],
        )
        rows = self._view.fetch(
            _POSTINGS,
            numbers,
            texts,
            [pair in fresh for pair in lacking],
            [placed[pair] for pair in lacking],
            list(segments),
        )
        asked = dict(zip(zip(numbers, texts, strict=True), lacking, strict=True))
        return {
            (*asked[number, text], segment): Part(columns, places)
            for number, text, segment, columns, places in rows
        }

    def _keep(self, found: Mapping[Pair, Mapping[str, Part]], new: Sequence[Pair]) -> None:
        """Keep postings, those asked for last the longest."""
        kept = self._view.kept
        with kept.lock:
            for pair in new:
                kept.posting_bytes += _size(found[pair]) - _size(kept.postings.get(pair, {}))
                kept.postings[pair] = found[pair]
            for pair in found.keys() & kept.postings.keys():
                kept.postings.move_to_end(pair)
            while kept.postings and (
                len(kept.postings) > MOST_POSTINGS or kept.posting_bytes > POSTING_BYTES
            ):
                kept.posting_bytes -= _size(kept.postings.popitem(last=False)[1])


def _size(parts: Mapping[str, Part]) -> int:
    return sum(part.size for part in parts.values())


_NOTHING = Part(b"", b"")

_POSTINGS = (
    "SELECT p.field, p.term, p.segment, p.columns, CASE WHEN asked.placed THEN p.places END"
    " FROM (SELECT * FROM postings WHERE folder = %s) AS p"
    " JOIN unnest(%s::smallint[], %s::text[], %s::boolean[], %s::boolean[]) AS asked (field, term, "
    "fresh, placed)"
    " ON p.field = asked.field AND p.term = asked.term"
    " WHERE asked.fresh OR p.segment = ANY(%s::int[])"
)
