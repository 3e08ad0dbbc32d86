"""A reader follows the index while another process writes: fast, and never with a wrong answer."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.corpus.parse import parse_document
from thumbindex.errors import IndexDamagedError
from thumbindex.index.store import digests
from thumbindex.index.writer import Writer
from thumbindex.library import Library
from thumbindex.library.reader import Reader
from thumbindex.settings import CorpusSettings
from thumbindex.testing import FakeEmbedder


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    write(tmp_path / "vault", "a.md", "# A\n\nApples grow.\n")
    write(tmp_path / "vault", "b.md", "# B\n\nPears ripen.\n")
    return tmp_path / "vault"


@pytest.fixture
def library(vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        library.index()
        yield library


@pytest.fixture
def reader(library: Library) -> Iterator[Reader]:
    reader = Reader(library.opened[0])
    yield reader
    reader.close()


def write(root: Path, path: str, text: str) -> None:
    """Write a file with a time of its own, so that no reading is owed to a fresh one."""
    (root / path).write_text(text, encoding="utf-8")
    os.utime(root / path, ns=(10**18 + hash(text) % 10**9, 10**18 + hash(text) % 10**9))


def open_library(root: Path, embedder: FakeEmbedder | None = None) -> Library:
    return Library.open(
        [root],
        index=root.parent / "index",
        config=load_config(user_file=root / "none"),
        embedder=embedder or FakeEmbedder(),
    )


def paths(reader: Reader) -> list[str]:
    return [document.path for document in reader.snapshot().catalog.documents]


def test_what_was_indexed_before_a_question_is_in_its_answer(library, vault):
    for word in ("plums", "quinces", "medlars"):
        write(vault, "c.md", f"# C\n\nThese are {word}.\n")
        library.index()
        assert [passage.path for passage in library.query(word).passages][:1] == ["c.md"]


def test_a_reader_with_patience_answers_from_the_snapshot_it_has_and_then_from_the_new_one(
    library, vault
):
    reader = Reader(library.opened[0], patience=0.0)
    first = reader.snapshot()
    write(vault, "c.md", "Plums.")
    library.index()
    assert reader.snapshot() is first
    until = time.monotonic() + 5
    while reader.snapshot() is first and time.monotonic() < until:
        time.sleep(0.01)
    assert paths(reader) == ["a.md", "b.md", "c.md"]
    reader.close()


def test_many_questions_at_once_open_a_generation_once(reader):
    found = []
    threads = [threading.Thread(target=lambda: found.append(reader.snapshot())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len({id(snapshot) for snapshot in found})) == (8, 1)


def test_between_the_two_commits_of_a_batch_the_last_snapshot_stands(reader):
    first = reader.snapshot()
    with Writer.open(reader.folder.places.folder) as writer:
        with writer.store.transaction():
            writer.store.remove_documents(["a.md"])
            writer.store.set_meta("words", str(writer.store.generation + 1))
        between = reader.snapshot()
        writer.sync_keyword()
    assert (between is first, paths(reader)) == (True, ["b.md"])


def test_an_index_whose_words_are_built_anew_goes_on_answering(library, reader):
    first = reader.snapshot()
    shutil.rmtree(reader.folder.places.keyword)
    assert (reader.indexed, reader.snapshot() is first) == (True, True)


def test_an_opening_that_fails_is_told_to_those_who_wait_and_tried_again(reader):
    (contents,) = reader.folder.places.keyword.glob("*.toc")
    away = contents.rename(contents.with_suffix(".away"))
    for _ in range(2):
        with pytest.raises(IndexDamagedError, match="thumbindex index"):
            reader.snapshot()
    away.rename(contents)
    assert paths(reader) == ["a.md", "b.md"]


def test_an_index_built_anew_beside_and_switched_to_while_it_is_opened_is_opened_as_it_is_then(
    vault, library
):
    reader = RebuiltWhileOpened(library.opened[0])
    reader.rebuild = lambda: library.index(rebuild=True)
    assert paths(reader) == ["a.md", "b.md"]
    assert reader.folder.places.present == 2
    reader.close()


class RebuiltWhileOpened(Reader):
    """Has the index built anew just after it was chosen which one is opened, the first time."""

    rebuild: Callable[[], object] | None = None

    def _open(self, opening):
        if self.rebuild:
            self.rebuild()
            self.rebuild = None
        super()._open(opening)


def test_an_index_that_another_took_the_place_of_is_let_go_of_at_once(library, reader):
    """Python never looks for cycles among what a server's start has made: a file that was deleted
    would stay on the disk until it ends.
    """
    reader.snapshot()
    held = weakref.ref(reader.store)
    gc.disable()
    try:
        library.index(rebuild=True)
        assert paths(reader) == ["a.md", "b.md"]
        assert held() is None
    finally:
        gc.enable()


def test_a_note_that_is_edited_while_it_is_searched_is_found(vault, library):
    embedder = EditsWhileAsked(vault)
    with open_library(vault, embedder) as asked:
        asked.query("pears")
        embedder.armed = True
        passages = asked.query("how do apples grow").passages
    assert [(passage.path, passage.match) for passage in passages][:1] == [
        ("a.md", "Apples grow tall.")
    ]


class EditsWhileAsked(FakeEmbedder):
    """Changes a note and indexes it in the middle of a question."""

    def __init__(self, vault: Path) -> None:
        super().__init__()
        self.vault = vault
        self.armed = False

    def embed_query(self, text):
        if self.armed:
            self.armed = False
            write(self.vault, "a.md", "# A\n\nApples grow tall.\n")
            with open_library(self.vault) as library:
                library.index()
        return super().embed_query(text)


def test_a_note_is_found_where_the_second_half_of_its_commit_takes_its_time(vault, library):
    embedder = CommitsInTwoHalves(library.opened[0].places.folder)
    settings = load_config(user_file=vault / "none")
    with Library.open(
        [vault],
        index=vault.parent / "index",
        config=settings,
        embedder=embedder,
        wait_for_models=False,
    ) as asked:
        asked.query("pears")
        embedder.armed = True
        passages = asked.query("how do apples grow").passages
        embedder.committing.join()
    assert [(passage.path, passage.match) for passage in passages][:1] == [
        ("a.md", "Apples grow tall.")
    ]


class CommitsInTwoHalves(FakeEmbedder):
    """Replaces a note in the middle of a question; its words come a tenth of a second after its
    text.
    """

    def __init__(self, index: Path) -> None:
        super().__init__()
        self.index = index
        self.armed = False
        self.replaced = threading.Event()
        self.committing = threading.Thread(target=self.commit)

    def embed_query(self, text):
        if self.armed:
            self.armed = False
            self.committing.start()
            assert self.replaced.wait(10)
        return super().embed_query(text)

    def commit(self) -> None:
        parsed = parse_document("a.md", b"# A\n\nApples grow tall.\n", CorpusSettings())
        with Writer.open(self.index) as writer:
            state = writer.store.manifest(["a.md"])["a.md"]
            with writer.store.transaction():
                writer.store.remove_documents(["a.md"])
                writer.store.add_document(state, replace(parsed, keys=digests(parsed)))
                writer.store.set_meta("words", str(writer.store.generation + 1))
            self.replaced.set()
            # twice what a question waits for a newer snapshot, a fifth of what it waits for a
            # commit
            time.sleep(0.1)
            writer.sync_keyword()


@pytest.mark.parametrize("wait_for_models", [True, False])
def test_a_note_is_found_at_every_moment_while_something_else_in_it_is_edited(
    library, vault, wait_for_models
):
    write(vault, "a.md", "# A\n\nText.\n\n## Kept\n\nApples grow.\n")
    library.index()
    settings = load_config(user_file=vault / "none")
    embedder = FakeEmbedder() if wait_for_models else None
    with Library.open(
        [vault],
        index=vault.parent / "index",
        config=settings,
        embedder=embedder,
        wait_for_models=wait_for_models,
    ) as asked:
        writing = threading.Thread(target=edit_again_and_again, args=(vault, library))
        writing.start()
        missed = asked_count = 0
        while writing.is_alive():
            passages = asked.query("how do apples grow").passages
            missed, asked_count = (
                missed + ("Apples grow." not in [passage.match for passage in passages]),
                asked_count + 1,
            )
        writing.join()
    assert (missed, asked_count > 20) == (0, True)


def edit_again_and_again(vault: Path, library: Library) -> None:
    """Change what stands above a paragraph that stays."""
    for number in range(25):
        lines = "\n".join(f"Line {n} of {number}." for n in range(number % 4 + 1))
        write(vault, "a.md", f"# A\n\n{lines}\n\n## Kept\n\nApples grow.\n")
        library.index(words_only=True)


def test_no_thread_outlives_its_opening(library, reader):
    reader.snapshot()
    reader.close()
    until = time.monotonic() + 5
    while (
        any(thread.name == "snapshot" for thread in threading.enumerate())
        and time.monotonic() < until
    ):
        time.sleep(0.01)
    assert not any(thread.name == "snapshot" for thread in threading.enumerate())
