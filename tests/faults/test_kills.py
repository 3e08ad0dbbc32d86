"""Killed at any moment of building and of updating, an index is a prefix of the work, and finishing
it gives the undisturbed one.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from dump import dump
from fakes import FakeEmbedder
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
from thumbindex.corpus.links import LinkResolver
from thumbindex.corpus.read import content_digest
from thumbindex.library import Library
from thumbindex.library.indexing import growing_batches
from thumbindex.model import FileState

Notes = dict[str, str]

BATCH, FIRST_BYTES = 8, 2000
"""As in child.py."""


def prefixes(root: Path, before: Notes, after: Notes) -> list[Notes]:
    """Return what an index may hold (digests by path) after no group of files, after the first one,
    and so on: newest files first.
    """
    times = {path: (root / path).stat().st_mtime_ns for path in after}
    states = [
        FileState(path, len(text.encode()), times[path], 0)
        for path, text in after.items()
        if before.get(path) != text
    ]
    states.sort(key=lambda state: (-state.mtime_ns, state.path))
    held = {path: content_digest(text.encode()) for path, text in before.items()}
    steps = [held]
    for group in growing_batches(states, FIRST_BYTES):
        held = {path: digest for path, digest in held.items() if path in after}
        held |= {state.path: content_digest(after[state.path].encode()) for state in group}
        steps.append(held)
    return steps


def check_readable(root: Path, index: Path, builds: list[Built], versions: list[Notes]) -> None:
    """Read as a server would that found this index: no error, no passage that stands in no version
    of its file, and all parts those of a prefix of the work.
    """
    with open_library(root, index) as library:
        said = true_answers(library, *versions)
        assert {each for each in said if isinstance(each, str)} <= {"nothing is indexed"}
        if library.indexed:
            check_prefix(root, library, builds, versions)


def check_prefix(root: Path, library: Library, builds: list[Built], versions: list[Notes]) -> None:
    """The documents are those of a step; words, links and vectors are theirs, as undisturbed builds
    have them.
    """
    (reader,) = library._readers
    store, before = reader.store, versions[:-1]
    held = {path: state.digest for path, state in store.manifest().items()}
    steps = prefixes(root, before[0] if before else {}, versions[-1])
    assert held in steps
    found = dump(library)
    wanted = {
        part: {
            each
            for built, notes in zip(builds, versions, strict=True)
            for each in built.dump[part]
            if held.get(each[0][0]) == content_digest(notes.get(each[0][0], "").encode())
        }
        for part in ("chunks", "postings", "vectors")
    }
    assert set(found["chunks"]) == wanted["chunks"]
    assert set(found["postings"]) == wanted["postings"]
    if store.meta("links") == "resolved":
        resolve = LinkResolver.of(store.linkable_documents()).resolve
        assert [link.resolved for _, _, link in found["links"]] == [
            resolve(link, path) for path, _, link in found["links"]
        ]
    # vectors come when all words are there, newest files first, a batch at a time
    known = {vector for built in builds[:-1] for _, vector in built.dump["vectors"]}
    kept = {each for each in wanted["vectors"] if each[1] in known}
    order = sorted(
        wanted["vectors"] - kept,
        key=lambda each: (-(root / each[0][0]).stat().st_mtime_ns, each[0]),
    )
    done = len(found["vectors"]) - len(kept)
    assert set(found["vectors"]) == kept.union(order[:done])
    assert done in (0, len(order)) or done % BATCH == 0
    assert done == 0 or held == steps[-1]


def check_finishes(root: Path, index: Path, built: Built) -> None:
    """Finish the work: the index is the undisturbed one's, and no vector is computed again that was
    committed.
    """
    committed, embedder = vectors_in(index).keys(), FakeEmbedder()
    with open_library(root, index, embedder) as library:
        assert library.index().repaired == ()
        embedded = embedder.embedded
        assert dump(library) == built.dump
        assert answers(library) == built.answers
    assert embedded == len(vectors_in(index).keys() - committed)


@pytest.mark.parametrize("kills", sizes(3, 100))
@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_killed_run_leaves_a_usable_index_and_the_next_finishes(
    update: bool, kills: int, child: Child, old: Built, new: Built, scratch: Path
) -> None:
    chance = random.Random(f"kill {update}")
    builds, versions = (
        ([old, new], [old_notes(), new_notes()]) if update else ([old], [old_notes()])
    )
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
        check_readable(root, index, builds, versions)
        check_finishes(root, index, builds[-1])
        shutil.rmtree(index, ignore_errors=True)
        kills -= told["outcome"] == "killed"
