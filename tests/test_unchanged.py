"""Nothing changed costs nothing, and nothing that changed passes for that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from counting import files_read
from folders import open_library, write_notes
from thumbindex.index.writer import Writer
from waiting import TRUSTED_SECONDS

NAMES = ("a.md", "b.md", "c.md")


def test_where_nothing_changed_no_note_is_read_no_model_asked_and_nothing_committed(
    tmp_path: Path,
) -> None:
    root = write_notes(tmp_path / "vault", {name: f"# {name}\n\nOf {name}.\n" for name in NAMES})
    time.sleep(TRUSTED_SECONDS)
    with open_library(root) as library:
        library.index()
        before = library.index()
        with files_read(frozenset(NAMES)) as read:
            again = library.index()
        assert (again.unchanged, again.embedded, read.total()) == (3, 0, 0)
        assert again.generation == before.generation
        (root / "a.md").unlink()
        assert library.index().removed == 1


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a vault that has lain there long enough, indexed, with nothing left to do."""
    notes = {name: f"# {name}\n\nOf {name}.\n" for name in NAMES}
    made = write_notes(tmp_path_factory.mktemp("unchanged") / "vault", notes)
    time.sleep(TRUSTED_SECONDS)
    return made


@pytest.mark.parametrize("setting", ["corpus.exclude=['c.md']", "corpus.private.globs=['c.md']"])
def test_a_note_that_a_new_setting_leaves_out_goes_with_the_next_run(
    root: Path, setting: str
) -> None:
    with open_library(root) as library:
        library.index()
        assert library.index().unchanged == 3
    with open_library(root, overrides=[setting]) as library:
        assert library.index().removed == 1
        assert [each.path for each in library.outline()] == ["a.md", "b.md"]


def test_after_a_commit_of_an_earlier_version_all_notes_are_read_anew(root: Path) -> None:
    with open_library(root) as library:
        library.index()
        library.index()
        with Writer.open(library.opened[0].index_paths.folder) as writer:
            writer.set_meta("corpus", "as an earlier version cut it")
        assert library.index().changed == 3
