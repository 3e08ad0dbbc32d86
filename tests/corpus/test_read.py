import os
from pathlib import Path

import pytest

from thumbindex.corpus.read import read_bytes, read_digest
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings

SETTINGS = CorpusSettings(max_file_bytes=100)


def test_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, "a.md", SETTINGS) == Problem(
        "a.md", None, "cannot be read: No such file or directory"
    )
    assert read_digest(tmp_path, "a.md", SETTINGS) == ""


@pytest.mark.parametrize("path", ["../secret.md", "link.md", "a/../../secret.md"])
def test_nothing_outside_the_folder_is_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.md").write_text("secret")
    root = tmp_path / "vault"
    (root / "a").mkdir(parents=True)
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    assert read_bytes(root, path, SETTINGS) == Problem(
        path, None, "points outside the folder: not read"
    )


def test_symlink_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    assert read_bytes(tmp_path, "b.md", SETTINGS) == b"x"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipe_or_folder_is_a_problem_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    assert [read_bytes(tmp_path, name, SETTINGS) for name in ("pipe.md", "folder.md")] == [
        Problem(name, None, "not a regular file: not read") for name in ("pipe.md", "folder.md")
    ]
