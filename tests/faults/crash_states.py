"""Possible disk states after a power cut: all durable operations, and any of the others, in part.

The model is ALICE's weakest one. An fsync makes durable the data of a file or the entries of a
folder, and nothing else: not the file's entry in its folder. Each other operation may be lost
independently, so a rename may survive without the renamed data. A write may be torn at sectors of
512 bytes or pages of 4096, or extend the file by zeros. Changes of entries are atomic.
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
    "all",
    "only synced",
    "names without data",
    "names and sizes without data",
    "data without names",
    "one lost",
    "one alone",
    "the last torn",
    "some, torn",
    "some, torn again",
)
"""Ways in which operations survive that were not durable at the power cut."""


@dataclass(frozen=True, slots=True)
class CrashState:
    """A disk after a power cut."""

    after: int  # number of operations before it
    way: str
    tree: Tree


class Disk:
    """The possible states of a disk, by the last operation and the way pending ones survive."""

    def __init__(self, before: Tree, operations: Sequence[Operation]) -> None:
        self._operations = operations
        nodes = with_nodes(before, operations)
        self._at, self._durable = [0], [nodes]  # durable trees, and their first operations
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
        """Return the changes up to an operation that are not durable."""
        changes: list[Change] = []
        synced: set[int] = set()
        for operation in reversed(self._operations[:after]):
            if isinstance(operation, Sync):
                synced.add(operation.owner)
            elif not isinstance(operation, Mark) and operation.owner not in synced:
                changes.append(operation)
        return changes[::-1]

    def state(self, after: int, way: str, chance: random.Random) -> CrashState:
        """Return the disk after an operation, with pending changes applied in one of WAYS."""
        durable = self._durable[bisect_right(self._at, after) - 1]
        return CrashState(after, way, apply(durable, survivors(self.pending(after), way, chance)))

    def states(self, seed: str, most: int) -> Iterator[CrashState]:
        """Yield at most `most` distinct states, in random order.

        Up to half of them are of moments just after a command has returned.
        """
        chance, digests = random.Random(seed), set[bytes]()
        candidates = [(after, way) for after in range(len(self._operations) + 1) for way in WAYS]
        chance.shuffle(candidates)
        moments = [
            (after, way)
            for after, way in candidates
            if after and isinstance(self._operations[after - 1], Mark)
        ]
        for after, way in [*moments[: most // 2], *candidates]:
            if len(digests) >= most:
                return
            state = self.state(after, way, random.Random(f"{seed} {after} {way}"))
            if (digest := state.tree.digest()) not in digests:
                digests.add(digest)
                yield state


def with_nodes(before: Tree, operations: Iterable[Operation]) -> Tree:
    """Return a tree with all files and folders that are created later, empty and unreachable."""
    tree = before.copy()
    for operation in operations:
        if isinstance(operation, Enter) and operation.is_folder:
            tree.folders[operation.node] = {}
        elif isinstance(operation, Enter):
            tree.files[operation.node] = b""
    return tree


Survivor = tuple[Change, Sequence[range] | None]
"""A change that reached the disk and, for a write, the surviving bytes (None: all)."""


def survivors(pending: Sequence[Change], way: str, chance: random.Random) -> list[Survivor]:
    """Return the pending changes that survive in one of WAYS."""
    complete: list[Survivor] = [(change, None) for change in pending]
    is_data = [isinstance(change, (Write, Resize)) for change in pending]
    one = chance.randrange(len(pending)) if pending else 0
    if way == "only synced":
        return []
    if way == "names without data":
        return [change for change, data in zip(complete, is_data, strict=True) if not data]
    if way == "names and sizes without data":
        return [(change, []) for change in pending]
    if way == "data without names":
        return [change for change, data in zip(complete, is_data, strict=True) if data]
    if way == "one lost":
        return complete[:one] + complete[one + 1 :]
    if way == "one alone":
        return complete[one : one + 1]
    if way == "the last torn" and pending:
        return [*complete[:-1], (pending[-1], _torn(pending[-1], chance))]
    if way.startswith("some"):
        return [
            (change, _torn(change, chance) if chance.random() < 0.3 else None)
            for change in pending
            if chance.random() < 0.6
        ]
    return complete


def _torn(change: Change, chance: random.Random) -> Sequence[range]:
    """Return the surviving sectors or pages of a write: the first ones, or any."""
    if not isinstance(change, Write):
        return []
    unit, end = chance.choice((SECTOR, PAGE)), change.at + len(change.data)
    cuts = [change.at, *range((change.at // unit + 1) * unit, end, unit), end]
    parts = [range(start - change.at, stop - change.at) for start, stop in pairwise(cuts)]
    if chance.random() < 0.5:
        return parts[: chance.randrange(len(parts))]
    return [part for part in parts if chance.random() < 0.5]


def apply(tree: Tree, changes: Iterable[Survivor]) -> Tree:
    """Return a copy of a tree with changes applied in order."""
    new, contents = tree.copy(), dict[int, bytearray]()
    for change, parts in changes:
        if isinstance(change, (Write, Resize)):
            data = contents.setdefault(change.owner, bytearray(new.files[change.owner]))
            _put(data, change, parts)
        else:
            _enter(new, change)
    new.files.update((node, bytes(data)) for node, data in contents.items())
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
