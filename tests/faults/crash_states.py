"""What a disk may hold after a power cut: of recorded operations those that were made durable, and
any of the others, in any order and in part.

The model is ALICE's weakest one. An fsync makes durable what was done to that file, or the entries
of that folder, and nothing else: not the file's own entry in its folder. Whatever was not made
durable may be lost or not, each operation for itself: so a rename may be there before the data that
it names. A write may be torn at sectors of 512 bytes or pages of 4096, or leave a file that is
longer and holds zeros. A rename or another change of one entry is whole or not at all.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from faults.recording import (
    Change,
    Enter,
    Mark,
    Operation,
    Remove,
    Rename,
    Resize,
    Sync,
    Tree,
    Write,
)

SECTOR, PAGE = 512, 4096

WAYS = (
    "all of it",
    "what was synced",
    "names without data",
    "names and sizes without data",
    "data without names",
    "one lost",
    "one alone",
    "the last torn",
    "some, torn",
    "some, torn anew",
)
"""What becomes of the operations that were not made durable when the power went."""


@dataclass(frozen=True, slots=True)
class CrashState:
    """A disk after a power cut."""

    after: int  # operations that were done
    way: str
    tree: Tree


class Disk:
    """The states in which a power cut may leave a disk, by the operation that was the last and the
    way in which the others went.
    """

    def __init__(self, before: Tree, operations: Sequence[Operation]) -> None:
        self._operations = operations
        nodes = with_nodes(before, operations)
        self._at, self._durable = [0], [nodes]  # what is durable, from which operation on
        pending: dict[int, list[int]] = defaultdict(list)
        for number, operation in enumerate(operations, 1):
            if isinstance(operation, Sync) and (done := pending.pop(operation.owner, [])):
                nodes = apply(nodes, [(self._change(n), None) for n in done])
                self._at.append(number)
                self._durable.append(nodes)
            elif not isinstance(operation, (Sync, Mark)):
                pending[operation.owner].append(number - 1)

    def _change(self, number: int) -> Change:
        operation = self._operations[number]
        assert not isinstance(operation, (Sync, Mark))
        return operation

    def pending(self, after: int) -> list[Change]:
        """Return what was done up to an operation and not made durable."""
        found: list[Change] = []
        synced: set[int] = set()
        for operation in reversed(self._operations[:after]):
            if isinstance(operation, Sync):
                synced.add(operation.owner)
            elif not isinstance(operation, Mark) and operation.owner not in synced:
                found.append(operation)
        return found[::-1]

    def state(self, after: int, way: str, chance: random.Random) -> CrashState:
        """Return the disk after an operation, the others gone in one of the ways."""
        durable = self._durable[bisect_right(self._at, after) - 1]
        return CrashState(after, way, apply(durable, chosen(self.pending(after), way, chance)))

    def states(self, seed: str, most: int) -> Iterator[CrashState]:
        """Yield different states, at most so many: every prefix of the operations in every way, in
        an order that the seed draws.

        A half of them, if there are as many, are of the moments just after a command has returned:
        there most is promised.
        """
        chance, seen = random.Random(seed), set[bytes]()
        wanted = [(after, way) for after in range(len(self._operations) + 1) for way in WAYS]
        chance.shuffle(wanted)
        moments = [
            (after, way)
            for after, way in wanted
            if after and isinstance(self._operations[after - 1], Mark)
        ]
        for after, way in [*moments[: most // 2], *wanted]:
            if len(seen) >= most:
                return
            state = self.state(after, way, random.Random(f"{seed} {after} {way}"))
            if (digest := state.tree.digest()) not in seen:
                seen.add(digest)
                yield state


def with_nodes(before: Tree, operations: Iterable[Operation]) -> Tree:
    """Return a tree that knows all files and folders which are made later, empty and where no path
    leads to them.
    """
    tree = before.copy()
    for operation in operations:
        if isinstance(operation, Enter) and operation.is_folder:
            tree.folders[operation.node] = {}
        elif isinstance(operation, Enter):
            tree.files[operation.node] = b""
    return tree


Kept = tuple[Change, Sequence[range] | None]
"""An operation that came to the disk; of a write, which bytes of it did, or all (None)."""


def chosen(pending: Sequence[Change], way: str, chance: random.Random) -> list[Kept]:
    """Return what came to the disk of what was not made durable."""
    whole: list[Kept] = [(each, None) for each in pending]
    is_data = [isinstance(each, (Write, Resize)) for each in pending]
    one = chance.randrange(len(pending)) if pending else 0
    if way == "what was synced":
        return []
    if way == "names without data":
        return [kept for kept, data in zip(whole, is_data, strict=True) if not data]
    if way == "names and sizes without data":
        return [(each, []) for each in pending]
    if way == "data without names":
        return [kept for kept, data in zip(whole, is_data, strict=True) if data]
    if way == "one lost":
        return whole[:one] + whole[one + 1 :]
    if way == "one alone":
        return whole[one : one + 1]
    if way == "the last torn" and pending:
        return [*whole[:-1], (pending[-1], _torn(pending[-1], chance))]
    if way.startswith("some"):
        return [
            (each, _torn(each, chance) if chance.random() < 0.3 else None)
            for each in pending
            if chance.random() < 0.6
        ]
    return whole


def _torn(change: Change, chance: random.Random) -> Sequence[range]:
    """Return which parts of a write came to the disk: sectors or pages, counted from the file's
    beginning, the first ones or any of them.
    """
    if not isinstance(change, Write):
        return []
    unit, end = chance.choice((SECTOR, PAGE)), change.at + len(change.data)
    cuts = [change.at, *range((change.at // unit + 1) * unit, end, unit), end]
    parts = [range(start - change.at, stop - change.at) for start, stop in pairwise(cuts)]
    if chance.random() < 0.5:
        return parts[: chance.randrange(len(parts))]
    return [part for part in parts if chance.random() < 0.5]


def apply(tree: Tree, kept: Iterable[Kept]) -> Tree:
    """Return a tree with operations done to it, in their order."""
    new, written = tree.copy(), dict[int, bytearray]()
    for change, parts in kept:
        if isinstance(change, (Write, Resize)):
            data = written.setdefault(change.owner, bytearray(new.files[change.owner]))
            _put(data, change, parts)
        else:
            _enter(new, change)
    new.files.update((node, bytes(data)) for node, data in written.items())
    return new


def _put(data: bytearray, change: Write | Resize, parts: Sequence[range] | None) -> None:
    size = (
        change.size if isinstance(change, Resize) else max(len(data), change.at + len(change.data))
    )
    data.extend(bytes(max(0, size - len(data))))
    if isinstance(change, Resize):
        del data[size:]
        return
    for part in [range(len(change.data))] if parts is None else parts:
        data[change.at + part.start : change.at + part.stop] = change.data[part.start : part.stop]


def _enter(tree: Tree, change: Enter | Remove | Rename) -> None:
    entries = tree.folders[change.owner]
    if isinstance(change, Remove):
        if entries.get(change.name) == change.node:
            del entries[change.name]
        return
    if isinstance(change, Rename) and tree.folders[change.source].get(change.old) == change.node:
        del tree.folders[change.source][change.old]
    entries[change.name] = change.node
