"""Write folders of notes, and open libraries with a fake model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fakes import FakeEmbedder
from notes import write
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.ports import Embedder


def write_notes(root: Path, notes: Mapping[str, str]) -> Path:
    """Write notes by path into a folder; return the folder."""
    root.mkdir(parents=True, exist_ok=True)
    for path, text in notes.items():
        write(root / path, text)
    return root


def open_library(
    *folders: Path,
    index: Path | None = None,
    overrides: Sequence[str] = (),
    embedder: Embedder | None = None,
) -> Library:
    """Open folders as another process would; by default the index is beside the first folder."""
    index = index or folders[0].parent / "index"
    config = load_config(user_file=index.parent / "none", overrides=overrides)
    return Library.open(folders, index=index, config=config, embedder=embedder or FakeEmbedder())
