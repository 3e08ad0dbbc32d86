"""The model of a disk after a power cut: synced data survives, anything else may."""

from __future__ import annotations

import random

import pytest

from faults.crash_states import WAYS, Disk
from faults.recording import ROOT, Enter, Mark, Operation, Rename, Sync, Tree, Write


def replacement(file_synced: bool, folder_synced: bool) -> list[Operation]:
    """Return the operations of an atomic replacement, with an fsync of the file or the folder."""
    sync_file: list[Operation] = [Sync(2)] if file_synced else []
    sync_folder: list[Operation] = [Sync(ROOT)] if folder_synced else []
    return [
        Enter(ROOT, "a.new", 2),
        Write(2, 0, b"new"),
        *sync_file,
        Rename(ROOT, "a", 2, ROOT, "a.new"),
        *sync_folder,
        Mark("returned"),
    ]


@pytest.mark.parametrize(
    ("file_synced", "folder_synced", "possible"),
    [
        (False, False, {b"old", b"new", b"", bytes(3)}),
        (True, False, {b"old", b"new"}),
        (False, True, {b"new", b"", bytes(3)}),
        (True, True, {b"new"}),
    ],
)
def test_rewritten_file_survives_only_if_it_and_its_folder_were_synced(
    file_synced, folder_synced, possible
):
    operations = replacement(file_synced, folder_synced)
    disk = Disk(Tree({1: b"old"}, {ROOT: {"a": 1}}), operations)
    states = [
        disk.state(len(operations), way, random.Random(seed)).tree
        for way in WAYS
        for seed in range(20)
    ]
    assert {dict(tree.reachable())["a"] for tree in states} == possible
