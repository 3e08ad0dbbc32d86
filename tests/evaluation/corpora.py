"""The evaluation sets, which lie beside the repository."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "eval"

needs_corpora = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the evaluation sets are not beside the repository"
)


def unpack(corpus: str, folder: Path, is_kept: Callable[[str], bool] = lambda path: True) -> Path:
    """Unpack a corpus, or the files whose paths are kept; return its folder."""
    with tarfile.open(SHARED / "corpora" / f"{corpus}.tar.xz") as packed:
        members = [
            each
            for each in packed
            if each.isfile() and is_kept(each.name.removeprefix("./").partition("/")[2])
        ]
        packed.extractall(folder, members, filter="data")
    return folder / corpus
