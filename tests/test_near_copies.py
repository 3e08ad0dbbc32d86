"""New chunks are looked at once they have vectors: repeats, copies elsewhere, and what becomes of
them when notes change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from dump import dump
from folders import open_library
from thumbindex.index.store import Store
from thumbindex.library import Library

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
    with closing(Store(library.opened[0].index_paths.store, read_only=True)) as store:
        found = store.duplicates.repeats()
        chunks = store.chunks([row for pair in found for row in pair[:2]])
        store.verify()
        return sorted(
            (chunks[row].text, chunks[keeper].text, exact) for row, keeper, exact in found
        )


def alike(library: Library) -> list[tuple[str, str, str]]:
    """Return the notes of each pair, and its zone."""
    with closing(Store(library.opened[0].index_paths.store, read_only=True)) as store:
        found = store.duplicates.pairs()
        titles = {
            row: chunk.heading_path[0]
            for row, chunk in store.chunks([row for pair in found for row in pair[:2]]).items()
        }
        return sorted((*sorted((titles[a], titles[b])), zone) for a, b, _, zone, _, _ in found)


def copies(library: Library) -> dict[str, list[str]]:
    """Return the notes of all chunks that have copies, with those of the copies."""
    (reader,) = library._readers
    snapshot = reader.folder_snapshot().snapshot
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
    duplicates = reader.folder_snapshot().snapshot.duplicates
    assert list(duplicates.repeats().first(9)) == [2, 3]
    assert (
        duplicates.copies(0),
        duplicates.salience([0])[0]
        > reader.folder_snapshot().snapshot.catalog.chunks([0])[0].salience,
    ) == ((2, 3), True)  # type: ignore[arg-type, list-item, index]


def test_a_text_that_stands_in_two_notes_is_left_out_of_none(library):
    put(library, {"a.md": note("A", BACKUP), "b.md": note("B", BACKUP)})
    assert repeats(library) == []


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
        assert len(dump(library)["repeats"]) == len(bit_by_bit)


LONG = note(
    "Long",
    *(f"This is part {n} of a long note on the moss of garden {n % 40}." for n in range(100)),
)


def begin_search(library: Library, **notes: str) -> Generator[None]:
    """Index notes but for what is there twice, and return the search for that."""
    ((_, root),) = library.folders
    for name, text in notes.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    library.index(words_only=True)
    library.embed()
    return library.find_duplicates()


def test_a_search_that_is_left_and_begun_anew_finds_the_same(root):
    found = []
    for lefts in ((), (3, 8)):
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
