"""New chunks are looked at once they have vectors: repeats, copies elsewhere, and what becomes of
them when notes change.
"""

from __future__ import annotations

import logging
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dump import logical_dump
from thumbindex.config import load_config
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer
from thumbindex.library import Library
from thumbindex.library import duplicates as library_duplicates
from thumbindex.library.duplicates import by_document, find_duplicates
from thumbindex.model import Decision, IngestionCounts
from thumbindex.testing import FakeEmbedder
from thumbindex.text import text_key

BACKUP = "The backup of all notes runs every single night at home, and a copy of it goes abroad."
# no word that the other lacks
REWORDED = "The backup of all notes runs every night at home, and a copy of it goes abroad."
PEARS = "Pears ripen off the tree, apples on it."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    with open_library(root) as library:
        yield library


def open_library(root: Path, *overrides: str, nearest: int = 5) -> Library:
    config = load_config(user_file=root / "none", overrides=overrides)
    duplicates = replace(config.index.duplicates, nearest=nearest)
    config = replace(config, index=replace(config.index, duplicates=duplicates))
    return Library.open([root], index=root.parent / "index", config=config, embedder=FakeEmbedder())


def put(library: Library, notes: Mapping[str, str]) -> None:
    """Write notes and index them; an empty one is deleted."""
    ((_, root),) = library.folders
    for name, text in notes.items():
        (root / name).unlink(missing_ok=True)
        if text:
            (root / name).write_text(text, encoding="utf-8")
    library.index()


def repeats(library: Library) -> list[tuple[str, str, bool]]:
    """Return the text of each repeat with its keeper's."""
    with closing(Store(library.opened[0].places.store, read_only=True)) as store:
        found = store.duplicates.repeats()
        chunks = store.chunks([row for pair in found for row in pair[:2]])
        store.verify()
        return sorted(
            (chunks[row].text, chunks[keeper].text, exact) for row, keeper, exact in found
        )


def alike(library: Library) -> list[tuple[str, str, str]]:
    """Return the notes of each pair, and its zone."""
    with closing(Store(library.opened[0].places.store, read_only=True)) as store:
        found = store.duplicates.alike()
        titles = {
            row: chunk.heading_path[0]
            for row, chunk in store.chunks([row for pair in found for row in pair[:2]]).items()
        }
        return sorted((*sorted((titles[a], titles[b])), zone) for a, b, _, zone, _, _ in found)


def copies(library: Library) -> dict[str, list[str]]:
    """Return the notes of all chunks that have copies, with those of the copies."""
    (reader,) = library._readers
    snapshot = reader.snapshot()
    path = lambda n: snapshot.catalog.documents[snapshot.catalog.document_of(n)].path  # noqa: E731
    return {
        path(n): [path(m) for m in found]
        for n in range(len(snapshot.catalog))
        if (found := snapshot.duplicates.copies(n))
    }  # type: ignore[arg-type]


def note(title: str, *paragraphs: str) -> str:
    """Write a note with a section a paragraph: short paragraphs of one section are one chunk."""
    return f"# {title}\n\n" + "\n\n## More\n\n".join(paragraphs) + "\n"


# ------------------------------------------------------------------ inside a document


def test_what_a_note_says_twice_is_left_out_and_stays_readable(library):
    put(library, {"a.md": note("A", BACKUP, PEARS, BACKUP, REWORDED)})
    assert repeats(library) == [(REWORDED, BACKUP, False), (BACKUP, BACKUP, True)]
    assert REWORDED in library.read("a.md").text
    (reader,) = library._readers
    duplicates = reader.snapshot().duplicates
    assert list(duplicates.repeated().first(9)) == [2, 3]
    assert (
        duplicates.copies(0),
        duplicates.salience([0])[0] > reader.snapshot().catalog.chunks([0])[0].salience,
    ) == ((2, 3), True)  # type: ignore[arg-type, list-item, index]


CORPORA = st.dictionaries(
    st.sampled_from(("a.md", "b.md", "c.md")),
    st.lists(st.sampled_from((BACKUP, REWORDED, PEARS)), min_size=1, max_size=4),
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(CORPORA)
def test_ingestion_never_crosses_a_documents_boundary(corpus):
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "vault"
        root.mkdir()
        with open_library(root) as library:
            put(library, {path: note(path, *texts) for path, texts in corpus.items()})
            with closing(Store(library.opened[0].places.store, read_only=True)) as store:
                document = {row: of for row, of, _ in store.chunk_rows()}
                assert all(
                    document[row] == document[keeper]
                    for row, keeper, _ in store.duplicates.repeats()
                )
                assert len(store.duplicates.repeats()) <= len(document) - len(
                    set(document.values())
                )


def test_a_text_that_stands_in_two_notes_is_left_out_of_none(library):
    put(library, {"a.md": note("A", BACKUP), "b.md": note("B", BACKUP)})
    assert repeats(library) == []


def test_the_counts_stand_in_the_status_by_type_of_document(library):
    put(
        library,
        {
            "a.md": note("A", BACKUP, BACKUP, REWORDED),
            "b.md": f"---\ntype: guide\n---\n\n{note('B', PEARS)}",
        },
    )
    (status,) = library.status()
    assert [
        replace(each, mean_boost=round(each.mean_boost, 2), most_boost=round(each.most_boost, 2))
        for each in status.ingestion
    ] == [
        IngestionCounts("", 3, 2, 1, 0.15, 0.15),
        IngestionCounts("guide", 1, 0, 0, 0.0, 0.0),
    ]


def test_a_run_that_left_something_out_says_so_once(library, caplog):
    caplog.set_level(logging.INFO, logger=library_duplicates.__name__)
    put(library, {"a.md": note("A", BACKUP, PEARS, BACKUP)})
    put(library, {"b.md": note("B", PEARS)})
    assert [record.message for record in caplog.records] == [
        "1 of 3 chunks only repeats another one of its note and is left out of the search"
    ]


# ------------------------------------------------------------------ across documents


def test_copies_in_other_notes_are_found_whatever_stands_above_them(library):
    put(
        library,
        {
            "a.md": note("Alpha", BACKUP),
            "b.md": note("Quite another heading of many words", f"- **{BACKUP}**"),
            "c.md": note("C", PEARS),
        },
    )
    put(library, {"d.md": note("Delta", BACKUP)})
    assert ("Alpha", "Delta", "same") in alike(library)
    assert copies(library)["a.md"] == ["d.md"]


def test_a_new_note_is_compared_with_the_old_ones_and_an_old_pair_goes_with_its_note(library):
    put(library, {"a.md": note("A", BACKUP)})
    put(library, {"b.md": note("B", BACKUP)})
    assert (alike(library), copies(library)) == (
        [("A", "B", "same")],
        {"a.md": ["b.md"], "b.md": ["a.md"]},
    )
    put(library, {"b.md": note("B", PEARS)})
    assert (alike(library), copies(library)) == ([], {})


def test_copies_of_a_note_that_goes_find_each_other(root):
    with open_library(root, nearest=1) as library:
        for name in "abcd":
            put(library, {f"{name}.md": note(name.upper(), BACKUP)})
        put(library, {"b.md": ""})
        put(library, {"c.md": note("C", PEARS)})
        assert copies(library) == {"a.md": ["d.md"], "d.md": ["a.md"]}


def test_a_page_that_is_edited_again_and_again_still_finds_its_copies(library):
    put(library, {"a.md": note("A", BACKUP, PEARS)})
    for n in range(4):
        put(library, {"b.md": note("B", f"{BACKUP}", f"Version {n} of this.")})
    assert alike(library)[0] == ("A", "B", "same")


def test_a_number_that_differs_is_never_merged(library):
    put(
        library,
        {
            "a.md": note("A", BACKUP.replace("every single night", "every 30 days")),
            "b.md": note("B", BACKUP.replace("every single night", "every 90 days")),
        },
    )
    assert {zone for _, _, zone in alike(library)} <= {"grey"}


def test_the_owner_has_the_last_word(library):
    put(library, {"a.md": note("A", BACKUP), "b.md": note("B", BACKUP), "c.md": note("C", PEARS)})
    decide(library, Decision(text_key(BACKUP).hex(), text_key(PEARS).hex(), "same"))
    assert copies(library)["c.md"] == ["a.md", "b.md"]
    decide(library, Decision(text_key(BACKUP).hex(), text_key(BACKUP).hex(), "apart"))
    assert "b.md" not in copies(library).get("a.md", [])


def decide(library: Library, decision: Decision) -> None:
    with Writer.open(library.opened[0].places.folder) as writer:
        writer.decide([decision])


def test_an_edit_leaves_the_pairs_of_other_notes_as_they_were(library):
    put(library, {f"{n}.md": note(str(n), BACKUP) for n in range(4)})
    with closing(Store(library.opened[0].places.store, read_only=True)) as store:
        gone = store.rows(["0.md"])
        before = [row for row in store.duplicates.alike_since(0) if not gone & set(row[1:3])]
        put(library, {"0.md": note("0", PEARS)})
        assert (len(before), store.duplicates.alike_since(0), store.duplicates.lonely()) == (
            3,
            before,
            [],
        )


def test_other_settings_look_at_all_again_and_keep_what_was_decided(root):
    with open_library(root) as library:
        put(library, {"a.md": note("A", BACKUP, REWORDED)})
        decide(library, Decision("a", "b", "apart"))
        assert len(repeats(library)) == 1
    with open_library(root, "index.ingest.similarity=1.0") as library:
        library.index()
        with closing(Store(library.opened[0].places.store, read_only=True)) as store:
            assert (repeats(library), store.duplicates.boosts(), len(store.decisions())) == (
                [],
                {},
                1,
            )
    with open_library(
        root, "index.ingest.enabled=false", "index.duplicates.enabled=false"
    ) as library:
        library.index()
        assert (repeats(library), alike(library)) == ([], [])


def test_one_run_or_many_find_the_same_repeats(root):
    notes = {
        f"{n}.md": note(str(n), BACKUP, PEARS, *(REWORDED for _ in range(n % 3))) for n in range(6)
    }
    with open_library(root) as library:
        for path, text in notes.items():
            put(library, {path: text})
        bit_by_bit = repeats(library)
        library.index(rebuild=True)
        assert repeats(library) == bit_by_bit
        assert len(
            logical_dump(library._readers[0].store, library.opened[0].places)["repeats"]
        ) == len(bit_by_bit)


def test_nothing_is_written_where_nothing_is_new(library):
    put(library, {"a.md": note("A", BACKUP, BACKUP)})
    generation = library.index().generation
    assert list(find_duplicates(library.opened[0])) == []
    assert library.index().generation == generation


ENDED = object()

LONG = note(
    "Long",
    *(f"This is part {n} of a long note on the moss of garden {n % 40}." for n in range(400)),
)


def begin_search(library: Library, **notes: str) -> Generator[None]:
    """Index notes but for what is there twice, and return the search for that."""
    ((_, root),) = library.folders
    for name, text in notes.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    library.index(words_only=True)
    library.embed()
    return library.find_duplicates()


def test_a_search_through_a_long_note_lets_others_in_often(library):
    assert (
        sum(1 for _ in begin_search(library, long=LONG, other=LONG.replace("Long", "Other"))) > 30
    )


def test_a_search_that_is_left_and_begun_anew_finds_the_same(root):
    found = []
    for lefts in ((), (3, 20, 40)):
        with open_library(root) as library:
            steps = begin_search(library, long=LONG, other=LONG.replace("Long", "Other"))
            for left in lefts:
                deque(islice(steps, left), maxlen=0)
                steps.close()
                steps = library.find_duplicates()
            deque(steps, maxlen=0)
            found.append((repeats(library), alike(library)))
            library.forget()
    assert found[0] == found[1] != ([], [])


def test_a_search_in_an_index_that_is_built_anew_meanwhile_leaves_nothing_in_the_new_one(library):
    steps = begin_search(library, a=note("A", BACKUP, PEARS), b=note("B", BACKUP))
    next(steps)
    # in which nothing was looked at either, and rows have the same numbers
    library.index(rebuild=True, words_only=True)
    deque(steps, maxlen=0)
    assert (repeats(library), alike(library)) == ([], [])
    library.index()
    assert alike(library) != []


def test_two_searches_that_begin_at_once_keep_what_either_has_found(library, monkeypatch):
    monkeypatch.setattr(library_duplicates, "PAIRS_A_COMMIT", 1)
    mine = begin_search(library, **{name: note(name, BACKUP, PEARS) for name in "abcd"})
    theirs = library.find_duplicates()
    next(theirs)
    while len(alike(library)) < 3:
        next(mine)
    while len(alike(library)) == 3 and next(theirs, ENDED) is not ENDED:
        pass
    deque(mine, maxlen=0)
    deque(theirs, maxlen=0)
    library.index()
    found = alike(library)
    library.index(rebuild=True)
    assert found == alike(library) != []


def test_a_chunk_whose_copy_goes_while_it_is_looked_at_is_looked_at_again(library, root):
    steps = begin_search(library, **{f"n{n}": note(f"N{n}", BACKUP) for n in range(9)})
    for n, _ in enumerate(steps):
        if n < 6:
            (root / f"n{n}.md").unlink()
            library.index(words_only=True)
    deque(library.find_duplicates(), maxlen=0)
    found = alike(library)
    library.index(rebuild=True)
    assert found == alike(library) != []


def test_groups_are_whole_documents():
    rows = {row: row // 700 for row in range(2100)}
    assert [len(group) for group in by_document(rows)] == [1400, 700]
