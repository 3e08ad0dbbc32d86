"""Conflict copies that a synchronization left beside a note are told as copies of that note."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.model import Passage
from thumbindex.present.sentences import copy_lines, disagreement_lines, place_name

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
def test_conflict_copy_stands_behind_its_note_with_what_differs(copy: str, tmp_path: Path) -> None:
    note, other = ask(tmp_path, {"d.md": TEXT.format("May"), copy: TEXT.format("June")})[:2]
    assert [note.path, other.path, other.updated, other.created] == ["d.md", copy, "", ""]
    assert disagreement_lines(note) == [
        f"a conflict copy differs: `may` vs. `june` in {copy} (line 3)"
    ]
    assert disagreement_lines(other) == [
        "this is a conflict copy of d.md: `june` vs. `may` in d.md (line 3)"
    ]


@pytest.mark.parametrize("copy", COPIES[::5])
def test_equal_conflict_copy_is_told_as_a_copy(copy: str, tmp_path: Path) -> None:
    (note, *others) = ask(tmp_path, {"d.md": TEXT.format("May"), copy: TEXT.format("May")})
    assert [note.path, [place.path for place in note.also_in]] == ["d.md", [copy]]
    assert copy_lines(note, place_name) == [f"also in: {copy} (line 3), a conflict copy"]
    assert copy not in [passage.path for passage in others]


def test_all_conflict_copies_of_a_note_follow_it(tmp_path: Path) -> None:
    months = ("May", "June", "July", "August", "October", "March")
    copies = [f"x/d (conflicted copy 2024-05-0{n}).md" for n in range(1, len(months))]
    notes = dict(zip(["x/d.md", *copies], map(TEXT.format, months), strict=True))
    first, *others = ask(tmp_path, notes)
    assert (first.path, len(first.disagrees)) == ("x/d.md", 5)
    assert {passage.path for passage in others} <= {*copies, "zoo.md"}


def test_words_that_only_the_copy_has_are_found(tmp_path: Path) -> None:
    copy = COPIES[0]
    notes = {"d.md": TEXT.format("May"), copy: TEXT.format("May") + "\nZebras watch the work.\n"}
    for query in ("zebras watch", '"zebras watch"', "harbor wall zebras"):
        assert ask(tmp_path / query[1:7], notes, query)[0].path == copy
    assert [passage.path for passage in ask(tmp_path / "plain", notes)][:2] == ["d.md", copy]


def test_short_conflict_copies_are_compared(tmp_path: Path) -> None:
    note, other = ask(
        tmp_path,
        {
            "bins.md": "Bins: Monday\n",
            "bins.sync-conflict-20240501-101112-ABCDEFG.md": "Bins: Friday\n",
        },
        "bins",
    )[:2]
    assert (note.path, len(note.disagrees), len(other.disagrees)) == ("bins.md", 1, 1)


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
    assert not any(
        "conflict copy" in line
        for p in passages
        for line in (*copy_lines(p, place_name), *disagreement_lines(p))
    )


def test_day_in_the_mark_is_not_the_day_of_the_note(tmp_path: Path) -> None:
    name = "2024-01-31 talk (conflicted copy 2024-05-01).md"
    passages = ask(tmp_path, {name: TEXT.format("May")})
    assert passages[0].created == "2024-01-31"
