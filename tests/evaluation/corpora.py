"""The evaluation sets, stored beside the repository."""

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


def unpack(
    corpus: str, folder: Path, is_included: Callable[[str], bool] = lambda path: True
) -> Path:
    """Unpack a corpus, or the included paths of it; return its folder."""
    with tarfile.open(SHARED / "corpora" / f"{corpus}.tar.xz") as archive:
        members = [
            member
            for member in archive
            if member.isfile() and is_included(member.name.removeprefix("./").partition("/")[2])
        ]
        archive.extractall(folder, members, filter="data")
    return folder / corpus
