"""The published keyword index gives bit-identical results to the segments on disk."""

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
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import ChunkId, FileState, ParsedDocument, Term
from thumbindex.ports import KeywordWeights, Selection
from thumbindex.postgres import Engine, PublishedStore
from thumbindex.postgres.publish import IndexPublisher
from thumbindex.postgres.published_index import PublishedIndex, open_published, read_folders

# -------------------------------------------------- both indexes of a folder


@pytest.fixture(scope="module")
def engine(postgres: TestServer) -> Iterator[Engine]:
    with fresh_database(postgres) as name, closing(Engine(postgres.address(name))) as engine:
        yield engine


class Both:
    """The index of some notes on disk, and the published one."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self._folder, self._engine, self._inode = folder, engine, 0
        self._publisher = IndexPublisher(engine, folder.name, lambda path: None)
        self._last: PublishedIndex | None = None

    @contextmanager
    def published(
        self, notes: Sequence[ParsedDocument], removed: Sequence[str] = ()
    ) -> Iterator[Both]:
        """Index notes, publish the index, and open both."""
        self._inode += 1
        states = [
            FileState(note.document.path, 1, 1_000, self._inode, f"{self._inode} {n}")
            for n, note in enumerate(notes)
        ]
        with Writer.open(self._folder) as writer:
            writer.apply(
                Batch(list(zip(states, notes, strict=True)), tuple(removed)),
                lambda _: lambda link, _: None,
            )
        with closing(Store(IndexPaths(self._folder).store, read_only=True)) as disk_store:
            self.opened = open_snapshot(disk_store, "")
            self._publisher.publish(self.opened, disk_store)
            with self._engine.read_transaction() as session:
                folders = read_folders(session)
                state = next(folder for folder in folders if folder.name == self._folder.name)
                store = PublishedStore(lambda *query: self._session.fetch(*query), state)
                self._session = session
                self._last = open_published(store, self._last)
                self.published_words = self._last.keyword
                yield self

    def within(self, is_selected: Callable[[int], bool], inverted: bool) -> Selection:
        """Return a selection of some chunks, or of all others."""
        catalog = self.opened.catalog
        chunks = [ChunkId(n) for n in range(len(catalog)) if is_selected(n) != inverted]
        return catalog.only(chunks)

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> None:
        """Compare the results of a search in both indexes."""
        on_disk = self.opened.keyword.search(terms, weights, limit, within)
        published = self.published_words.search(terms, weights, limit, within)
        assert published == on_disk

    def compare_words(self, texts: Sequence[str]) -> None:
        """Compare matches and frequencies of texts, as words and as phrases."""
        on_disk, published = self.opened.keyword, self.published_words
        for text, fields in product(texts, (("body", "title"), ("code",))):
            actual = published.chunks_with_all_words(text, fields)
            expected = on_disk.chunks_with_all_words(text, fields)
            assert actual.mask.tolist() == expected.mask.tolist()
        for text in texts:
            actual, expected = published.chunks_with_phrase(text), on_disk.chunks_with_phrase(text)
            assert actual.mask.tolist() == expected.mask.tolist()
            assert (published.chunk_frequency(text), published.phrase_frequency(text)) == (
                on_disk.chunk_frequency(text),
                on_disk.phrase_frequency(text),
            )
        assert published.languages == on_disk.languages
        assert set(published.lexicon(range(4, 6))) == set(on_disk.lexicon(range(4, 6)))


# ------------------------------------------------------------------ random notes and queries

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
batches = st.lists(notes, min_size=1, max_size=6, unique_by=lambda note: note.document.path).map(
    lambda batch: [*batch, document("z.md", "rest")]
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
def test_searches_words_and_phrases_match_the_disk(
    engine: Engine,
    first: list[ParsedDocument],
    second: list[ParsedDocument],
    searches: list[Any],
    searched_texts: list[str],
) -> None:
    removed = {first[0].document.path} - {note.document.path for note in second}
    with TemporaryDirectory() as folder:
        both = Both(Path(folder), engine)
        for batch, removed_paths in ((first, ()), (second, tuple(removed))):
            with both.published(batch, removed_paths):
                for search_terms, field_weights, limit, selected in searches:
                    within = selected and both.within(selected[0].__contains__, selected[1])
                    both.search(search_terms, field_weights, limit, within)
                both.compare_words(searched_texts)
