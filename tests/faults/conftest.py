"""Indexes of the vault in `vault.py`, built once, and child processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.vault import Built, Child, build, new_notes, old_notes


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a temporary folder, in memory if possible: writes of a killed process stay visible."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("old")
    return build(folder / "vault", old_notes(), folder / "index")


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("new")
    return build(folder / "vault", new_notes(), folder / "index")


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    child = Child(tmp_path_factory.mktemp("child"))
    yield child
    child.close()


@pytest.fixture(scope="session")
def child_on_a_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """Return a child process whose disk can be made full."""
    folder = tmp_path_factory.mktemp("disk")
    compiler = shutil.which("cc")
    if sys.platform != "linux" or not compiler:
        pytest.skip("the preloaded library needs Linux and a C compiler")
    source, program = Path(__file__).with_name("full_disk.c"), folder / "full_disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", program, source], check=True)
    child = Child(folder, preload=program)
    yield child
    child.close()
