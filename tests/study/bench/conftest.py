"""A small vault under measurement, with the shipped fakes for models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.study.bench.subject import Subject, Where
from thumbindex.testing import FakeEmbedder, FakeReranker

NOTES = {
    "sync.md": "# Sync\n\n## Set up\n\nPress the green button to begin syncing your vault.\n\n## Conflicts\n\nThe newer note wins. See [[canvas]].\n",
    "canvas.md": "# Canvas\n\nDraw boxes and arrows on an endless whiteboard.\n",
    "graph.md": "# Graph view\n\nShows how notes link to each other as dots and lines.\n",
}


def write_notes(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for path, text in NOTES.items():
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def open_fake(tmp_path: Path) -> Callable[..., Library]:
    def open_it(where: Where, embedder: Any = None) -> Library:
        index, config = where.index or tmp_path / "index", load_config(overrides=where.overrides)
        return Library.open([where.folder], index=index, config=config, embedder=embedder or FakeEmbedder(), reranker=FakeReranker())

    return open_it


@pytest.fixture
def subject(tmp_path: Path, open_fake: Callable[..., Library]) -> Subject:
    (tmp_path / "scratch").mkdir()
    where = Where(write_notes(tmp_path / "vault"))
    with open_fake(where) as library:
        library.index()
    arguments = [f"--folder={where.folder}", f"--index={tmp_path / 'index'}"]
    return Subject(where, 1, tmp_path / "scratch", open_fake, lambda _: arguments, lambda _: None)
