"""After a power cut at any moment of any command the next run ends in the right index, and what the
owner was promised is there.

Each command is recorded once (recording.py); then what its operations may have left on a disk
(crash_states.py) is written to one, read as a server would read it, indexed, and compared with an
index that was built anew.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dump import dump
from faults import vault
from faults.crash_states import CrashState, Disk, apply, with_nodes
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
    trace_lines,
    why_not,
)
from faults.vault import Child, answers, open_library, vectors_in, write_notes

SECRET = "quincunx"
"""A word of the note that becomes private."""

QUERIES = (f"the {SECRET} of trees", "apple cellar or a green door")

OWNERS = ("decisions.json", "judged.json")
"""Files of which nothing can be made anew."""

Notes = dict[str, str]

pytestmark = pytest.mark.skipif(bool(reason := why_not()), reason=reason)


# ------------------------------------------------------------------ the commands


def old_notes() -> Notes:
    """Return a few notes, two of which say the same, and one that will be private."""
    notes = dict(list(vault.old_notes().items())[:9])
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


def new_notes() -> Notes:
    """Edit, rename, delete and add notes."""
    notes = old_notes()
    kept = {
        path: text
        for path, text in vault.new_notes().items()
        if path.startswith("d/new") or int(path.split()[-1][:-3]) < 9
    }
    return {
        **dict(list(kept.items())[:9]),
        **{path: text for path, text in notes.items() if path.startswith("e/")},
    }


def private_notes() -> Notes:
    notes = old_notes()
    return {**notes, "e/own.md": f"---\nprivate: true\n---\n{notes['e/own.md']}"}


def damage_store(index: Path) -> None:
    (path,) = index.glob("*/1/index.sqlite3")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@dataclass(frozen=True)
class Kind:
    """Commands that are recorded, and what there is before."""

    commands: Sequence[str]
    before: Callable[[], Notes] | None = old_notes  # None where there is no index
    now: Callable[[], Notes] = old_notes
    prepare: Callable[[Path], None] = lambda index: None


KINDS = {
    "first index and decisions": Kind(["index", "decide", "judge"], before=None),
    "update": Kind(["index", "index"], now=new_notes),
    "note becomes private": Kind(["index"], now=private_notes),
    "rebuild": Kind(["rebuild"]),
    "decisions": Kind(["index", "decide", "judge", "undo", "decide"]),
    "store repaired": Kind(["repair"], prepare=damage_store),
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
        return sum(isinstance(operation, Mark) for operation in self.operations[:after])


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Record all commands in one process, each in a vault of its own."""
    scratch = tmp_path_factory.mktemp("power")
    befores = {name: prepared(kind, scratch / name) for name, kind in KINDS.items()}
    child = Child(scratch, strace(scratch / "trace"))
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
    lines = trace_lines(scratch / "trace")
    return {
        name: judged(kind, scratch / name, *befores[name], lines) for name, kind in KINDS.items()
    }


def prepared(kind: Kind, place: Path) -> tuple[Tree, dict[bytes, bytes]]:
    """Make what there is before the commands; return the index, and its vectors."""
    root, index = place / "vault", place / "data" / "index"
    (place / "data").mkdir(parents=True)
    root.mkdir()
    if kind.before:
        write_notes(root, kind.before())
        with open_library(root, index) as library:
            library.index()
        kind.prepare(index)
    write_notes(root, kind.now())
    return Tree.read(place / "data"), vectors_in(index)


def judged(
    kind: Kind,
    place: Path,
    before: Tree,
    vectors: dict[bytes, bytes],
    lines: Sequence[str],
) -> Recorded:
    """Read what was recorded of one kind, and find out what is right by an index that is built
    anew.
    """
    wanted = in_hexadecimal(f"{place}/")
    lines = [line for line in lines if wanted in line]
    operations = Recording(place / "data", before, place / "marks").read(lines)
    notes = [*kind.now().values(), *(kind.before().values() if kind.before else ())]
    with open_library(place / "vault", place / "anew") as library:
        library.index()
        right, answered = dump(library), answers(library, QUERIES[1:])
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
        answered,
    )


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
    for operation in operations:
        now = found[-1]
        if isinstance(operation, Mark):
            now = {name: frozenset([held(live, name)]) for name in OWNERS}
        elif not isinstance(operation, Sync) and (
            operation.owner in owned or not isinstance(operation, (Write, Resize))
        ):
            live = apply(live, [(operation, None)])
            if isinstance(operation, (Rename, Remove)) and operation.name in OWNERS:
                now = {**now, operation.name: now[operation.name] | {held(live, operation.name)}}
        found.append(now)
    return found


def held(tree: Tree, name: str) -> bytes | None:
    """Return what one of the owner's files holds; None where it is not there."""
    return next((data for path, data in tree.reachable() if path.endswith(f"/{name}")), None)


def check(case: Recorded, state: CrashState, data: Path) -> None:
    """Read what a power cut has left, index, and compare."""
    state.tree.write(data)
    index = data / "index"
    returned = case.returned(state.after)
    with open_library(case.root, index) as library:
        said = answers(library, QUERIES)
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
    with open_library(case.root, index) as library:
        library.index(verify="repair" in case.kind.commands)
        found = dump(library)
        decisions = found.pop("decisions")
        assert found == {name: rows for name, rows in case.right.items() if name != "decisions"}
        assert len(decisions) == held_decisions(state.tree)
        if not decisions:  # else they have a part in what is shown
            assert answers(library, QUERIES[1:]) == case.answers
    left = Tree.read(index)
    for name in OWNERS:
        assert held(left, name) == held(state.tree, name), f"{name} was changed by the next run"
    if case.kind.now is private_notes:
        private = [path for path, data in left.reachable() if SECRET.encode() in (data or b"")]
        assert not private, f"{private[0]} has what is private"


def held_decisions(tree: Tree) -> int:
    """Count the decisions in the owner's file."""
    data = held(tree, "decisions.json")
    return len(json.loads(data)["decisions"]) if data else 0


CUTS = [
    *(
        pytest.param(name, 50, marks=pytest.mark.slow, id=f"{name}, few")
        for name in list(KINDS)[:3]
    ),
    *(pytest.param(name, 260, marks=pytest.mark.long, id=name) for name in KINDS),
]


@pytest.mark.parametrize(("name", "states"), CUTS)
def test_next_run_after_a_power_cut_restores_the_index_and_keeps_promises(
    name: str, states: int, recorded: dict[str, Recorded], scratch: Path
) -> None:
    case = recorded[name]
    owned = promises(case.before, case.operations)
    for state in Disk(case.before, case.operations).states(f"power {name}", states):
        where = f"{name}, after operation {state.after} of {len(case.operations)}, {state.way}"
        for own in OWNERS:
            assert held(state.tree, own) in owned[state.after][own], (
                f"{where}: {own} is not what it was when the command had returned, nor since"
            )
        try:
            check(case, state, scratch / "data")
        except Exception as error:
            raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(scratch / "data")


# ------------------------------------------------------------------ the recorder


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_recorded_operations_reproduce_the_files(name: str, recorded: dict[str, Recorded]) -> None:
    case = recorded[name]
    disk = Disk(case.before, case.operations)
    end = disk.state(len(case.operations), "all of it", random.Random(0)).tree
    # SQLite's index of its log is mapped into memory, and nobody believes it after a start
    made, right = (
        {path: data for path, data in tree.reachable() if not path.endswith("-shm")}
        for tree in (end, case.after)
    )
    assert made == right
