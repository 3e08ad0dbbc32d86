"""Indexing an unchanged folder costs nothing, and misses no change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from counting import files_read
from folders import open_library, write_notes
from thumbindex.index.writer import Writer
from waiting import TRUSTED_SECONDS

NAMES = ("a.md", "b.md", "c.md")


def test_unchanged_folder_costs_no_read_embedding_or_commit(
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
    """A vault whose files are old enough to trust their times."""
    notes = {name: f"# {name}\n\nOf {name}.\n" for name in NAMES}
    vault = write_notes(tmp_path_factory.mktemp("unchanged") / "vault", notes)
    time.sleep(TRUSTED_SECONDS)
    return vault


@pytest.mark.parametrize("setting", ["corpus.exclude=['c.md']", "corpus.private.globs=['c.md']"])
def test_newly_excluded_note_is_removed_by_the_next_run(root: Path, setting: str) -> None:
    with open_library(root) as library:
        library.index()
        assert library.index().unchanged == 3
    with open_library(root, overrides=[setting]) as library:
        assert library.index().removed == 1
        assert [entry.path for entry in library.outline()] == ["a.md", "b.md"]


def test_new_parser_version_reads_all_notes_again(root: Path) -> None:
    with open_library(root) as library:
        library.index()
        library.index()
        with Writer.open(library.opened[0].index_paths.folder) as writer:
            writer.set_meta("corpus", "an earlier version")
        assert library.index().changed == 3
