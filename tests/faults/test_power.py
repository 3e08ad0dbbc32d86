"""A power cut at any moment of a command: the next run restores the index and keeps all promises.

Each command is recorded once (recording.py). Possible disk states after its operations
(crash_states.py) are written to disk, read as a server would, indexed, and compared with a fresh
index.
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
"""A word in the note that becomes private."""

QUERIES = (f"the {SECRET} of trees", "apple cellar or a green door")

OWNERS = ("decisions.json", "judged.json")
"""Files that cannot be rebuilt."""

Notes = dict[str, str]

pytestmark = pytest.mark.skipif(bool(reason := why_not()), reason=reason)


# ------------------------------------------------------------------ the commands


def old_notes() -> Notes:
    """Return a few notes, two duplicates, and one that becomes private."""
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
    changed = {
        path: text
        for path, text in vault.new_notes().items()
        if path.startswith("d/new") or int(path.split()[-1][:-3]) < 9
    }
    return {
        **dict(list(changed.items())[:9]),
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
    """Commands to record, and the state before them."""

    commands: Sequence[str]
    before: Callable[[], Notes] | None = old_notes  # None: no index
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
    """The recorded operations of commands, and the expected results."""

    kind: Kind
    root: Path
    before: Tree
    after: Tree
    operations: Sequence[Operation]
    notes: Sequence[str]  # all texts allowed in an answer
    vectors: dict[bytes, bytes]  # all allowed vectors, by digests of texts
    expected: dict[str, Any]
    answers: list[Any]

    def returned(self, after: int) -> int:
        """Return the number of commands that had returned after some operations."""
        return sum(isinstance(operation, Mark) for operation in self.operations[:after])


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Record all commands in one process, each kind in a separate vault."""
    scratch = tmp_path_factory.mktemp("power")
    prepared = {name: prepare(kind, scratch / name) for name, kind in KINDS.items()}
    child = Child(scratch, strace(scratch / "trace"))
    try:
        for name, kind in KINDS.items():
            folder = scratch / name
            child.do(
                root=folder / "vault",
                index=folder / "data" / "index",
                commands=list(kind.commands),
                marks=folder / "marks",
            )
    finally:
        child.close()
    lines = trace_lines(scratch / "trace")
    return {
        name: read_recording(kind, scratch / name, *prepared[name], lines)
        for name, kind in KINDS.items()
    }


def prepare(kind: Kind, folder: Path) -> tuple[Tree, dict[bytes, bytes]]:
    """Create the state before the commands; return the index, and its vectors."""
    root, index = folder / "vault", folder / "data" / "index"
    (folder / "data").mkdir(parents=True)
    root.mkdir()
    if kind.before:
        write_notes(root, kind.before())
        with open_library(root, index) as library:
            library.index()
        kind.prepare(index)
    write_notes(root, kind.now())
    return Tree.read(folder / "data"), vectors_in(index)


def read_recording(
    kind: Kind,
    folder: Path,
    before: Tree,
    vectors: dict[bytes, bytes],
    lines: Sequence[str],
) -> Recorded:
    """Read the recording of one kind, and build a fresh index for the expected results."""
    prefix = in_hexadecimal(f"{folder}/")
    lines = [line for line in lines if prefix in line]
    operations = Recording(folder / "data", before, folder / "marks").read(lines)
    notes = [*kind.now().values(), *(kind.before().values() if kind.before else ())]
    with open_library(folder / "vault", folder / "fresh") as library:
        library.index()
        expected, results = dump(library), answers(library, QUERIES[1:])
    vectors = {**vectors, **vectors_in(folder / "fresh")}
    return Recorded(
        kind,
        folder / "vault",
        before,
        Tree.read(folder / "data"),
        operations,
        notes,
        vectors,
        expected,
        results,
    )


# ------------------------------------------------------------------ checks


AllowedContents = dict[str, frozenset[bytes | None]]
"""The allowed contents of each of the owner's files; None if it may be missing."""


def promises(before: Tree, operations: Sequence[Operation]) -> list[AllowedContents]:
    """Return the allowed contents of the owner's files after each operation.

    These are the contents when the last command returned, and any written since.
    """
    live = with_nodes(before, operations)
    owned = {
        operation.node
        for operation in operations
        if isinstance(operation, Enter) and operation.name.removesuffix(".new") in OWNERS
    }
    allowed: list[AllowedContents] = [{name: frozenset([content(live, name)]) for name in OWNERS}]
    for operation in operations:
        current = allowed[-1]
        if isinstance(operation, Mark):
            current = {name: frozenset([content(live, name)]) for name in OWNERS}
        elif not isinstance(operation, Sync) and (
            operation.owner in owned or not isinstance(operation, (Write, Resize))
        ):
            live = apply(live, [(operation, None)])
            if isinstance(operation, (Rename, Remove)) and operation.name in OWNERS:
                name = operation.name
                current = {**current, name: current[name] | {content(live, name)}}
        allowed.append(current)
    return allowed


def content(tree: Tree, name: str) -> bytes | None:
    """Return the content of one of the owner's files, or None if it is missing."""
    return next((data for path, data in tree.reachable() if path.endswith(f"/{name}")), None)


def check(case: Recorded, state: CrashState, data: Path) -> None:
    """Read a disk after a power cut, index, and compare."""
    state.tree.write(data)
    index = data / "index"
    returned = case.returned(state.after)
    with open_library(case.root, index) as library:
        results = answers(library, QUERIES)
    texts = [p.text for result in results if isinstance(result, tuple) for p in result]
    assert all(any(text in note for note in case.notes) for text in texts), (
        "a text that is in no note"
    )
    if "forget" in case.kind.commands and returned:
        assert all(result == "nothing is indexed" for result in results), "a forgotten note"
    if case.kind.now is private_notes:
        assert not any(SECRET in text for text in texts), "an answer with a private text"
    assert all(case.vectors[key] == vector for key, vector in vectors_in(index).items()), (
        "a vector of another text"
    )
    with open_library(case.root, index) as library:
        library.index(verify="repair" in case.kind.commands)
        actual = dump(library)
        decisions = actual.pop("decisions")
        assert actual == {name: rows for name, rows in case.expected.items() if name != "decisions"}
        assert len(decisions) == count_decisions(state.tree)
        if not decisions:  # they affect answers
            assert answers(library, QUERIES[1:]) == case.answers
    after = Tree.read(index)
    for name in OWNERS:
        assert content(after, name) == content(state.tree, name), f"the next run changed {name}"
    if case.kind.now is private_notes:
        private = [path for path, data in after.reachable() if SECRET.encode() in (data or b"")]
        assert not private, f"{private[0]} contains a private text"


def count_decisions(tree: Tree) -> int:
    data = content(tree, "decisions.json")
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
    allowed = promises(case.before, case.operations)
    for state in Disk(case.before, case.operations).states(f"power {name}", states):
        where = f"{name}, after operation {state.after} of {len(case.operations)}, {state.way}"
        for file in OWNERS:
            assert content(state.tree, file) in allowed[state.after][file], (
                f"{where}: {file} lost a change of a command that had returned"
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
    end = disk.state(len(case.operations), "all", random.Random(0)).tree
    # SQLite ignores its shared memory file (-shm) after a restart
    actual, expected = (
        {path: data for path, data in tree.reachable() if not path.endswith("-shm")}
        for tree in (end, case.after)
    )
    assert actual == expected
