"""Whatever a walk goes by shows in one look at the listing; what it passes by does not cost another
walk.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from thumbindex.corpus.walk import FolderDigests, is_unchanged, walk
from thumbindex.settings import CorpusSettings

SETTINGS = CorpusSettings()

LATER_NS = 10**10
"""When files have been as they are for long enough to be believed."""

NOTES = ("a.md", "sub/b.md", "sub/deep/c.md", ".hidden/d.md", "node_modules/e.md", "ignored/f.md")

needs_symlinks = pytest.mark.skipif(os.name == "nt", reason="symlinks need a right there")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    for path in NOTES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("four")
    (root / ".gitignore").write_text("ignored/\n")
    (root / "picture.png").write_bytes(b"png")
    return root


def see(root: Path, settings: CorpusSettings = SETTINGS) -> FolderDigests:
    seen = walk(root, settings, time.time_ns() + LATER_NS).digests
    assert seen is not None
    return seen


def write_as_large_at_the_same_time(root: Path) -> None:
    before = (root / "sub/b.md").stat()
    (root / "sub/b.md").write_text("FOUR")
    os.utime(root / "sub/b.md", ns=(before.st_atime_ns, before.st_mtime_ns))


def swap_file_for_folder(root: Path) -> None:
    (root / "picture.png").unlink()
    (root / "picture.png").mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "text of the same size, and the time set back": write_as_large_at_the_same_time,
    "a touch": lambda root: os.utime(root / "sub/deep/c.md"),
    "another file under the name": lambda root: (root / "sub/b.md").replace(root / "a.md"),
    "a new note": lambda root: (root / "sub/deep/new.md").write_text("new"),
    "a note gone": lambda root: (root / "sub/deep/c.md").unlink(),
    "a folder gone": lambda root: (root / "sub/deep").rename(root.parent / "deep"),
    "rights": lambda root: (root / "a.md").chmod(0o600),
    "ignore rules": lambda root: (root / ".gitignore").write_text("ignored/\nsub/\n"),
    "a folder where a file was": swap_file_for_folder,
}


def test_a_folder_in_which_nothing_changed_is_unchanged(vault: Path) -> None:
    assert is_unchanged(vault, SETTINGS, see(vault))


UNSEEN_ON_WINDOWS = {
    "text of the same size, and the time set back": "a file has no time there that nobody can set",
    "rights": "a file has no such rights there",
}


def change_of(name: str) -> object:
    return pytest.param(
        name,
        marks=pytest.mark.skipif(
            os.name == "nt" and name in UNSEEN_ON_WINDOWS, reason=UNSEEN_ON_WINDOWS.get(name, "")
        ),
    )


@pytest.mark.parametrize("change", [change_of(name) for name in CHANGES])
def test_each_kind_of_change_is_seen(vault: Path, change: str) -> None:
    seen = see(vault)
    CHANGES[change](vault)
    assert not is_unchanged(vault, SETTINGS, seen)


def test_what_a_walk_does_not_look_into_may_change(vault: Path) -> None:
    seen = see(vault)
    for path in (".hidden/new.md", "node_modules/new.md", "ignored/new.md"):
        (vault / path).write_text("new")
    (vault / "picture.png").write_bytes(b"another")
    assert is_unchanged(vault, SETTINGS, seen)


def test_a_folder_that_was_moved_away_and_back_is_unchanged(vault: Path) -> None:
    seen = see(vault)
    (vault / "sub").rename(vault.parent / "sub")
    assert not is_unchanged(vault, SETTINGS, seen)
    (vault.parent / "sub").rename(vault / "sub")
    assert is_unchanged(vault, SETTINGS, seen)


@needs_symlinks
@pytest.mark.parametrize("link", ["note.md", "folder"])
def test_what_a_symlink_leads_to_is_seen_to_change_where_the_walk_would_not_go(
    vault: Path, link: str
) -> None:
    (vault / "note.md").symlink_to(".hidden/d.md")
    (vault / "folder").symlink_to(".hidden")
    seen = see(vault)
    assert is_unchanged(vault, SETTINGS, seen)
    if link == "folder":
        (vault / ".hidden/new.md").write_text("new")
    else:
        (vault / ".hidden/d.md").write_text("more than four")
    assert not is_unchanged(vault, SETTINGS, seen)


@needs_symlinks
def test_a_loop_of_symlinks_ends_and_is_unchanged(vault: Path) -> None:
    (vault / "sub/up").symlink_to(vault)
    (vault / "round").symlink_to("round")
    assert is_unchanged(vault, SETTINGS, see(vault))


def test_a_file_written_just_before_the_walk_is_looked_at_again(vault: Path) -> None:
    assert walk(vault, SETTINGS, time.time_ns()).digests is None


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_what_could_not_be_listed_is_looked_at_again(vault: Path) -> None:
    (vault / "sub").chmod(0)
    try:
        assert walk(vault, SETTINGS, time.time_ns() + LATER_NS).digests is None
    finally:
        (vault / "sub").chmod(0o700)


def test_no_name_is_kept(vault: Path) -> None:
    seen = see(vault)
    again = see(vault)
    assert "sub" not in str(seen)
    # by no digest that a guess could be compared with
    assert not seen.folders.keys() & again.folders.keys()
