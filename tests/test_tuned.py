"""What tuning found is used by whoever opens the folder, survives a rebuild, and goes with the
index.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.library.folders import undo_tuned, write_tuned
from thumbindex.model import Tuned

FOUND = Tuned(
    {"query.fuse.method": "rrf", "query.fuse.k": 30},
    "k 30: +0.030",
    "2026-11-21T12:00:00+00:00",
    "fake",
    {"queries": 80},
)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "vault", {"apples.md": "# Apples\n\nApples grow on trees.\n"})
    with open_library(root) as library:
        library.index()
        write_tuned(library.opened[0].places, FOUND)
    return root


def test_tuned_settings_are_used_until_they_are_undone(vault: Path) -> None:
    with open_library(vault) as library:
        assert (library.config.query.fuse.method, library.config.query.fuse.k) == ("rrf", 30)
        assert library.status()[0].tuned == FOUND
        assert [undo_tuned(library.opened[0].places) for _ in range(2)] == [True, False]
    with open_library(vault) as library:
        assert (library.config.query.fuse.method, library.status()[0].tuned) == ("convex", None)
