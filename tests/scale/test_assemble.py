"""The corpus of the scale run: real notes first, then variants; nothing of it is there without the
archives.
"""

from pathlib import Path

import pytest
from assemble import ARCHIVES, assemble

ARCHIVE = ARCHIVES / "obsidian-help.tar.xz"

pytestmark = pytest.mark.skipif(
    not ARCHIVE.exists(), reason="the archives are not beside this checkout"
)


def test_real_notes_come_first_and_variants_fill_up(tmp_path: Path) -> None:
    real = assemble(tmp_path / "corpus", [ARCHIVE], 700)
    assert (real, sum(1 for path in (tmp_path / "corpus").rglob("*") if path.is_file())) == (
        568,
        700,
    )


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="not empty"):
        assemble(tmp_path, [ARCHIVE], 1)
