"""Killed at any moment of building and of updating, an index answers truly, and finishing it gives
the undisturbed one.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from dump import dump
from faults.vault import (
    Built,
    Child,
    answers,
    new_notes,
    old_notes,
    open_library,
    sizes,
    true_answers,
    vectors_in,
    write_notes,
)
from thumbindex.corpus.read import digest_of
from thumbindex.testing import FakeEmbedder


def check_readable(root: Path, index: Path, *versions: dict[str, str]) -> None:
    """Read as a server would that found this index: no error, no passage that stands in no version
    of its file, no other document.
    """
    with open_library(root, index) as library:
        said = true_answers(library, *versions)
        assert {each for each in said if isinstance(each, str)} <= {"nothing is indexed"}
        (reader,) = library._readers
        known = {
            (path, digest_of(text.encode())) for notes in versions for path, text in notes.items()
        }
        manifest = reader.store.manifest() if reader.indexed else {}
        assert {(path, state.digest) for path, state in manifest.items()} <= known


def check_finishes(root: Path, index: Path, built: Built) -> None:
    """Finish the work: the index is the undisturbed one's, and no vector is computed again that was
    committed.
    """
    committed, embedder = vectors_in(index).keys(), FakeEmbedder()
    with open_library(root, index, embedder) as library:
        assert library.index().mended == ()
        embedded = embedder.embedded
        assert dump(library) == built.dump
        assert answers(library) == built.answers
    assert embedded == len(vectors_in(index).keys() - committed)


@pytest.mark.parametrize("kills", sizes(1, 100))
@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_killed_at_any_moment_nothing_is_lost(
    update: bool, kills: int, child: Child, old: Built, new: Built, scratch: Path
) -> None:
    chance = random.Random(f"kill {update}")
    versions = (old_notes(), new_notes()) if update else (old_notes(),)
    root, index = scratch / "vault", scratch / "index"  # the undisturbed build's folder, too
    write_notes(root, versions[0])
    if update:
        child.do(root=root, index=scratch / "before")
        write_notes(root, versions[-1])
    moment, seconds = None, float("inf")  # the first is not killed: it says how long there is
    while kills:
        if update:
            shutil.copytree(scratch / "before", index)
        told = child.do(moment, root=root, index=index)
        if told["outcome"] == "done":
            seconds = min(seconds, told["seconds"])
        moment = chance.uniform(0, seconds)
        check_readable(root, index, *versions)
        check_finishes(root, index, new if update else old)
        shutil.rmtree(index, ignore_errors=True)
        kills -= told["outcome"] == "killed"
