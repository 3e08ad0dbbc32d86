"""The map of a folder: the same places for the same notes, kept, turned back after a new layout;
suggestions that are worth a link.
"""

from pathlib import Path

import pytest

from folders import open_library, write, write_notes
from thumbindex.index.layout import Layout, keep_layout, read_layout
from thumbindex.library import Library
from thumbindex.library.map import (
    can_lay_out,
)

needs_sklearn = pytest.mark.skipif(
    not can_lay_out(), reason="scikit-learn is missing: the extra `map` brings it"
)

SUBJECTS = (
    "tea water boil cup leaf",
    "sync vault device cloud button",
    "garden soil seed water rain",
)


def notes(count: int) -> dict[str, str]:
    return {
        f"n{n:02}.md": f"# Note {n}\n\n{SUBJECTS[n % 3]} {'abcdefghij'[n // 3 % 10] * 4}\n"
        for n in range(count)
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


def opened(root: Path, held: dict[str, str]) -> Library:
    library = open_library(write_notes(root, held))
    library.index()
    return library


def test_what_is_near_and_worth_a_link_is_told(root):
    same = "tea water boil cup leaf kettle pour slowly"
    held = {
        "tea.md": f"# Tea\n\n{same} one\n",
        "brew.md": f"# Brew\n\n{same} two\n",
        "linked.md": f"# Linked\n\n{same} three [[tea]] [[brew]]\n",
        "v1.0.md": f"# v1.0\n\n{same} four\n",
        "v1.1.2.md": f"# v1.1.2\n\n{same} five\n",
        "far.md": "# Far\n\nsync vault device cloud button\n",
    }
    with opened(root, held) as library:
        found = library.map("vault")
        pairs = {
            frozenset((found.notes[pair.first].path, found.notes[pair.second].path))
            for pair in found.near
        }
    assert frozenset(("tea.md", "brew.md")) in pairs
    assert frozenset(("tea.md", "linked.md")) not in pairs
    assert frozenset(("v1.0.md", "v1.1.2.md")) not in pairs


def test_private_notes_are_nowhere_on_the_map(root):
    with opened(root, notes(12)) as library:
        places = library.opened[0].places
        keep_layout(
            places,
            Layout(
                library._readers[0].store.meta("fingerprint"),
                {"n00.md": (0.1, 0.1)},
                {"n00.md": "x"},
            ),
        )
        write(root / "n00.md", "---\nprivate: true\n---\n# Note\n")
        assert "n00.md" not in {each.path for each in library.map("vault").notes}
        library.index()
        assert "n00.md" not in places.map.read_text(encoding="utf-8")


@pytest.mark.long
@needs_sklearn
def test_a_note_that_becomes_private_while_the_map_is_laid_out_is_not_kept_on_it(root):
    with opened(root, notes(12)) as library:

        def make_private() -> bool:
            write(root / "n03.md", "---\nprivate: true\n---\n# Note 3\n")
            return False

        assert library.lay_out(interrupted=make_private, is_asked=True)
        assert sorted(read_layout(library.opened[0].places).places) == sorted(
            set(notes(12)) - {"n03.md"}
        )
