"""Killed at any moment of building and of updating, an index is a prefix of the work, and finishing it gives the undisturbed one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from thumbindex.corpus.read import digest_of
from thumbindex.errors import StorageError
from thumbindex.index.snapshot import Places
from thumbindex.index.store import Store
from thumbindex.testing import FakeEmbedder


def keys_in(folder: Path) -> set[tuple[str, bytes]]:
    """Return which vectors are committed; opening and closing a store to read changes nothing."""
    if not Places(folder).store.exists():
        return set()
    try:
        store = Store(Places(folder).store, read_only=True)
    except StorageError:  # only just begun
        return set()
    found = set(store._rows("SELECT fingerprint, key FROM vectors"))
    store.close()
    return found


def check_readable(faults, root: Path, index: Path, *versions: dict[str, str]) -> None:
    """Read as a server would that found this index: no error, no passage that stands in no version of its file, no other document."""
    with faults.open_library(root, index) as library:
        for passages in faults.answers(library):
            assert not isinstance(passages, str) or passages == "nothing is indexed"
            for passage in passages if isinstance(passages, tuple) else ():
                assert any(passage.text in notes.get(passage.path, "") for notes in versions)
        (reader,) = library._readers
        if not reader.indexed:
            return
        known = {(path, digest_of(text.encode())) for notes in versions for path, text in notes.items()}
        assert {(path, state.digest) for path, state in reader.store.manifest().items()} <= known


def check_finishes(faults, root: Path, index: Path, built) -> None:
    """Finish the work: the index is the undisturbed one's, and no vector is computed again that was committed."""
    folder = next((path for path in index.iterdir() if path.is_dir()), None) if index.is_dir() else None
    committed = keys_in(folder) if folder else set()
    embedder = FakeEmbedder()
    with faults.open_library(root, index, embedder) as library:
        assert library.index().mended == ()
        asked = embedder.embedded
        assert faults.dump(library) == built.dump
        assert faults.answers(library) == built.answers
        (reader,) = library._readers
    assert asked == len(keys_in(reader.folder.places.folder) - committed)


@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_killed_at_any_moment_nothing_is_lost(update, full, count, child, faults, old, new, scratch):
    chance = random.Random(f"kill {update}")
    built, versions = (new, (faults.old_notes(), faults.new_notes())) if update else (old, (faults.old_notes(),))
    root = scratch / "vault"  # the undisturbed build's folder has this name too
    faults.write_notes(root, versions[0])
    child.do(root=root, index=scratch / "before", steps=True)
    faults.write_notes(root, versions[-1])
    moment, seconds = None, float("inf")  # the first is not killed: it says how long there is
    kills = 0
    while kills < (100 if full else 3):
        index = scratch / "index"
        if update:
            shutil.copytree(scratch / "before", index)
        told = child.do(moment, root=root, index=index, steps=True)
        if told["outcome"] == "done":
            seconds = min(seconds, told["seconds"])
        moment = chance.uniform(0, seconds)
        check_readable(faults, root, index, *versions)
        check_finishes(faults, root, index, built)
        shutil.rmtree(index, ignore_errors=True)
        kills += told["outcome"] == "killed"
        count[f"{'updating' if update else 'building'}: {told['outcome']}"] += 1
