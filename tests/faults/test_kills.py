"""A run killed at any moment leaves a prefix of its work, and the next run completes it."""

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
    """Return the possible contents of an index: digests by path after each batch of files."""
    times = {path: (root / path).stat().st_mtime_ns for path in after}
    states = [
        FileState(path, len(text.encode()), times[path], 0)
        for path, text in after.items()
        if before.get(path) != text
    ]
    states.sort(key=lambda state: (-state.mtime_ns, state.path))
    digests = {path: content_digest(text.encode()) for path, text in before.items()}
    steps = [digests]
    for batch in growing_batches(states, FIRST_BYTES):
        digests = {path: digest for path, digest in digests.items() if path in after}
        digests |= {state.path: content_digest(after[state.path].encode()) for state in batch}
        steps.append(digests)
    return steps


def check_readable(root: Path, index: Path, builds: list[Built], versions: list[Notes]) -> None:
    """Read the index as a server would, and check it: no errors, only texts of the versions, and a
    prefix of the work.
    """
    with open_library(root, index) as library:
        results = true_answers(library, *versions)
        assert {result for result in results if isinstance(result, str)} <= {"nothing is indexed"}
        if library.indexed:
            check_prefix(root, library, builds, versions)


def check_prefix(root: Path, library: Library, builds: list[Built], versions: list[Notes]) -> None:
    """Check that the documents are those of a step, with their words, links and vectors."""
    (reader,) = library._readers
    store, before = reader.store, versions[:-1]
    digests = {path: state.digest for path, state in store.manifest().items()}
    steps = prefixes(root, before[0] if before else {}, versions[-1])
    assert digests in steps
    actual = dump(library)
    expected = {
        part: {
            row
            for built, notes in zip(builds, versions, strict=True)
            for row in built.dump[part]
            if digests.get(row[0][0]) == content_digest(notes.get(row[0][0], "").encode())
        }
        for part in ("chunks", "postings", "vectors")
    }
    assert set(actual["chunks"]) == expected["chunks"]
    assert set(actual["postings"]) == expected["postings"]
    if store.meta("links") == "resolved":
        resolve = LinkResolver.of(store.linkable_documents()).resolve
        assert [link.resolved for _, _, link in actual["links"]] == [
            resolve(link, path) for path, _, link in actual["links"]
        ]
    # vectors follow once all words are committed, newest files first, in batches
    before_vectors = {vector for built in builds[:-1] for _, vector in built.dump["vectors"]}
    reused = {row for row in expected["vectors"] if row[1] in before_vectors}
    order = sorted(
        expected["vectors"] - reused,
        key=lambda row: (-(root / row[0][0]).stat().st_mtime_ns, row[0]),
    )
    done = len(actual["vectors"]) - len(reused)
    assert set(actual["vectors"]) == reused.union(order[:done])
    assert done in (0, len(order)) or done % BATCH == 0
    assert done == 0 or digests == steps[-1]


def check_finishes(root: Path, index: Path, built: Built) -> None:
    """Finish the work, and check that the index is complete without embedding a text again."""
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
    root, index = scratch / "vault", scratch / "index"
    write_notes(root, versions[0])
    if update:
        child.do(root=root, index=scratch / "before")
        write_notes(root, versions[-1])
    moment, seconds = None, float("inf")  # the first run is not killed, only measured
    while kills:
        if update:
            shutil.copytree(scratch / "before", index)
        result = child.do(moment, root=root, index=index)
        if result["outcome"] == "done":
            seconds = min(seconds, result["seconds"])
        moment = chance.uniform(0, seconds)
        check_readable(root, index, builds, versions)
        check_finishes(root, index, builds[-1])
        shutil.rmtree(index, ignore_errors=True)
        kills -= result["outcome"] == "killed"
