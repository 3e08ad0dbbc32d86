"""What PostgreSQL keeps of words gives the same answers as the segments that it was published from,
to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.bm25f import MOST_DOCUMENTS
from thumbindex.index.files import Places
from thumbindex.index.postgres.ids import FolderState, chunk_id
from thumbindex.index.postgres.postings import (
    Postings,
    SegmentLengths,
    decode_postings,
    encode_places,
    encode_postings,
    segment_rows,
)
from thumbindex.index.postgres.selection import RowSelection
from thumbindex.index.postgres.view import FolderView, Kept, looked_up
from thumbindex.index.postgres.words import PostgresKeywordIndex
from thumbindex.index.segments import FIELDS, decode_places
from thumbindex.index.selection import mask_of
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import ChunkId, DocumentId, FileState, ParsedDocument, RankedList, Term
from thumbindex.ports import KeywordWeights, Selection
from thumbindex.testing import document

COLUMNS = ("documents", "ordinals", "frequencies", "lengths", "document_lengths")


# ------------------------------------------------------------------ the codec

numbers = st.one_of(
    st.integers(0, 255), st.integers(0, 1 << 16), st.integers(0, 1 << 33), st.integers(0, 1 << 52)
)


@given(
    st.integers(0, 20).flatmap(
        lambda size: st.tuples(*[st.lists(numbers, min_size=size, max_size=size)] * len(COLUMNS))
    )
)
def test_postings_come_back_as_they_were(columns: Sequence[list[int]]) -> None:
    found = decode_postings(
        encode_postings(Postings(*(np.array(column, dtype=np.int64) for column in columns)))
    )
    assert [getattr(found, name).tolist() for name in COLUMNS] == list(columns)
    assert {getattr(found, name).dtype for name in COLUMNS} == {np.dtype(np.int64)}


@given(st.lists(st.sets(st.integers(0, 1 << 31), min_size=1, max_size=6).map(sorted), max_size=20))
def test_places_come_back_as_they_were(places: list[list[int]]) -> None:
    joined, counts = (
        [place for each in places for place in each],
        np.array([len(each) for each in places], dtype=np.int64),
    )
    assert (
        decode_places(encode_places(np.array(joined, dtype=np.int64), counts), counts).tolist()
        == joined
    )


def test_a_posting_takes_few_bytes() -> None:
    one, two = (np.arange(n, dtype=np.int64) for n in (1, 1000))
    assert (
        len(encode_postings(Postings(*[one] * 5))),
        len(encode_postings(Postings(*[two] * 5))),
    ) == (11, 6 + 5 * 2000)


def test_a_term_that_postgresql_cannot_keep_goes_by_its_digest() -> None:
    kept = [looked_up(term) for term in ("tree", "束", "a\0b", "\ud800", "x" * 5000)]
    assert (kept[:2], {len(each) for each in kept[2:]}, len(set(kept))) == (["tree", "束"], {41}, 5)


# ------------------------------------------------------------------ a folder as it is published, wi


class Tables:
    """What is published of a folder, asked as a session is."""

    def __init__(self) -> None:
        self.opened: Opened | None = None
        self.segments: dict[int, tuple[str, list[int]]] = {}
        self.postings: list[tuple[int, str, int, bytes, bytes]] = []
        self.documents: dict[int, tuple[int, int]] = {}
        self.asked: list[str] = []

    def publish(self, opened: Opened) -> FolderState:
        """Publish what is new, as a builder does."""
        lengths, catalog = SegmentLengths(opened.keyword, opened.catalog), opened.catalog
        sizes = np.bincount(catalog.document_ids, minlength=len(catalog.document_rows))
        documents = {
            int(row): (3 + 7 * n, int(size))
            for n, (row, size) in enumerate(zip(catalog.document_rows, sizes, strict=True))
        }
        now = {segment.id: n for n, segment in enumerate(opened.keyword.segments)}
        gone = self.documents.keys() - documents.keys()
        self.segments = {
            number: (name, [*lost, *gone])
            for number, (name, lost) in self.segments.items()
            if name in now
        }
        self.postings = [row for row in self.postings if row[2] in self.segments]
        for name in now.keys() - {name for name, _ in self.segments.values()}:
            number = max(self.segments, default=0) + 1
            self.segments[number] = (name, [])
            rows = segment_rows(opened.keyword.segments[now[name]], lengths.rows(now[name]))
            self.postings += [
                (field, term, number, columns, places) for field, term, columns, places in rows
            ]
        self.opened, self.documents = opened, documents
        facts = {
            "chunks": len(catalog),
            "documents": len(catalog.document_rows),
            "keyword_languages": sorted(opened.keyword.languages),
            "lengths": {name: lengths.sums(name) for name in FIELDS},
        }
        return FolderState(1, "notes", opened.snapshot.generation, 0.0, facts)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Answer the statements of `words`."""
        _, *asked = parameters
        self.asked.append(
            next(
                name
                for name in ("postings", "segments", "documents", "words")
                if f"FROM {name} " in sql
            )
        )
        return list(
            {
                "postings": self._postings,
                "segments": self._segments,
                "documents": self._documents,
                "words": self._words,
            }[self.asked[-1]](*asked)
        )

    def _postings(self, *asked: list[Any]) -> Iterator[tuple[Any, ...]]:
        *columns, some = asked
        wanted = {
            (field, term): (fresh, placed)
            for field, term, fresh, placed in zip(*columns, strict=True)
        }
        for field, term, segment, columns_, places in self.postings:
            fresh, placed = wanted.get((field, term), (None, None))
            if fresh or (fresh is not None and segment in some):
                yield field, term, segment, columns_, places if placed else None

    def _segments(self) -> Iterator[tuple[Any, ...]]:
        return (
            (number, name, np.array(gone, dtype=np.int64).tobytes())
            for number, (name, gone) in sorted(self.segments.items())
        )

    def _documents(self, rows: list[int], most: int | None = None) -> list[tuple[Any, ...]]:
        return sorted(
            ((row, *self.documents[row]) for row in rows if row in self.documents),
            key=lambda each: each[1],
        )[:most]

    def _words(self, lengths: list[int]) -> set[tuple[str]]:
        assert self.opened is not None
        return {
            (word,)
            for segment in self.opened.keyword.segments
            for word in segment.words
            if len(word) in lengths
        }


class Both:
    """The embedded index of some notes, and the published one."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._tables, self._kept, self._inode = folder, Tables(), Kept(1), 0

    def apply(self, notes: Sequence[ParsedDocument], removed: Sequence[str] = ()) -> Both:
        """Index notes, and publish the index."""
        self._inode += 1
        states = [
            FileState(each.document.path, 1, 1_000, self._inode, f"{self._inode} {n}")
            for n, each in enumerate(notes)
        ]
        with Writer.open(self._folder) as writer:
            writer.apply(
                Batch(list(zip(states, notes, strict=True)), tuple(removed)),
                lambda _: lambda link, _: None,
            )
        places = Places(self._folder)
        self.opened = open_snapshot(Store(places.store, read_only=True), places, "")
        self.view = FolderView(self._tables, self._tables.publish(self.opened), self._kept)  # type: ignore[arg-type]
        return self

    @property
    def statements(self) -> list[str]:
        """Which tables were asked, in order."""
        return self._tables.asked

    def ids(self) -> list[ChunkId]:
        """Return the published id of each chunk, in the order of the embedded ones."""
        catalog = self.opened.catalog
        places = [self._tables.documents[row][0] for row in catalog.document_rows.tolist()]
        of = catalog.document_ids.tolist()
        return [chunk_id(places[document], n - of.index(document)) for n, document in enumerate(of)]

    def rows(self, selection: Selection) -> list[int]:
        """Return the chunks' rows that the embedded index selects."""
        return sorted(self.opened.catalog.chunk_rows[mask_of(selection)].tolist())

    def within(self, chosen: Callable[[int], bool], but: bool) -> tuple[Selection, Selection]:
        """Return a selection of some chunks for either index."""
        catalog = self.opened.catalog
        held = catalog.only([ChunkId(n) for n in range(len(catalog)) if chosen(n)])
        rows = np.array(self.rows(catalog.everything() - held if but else held), dtype=np.int64)
        return held, RowSelection(self.view, rows, but)

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: tuple[Selection, Selection] | None = None,
    ) -> None:
        """Ask both, and compare."""
        theirs, ours = within or (None, None)
        embedded = self.opened.keyword.search(terms, weights, limit, theirs)
        published = PostgresKeywordIndex(self.view).search(terms, weights, limit, ours)
        assert flat(published) == flat(embedded, self.ids())


def flat(ranked: RankedList, ids: Sequence[ChunkId] | None = None) -> tuple[list[Any], list[Any]]:
    """Return all that a list says, by the ids of chunks that are given."""
    chunk = (lambda n: n) if ids is None else ids.__getitem__
    place = {hit.document: chunk(hit.chunk) >> 18 for hit in ranked.hits}
    hits = [
        (chunk(hit.chunk), place[hit.document], hit.rank, hit.score, hit.matched, hit.coverage)
        for hit in ranked.hits
    ]
    documents = [
        (n if ids is None else DocumentId(3 + 7 * n), score)
        for n, score in ranked.documents.items()
    ]
    return hits, documents


# ------------------------------------------------------------------ random notes and questions

WORDS = ("tree", "trees", "spring", "moss", "in", "parse_json", "Bäume", "Baum", "grows", "東京")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
notes = st.builds(
    lambda n, title, heading, blocks, aliases, language: document(
        f"{n}.md",
        "\n\n".join([f"# {title}", *blocks[:1], f"## {heading}", *blocks[1:]]),
        aliases=tuple(aliases),
        language=language,
        tags=(title,),
    ),
    st.integers(0, 5),
    texts,
    texts,
    st.lists(texts, min_size=0, max_size=4),
    st.lists(texts, max_size=2),
    st.sampled_from(["", "de"]),
)
batches = st.lists(notes, min_size=1, max_size=6, unique_by=lambda each: each.document.path).map(
    lambda found: [*found, document("z.md", "rest")]
)
forms = st.builds(Term, texts.map(str.lower), st.sampled_from([0.5, 0.3]))
terms = st.builds(
    Term,
    texts.map(str.lower),
    st.sampled_from([1.0, 0.7]),
    st.sampled_from([False, False, True]),
    st.lists(forms, max_size=2).map(tuple),
)
weights = st.builds(
    KeywordWeights,
    st.sampled_from(
        [
            {"title": 3.0, "headings": 2.0, "aliases": 1.5, "body": 1.0},
            {"code": 1.0},
            {"tags": 1.3},
            {"body": 1.0},
            {"path": 0.3, "body": 1.1, "code": 0.7},
        ]
    ),
    st.sampled_from([1.2, 0.0]),
    st.sampled_from([0.75, 0.0, 1.0]),
    st.sampled_from([0.0, 0.4, 1.0]),
)
questions = st.tuples(
    st.lists(terms, max_size=3),
    weights,
    st.integers(1, 6),
    st.none() | st.tuples(st.sets(st.integers(0, 12)), st.booleans()),
)


@settings(deadline=None, max_examples=40)
@given(batches, batches, st.lists(questions, min_size=1, max_size=5))
def test_a_search_gives_the_same_hits_scores_and_documents(
    first: list[ParsedDocument], second: list[ParsedDocument], asked: list[Any]
) -> None:
    with TemporaryDirectory() as folder:
        both = Both(Path(folder))
        for batch, removed in ((first, ()), (second, [first[0].document.path])):
            both.apply(
                batch,
                [path for path in removed if path not in {each.document.path for each in batch}],
            )
            for search, weighed, limit, chosen in asked:
                both.search(
                    search,
                    weighed,
                    limit,
                    None if chosen is None else both.within(chosen[0].__contains__, chosen[1]),
                )


@settings(deadline=None, max_examples=30)
@given(batches, batches, st.lists(texts, min_size=1, max_size=5))
def test_what_holds_words_and_phrases_is_the_same(
    first: list[ParsedDocument], second: list[ParsedDocument], asked: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        both = Both(Path(folder))
        for batch in (first, second):
            both.apply(batch)
            embedded, published = both.opened.keyword, PostgresKeywordIndex(both.view)
            for text, fields in product(asked, (("body", "title"), ("code",))):
                selections = [
                    (each.holding(text, fields), each.holding_phrase(text))
                    for each in (embedded, published)
                ]
                assert [each.rows.tolist() for each in selections[1]] == [
                    both.rows(each) for each in selections[0]
                ]
            counted = [
                [(each.frequency(text), each.adjacent(text)) for text in asked]
                for each in (embedded, published)
            ]
            assert (counted[1], published.languages) == (counted[0], embedded.languages)
            assert set(published.words(range(4, 6))) == set(embedded.words(range(4, 6)))


# ------------------------------------------------------------------ what a question reads

BODY = KeywordWeights({"title": 3.0, "body": 1.0})


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)


def many(count: int, text: Callable[[int], str]) -> list[ParsedDocument]:
    return [document(f"{n:05}.md", f"# Note\n\n{text(n)}") for n in range(count)]


def test_what_was_asked_is_not_read_again_until_something_new_is_published(both: Both) -> None:
    both.apply(many(3, lambda n: "tree"))
    for _ in range(2):
        both.search([Term("tree")], BODY, 5)
    assert both.statements == ["segments", "postings", "documents"]
    both.apply([document("new.md", "# New\n\ntree moss")], removed=["00000.md"])
    both.search([Term("tree")], BODY, 5)
    assert both.statements[3:] == ["segments", "postings", "documents"]


def test_a_question_without_words_reads_nothing(both: Both) -> None:
    both.apply(many(1, lambda n: "tree"))
    both.search([], BODY, 5)
    assert both.statements == []


def test_of_equal_scores_those_of_the_first_documents_are_taken(both: Both) -> None:
    both.apply(many(40, lambda n: "tree" if n % 3 else "tree tree moss"))
    for limit in (1, 5, 13, 14, 20, 40):
        both.search([Term("tree")], BODY, limit)
        both.search([Term("note")], KeywordWeights({"title": 1.0}), limit)


def test_more_documents_than_have_scores_of_their_own_are_cut_alike(both: Both) -> None:
    long = {5: "tree tree tree", 6: "tree", 20: "tree in zebra", 900: "zebra in zebra"}
    both.apply(
        many(
            MOST_DOCUMENTS + 60,
            lambda n: f"{long.get(n, 'tree spring' if n % 2 else 'tree in spring')}\n\nmoss",
        )
    )
    both.search([Term("tree")], BODY, 3)
    both.search([Term("zebra"), Term("in zebra", phrase=True)], BODY, 3)
    second: Mapping[str, Callable[[int], bool]] = {
        "moss": lambda n: n % 2 == 1,
        "few": lambda n: n in (3, 11, 12),
        "all but few": lambda n: n not in (2, 4, 6),
    }
    for chosen, but in product(second.values(), (False, True)):
        both.search([Term("tree")], BODY, 3, both.within(chosen, but))
