"""After a power cut at any moment of any command the next run ends in the right index, and what the
owner was promised is there.

Each command is recorded once (recording.py); then what its operations may have left on a disk
(crash_states.py) is written to one, read as a server would read it, indexed, and compared with an
index that was built anew. `make power` tries thousands of states, `make test-slow` some.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from faults.crash_states import PAGE, CrashState, Disk, apply, with_nodes
from faults.recording import (
    Enter,
    Mark,
    Operation,
    Recording,
    Remove,
    Rename,
    Resize,
    Sync,
    Tree,
    Write,
    in_hexadecimal,
    strace,
    why_not,
)
from thumbindex.errors import StorageError
from thumbindex.index.files import VECTORS, Places
from thumbindex.index.stamp import STAMP, is_verified
from thumbindex.index.store import Store
from thumbindex.index.unchanged import store_facts
from thumbindex.index.vector_store import VectorStore
from thumbindex.testing import FakeEmbedder

SEED = "power"
FEW, MANY = 6, 260
"""States that are tried of each command, in `make test-slow` and in `make power`."""

SECRET = "quincunx"
"""A word of the note that becomes private."""

QUERIES = (f"the {SECRET} of trees", "apple cellar or a green door")

OWNERS = ("decisions.json", "judged.json", "tuned.json")
"""Files of which nothing can be made anew."""

Notes = dict[str, str]

pytestmark = pytest.mark.skipif(bool(reason := why_not()), reason=reason)


# ------------------------------------------------------------------ the commands


def old_notes(faults: Any) -> Notes:
    """Return a few notes, two of which say the same, and one that will be private."""
    notes = dict(list(faults.old_notes().items())[:9])
    repeated = (
        "The cellar door was painted green by the miller before the first frost came over the "
        "garden and the river."
    )
    notes |= {
        f"e/copy {n}.md": (
            f"# Door {n}\n\n{repeated}\n\nSeen on walk number {n}, with a basket and a ladder.\n"
        )
        for n in (1, 2)
    }
    return {
        **notes,
        "e/own.md": (
            f"# Own\n\nThe {SECRET} of trees stands behind the stone wall, see [[note 1]].\n"
        ),
    }


def new_notes(faults: Any) -> Notes:
    """Edit, rename, delete and add notes."""
    notes = old_notes(faults)
    kept = {
        path: text
        for path, text in faults.new_notes().items()
        if path.startswith("d/new") or int(path.split()[-1][:-3]) < 9
    }
    return {
        **dict(list(kept.items())[:9]),
        **{path: text for path, text in notes.items() if path.startswith("e/")},
    }


def private_notes(faults: Any) -> Notes:
    notes = old_notes(faults)
    return {**notes, "e/own.md": f"---\nprivate: true\n---\n{notes['e/own.md']}"}


def after_edits(faults: Any, root: Path, index: Path) -> None:
    """Index after each of some edits: each adds a segment to the index of words."""
    notes = old_notes(faults)
    for n, (path, text) in enumerate(list(notes.items())[:9]):
        notes[path] = f"{text}\n\nAdded {n}, by the gate.\n"
        faults.write_notes(root, notes)
        with faults.open_library(root, index) as library:
            library.index()
    faults.write_notes(root, old_notes(faults))
    with faults.open_library(root, index) as library:
        library.index(words_only=True)


def with_damaged_store(_faults: Any, _root: Path, index: Path) -> None:
    (path,) = index.glob("*/1/index.sqlite3")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_damaged_vectors(_faults: Any, _root: Path, index: Path) -> None:
    """Damage the file of vectors in all pages that its log does not hold, as it is while somebody
    has it open.
    """
    (path,) = (index / VECTORS).glob("*.sqlite3")
    with closing(VectorStore(path)) as vectors:
        vectors.set_meta("nothing", "more")
        log = path.with_name(f"{path.name}-wal")
        kept = log.read_bytes()
    data, page = path.read_bytes(), PAGE
    logged = {int.from_bytes(kept[at : at + 4]) for at in range(32, len(kept), 24 + page)}
    pages = [
        data[at : at + page] if at // page + 1 in {1, *logged} else bytes(page)
        for at in range(0, len(data), page)
    ]
    path.write_bytes(b"".join(pages))
    log.write_bytes(kept)


def nothing_more(_faults: Any, _root: Path, _index: Path) -> None:
    """Leave the index as it was made."""


@dataclass(frozen=True)
class Kind:
    """Commands that are recorded, and what there is before."""

    commands: Sequence[str]
    before: Callable[[Any], Notes] | None = old_notes  # None where there is no index
    now: Callable[[Any], Notes] = old_notes
    prepare: Callable[[Any, Path, Path], None] = nothing_more


KINDS = {
    "first index": Kind(["index"], before=None),
    "first index and decisions": Kind(["index", "decide", "judge"], before=None),
    "update": Kind(["index", "index"], now=new_notes),
    "note becomes private": Kind(["index"], now=private_notes),
    "rebuild": Kind(["rebuild"]),
    "merge": Kind(["index", "merge"], prepare=after_edits),
    "decisions": Kind(["index", "decide", "judge", "tune", "undo", "undo tuning", "decide"]),
    "store repaired": Kind(["repair"], prepare=with_damaged_store),
    "vectors repaired": Kind(["repair"], prepare=with_damaged_vectors),
    "forget": Kind(["forget"]),
}


@dataclass(frozen=True)
class Recorded:
    """What commands did to the disk, and what is right afterwards."""

    kind: Kind
    root: Path
    before: Tree
    after: Tree
    operations: Sequence[Operation]
    notes: Sequence[str]  # all texts that may be in an answer
    vectors: dict[bytes, bytes]  # all that there may be, by the digests of their texts
    right: dict[str, Any]
    answers: list[Any]

    def returned(self, after: int) -> int:
        """Count the commands that had returned after so many operations."""
        return sum(isinstance(each, Mark) for each in self.operations[:after])


@pytest.fixture(scope="session")
def recorded(faults: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Record all commands in one process, each in a vault of its own."""
    scratch = tmp_path_factory.mktemp("power")
    befores = {name: prepared(faults, kind, scratch / name) for name, kind in KINDS.items()}
    child = faults.child(scratch, strace(scratch / "trace"))
    try:
        for name, kind in KINDS.items():
            place = scratch / name
            child.do(
                root=place / "vault",
                index=place / "data" / "index",
                commands=list(kind.commands),
                marks=place / "marks",
            )
    finally:
        child.close()
    lines = (scratch / "trace").read_text(encoding="ascii").splitlines()
    return {
        name: judged(faults, kind, scratch / name, *befores[name], about(scratch / name, lines))
        for name, kind in KINDS.items()
    }


def about(place: Path, lines: Sequence[str]) -> list[str]:
    """Return the lines of a trace that name a file below a folder."""
    wanted = in_hexadecimal(f"{place}/")
    return [line for line in lines if wanted in line]


def prepared(faults: Any, kind: Kind, place: Path) -> tuple[Tree, dict[bytes, bytes]]:
    """Make what there is before the commands; return the index, and its vectors."""
    root, index = place / "vault", place / "data" / "index"
    (place / "data").mkdir(parents=True)
    root.mkdir()
    vectors = dict[bytes, bytes]()
    if kind.before:
        faults.write_notes(root, kind.before(faults))
        with faults.open_library(root, index) as library:
            library.index()
        vectors = vectors_in(index)
        kind.prepare(faults, root, index)
        vectors |= vectors_in(index)
    faults.write_notes(root, kind.now(faults))
    return Tree.read(place / "data"), vectors


def judged(
    faults: Any,
    kind: Kind,
    place: Path,
    before: Tree,
    vectors: dict[bytes, bytes],
    lines: Sequence[str],
) -> Recorded:
    """Read what was recorded of one kind, and find out what is right by an index that is built
    anew.
    """
    operations = Recording(place / "data", before, place / "marks").read(lines)
    notes = [*kind.now(faults).values(), *(kind.before(faults).values() if kind.before else ())]
    with faults.open_library(place / "vault", place / "anew") as library:
        library.index()
        right, answers = faults.dump(library), faults.answers(library, QUERIES[1:])
    vectors = {**vectors, **vectors_in(place / "anew")}
    return Recorded(
        kind,
        place / "vault",
        before,
        Tree.read(place / "data"),
        operations,
        notes,
        vectors,
        right,
        answers,
    )


def vectors_in(index: Path) -> dict[bytes, bytes]:
    """Return all vectors that can be read, by the digests of their texts."""
    found = dict[bytes, bytes]()
    for path in (index / VECTORS).glob("*.sqlite3"):
        with suppress(StorageError), closing(VectorStore(path, read_only=True)) as vectors:
            found |= {
                key: vector.tobytes() for key, vector in vectors.get(sorted(vectors.keys())).items()
            }
    return found


# ------------------------------------------------------------------ what must hold


Owned = dict[str, frozenset[bytes | None]]
"""What each of the owner's files may hold; None where it may be missing."""


def promises(before: Tree, operations: Sequence[Operation]) -> list[Owned]:
    """Return after each operation what the owner's files may hold: what they did when the last
    command returned, or came to hold since.
    """
    live = with_nodes(before, operations)
    owned = {
        each.node
        for each in operations
        if isinstance(each, Enter) and each.name.removesuffix(".new") in OWNERS
    }
    found: list[Owned] = [{name: frozenset([held(live, name)]) for name in OWNERS}]
    for each in operations:
        now = found[-1]
        if isinstance(each, Mark):
            now = {name: frozenset([held(live, name)]) for name in OWNERS}
        elif not isinstance(each, Sync) and (
            each.owner in owned or not isinstance(each, (Write, Resize))
        ):
            live = apply(live, [(each, None)])
            if isinstance(each, (Rename, Remove)) and each.name in OWNERS:
                now = {**now, each.name: now[each.name] | {held(live, each.name)}}
        found.append(now)
    return found


def held(tree: Tree, name: str) -> bytes | None:
    """Return what one of the owner's files holds; None where it is not there."""
    return next((data for path, data in tree.reachable() if path.endswith(f"/{name}")), None)


def check(faults: Any, case: Recorded, state: CrashState, data: Path) -> str:
    """Read what a power cut has left, index, and compare; return what came of it."""
    state.tree.write(data)
    index = data / "index"
    believe(index)
    returned = case.returned(state.after)
    with faults.open_library(case.root, index) as library:
        said = faults.answers(library, QUERIES)
    texts = [passage.text for found in said if isinstance(found, tuple) for passage in found]
    assert all(any(text in note for note in case.notes) for text in texts), (
        "a text that stands in no note"
    )
    if "forget" in case.kind.commands and returned:
        assert all(found == "nothing is indexed" for found in said), "what was forgotten is there"
    if case.kind.now is private_notes:
        assert not any(SECRET in text for text in texts), "an answer has what is private"
    assert all(case.vectors[key] == vector for key, vector in vectors_in(index).items()), (
        "a vector is not its text's"
    )
    before, words = what_is_there(index)
    embedder = FakeEmbedder()
    with faults.open_library(case.root, index, embedder) as library:
        report = library.index(verify="repair" in case.kind.commands)
        embedded = embedder.embedded
        found = faults.dump(library)
        decisions = found.pop("decisions")
        assert found == {name: rows for name, rows in case.right.items() if name != "decisions"}
        assert len(decisions) == held_decisions(state.tree)
        if not decisions:  # else they have a part in what is shown
            assert faults.answers(library, QUERIES[1:]) == case.answers
    for name in OWNERS:
        assert held(Tree.read(index), name) == held(state.tree, name), (
            f"{name} was changed by the next run"
        )
    if case.kind.now is private_notes:
        left = [
            path for path, data in Tree.read(index).reachable() if SECRET.encode() in (data or b"")
        ]
        assert not left, f"{left[0]} has what is private"
    if report.mended:
        return "the index was damaged: built anew"
    if not before:
        return "there was no index: built"
    if words != "whole":
        return f"words were {words}: made anew from the texts"
    changes = report.added + report.changed + report.removed
    return "gone on with" if changes or embedded else "nothing was left to do"


def held_decisions(tree: Tree) -> int:
    """Count the decisions in the owner's file."""
    data = held(tree, "decisions.json")
    return len(json.loads(data)["decisions"]) if data else 0


def recovered(tree: Tree, data: Path) -> bytes:
    """Tell by a digest what there is when SQLite has recovered its files: what a log holds beyond
    its last commit makes no difference.
    """
    tree.write(data)
    for path in data.rglob("*.sqlite3"):
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(path, isolation_level=None)) as database,
        ):
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    after = Tree.read(data)
    shutil.rmtree(data)
    return after.digest(without="-shm")


def what_is_there(index: Path) -> tuple[int, str]:
    """Count the documents of an index, and tell whether its words are as they were written."""
    for folder in index.glob("vault-*"):
        places = Places(folder).at()
        with suppress(StorageError), closing(Store(places.store, read_only=True)) as store:
            is_stamped = (places.keyword / STAMP).exists()
            return store.counts()[0], "whole" if is_verified(
                places.keyword
            ) else "damaged" if is_stamped else "missing"
    return 0, "missing"


def believe(index: Path) -> None:
    """Have each file that tells an unchanged folder by the times of the index's files believe in
    these: a power cut need not change them.
    """
    for path in index.glob("*/*/unchanged"):
        check, _, text = path.read_text(encoding="utf-8", errors="replace").partition("\n")
        if check == str(crc32(text.encode())):
            places = Places(path.parent.parent).at(int(path.parent.name))
            text = json.dumps({**json.loads(text), "store": store_facts(places)})
            path.write_text(f"{crc32(text.encode())}\n{text}", encoding="utf-8")


@pytest.mark.parametrize("name", KINDS)
def test_after_a_power_cut_the_next_run_ends_in_the_right_index_and_nothing_promised_is_lost(
    name, full, count, faults, recorded, scratch
):
    case, outcomes = recorded[name], dict[tuple[int, bytes], str]()
    owned = promises(case.before, case.operations)
    for n, state in enumerate(
        Disk(case.before, case.operations).states(f"{SEED} {name}", MANY if full else FEW)
    ):
        where = f"{name}, after operation {state.after} of {len(case.operations)}, {state.way}"
        for own in OWNERS:
            assert held(state.tree, own) in owned[state.after][own], (
                f"{where}: {own} is not what it was when the command had returned, nor since"
            )
        key = case.returned(state.after), recovered(state.tree, scratch / f"recovered {n}")
        if key not in outcomes:  # else the same was tried before
            try:
                outcomes[key] = check(faults, case, state, scratch / f"{n}")
            except Exception as error:
                raise AssertionError(f"{where}: {error}") from error
            shutil.rmtree(scratch / f"{n}")
        count[f"power cut, {name}: {outcomes[key]}"] += 1
    count[f"power cut, {name}: different ones, as SQLite recovers them"] = len(outcomes)


# ------------------------------------------------------------------ the recorder


@pytest.mark.parametrize("name", KINDS)
def test_all_recorded_operations_together_make_the_files_that_are_there(name, recorded):
    case = recorded[name]
    end = (
        Disk(case.before, case.operations)
        .state(len(case.operations), "all of it", random.Random(0))
        .tree
    )
    maps = {path for path, _ in end.reachable() if path.endswith("-shm")}
    assert {path: data for path, data in end.reachable() if path not in maps} == {
        path: data for path, data in case.after.reachable() if path not in maps
    }
