"""A small vault under measurement, with a fake for the model."""

from pathlib import Path

import pytest

from bench.run import options
from bench.subject import Subject
from thumbindex.serve.opening import Opening
from thumbindex.testing import FakeEmbedder

NOTES = {
    "sync.md": (
        "# Sync\n\n## Set up\n\nPress the green button to begin syncing your vault.\n\n"
        "## Conflicts\n\nThe newer note wins. See [[canvas]].\n"
    ),
    "canvas.md": "# Canvas\n\nDraw boxes and arrows on an endless whiteboard.\n",
    "graph.md": "# Graph view\n\nShows how notes link to each other as dots and lines.\n",
}


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    for name in ("vault", "scratch"):
        (tmp_path / name).mkdir()
    for path, text in NOTES.items():
        (tmp_path / "vault" / path).write_text(text, encoding="utf-8")
    opening = Opening((str(tmp_path / "vault"),), tmp_path / "index")
    subject = Subject(
        opening, tmp_path / "scratch", options().parse_args(["--rounds", "1"]), FakeEmbedder()
    )
    with subject.open() as library:
        library.index()
    return subject
