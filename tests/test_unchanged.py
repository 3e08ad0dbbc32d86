"""Nothing changed costs nothing, and nothing that changed passes for that."""

from __future__ import annotations

import time
from pathlib import Path

from counting import files_read
from folders import open_library, write_notes

NAMES = ("a.md", "b.md", "c.md")


def test_where_nothing_changed_no_note_is_read_no_model_asked_and_nothing_committed(
    tmp_path: Path,
) -> None:
    root = write_notes(tmp_path / "vault", {name: f"# {name}\n\nOf {name}.\n" for name in NAMES})
    time.sleep(2.1)  # a file that was written just before is read again
    with open_library(root) as library:
        library.index()
        before = library.index()
        with files_read(frozenset(NAMES)) as read:
            again = library.index()
        assert (again.unchanged, again.embedded, read.total()) == (3, 0, 0)
        assert again.generation == before.generation
        (root / "a.md").unlink()
        assert library.index().removed == 1
