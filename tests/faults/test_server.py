"""A real server whose processes are killed at random moments, whose disk fills up, whose index is
damaged: it goes on, or the next does.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers import ServerProcess, children_of, is_alive
from thumbindex.config import load_config
from thumbindex.errors import StorageError, ThumbindexError
from thumbindex.index.files import Places
from thumbindex.index.locks import is_held
from thumbindex.index.store import Store
from thumbindex.library import Library
from thumbindex.library.indexing import read_known
from waiting import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks processes up in /proc"
)

OVERRIDES = (
    "encode.embed.model=all-MiniLM-L6-v2",
    "serve.watch.share=1",
    "serve.watch.reconcile_seconds=1",
)


@dataclass(frozen=True)
class Vault:
    """A vault of 24 notes, what an undisturbed build makes of it with the real model, and servers
    on it.
    """

    root: Path
    index: Path
    overrides: tuple[str, ...]
    right: dict[str, list[object]]

    @property
    def options(self) -> list[str]:
        return [
            f"--folder={self.root}",
            f"--index={self.index}",
            *(f"--set={each}" for each in self.overrides),
        ]

    @property
    def places(self) -> Places:
        with self.library() as library:
            return library.opened[0].places

    def library(self) -> Library:
        return Library.open(
            [self.root],
            index=self.index,
            config=load_config(user_file=self.root / "none", overrides=self.overrides),
        )

    def is_finished(self) -> bool:
        """Tell whether all notes' words and vectors are there; asks no process."""
        places = self.places
        try:
            known = read_known(places)
            store = Store(places.store, read_only=True)
            try:
                return (
                    known.is_settled
                    and len(known.manifest) == 24
                    and not store.pending()
                    and bool(store.meta("fingerprint"))
                )
            finally:
                store.close()
        except StorageError:
            return False


@pytest.fixture(scope="session")
def undisturbed(faults, model_cache, tmp_path_factory) -> Vault:
    folder = tmp_path_factory.mktemp("undisturbed")
    faults.write_notes(folder / "vault", faults.old_notes())
    vault = Vault(
        folder / "vault", folder / "index", (*OVERRIDES, f"encode.embed.cache={model_cache}"), {}
    )
    with vault.library() as library:
        library.index()
        vault.right.update(faults.dump(library))
    return vault


@pytest.fixture
def built(undisturbed: Vault, faults, scratch: Path) -> Iterator[Vault]:
    """Return the vault, to be edited, with its finished index."""
    yield Vault(undisturbed.root, scratch / "index", undisturbed.overrides, undisturbed.right)
    faults.write_notes(undisturbed.root, faults.old_notes())


@pytest.fixture
def vault(undisturbed: Vault, faults, scratch: Path) -> Vault:
    """Return the vault with no index yet."""
    faults.write_notes(scratch / "vault", faults.old_notes())
    return Vault(scratch / "vault", scratch / "index", undisturbed.overrides, undisturbed.right)


def children(server: ServerProcess) -> list[int]:
    """Return the processes that a server started and that live."""
    return [pid for pid in children_of(server.process.pid) if is_alive(pid)]


@contextmanager
def serving(vault: Vault) -> Iterator[tuple[ServerProcess, int]]:
    """Start a server, and wait until its child is there."""
    with ExitStack() as running:
        server = running.enter_context(ServerProcess(vault.options))
        assert until(lambda: len(children(server)) == 1)
        yield server, children(server)[0]


def check_right(vault: Vault, faults) -> None:
    with vault.library() as library:
        assert faults.dump(library) == vault.right


def moments(vault: Vault, full: bool, name: str) -> list[float]:
    """Return when to kill: mostly while it indexes, which begins when its imports are done."""
    chance = random.Random(name)
    seconds = seconds_of_a_build(vault) if full else 3.0
    return [chance.uniform(0.2 * seconds, seconds) for _ in range(10 if full else 1)]


def seconds_of_a_build(vault: Vault) -> float:
    with serving(vault):
        began = time.monotonic()
        assert until(vault.is_finished)
        seconds = time.monotonic() - began
    shutil.rmtree(vault.index)
    return seconds


def far(vault: Vault) -> str:
    """Say how far an index is."""
    try:
        store = Store(vault.places.store, read_only=True)
    except StorageError:
        return "before its first commit"
    try:
        _, chunks, vectors = store.counts()
    finally:
        store.close()
    return (
        "when all was done"
        if chunks and vectors == chunks
        else "among the vectors"
        if vectors
        else "among the words"
    )


def test_a_child_that_is_killed_while_it_indexes_is_followed_by_another_that_finishes(
    vault, full, count, faults
):
    for moment in moments(vault, full, "child"):
        with serving(vault) as (server, child):
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            count[f"server's child: killed {far(vault)}"] += 1
            assert until(vault.is_finished)
            assert until(
                lambda server=server, child=child: (
                    bool(children(server)) and child not in children(server)
                )
            )
            assert server.call("query", query="apple cellar")["results"]
        check_right(vault, faults)
        shutil.rmtree(vault.index)


def test_a_server_killed_while_it_indexes_leaves_no_child_no_lock_and_an_index_the_next_finishes(
    vault, full, count, faults
):
    for moment in moments(vault, full, "server"):
        with serving(vault) as (server, child):
            time.sleep(moment)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(2)
            assert until(lambda child=child: not is_alive(child), 2)
            count[f"server: killed {far(vault)}"] += 1
            folder = vault.places.folder
            folder.mkdir(parents=True, exist_ok=True)
            assert until(
                lambda folder=folder: (
                    not is_held(folder / "writer.lock") and not is_held(folder / "watch.lock")
                ),
                2,
            )
        with vault.library() as library:
            assert library.index().mended == ()
            assert faults.dump(library) == vault.right
        shutil.rmtree(vault.index)


# ------------------------------------------------------------------ a disk that fills up, an index


@contextmanager
def small_files(vault: Vault, child: int) -> Iterator[None]:
    """Let the child write no file any more."""
    soft, hard = resource.prlimit(child, resource.RLIMIT_FSIZE)
    resource.prlimit(child, resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.prlimit(child, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def filled(vault: Vault, child: int) -> Iterator[None]:
    """Fill the disk that the index is on, to the last byte."""
    filler = vault.index / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    yield
    filler.unlink()


@pytest.fixture(params=["files that may not grow", "a full disk"])
def full_disk(request, full, undisturbed, built) -> Iterator[Callable[[Vault, int], object]]:
    is_disk = request.param == "a full disk"
    if is_disk:
        built.index.mkdir()
        if (
            not full
            or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(built.index)],
                capture_output=True,
            ).returncode
        ):
            pytest.skip("only in the full form, and where a file system can be mounted")
    shutil.copytree(undisturbed.index, built.index, dirs_exist_ok=True)
    yield filled if is_disk else small_files
    if is_disk:
        subprocess.run(["umount", "--lazy", str(built.index)], check=True)


def is_found(server: ServerProcess, words: str) -> bool:
    return any(
        words in each["text"].lower()
        for each in server.call("query", query=f'"{words}"')["results"]
    )


def notes(server: ServerProcess) -> str:
    return server.request("tools/call", {"name": "status", "arguments": {}})["content"][0]["text"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_a_server_whose_disk_fills_up_answers_says_so_and_takes_the_edit_in_when_there_is_room(
    built, full_disk
):
    with serving(built) as (server, child):
        assert until(lambda: is_held(built.places.folder / "watch.lock"))
        note = built.root / "a/note 0.md"
        with full_disk(built, child):
            note.write_text("# Note 0\n\nQuinces are hard and yellow.\n", encoding="utf-8")
            assert until(lambda: "changes wait" in notes(server))
            assert any(advice in notes(server) for advice in ("free some space", "its free space"))
            for _ in range(20):
                assert server.call("query", query="apple cellar")["results"]
                time.sleep(0.05)
        assert until(lambda: is_found(server, "quinces are hard"), 20)
        assert until(lambda: "changes wait" not in notes(server), 20)
        assert children(server) == [child]  # nothing of it was a crash


def test_a_server_whose_index_is_damaged_answers_or_says_so_and_mends_it(
    undisturbed, built, faults
):
    shutil.copytree(undisturbed.index, built.index)
    with serving(built) as (server, child):
        assert until(lambda: is_held(built.places.folder / "watch.lock"))
        store = built.places.store
        times, data = store.stat(), store.read_bytes()
        # in place, as a disk does it, and before a question has read these pages
        with store.open("r+b") as file:
            for begin in range(0, len(data), 4096):
                if b"wall" in data[begin : begin + 4096]:
                    file.seek(begin)
                    file.write(bytes(4096))
        os.utime(store, ns=(times.st_atime_ns, times.st_mtime_ns))
        said = [asked(server) for _ in range(20)]
        assert all(
            each == "answered" or "thumbindex index" in each or "try again" in each for each in said
        ), said
        assert until(lambda: "was damaged" in notes(server), 20)
        assert until(lambda: built.is_finished() and asked(server) == "answered")
        assert children(server) == [child]
    check_right(built, faults)


def asked(server: ServerProcess) -> str:
    """Ask for so many passages that the texts of every note are read: a page that no answer needs
    is found by the child, a minute later.
    """
    try:
        server.call("query", query="stone wall", limit=100)
    except ThumbindexError as error:
        return str(error)
    return "answered"
