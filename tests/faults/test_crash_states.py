"""The model of a disk after a power cut: what was synced is there, all else may be."""

from __future__ import annotations

import random

import pytest

from faults.crash_states import WAYS, Disk
from faults.recording import ROOT, Enter, Mark, Operation, Rename, Sync, Tree, Write


def written(is_synced: bool, is_named: bool) -> list[Operation]:
    """Return what a process does that writes a file anew and renames it to where another one is,
    with an fsync of the file, of the folder.
    """
    synced: list[Operation] = [Sync(2)] if is_synced else []
    named: list[Operation] = [Sync(ROOT)] if is_named else []
    return [
        Enter(ROOT, "a.new", 2),
        Write(2, 0, b"new"),
        *synced,
        Rename(ROOT, "a", 2, ROOT, "a.new"),
        *named,
        Mark("returned"),
    ]


@pytest.mark.parametrize(
    ("is_synced", "is_named", "may_be"),
    [
        (False, False, {b"old", b"new", b"", bytes(3)}),
        (True, False, {b"old", b"new"}),
        (False, True, {b"new", b"", bytes(3)}),
        (True, True, {b"new"}),
    ],
)
def test_rewritten_file_survives_only_if_it_and_its_folder_were_synced(is_synced, is_named, may_be):
    operations = written(is_synced, is_named)
    disk = Disk(Tree({1: b"old"}, {ROOT: {"a": 1}}), operations)
    states = [
        disk.state(len(operations), way, random.Random(seed)).tree
        for way in WAYS
        for seed in range(20)
    ]
    assert {dict(tree.reachable())["a"] for tree in states} == may_be
