"""Repeats and near-duplicates of new chunks, and their updates when notes change."""

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
# every word is in BACKUP too
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
    """Write notes and index them; delete a note with an empty text."""
    ((_, root),) = library.folders
    for name, text in notes.items():
        (root / name).unlink(missing_ok=True)
        if text:
            (root / name).write_text(text, encoding="utf-8")
    library.index()


def repeats(library: Library) -> list[tuple[str, str, bool]]:
    """Return the texts of each repeat and its kept chunk."""
    with closing(Store(library.opened[0].index_paths.store, read_only=True)) as store:
        rows = store.duplicates.repeats()
        chunks = store.chunks([row for pair in rows for row in pair[:2]])
        store.verify()
        return sorted((chunks[row].text, chunks[keeper].text, exact) for row, keeper, exact in rows)


def pairs(library: Library) -> list[tuple[str, str, str]]:
    """Return the note titles and zone of each pair."""
    with closing(Store(library.opened[0].index_paths.store, read_only=True)) as store:
        rows = store.duplicates.pairs()
        titles = {
            row: chunk.heading_path[0]
            for row, chunk in store.chunks([row for pair in rows for row in pair[:2]]).items()
        }
        return sorted((*sorted((titles[a], titles[b])), zone) for a, b, _, zone, _, _ in rows)


def copies(library: Library) -> dict[str, list[str]]:
    """Return the paths of copies, by the path of each chunk that has any."""
    (reader,) = library._readers
    snapshot = reader.folder_snapshot().snapshot
    path = lambda n: snapshot.catalog.documents[snapshot.catalog.document_of(n)].path  # noqa: E731
    return {
        path(n): [path(m) for m in copies_of_n]
        for n in range(len(snapshot.catalog))
        if (copies_of_n := snapshot.duplicates.copies(n))
    }  # type: ignore[arg-type]


def note(title: str, *paragraphs: str) -> str:
    """Return a note with one section per paragraph, so that each paragraph is a chunk."""
    return f"# {title}\n\n" + "\n\n## More\n\n".join(paragraphs) + "\n"


# ------------------------------------------------------------------ inside a document


def test_repeats_inside_a_note_are_not_searched_but_readable(library):
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


def test_text_in_two_notes_is_no_repeat(library):
    put(library, {"a.md": note("A", BACKUP), "b.md": note("B", BACKUP)})
    assert repeats(library) == []


# ------------------------------------------------------------------ across documents


def test_copies_are_found_under_any_heading(library):
    put(
        library,
        {
            "a.md": note("Alpha", BACKUP),
            "b.md": note("Quite another heading of many words", f"- **{BACKUP}**"),
            "c.md": note("C", PEARS),
        },
    )
    put(library, {"d.md": note("Delta", BACKUP)})
    assert ("Alpha", "Delta", "same") in pairs(library)
    assert copies(library)["a.md"] == ["d.md"]


def test_pairs_follow_added_and_changed_notes(library):
    put(library, {"a.md": note("A", BACKUP)})
    put(library, {"b.md": note("B", BACKUP)})
    assert (pairs(library), copies(library)) == (
        [("A", "B", "same")],
        {"a.md": ["b.md"], "b.md": ["a.md"]},
    )
    put(library, {"b.md": note("B", PEARS)})
    assert (pairs(library), copies(library)) == ([], {})


def test_incremental_runs_find_the_same_repeats_as_a_rebuild(root):
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


def start_search(library: Library, **notes: str) -> Generator[None]:
    """Index notes without finding duplicates; return the duplicate search."""
    ((_, root),) = library.folders
    for name, text in notes.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    library.index(complete=False)
    library.embed()
    return library.find_duplicates()


def test_interrupted_duplicate_search_finds_the_same_pairs(root):
    results = []
    for interruptions in ((), (3, 8)):
        with open_library(root) as library:
            steps = start_search(library, long=LONG, other=LONG.replace("Long", "Other"))
            for steps_taken in interruptions:
                deque(islice(steps, steps_taken), maxlen=0)
                steps.close()
                steps = library.find_duplicates()
            deque(steps, maxlen=0)
            results.append((repeats(library), pairs(library)))
            library.forget()
    assert results[0] == results[1] != ([], [])


def test_rebuild_discards_a_running_duplicate_search(library):
    steps = start_search(library, a=note("A", BACKUP, PEARS), b=note("B", BACKUP))
    next(steps)
    # the rebuilt index has the same row ids and no duplicates yet
    library.index(rebuild=True, complete=False)
    deque(steps, maxlen=0)
    assert (repeats(library), pairs(library)) == ([], [])
    library.index()
    assert pairs(library) != []
