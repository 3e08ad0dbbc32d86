"""Conflict copies that a synchronization left beside a note rank behind that note."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.model import Passage
from thumbindex.present.sentences import retired_line

TEXT = (
    "# Harbor plan\n\nThe harbor wall is rebuilt in {} by the town, with stone from the quarry.\n"
)
OTHER = "# Zoo\n\nThe zoo has many animals, and the keeper feeds them.\n"


def ask(root: Path, notes: dict[str, str], query: str = "harbor wall") -> Sequence[Passage]:
    with open_library(write_notes(root / "notes", {**notes, "zoo.md": OTHER})) as library:
        library.index()
        return library.query(query, limit=5).passages


COPIES = [
    "d (conflicted copy 2024-05-01).md",
    "d (Laptop's conflicted copy 2024-05-01).md",
    "d (Ada’s MacBook's conflicted copy 2024-05-01) (1).md",
    "d (Conflicted copy phone 202405011012).md",
    "d (conflicted copy 2024-05-01 101112).md",
    "d.sync-conflict-20240501-101112-ABCDEFG.md",
    "d.sync-conflict-20240501-101112.md",
    "d_conflict-20240501-101112.md",
    "d (SFConflict ada@example.org 2024-05-01-10-11-12).md",
    "d (copie en conflit de Ada 2024-05-01).md",
    "d (Copia en conflicto de Ada 2024-05-01).md",
    "d (In Konflikt stehende Kopie von Ada 2024-05-01).md",
    "d (Ada 的冲突副本 2024-05-01).md",
    "d (Ada の競合コピー 2024-05-01).md",
    "d (conflicted copy 2024-05-01) (conflicted copy 2024-06-01).md",
]


@pytest.mark.parametrize("copy", COPIES)
def test_conflict_copy_stands_behind_its_note_and_names_it(copy: str, tmp_path: Path) -> None:
    note, other = ask(tmp_path, {"d.md": TEXT.format("May"), copy: TEXT.format("June")})[:2]
    assert [note.path, other.path, other.updated, other.created] == ["d.md", copy, "", ""]
    assert retired_line(other) == "not in force: a conflict copy, superseded by d.md"


@pytest.mark.parametrize("copy", COPIES[::5])
def test_equal_conflict_copy_is_told_as_a_copy(copy: str, tmp_path: Path) -> None:
    (note, *others) = ask(tmp_path, {"d.md": TEXT.format("May"), copy: TEXT.format("May")})
    assert [note.path, [place.path for place in note.also_in]] == ["d.md", [copy]]
    assert copy not in [passage.path for passage in others]


def test_words_that_only_the_copy_has_are_found(tmp_path: Path) -> None:
    copy = COPIES[0]
    notes = {"d.md": TEXT.format("May"), copy: TEXT.format("May") + "\nZebras watch the work.\n"}
    for query in ("zebras watch", '"zebras watch"', "harbor wall zebras"):
        assert copy in [p.path for p in ask(tmp_path / query[1:7], notes, query)[:2]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("d.md", "e (conflicted copy 2024-05-01).md"),
        ("a/d.md", "b/d (conflicted copy 2024-05-01).md"),
        ("d.md", "d (May 2024).md"),
        ("d.md", "d (conflict of 1914).md"),
        ("d.md", "d (copy editing).md"),
        ("d.md", "d-LAPTOP.md"),
        ("d.md", "d 2.md"),
        ("d.md", "d (1).md"),
        ("d.md", "conflicted copy.md"),
    ],
)
def test_other_names_are_no_conflict_copies(first: str, second: str, tmp_path: Path) -> None:
    passages = ask(tmp_path, {first: TEXT.format("May"), second: TEXT.format("June")})
    assert {first, second} <= {passage.path for passage in passages}
    assert all(passage.in_force for passage in passages)


def test_day_in_the_mark_is_not_the_day_of_the_note(tmp_path: Path) -> None:
    name = "2024-01-31 talk (conflicted copy 2024-05-01).md"
    passages = ask(tmp_path, {name: TEXT.format("May")})
    assert passages[0].created == "2024-01-31"
