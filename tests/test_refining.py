"""Vectors begin as estimates, and become exact by questions or a complete run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from fakes import FakeEmbedder
from folders import open_library, write_notes
from thumbindex import Library
from thumbindex.config import load_config
from thumbindex.encode.embed import bundled_fingerprint
from thumbindex.index.chunk_vectors import keep_vectors
from thumbindex.index.store import Store
from thumbindex.library.refining import MAX_EMBEDDED
from thumbindex.text import text_key

NOTES = {
    "kitchen/bread.md": "# Bread\n\nKnead the dough, and let it rise overnight in the fridge.\n",
    "garden/tomatoes.md": "# Tomatoes\n\nWater the plants in the morning, never on the leaves.\n",
    "money/taxes.md": "# Taxes\n\nThe return is due on the last day of July.\n",
} | {f"log/{n}.md": f"# Day {n}\n\nWalked the dog, and read chapter {n}.\n" for n in range(60)}
QUESTION = "when must I file what I owe the state?"


def open_bundled(tmp_path: Path) -> Library:
    config = load_config(user_file=tmp_path / "none")
    return Library.open([tmp_path / "notes"], index=tmp_path / "index", config=config)


def store_of(library: Library) -> Store:
    return Store(library.opened[0].index_paths.of_build().store, read_only=True)


def exact_vectors(library: Library) -> int:
    with closing(store_of(library)) as store:
        return store.vectors.count() if store.vectors else 0


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    write_notes(tmp_path / "notes", NOTES)
    with open_bundled(tmp_path) as library:
        library.index(complete=False)
        yield library


def test_notes_are_found_by_meaning_before_the_model_has_read_them(library: Library) -> None:
    answer = library.query(QUESTION)
    assert answer.index.refining == len(NOTES) - MAX_EMBEDDED
    assert answer.passages[0].path == "money/taxes.md"
    assert any(step.stage == "search_vector" and step.size_out for step in answer.trace)


def test_question_embeds_its_best_candidates_and_keeps_the_vectors(
    library: Library, tmp_path: Path
) -> None:
    library.query(QUESTION)
    assert exact_vectors(library) == MAX_EMBEDDED
    with open_bundled(tmp_path) as other:
        state = other.query(QUESTION).index
    assert state.vectors > MAX_EMBEDDED  # other candidates follow
    assert state.vectors + state.refining == len(NOTES)


def test_queries_can_make_all_vectors_exact(library: Library, tmp_path: Path) -> None:
    with open_bundled(tmp_path) as other:
        for note in NOTES.values():
            if exact_vectors(library) < len(NOTES):
                other.query(note)
    assert exact_vectors(library) == len(NOTES)
    for reader in (library, other):
        index = reader.query(QUESTION).index
        assert (index.vectors, index.refining) == (len(NOTES), 0)


def test_complete_index_answers_as_if_no_vector_had_been_an_estimate(
    library: Library, tmp_path: Path
) -> None:
    library.query(QUESTION)
    library.index()
    refined = library.query(QUESTION)
    (tmp_path / "new").mkdir()
    with Library.open(
        [tmp_path / "notes"], index=tmp_path / "new", config=load_config(user_file=tmp_path / "x")
    ) as new:
        new.index()
        expected = new.query(QUESTION)
    assert (refined.index.refining, refined.index.pending) == (0, 0)
    assert (refined.passages, refined.confidence) == (expected.passages, expected.confidence)
    with closing(store_of(library)) as store:
        assert store.fetch("SELECT count(*) FROM provisional") == [(0,)]


def test_edited_note_is_found_by_meaning_before_it_is_embedded(
    library: Library, tmp_path: Path
) -> None:
    library.index()
    write_notes(tmp_path / "notes", {"health.md": "# Health\n\nSee the dentist twice a year.\n"})
    library.index(complete=False)
    (state,) = library.index_states().values()
    answer = library.query("how often are my teeth looked at?")
    assert (state.refining, answer.passages[0].path) == (1, "health.md")


def test_estimates_make_no_duplicates_and_no_similar_notes(library: Library) -> None:
    list(library.find_duplicates())
    assert library.duplicates(grey=True).clusters == ()
    assert library.related("log/1.md").similar == ()


def test_question_answers_where_no_vector_can_be_stored(library: Library, tmp_path: Path) -> None:
    (tmp_path / "index" / "vectors").write_text("not a directory")
    assert library.query(QUESTION).passages[0].path == "money/taxes.md"


def keep(library: Library, path: str, fingerprint: str) -> set[bytes]:
    """Store vectors for the texts that a note had, and return those that were new."""
    index = library.opened[0].index_paths.of_build().store
    with closing(store_of(library)) as store:
        before = store.vectors.keys() if store.vectors else set()
    vectors = {b"other text": np.ones(384, np.float32), TAXES: np.ones(384, np.float32)}
    keep_vectors(index, fingerprint, [path], vectors)
    with closing(store_of(library)) as store:
        return (store.vectors.keys() if store.vectors else set()) - before


TAXES = text_key("Taxes\n\nThe return is due on the last day of July.")


def test_vector_is_stored_only_for_an_indexed_text_of_the_same_model(
    library: Library, tmp_path: Path
) -> None:
    fingerprint = bundled_fingerprint()
    assert keep(library, "money/taxes.md", "another model") == set()
    taxes = tmp_path / "notes" / "money" / "taxes.md"
    text = taxes.read_text()
    taxes.write_text(f"---\nprivate: true\n---\n{text}")
    library.index(complete=False)
    assert keep(library, "money/taxes.md", fingerprint) == set()
    taxes.write_text(text)
    library.index(complete=False)
    assert keep(library, "money/taxes.md", fingerprint) == {TAXES}


def test_folder_of_another_model_takes_no_part_in_refining(
    library: Library, tmp_path: Path
) -> None:
    write_notes(tmp_path / "other", NOTES)
    with open_library(tmp_path / "other", index=tmp_path / "index") as other:
        other.index()
    config = load_config(user_file=tmp_path / "none")
    with Library.open(
        [tmp_path / "notes", tmp_path / "other"], index=tmp_path / "index", config=config
    ) as both:
        answer = both.query(QUESTION)
    assert answer.passages[0].path == "money/taxes.md"
    assert any(step.stage == "search_vector" and step.size_out for step in answer.trace)


def test_another_model_has_no_estimates(library: Library, tmp_path: Path) -> None:
    with open_library(tmp_path / "notes", index=tmp_path / "index") as other:
        other.index()
        answer = other.query("bread")
    assert (answer.index.refining, answer.index.pending) == (0, 0)
    with closing(store_of(library)) as store:
        assert store.fetch("SELECT count(*) FROM provisional") == [(0,)]


def test_lost_vectors_are_estimated_again(library: Library, tmp_path: Path) -> None:
    library.index()
    next((tmp_path / "index" / "vectors").glob("*.sqlite3")).unlink()
    with open_bundled(tmp_path) as other:
        other.index(complete=False)
        (state,) = other.index_states().values()
        answer = other.query(QUESTION)
    assert (state.vectors, state.refining) == (0, len(NOTES))
    assert answer.passages[0].path == "money/taxes.md"


def test_rebuild_estimates_only_notes_without_exact_vectors(
    library: Library, tmp_path: Path
) -> None:
    library.index()
    write_notes(tmp_path / "notes", {"health.md": "# Health\n\nSee the dentist twice a year.\n"})
    library.index(complete=False, rebuild=True)
    with closing(store_of(library)) as store:
        assert store.fetch("SELECT count(*) FROM provisional") == [(1,)]


def test_change_to_the_bundled_model_begins_with_estimates(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes", NOTES)
    with open_library(tmp_path / "notes", index=tmp_path / "index") as other:
        other.index()
    overrides = ["encode.embed.model=all-MiniLM-L6-v2", "encode.embed.workers=1"]
    config = load_config(user_file=tmp_path / "none", overrides=overrides)
    with Library.open([tmp_path / "notes"], index=tmp_path / "index", config=config) as library:
        library.embed(interrupted=lambda: True)
        (state,) = library.index_states().values()
        answer = library.query(QUESTION)
    assert state.pending == state.refining > 0
    assert answer.passages[0].path == "money/taxes.md"


def test_meaning_waits_until_half_of_the_passages_have_a_vector(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes", NOTES)
    embedder = FakeEmbedder()
    overrides = ["encode.embed.workers=1"]
    with open_library(tmp_path / "notes", embedder=embedder, overrides=overrides) as library:
        library.index(complete=False)
        searched = []
        for share in (0.3, 0.6):
            count = round(share * len(NOTES))
            library.embed(interrupted=lambda count=count: embedder.embedded >= count)
            trace = library.query("dough").trace
            searched.append(any(s.stage == "search_vector" and s.size_out for s in trace))
    assert searched == [False, True]
