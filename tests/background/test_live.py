"""The indexer on a real file system: after any change, the index equals a fresh build."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

from dump import logical_dump
from fakes import FakeEmbedder
from folders import write_notes
from notes import write
from thumbindex.background.indexer import IndexingLoop, Job
from thumbindex.background.supervisor import Message
from thumbindex.background.watch import Watch
from thumbindex.config import load_config
from thumbindex.errors import IndexDamagedError
from thumbindex.index.store import Store
from thumbindex.library import Library, WatchLock
from waiting import until

pytestmark = pytest.mark.slow

# No reconciliation, so that only the watch finds changes.
SETTINGS = ("serve.watch.debounce_ms=50", "serve.watch.reconcile_seconds=3600")

NOTES = {
    "apples.md": "# Apples\n\nApples grow on trees. See [[Pears]].\n",
    "fruit/Pears.md": "# Pears\n\nPears ripen off the tree.\n",
    "fruit/deep/plums.md": "# Plums\n\nPlums have stones.\n",
}


def open_library(root: Path, index: Path, *overrides: str) -> Library:
    config = load_config(user_file=root.parent / "none", overrides=(*SETTINGS, *overrides))
    config = replace(
        config,
        serve=replace(
            config.serve, watch=replace(config.serve.watch, max_delay_ms=400, poll_seconds=0.1)
        ),
    )
    return Library.open([root], index=index, config=config, embedder=FakeEmbedder())


def dump(library: Library) -> dict[str, list[object]]:
    (folder,) = library.opened
    store = Store(folder.index_paths.store, read_only=True)
    try:
        return logical_dump(store, folder.index_paths)
    finally:
        store.close()


class LiveVault:
    """A vault with a running indexer, and a library that reads."""

    def __init__(
        self, root: Path, index: Path, make_watch: Callable[..., Watch] = Watch, *overrides: str
    ) -> None:
        self.root, self.notes = root, list[Message]()
        self.worker, self.reader = open_library(root, index, *overrides), open_library(root, index)
        self.lock = WatchLock(self.worker.opened[0].index_paths.watch)  # as a server does
        assert self.lock.try_lock()
        self.loop = IndexingLoop(self.worker, self.notes.append, make_watch)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()
        assert until(self.is_settled)

    @property
    def embedded(self) -> int:
        return self.worker._embedder.embedded  # type: ignore[union-attr]

    @property
    def messages(self) -> list[str]:
        return [note.sentence for note in self.notes]

    @property
    def generation(self) -> int:
        return self.reader.status()[0].index.generation

    def is_settled(self) -> bool:
        """Return whether nothing is due before the next full comparison."""
        soon = time.monotonic() + 0.3
        jobs = (Job.WORDS, Job.VECTORS, Job.DUPLICATES)
        was_idle = self.loop._job is None
        (folder,) = self.loop._folders
        is_due = any(folder.due_at(job) < soon for job in jobs)
        return self.thread.is_alive() and was_idle and not is_due and self.loop._job is None

    def find(self, text: str) -> str:
        return next((passage.path for passage in self.reader.query(f'"{text}"').passages), "")

    def paths(self) -> list[str]:
        return [entry.path for entry in self.reader.outline()]

    def close(self) -> None:
        self.loop.stop()
        self.thread.join()
        self.lock.release()
        self.worker.close()
        self.reader.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "vault", NOTES)


@pytest.fixture
def live(root: Path, tmp_path: Path) -> Iterator[LiveVault]:
    live = LiveVault(root, tmp_path / "index")
    yield live
    live.close()


# ------------------------------------------------------------------ edits


def test_saved_note_is_searchable_and_embedded(live: LiveVault):
    write(live.root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: live.find("cider is pressed") == "apples.md")
    assert until(lambda: live.reader.status()[0].index.pending == 0)


def test_moved_folder_moves_its_notes_without_embedding(live: LiveVault):
    embedded = live.embedded
    (live.root / "fruit").rename(live.root / "orchard")
    assert until(lambda: live.paths() == ["apples.md", "orchard/Pears.md", "orchard/deep/plums.md"])
    write(live.root / ".plums.md", "# Plums\n\nDamsons are small.\n")  # hidden until complete
    (live.root / ".plums.md").replace(live.root / "orchard/deep/plums.md")
    assert until(lambda: live.find("damsons are small") == "orchard/deep/plums.md")
    assert until(live.is_settled)
    assert live.embedded == embedded + 1


def test_rename_that_changes_only_case_is_indexed(live: LiveVault):
    (live.root / "apples.md").rename(live.root / "Apples.md")
    assert until(lambda: "Apples.md" in live.paths() and "apples.md" not in live.paths())


def test_ignore_file_removes_notes_until_it_is_deleted(live: LiveVault):
    write(live.root / ".thumbindexignore", "fruit/\n")
    assert until(lambda: live.paths() == ["apples.md"])
    (live.root / ".thumbindexignore").unlink()
    assert until(lambda: live.paths() == sorted(NOTES))


def test_index_after_many_changes_equals_a_fresh_build(live: LiveVault, tmp_path: Path):
    for number in range(400):
        write(
            live.root / f"storm/{number % 50}/{number}.md",
            f"# {number}\n\nWind number {number}. See [[{(number * 7) % 400}]].\n",
        )
    for number in range(0, 400, 10):
        (live.root / f"storm/{number % 50}/{number}.md").unlink()
    shutil.rmtree(live.root / "storm/7")
    (live.root / "storm/8").rename(live.root / "calm")
    expected = sorted(path.relative_to(live.root).as_posix() for path in live.root.rglob("*.md"))
    assert until(lambda: live.paths() == expected and live.is_settled(), 40)
    with open_library(live.root, tmp_path / "fresh") as fresh:
        fresh.index()
        assert dump(fresh) == dump(live.reader)


def test_small_edit_and_a_large_file_are_both_indexed(live: LiveVault):
    last = 2000
    paragraphs = [f"Lemon {n} is sour. " * 25 for n in range(last + 1)]
    write(live.root / "large.md", "# Lemons\n\n" + "\n\n".join(paragraphs))
    write(live.root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: live.find("cider is pressed") == "apples.md")
    assert until(lambda: live.find(f"lemon {last} is sour") == "large.md")


# --------------------------------------------------------------- missing folders, failing watches


def test_missing_root_keeps_its_index_and_is_updated_when_back(live: LiveVault):
    live.root.rename(live.root.with_name("elsewhere"))
    assert until(lambda: any(text.startswith("The folder") for text in live.messages))
    assert (live.paths(), live.find("ripen off the tree")) == (sorted(NOTES), "fruit/Pears.md")
    write(
        live.root.with_name("elsewhere") / "apples.md",
        "# Apples\n\nCider is pressed from apples.\n",
    )
    live.root.with_name("elsewhere").rename(live.root)
    assert until(lambda: live.find("cider is pressed") == "apples.md")
    assert live.notes[-1] == Message("vault", "folder", "")


def test_unmounted_drive_at_startup_keeps_its_index(root: Path, tmp_path: Path):
    with open_library(root, tmp_path / "index") as library:
        library.index()
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    messages = list[Message]()
    loop = IndexingLoop(open_library(root, tmp_path / "index"), messages.append)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert until(lambda: any("is empty" in message.sentence for message in messages))
    with open_library(root, tmp_path / "index") as reader:
        assert [entry.path for entry in reader.outline()] == sorted(NOTES)
    loop.stop()
    thread.join()


class Full(Observer):  # type: ignore[misc, valid-type]
    """An observer on a system without free watches."""

    def schedule(self, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")


def test_unwatchable_folder_is_polled_and_reported(root: Path, tmp_path: Path):
    live = LiveVault(root, tmp_path / "index", partial(Watch, make_observer=Full))
    write(root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: live.find("cider is pressed") == "apples.md")
    (message,) = live.messages
    assert "cannot be watched (inotify watch limit reached)" in message
    live.close()


class Deaf(Observer):  # type: ignore[misc, valid-type]
    """An observer without events, as on a drive whose system reports no changes."""

    def schedule(self, _: object, *arguments: object, **options: object) -> object:
        return super().schedule(FileSystemEventHandler(), *arguments, **options)


def test_reconciliation_finds_changes_without_events(root: Path, tmp_path: Path):
    live = LiveVault(
        root,
        tmp_path / "index",
        partial(Watch, make_observer=Deaf),
        "serve.watch.reconcile_seconds=1",
    )
    write(root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: live.find("cider is pressed") == "apples.md")
    live.close()
    assert live.messages == []


def test_damage_found_by_a_reader_is_repaired_and_reported(live: LiveVault):
    embedded = live.embedded
    (folder,) = live.worker.opened
    times = folder.index_paths.store.stat()
    store = bytearray(folder.index_paths.store.read_bytes())
    at = store.index(b"Pears ripen off the tree")
    store[at : at + 5] = b"Bears"
    folder.index_paths.store.write_bytes(store)
    # a failing disk changes no times
    os.utime(folder.index_paths.store, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(IndexDamagedError):
        live.reader.query("pears ripen off the tree")
    live.reader.request_repair()
    assert until(
        lambda: any("cannot be read" in line and "rebuilt from" in line for line in live.messages)
    )
    assert until(lambda: live.is_settled() and live.paths() == sorted(NOTES))
    assert (live.find("ripen off the tree"), live.embedded) == ("fruit/Pears.md", embedded)
