"""Pairs of similar notes without a link."""

from pathlib import Path

import pytest

from folders import open_library, write, write_notes
from thumbindex.library import Library

SAME = "tea water boil cup leaf kettle pour slowly"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


def opened(root: Path, notes: dict[str, str]) -> Library:
    library = open_library(write_notes(root, notes))
    library.index()
    return library


def pairs(library: Library) -> set[frozenset[str]]:
    return {frozenset((pair.path, pair.other)) for pair in library.unlinked()}


def test_similar_unlinked_notes_are_suggested(root):
    notes = {
        "tea.md": f"# Tea\n\n{SAME} one\n",
        "brew.md": f"# Brew\n\n{SAME} two\n",
        "linked.md": f"# Linked\n\n{SAME} three [[tea]] [[brew]]\n",
        "v1.0.md": f"# v1.0\n\n{SAME} four\n",
        "v1.1.2.md": f"# v1.1.2\n\n{SAME} five\n",
        "far.md": "# Far\n\nsync vault device cloud button\n",
    }
    with opened(root, notes) as library:
        suggested = pairs(library)
        scores = [pair.score for pair in library.unlinked()]
    assert frozenset(("tea.md", "brew.md")) in suggested
    assert frozenset(("tea.md", "linked.md")) not in suggested
    assert frozenset(("v1.0.md", "v1.1.2.md")) not in suggested
    assert scores == sorted(scores, reverse=True)


def test_newly_private_note_is_in_no_pair(root):
    notes = {
        "a.md": f"# Tea\n\n{SAME} one\n",
        "b.md": f"# Brew\n\n{SAME} two\n",
        "c.md": f"# Infusion\n\n{SAME} three\n",
    }
    with opened(root, notes) as library:
        assert frozenset(("a.md", "b.md")) in pairs(library)
        write(root / "a.md", f"---\nprivate: true\n---\n# a\n\n{SAME}\n")
        assert pairs(library) == {frozenset(("b.md", "c.md"))}


def test_no_pairs_without_vectors(root):
    with open_library(write_notes(root, {"a.md": f"# A\n\n{SAME}\n"})) as library:
        assert library.unlinked() == ()
        library.index(complete=False)
        assert library.unlinked() == ()
