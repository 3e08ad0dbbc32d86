"""The map of a folder: the same places for the same notes, kept, turned back after a new layout;
suggestions that are worth a link.
"""

from pathlib import Path

import numpy as np
import pytest

from thumbindex.errors import UsageError
from thumbindex.index.layout import Layout, keep_layout, read_layout
from thumbindex.library import Library
from thumbindex.library.map import (
    CHANGED_SHARE,
    MOST_NEAR,
    MOST_NOTES,
    _newest,
    _turned,
    can_lay_out,
)
from thumbindex.library.plane import FEWEST, plane, unit
from thumbindex.model import Document
from thumbindex.testing import FakeEmbedder

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
    for path, text in held.items():
        (root / path).write_text(text, encoding="utf-8")
    library = Library.open([root], index=root.parent / "index", embedder=FakeEmbedder())
    library.index()
    return library


def random_vectors(count: int) -> np.ndarray:
    vectors = np.random.default_rng(1).normal(size=(count, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@needs_sklearn
def test_the_same_vectors_have_the_same_places():
    vectors = random_vectors(30)
    assert np.array_equal(plane(vectors), plane(vectors))


@needs_sklearn
def test_equal_vectors_are_laid_out_too():
    places = plane(np.repeat(random_vectors(1), 40, axis=0))
    assert places.shape == (40, 2)
    assert np.isfinite(places).all()


@pytest.mark.parametrize("count", range(FEWEST))
def test_few_notes_stand_in_a_circle(count):
    places = plane(random_vectors(max(count, 1))[:count])
    assert places.shape == (count, 2)
    assert np.allclose(np.linalg.norm(places, axis=1), 0.7)


def test_places_lie_within_the_frame_however_far_one_is_out():
    places = unit(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [900.0, -900.0]], dtype=np.float32))
    assert np.abs(places).max() <= 1.0


@needs_sklearn
def test_places_are_kept_until_much_has_changed(root):
    with opened(root, notes(20)) as library:
        assert library.lay_out(is_asked=True) is True
        assert library.lay_out(is_asked=True) is False
        before = {each.path: (each.x, each.y) for each in library.map("vault").notes}
        (root / "new.md").write_text("# New\n\ntea water boil cup leaf\n", encoding="utf-8")
        library.index()
        assert library.lay_out(is_asked=True) is False
        now = {each.path: (each.x, each.y) for each in library.map("vault").notes}
        assert {path: now[path] for path in before} == before
        assert now["new.md"] != (None, None)
        for n in range(20, 20 + int(40 * CHANGED_SHARE)):
            (root / f"n{n}.md").write_text(
                f"# Note {n}\n\n{SUBJECTS[n % 3]} zz{n}\n", encoding="utf-8"
            )
        library.index()
        assert library.lay_out(is_asked=True) is True


@needs_sklearn
def test_only_a_map_that_was_laid_out_once_is_kept_up_to_date(root):
    with opened(root, notes(20)) as library:
        assert library.lay_out(is_first=False) is False
        assert not library.opened[0].places.map.exists()
        assert library.lay_out(is_asked=True) is True
        for n in range(20, 20 + int(40 * CHANGED_SHARE)):
            (root / f"n{n}.md").write_text(
                f"# Note {n}\n\n{SUBJECTS[n % 3]} zz{n}\n", encoding="utf-8"
            )
        library.index()
        assert library.lay_out(is_first=False) is True


def test_a_new_layout_is_turned_to_where_notes_lay():
    old = random_vectors(30)[:, :2].astype(np.float64)
    turned = np.array([[0.0, 1.0], [-1.0, 0.0]])
    names = [f"{n}.md" for n in range(30)]
    layout = Layout(
        "m",
        {name: (float(x), float(y)) for name, (x, y) in zip(names, old, strict=True)},
        dict.fromkeys(names, ""),
    )
    found = _turned((old @ turned).astype(np.float32), names, layout)
    expected = unit(old.astype(np.float32))
    assert np.abs(found - expected).mean() < 0.05


def test_a_layout_that_cannot_be_read_is_none(root):
    with opened(root, notes(3)) as library:
        places = library.opened[0].places
        keep_layout(places, Layout("m", {"a.md": (0.5, -0.5)}, {"a.md": "x"}))
        assert read_layout(places).places == {"a.md": (0.5, -0.5)}
        for damaged in (
            "",
            "{",
            "[]",
            '{"model": 1}',
            '{"model": "m", "notes": [["a.md", "x", 1, 2]]}',
        ):
            places.map.write_text(damaged, encoding="utf-8")
            assert read_layout(places) == Layout()


@needs_sklearn
def test_an_interrupted_layout_changes_nothing(root):
    with opened(root, notes(20)) as library:
        assert library.lay_out(interrupted=lambda: True) is False
        assert not library.opened[0].places.map.exists()


def test_without_vectors_or_places_the_lists_are_there(root):
    with opened(root, notes(4)) as library:
        found = library.map("vault")
        assert (len(found.notes), found.missing != "") == (4, True)


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


def test_how_many_pairs_are_near_is_told_where_not_all_are_listed(root):
    # No digits: pages that differ in a number are no pair.
    names = [f"{a}{b}" for a in "abcdefghijklmnopqrstu" for b in "abcdefghijklmnopqrstuvwxyz"]
    with opened(
        root,
        {
            f"{name}.md": (
                f"# {name}\n\ntea water boil cup leaf kettle pour slowly {name} {name[::-1]}\n"
            )
            for name in names
        },
    ) as library:
        found = library.map("vault")
    assert len(found.near) == MOST_NEAR
    assert found.near_left > 0


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
        (root / "n00.md").write_text("---\nprivate: true\n---\n# Note\n", encoding="utf-8")
        assert "n00.md" not in {each.path for each in library.map("vault").notes}
        library.index()
        assert "n00.md" not in places.map.read_text(encoding="utf-8")


def test_asked_for_a_map_of_nothing_it_says_what_is_missing(tmp_path):
    (tmp_path / "empty").mkdir()
    with Library.open(
        [tmp_path / "empty"], index=tmp_path / "index", embedder=FakeEmbedder()
    ) as library:
        assert library.map("empty").missing == "Nothing is indexed yet."
        with pytest.raises(UsageError):
            library.map("nobody")


@needs_sklearn
def test_a_note_that_becomes_private_while_the_map_is_laid_out_is_not_kept_on_it(root):
    with opened(root, notes(12)) as library:

        def make_private() -> bool:
            (root / "n03.md").write_text("---\nprivate: true\n---\n# Note 3\n", encoding="utf-8")
            return False

        assert library.lay_out(interrupted=make_private, is_asked=True)
        assert sorted(read_layout(library.opened[0].places).places) == sorted(
            set(notes(12)) - {"n03.md"}
        )


def test_of_too_many_notes_the_newest_are_on_the_map():
    old = Document("old.md", "Old", created="2001-01-01")
    new = [Document(f"{n}.md", "New", created="2020-01-01") for n in range(MOST_NOTES)]
    assert _newest([old, *new]) == new
    assert _newest([old]) == [old]
