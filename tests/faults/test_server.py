"""A real server recovers from the loss of its child, from a full disk, and from being killed."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dump import dump
from faults.vault import old_notes, sizes, write_notes
from servers import ServerProcess, children_of, is_alive, is_found
from thumbindex.config import load_config
from thumbindex.errors import StorageError
from thumbindex.index.chunk_vectors import chunks_without_vector, unique_keys
from thumbindex.index.files import IndexPaths
from thumbindex.index.locks import is_held
from thumbindex.index.store import Store
from thumbindex.library import Library
from thumbindex.library.comparison import read_indexed_files
from waiting import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks processes up in /proc"
)

OVERRIDES = (
    "encode.embed.model=all-MiniLM-L6-v2",
    "serve.watch.reconcile_seconds=1",
)


@dataclass(frozen=True)
class Vault:
    """A vault of 24 notes, its index, and servers on it."""

    root: Path
    index: Path

    @property
    def options(self) -> list[str]:
        return [
            f"--folder={self.root}",
            f"--index={self.index}",
            *(f"--set={override}" for override in OVERRIDES),
        ]

    @property
    def index_paths(self) -> IndexPaths:
        with self.library() as library:
            return library.opened[0].index_paths

    def library(self) -> Library:
        return Library.open(
            [self.root],
            index=self.index,
            config=load_config(user_file=self.root / "none", overrides=OVERRIDES),
        )

    def is_finished(self) -> bool:
        """Return whether all notes are indexed with vectors, from the files alone."""
        index_paths = self.index_paths
        try:
            indexed = read_indexed_files(index_paths)
            store = Store(index_paths.store, read_only=True)
            try:
                return (
                    indexed.is_settled
                    and len(indexed.manifest) == 24
                    and not unique_keys(chunks_without_vector(store))
                    and bool(store.meta("fingerprint"))
                )
            finally:
                store.close()
        except StorageError:
            return False


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Return the dump of an undisturbed index by the real model."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_notes(folder / "vault", old_notes())
    with Vault(folder / "vault", folder / "index").library() as library:
        library.index()
        return dump(library)


@pytest.fixture
def vault(scratch: Path) -> Vault:
    write_notes(scratch / "vault", old_notes())
    return Vault(scratch / "vault", scratch / "index")


def children(server: ServerProcess) -> list[int]:
    """Return the running child processes of a server."""
    return [pid for pid in children_of(server.process.pid) if is_alive(pid)]


@contextmanager
def serving(vault: Vault) -> Iterator[tuple[ServerProcess, int]]:
    """Start a server, and wait for its child."""
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(vault.options))
        assert until(lambda: len(children(server)) == 1, 60)
        yield server, children(server)[0]


def moments(name: str, kills: int) -> list[float]:
    """Return random seconds until a kill: a build takes about three, mostly for imports."""
    chance = random.Random(name)
    return [chance.uniform(0.6, 3.0) for _ in range(kills)]


@pytest.mark.long
def test_killed_indexer_is_replaced_and_its_work_finished(
    vault: Vault, expected: dict[str, list[object]]
) -> None:
    for moment in moments("child", 10):
        with serving(vault) as (server, child):
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            assert until(vault.is_finished, 60)
            assert until(
                lambda server=server, child=child: (
                    bool(children(server)) and child not in children(server)
                ),
                60,
            )
            assert server.call("query", query="apple cellar")["results"]
        with vault.library() as library:
            assert dump(library) == expected
        shutil.rmtree(vault.index)


@pytest.mark.parametrize("kills", sizes(1, 10))
def test_killed_server_leaves_no_child_no_lock_and_a_usable_index(
    kills: int, vault: Vault, expected: dict[str, list[object]]
) -> None:
    for moment in moments("server", kills):
        with serving(vault) as (server, child):
            time.sleep(moment)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(2)
            assert until(lambda child=child: not is_alive(child), 10)
            folder = vault.index_paths.folder
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("writer.lock", "watch.lock"):
                assert until(lambda lock=folder / name: not is_held(lock), 10)
        with vault.library() as library:
            assert library.index().repaired == ()
            assert dump(library) == expected
        shutil.rmtree(vault.index)


# ------------------------------------------------------------------ a disk that fills up


@contextmanager
def full_disk(child: int) -> Iterator[None]:
    """Make all writes of the child fail in this block."""
    soft, hard = resource.prlimit(child, resource.RLIMIT_FSIZE)
    resource.prlimit(child, resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.prlimit(child, resource.RLIMIT_FSIZE, (soft, hard))


def status(server: ServerProcess) -> str:
    return server.request("tools/call", {"name": "status", "arguments": {}})["content"][0]["text"]


@pytest.mark.long
def test_server_with_a_full_disk_answers_and_indexes_edits_later(
    vault: Vault,
) -> None:
    with vault.library() as library:
        library.index()
    with serving(vault) as (server, child):
        assert until(lambda: is_held(vault.index_paths.folder / "watch.lock"), 60)
        with full_disk(child):
            (vault.root / "a/note 0.md").write_text(
                "# Note 0\n\nQuinces are hard and yellow.\n", encoding="utf-8"
            )
            assert until(lambda: "cannot index changes" in status(server), 60)
            text = status(server)
            assert any(hint in text for hint in ("free some space", "and free space")), text
            for _ in range(20):
                assert server.call("query", query="apple cellar")["results"]
                time.sleep(0.05)
        assert until(lambda: is_found(server.call, "Quinces are hard"), 60)
        assert until(lambda: "cannot index changes" not in status(server), 60)
        assert children(server) == [child]  # the child has not crashed
