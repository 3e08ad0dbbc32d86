"""Killed at any moment of building and of updating, an index is a prefix of the work, and finishing
it gives the undisturbed one.
"""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from servers import index_folder
from thumbindex.corpus.links import LinkResolver
from thumbindex.corpus.read import digest_of
from thumbindex.errors import StorageError
from thumbindex.index.files import VECTORS, Places
from thumbindex.index.snapshot import Opened, open_snapshot
from thumbindex.index.stamp import read_stamp
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore, packed, unpacked
from thumbindex.index.vectors import HELD
from thumbindex.index.words import KeywordView
from thumbindex.library.indexing import growing
from thumbindex.model import ChunkId, DocumentId, FileState, Term
from thumbindex.ports import KeywordWeights
from thumbindex.testing import FakeEmbedder
from thumbindex.text import embedded_text

EMBEDDER = FakeEmbedder()
BATCH = 8
"""As in child.py."""
FIRST_BYTES = 2000


def keys_in(index: Path) -> set[bytes]:
    """Return which vectors are committed."""
    found: set[bytes] = set()
    for path in (index / VECTORS).glob("*.sqlite3"):
        try:
            with closing(VectorStore(path, read_only=True)) as vectors:
                found |= vectors.keys()
        except StorageError:  # only just begun
            continue
    return found


def check_readable(faults, root: Path, index: Path, *versions: dict[str, str]) -> None:
    """Read as a server would that found this index: no error, no passage that stands in no version
    of its file, no other document.
    """
    with faults.open_library(root, index) as library:
        assert {
            each for each in faults.true_answers(library, *versions) if isinstance(each, str)
        } <= {"nothing is indexed"}
        (reader,) = library._readers
        if not reader.indexed:
            return
        known = {
            (path, digest_of(text.encode())) for notes in versions for path, text in notes.items()
        }
        assert {(path, state.digest) for path, state in reader.store.manifest().items()} <= known


def check_finishes(faults, root: Path, index: Path, built) -> None:
    """Finish the work: the index is the undisturbed one's, and no vector is computed again that was
    committed.
    """
    committed = keys_in(index)
    embedder = FakeEmbedder()
    with faults.open_library(root, index, embedder) as library:
        assert library.index().mended == ()
        asked = embedder.embedded
        assert faults.dump(library) == built.dump
        assert faults.answers(library) == built.answers
    assert asked == len(keys_in(index) - committed)


# ------------------------------------------------------------------ the unfinished state


Notes = dict[str, str]


def prefixes(root: Path, before: Notes, after: Notes) -> list[dict[str, str]]:
    """Return what an index may hold (digests by path) after no group of files, after the first one,
    and so on: newest files first.
    """
    times = {path: (root / path).stat().st_mtime_ns for path in after}
    wanted = sorted(
        (path for path, text in after.items() if before.get(path) != text),
        key=lambda path: (-times[path], path),
    )
    held = {path: digest_of(text.encode()) for path, text in before.items()}
    found = [dict(held)]
    # the removed go with the first group
    held = {path: digest for path, digest in held.items() if path in after}
    for group in growing(
        [FileState(path, len(after[path].encode()), times[path], 0) for path in wanted], FIRST_BYTES
    ):
        held.update({state.path: digest_of(after[state.path].encode()) for state in group})
        found.append(dict(held))
    return found


def check_unfinished(root: Path, index: Path, before: Notes, after: Notes, had: set[bytes]) -> str:
    """Check that all of what is there agrees and is a prefix of the work; return how far that
    went.
    """
    places = Places(folder).at() if (folder := index_folder(index)) else None
    try:
        store = Store(places.store, read_only=True) if places else None
    except StorageError:
        return "before anything was committed"
    if places is None or store is None:
        return "before anything was committed"
    with closing(store):
        store.verify()
        held = {path: state.digest for path, state in store.manifest().items()}
        steps = prefixes(root, before, after)
        assert held in steps
        is_all = held == steps[-1]
        vectors = check_vectors_are_a_prefix(store, had, is_all=is_all)
        behind = check_words(store, places)
        if read_stamp(places.keyword):
            check_snapshot(store, places, open_snapshot(store, places, "vault"))
    return (
        "between the commits of store and words"
        if behind
        else vectors
        if is_all
        else f"with {steps.index(held)} groups of words"
    )


def check_words(store: Store, places: Places) -> bool:
    """The keyword view holds just the store's rows, or those of the generation before the last
    batch; tell which.
    """
    wanted, stamp, words = store.rows(), read_stamp(places.keyword), int(store.meta("words", "0"))
    if stamp is None:
        return bool(wanted)
    held = set(KeywordView(places.keyword).rows().tolist())
    if stamp.generation == words:
        assert (held - wanted, len(wanted - held)) == (set(), stamp.behind)
        return False
    assert stamp.generation < words <= store.generation
    # row ids only grow: what it lacks is younger than all that it holds, what it holds too much was
    # given out before
    assert max(map(abs, held), default=0) < min(map(abs, wanted - held), default=2**62)
    assert max(map(abs, held), default=0) <= int(store.meta("last_row"))
    return True


def check_vectors_are_a_prefix(store: Store, had: set[bytes], *, is_all: bool) -> str:
    """Vectors come when all words are there, newest files first, a batch at a time; return how far
    they are.
    """
    rows = store.fetch(
        "SELECT d.modified, d.path, c.ordinal, c.key FROM chunks c JOIN documents d ON d.id = "
        "c.document"
    )
    order = [
        key
        for key in dict.fromkeys(
            row[3] for row in sorted(rows, key=lambda row: (-row[0], *row[1:3]))
        )
        if key not in had
    ]
    held = store.vectors.held(order) if store.vectors else set()
    present = [key in held for key in order]
    done = sum(present)
    assert present == [n < done for n in range(len(order))]
    assert done == 0 or (is_all and (done % BATCH == 0 or done == len(order)))
    return (
        "with all words, no vectors"
        if not done
        else "with all vectors"
        if done == len(order)
        else "among the vectors"
    )


def check_snapshot(store: Store, places: Places, opened: Opened) -> None:
    """What a reader opens agrees with the store: chunks that words find, vectors, links."""
    catalog, graph = opened.catalog, opened.graph
    for word in ("apple", "stone", "note"):
        hits = opened.keyword.search(
            [Term(word)], KeywordWeights({"body": 1.0, "title": 1.0}), 1000
        ).hits
        texts = catalog.chunks([hit.chunk for hit in hits])
        assert all(
            hit.matched == (word,)
            and word in f"{texts[hit.chunk].heading_path[0]} {texts[hit.chunk].text}".lower()
            for hit in hits
        )
    check_vectors(store, opened)
    targets = {path: set[str]() for path in catalog.paths}
    for path, _, link in store.links():
        targets[path] |= {link.resolved} & targets.keys() - {path} if link.resolved else set()
    linked = {
        path: {catalog.paths[n] for n in graph.linked(DocumentId(at))}
        for at, path in enumerate(catalog.paths)
    }
    linking = {
        (catalog.paths[n], path)
        for at, path in enumerate(catalog.paths)
        for n in graph.linking(DocumentId(at))
    }
    assert (linked, linking) == (
        targets,
        {(path, target) for path, found in targets.items() for target in found},
    )
    if store.meta("links") == "resolved":
        resolve = LinkResolver.of(store.names()).resolve
        assert [link.resolved for _, _, link in store.links()] == [
            resolve(link, path) for path, _, link in store.links()
        ]


def check_vectors(store: Store, opened: Opened) -> None:
    """Each vector of the snapshot is that of its chunk's text."""
    rows = opened.vectors.rows().tolist()
    assert sorted(rows) == sorted(store.chunk_vectors([row for row, _, _ in store.chunk_rows()]))
    chunks = opened.catalog.chunks([ChunkId(n) for n in range(len(opened.catalog))])
    at = {row: ChunkId(n) for n, row in enumerate(opened.catalog.chunk_rows.tolist())}
    # a row of no chunk fails here
    texts = {row: embedded_text(chunks[at[row]].heading_path, chunks[at[row]].text) for row in rows}
    right = EMBEDDER.embed_passages([texts[row] for row in rows])
    if rows:
        kept = unpacked([vector.tobytes() for vector in packed(right)])
        assert np.array_equal(kept.astype(HELD), opened.vectors.matrix())


@pytest.mark.parametrize("update", [False, True], ids=["building", "updating"])
def test_killed_at_any_moment_nothing_is_lost(
    update, full, count, child, faults, old, new, scratch
):
    chance = random.Random(f"kill {update}")
    built, versions = (
        (new, (faults.old_notes(), faults.new_notes())) if update else (old, (faults.old_notes(),))
    )
    root = scratch / "vault"  # the undisturbed build's folder has this name too
    faults.write_notes(root, versions[0])
    child.do(root=root, index=scratch / "before", steps=True)
    faults.write_notes(root, versions[-1])
    before = versions[0] if update else {}
    had = keys_in(scratch / "before") if update else set()
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
        if told["outcome"] == "killed":
            count[
                (
                    f"{'updating' if update else 'building'}: killed "
                    f"{check_unfinished(root, index, before, versions[-1], had)}"
                )
            ] += 1
        check_finishes(faults, root, index, built)
        shutil.rmtree(index, ignore_errors=True)
        kills += told["outcome"] == "killed"
        count[f"{'updating' if update else 'building'}: {told['outcome']}"] += 1
