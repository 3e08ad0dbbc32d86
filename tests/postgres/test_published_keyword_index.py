"""What PostgreSQL keeps of words gives the same answers as the segments that it was published from,
to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import document
from postgres.server import TestServer, fresh_database
from thumbindex.index.bm25f import MAX_DOCUMENTS
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import ChunkId, FileState, ParsedDocument, Term
from thumbindex.ports import KeywordWeights, Selection
from thumbindex.postgres import Engine, PublishedStore
from thumbindex.postgres.publish import IndexPublisher
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders

# -------------------------------------------------- a folder as it is published, without a database


@pytest.fixture(scope="module")
def engine(postgres: TestServer) -> Iterator[Engine]:
    with fresh_database(postgres) as name, closing(Engine(postgres.address(name))) as engine:
        yield engine


class Both:
    """The embedded index of some notes, and the published one."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self._folder, self._engine, self._inode = folder, engine, 0
        self._publisher = IndexPublisher(engine, folder.name, lambda path: None)
        self._last: PublishedIndex | None = None

    @contextmanager
    def published(
        self, notes: Sequence[ParsedDocument], removed: Sequence[str] = ()
    ) -> Iterator[Both]:
        """Index notes, publish the index, and open both for questions."""
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
        places = IndexPaths(self._folder)
        with closing(Store(places.store, read_only=True)) as own:
            self.opened = open_snapshot(own, "")
            self._publisher.publish(self.opened, own)
            with self._engine.read_transaction() as session:
                folders = read_folders(session)
                state = next(folder for folder in folders if folder.name == self._folder.name)
                store = PublishedStore(lambda *asked: self._session.fetch(*asked), state)
                self._session = session
                self._last = open_published(store, self._last)
                self.published_words = self._last.keyword
                yield self

    def within(self, chosen: Callable[[int], bool], but: bool) -> Selection:
        """Return a selection of some chunks, or of all others."""
        catalog = self.opened.catalog
        return catalog.only([ChunkId(n) for n in range(len(catalog)) if chosen(n) != but])

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> None:
        """Ask both, and compare."""
        embedded = self.opened.keyword.search(terms, weights, limit, within)
        published = self.published_words.search(terms, weights, limit, within)
        assert published == embedded

    def compare_words(self, texts: Sequence[str]) -> None:
        """Ask both which chunks hold some words, as words and as phrases, and compare."""
        embedded, published = self.opened.keyword, self.published_words
        for text, fields in product(texts, (("body", "title"), ("code",))):
            mine, yours = (
                published.chunks_with_all_words(text, fields),
                embedded.chunks_with_all_words(text, fields),
            )
            assert mine.mask.tolist() == yours.mask.tolist()
        for text in texts:
            mine, yours = published.chunks_with_phrase(text), embedded.chunks_with_phrase(text)
            assert mine.mask.tolist() == yours.mask.tolist()
            assert (published.chunk_frequency(text), published.phrase_frequency(text)) == (
                embedded.chunk_frequency(text),
                embedded.phrase_frequency(text),
            )
        assert published.languages == embedded.languages
        assert set(published.lexicon(range(4, 6))) == set(embedded.lexicon(range(4, 6)))


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


@settings(deadline=None, max_examples=15)
@given(
    batches,
    batches,
    st.lists(questions, min_size=1, max_size=5),
    st.lists(texts, min_size=1, max_size=3),
)
def test_searches_words_and_phrases_find_the_same(
    engine: Engine,
    first: list[ParsedDocument],
    second: list[ParsedDocument],
    asked: list[Any],
    asked_texts: list[str],
) -> None:
    gone = {first[0].document.path} - {each.document.path for each in second}
    with TemporaryDirectory() as folder:
        both = Both(Path(folder), engine)
        for batch, removed in ((first, ()), (second, tuple(gone))):
            with both.published(batch, removed):
                for search, weighed, limit, chosen in asked:
                    within = chosen and both.within(chosen[0].__contains__, chosen[1])
                    both.search(search, weighed, limit, within)
                both.compare_words(asked_texts)


# ------------------------------------------------------------------ equal scores and many documents

BODY = KeywordWeights({"title": 3.0, "body": 1.0})


def many(count: int, text: Callable[[int], str]) -> list[ParsedDocument]:
    return [document(f"{n:05}.md", f"# Note\n\n{text(n)}") for n in range(count)]


def test_of_equal_scores_those_of_the_first_documents_are_taken(
    tmp_path: Path, engine: Engine
) -> None:
    notes = many(40, lambda n: "tree" if n % 3 else "tree tree moss")
    with Both(tmp_path, engine).published(notes) as both:
        for limit in (1, 5, 13, 14, 20, 40):
            both.search([Term("tree")], BODY, limit)
            both.search([Term("note")], KeywordWeights({"title": 1.0}), limit)


def test_words_in_a_row_that_stand_for_a_word_count_by_the_length_of_their_text(
    tmp_path: Path, engine: Engine
) -> None:
    notes = many(9, lambda n: f"key bindings {'moss ' * n}" if n % 2 else "key moss bindings")
    term = Term("keybindings", forms=(Term("key bindings", 0.5),))
    with Both(tmp_path, engine).published(notes) as both:
        both.search([term], BODY, 9)


def test_beyond_max_documents_results_equal_the_segments(tmp_path: Path, engine: Engine) -> None:
    long = {5: "tree tree tree", 6: "tree", 20: "tree in zebra", 900: "zebra in zebra"}
    notes = many(
        MAX_DOCUMENTS + 60,
        lambda n: f"{long.get(n, 'tree spring' if n % 2 else 'tree in spring')}\n\nmoss",
    )
    seconds: Sequence[Callable[[int], bool]] = (
        lambda n: n % 2 == 1,
        lambda n: n in (3, 11, 12),
        lambda n: n not in (2, 4, 6),
    )
    with Both(tmp_path, engine).published(notes) as both:
        both.search([Term("tree")], BODY, 3)
        both.search([Term("zebra"), Term("in zebra", phrase=True)], BODY, 3)
        for chosen, but in product(seconds, (False, True)):
            both.search([Term("tree")], BODY, 3, both.within(chosen, but))
