"""An index that follows its folder: whatever happens on the real file system, it ends in the state
of a fresh build.
"""

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

# No reconciliation: what is found here was watched.
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


class Tended:
    """A vault with somebody at work in it, and a library that reads."""

    def __init__(
        self, root: Path, index: Path, make_watch: Callable[..., Watch] = Watch, *overrides: str
    ) -> None:
        self.root, self.notes = root, list[Message]()
        self.worker, self.reader = open_library(root, index, *overrides), open_library(root, index)
        self.lock = WatchLock(self.worker.opened[0].index_paths.watch)  # as its server does
        assert self.lock.try_lock()
        self.live = IndexingLoop(self.worker, self.notes.append, make_watch)
        self.thread = threading.Thread(target=self.live.run)
        self.thread.start()
        assert until(self.is_settled)

    @property
    def asked(self) -> int:
        return self.worker._embedder.embedded  # type: ignore[union-attr]

    @property
    def said(self) -> list[str]:
        return [note.sentence for note in self.notes]

    @property
    def generation(self) -> int:
        return self.reader.status()[0].index.generation

    def is_settled(self) -> bool:
        """Tell whether nothing is due before all files are compared again."""
        soon = time.monotonic() + 0.3
        jobs = (Job.WORDS, Job.VECTORS, Job.DUPLICATES)
        was_idle = self.live._job is None
        (folder,) = self.live._folders
        is_due = any(folder.due_at(job) < soon for job in jobs)
        return self.thread.is_alive() and was_idle and not is_due and self.live._job is None

    def found(self, text: str) -> str:
        return next((passage.path for passage in self.reader.query(f'"{text}"').passages), "")

    def paths(self) -> list[str]:
        return [entry.path for entry in self.reader.outline()]

    def close(self) -> None:
        self.live.stop()
        self.thread.join()
        self.lock.release()
        self.worker.close()
        self.reader.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "vault", NOTES)


@pytest.fixture
def tended(root: Path, tmp_path: Path) -> Iterator[Tended]:
    tended = Tended(root, tmp_path / "index")
    yield tended
    tended.close()


# ------------------------------------------------------------------ edits


def test_a_saved_note_is_found_by_its_words_and_gets_its_vectors(tended: Tended):
    write(tended.root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: tended.found("cider is pressed") == "apples.md")
    assert until(lambda: tended.reader.status()[0].index.pending == 0)


def test_a_moved_folder_moves_its_notes(tended: Tended):
    asked = tended.asked
    (tended.root / "fruit").rename(tended.root / "orchard")
    assert until(
        lambda: tended.paths() == ["apples.md", "orchard/Pears.md", "orchard/deep/plums.md"]
    )
    write(tended.root / ".plums.md", "# Plums\n\nDamsons are small.\n")  # nobody reads half of it
    (tended.root / ".plums.md").replace(tended.root / "orchard/deep/plums.md")
    assert until(lambda: tended.found("damsons are small") == "orchard/deep/plums.md")
    assert until(tended.is_settled)
    assert tended.asked == asked + 1


def test_a_rename_that_changes_only_case_is_seen(tended: Tended):
    (tended.root / "apples.md").rename(tended.root / "Apples.md")
    assert until(lambda: "Apples.md" in tended.paths() and "apples.md" not in tended.paths())


def test_an_ignore_file_takes_notes_out_and_its_end_brings_them_back(tended: Tended):
    write(tended.root / ".thumbindexignore", "fruit/\n")
    assert until(lambda: tended.paths() == ["apples.md"])
    (tended.root / ".thumbindexignore").unlink()
    assert until(lambda: tended.paths() == sorted(NOTES))


def test_a_storm_ends_in_the_state_of_a_fresh_build(tended: Tended, tmp_path: Path):
    for number in range(400):
        write(
            tended.root / f"storm/{number % 50}/{number}.md",
            f"# {number}\n\nWind number {number}. See [[{(number * 7) % 400}]].\n",
        )
    for number in range(0, 400, 10):
        (tended.root / f"storm/{number % 50}/{number}.md").unlink()
    shutil.rmtree(tended.root / "storm/7")
    (tended.root / "storm/8").rename(tended.root / "calm")
    expected = sorted(
        path.relative_to(tended.root).as_posix() for path in tended.root.rglob("*.md")
    )
    assert until(lambda: tended.paths() == expected and tended.is_settled(), 40)
    with open_library(tended.root, tmp_path / "fresh") as fresh:
        fresh.index()
        assert dump(fresh) == dump(tended.reader)


def test_a_small_edit_beside_a_large_file_is_found_and_so_is_all_of_that(tended: Tended):
    last = 2000
    paragraphs = [f"Lemon {n} is sour. " * 25 for n in range(last + 1)]
    write(tended.root / "large.md", "# Lemons\n\n" + "\n\n".join(paragraphs))
    write(tended.root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: tended.found("cider is pressed") == "apples.md")
    assert until(lambda: tended.found(f"lemon {last} is sour") == "large.md")


# --------------------------------------------------------------- folders that go, watches that fail


def test_nothing_is_deleted_because_the_root_is_gone_and_what_changed_meanwhile_is_found(
    tended: Tended,
):
    tended.root.rename(tended.root.with_name("elsewhere"))
    assert until(lambda: any(said.startswith("The folder") for said in tended.said))
    assert (tended.paths(), tended.found("ripen off the tree")) == (sorted(NOTES), "fruit/Pears.md")
    write(
        tended.root.with_name("elsewhere") / "apples.md",
        "# Apples\n\nCider is pressed from apples.\n",
    )
    tended.root.with_name("elsewhere").rename(tended.root)
    assert until(lambda: tended.found("cider is pressed") == "apples.md")
    assert tended.notes[-1] == Message("vault", "folder", "")


def test_nothing_is_deleted_because_a_drive_is_not_mounted_when_the_server_starts(
    root: Path, tmp_path: Path
):
    with open_library(root, tmp_path / "index") as library:
        library.index()
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    said = list[Message]()
    live = IndexingLoop(open_library(root, tmp_path / "index"), said.append)
    thread = threading.Thread(target=live.run)
    thread.start()
    assert until(lambda: any("is empty" in note.sentence for note in said))
    with open_library(root, tmp_path / "index") as reader:
        assert [entry.path for entry in reader.outline()] == sorted(NOTES)
    live.stop()
    thread.join()


class Full(Observer):  # type: ignore[misc, valid-type]
    """An observer on a system that has no watch left."""

    def schedule(self, *_: object, **__: object) -> None:
        """Refuse."""
        raise OSError(errno.ENOSPC, "inotify watch limit reached")


def test_without_watches_the_folder_is_polled_and_the_user_is_told(root: Path, tmp_path: Path):
    tended = Tended(root, tmp_path / "index", partial(Watch, make_observer=Full))
    write(root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: tended.found("cider is pressed") == "apples.md")
    assert ["cannot be watched (inotify watch limit reached)" in line for line in tended.said] == [
        True
    ]
    tended.close()


class Deaf(Observer):  # type: ignore[misc, valid-type]
    """An observer that is told of nothing, as on a drive whose system reports no changes."""

    def schedule(self, _: object, *arguments: object, **options: object) -> object:
        """Watch for nobody."""
        return super().schedule(FileSystemEventHandler(), *arguments, **options)


def test_what_no_event_told_is_found_by_the_next_comparison_of_all_files(
    root: Path, tmp_path: Path
):
    tended = Tended(
        root,
        tmp_path / "index",
        partial(Watch, make_observer=Deaf),
        "serve.watch.reconcile_seconds=1",
    )
    write(root / "apples.md", "# Apples\n\nCider is pressed from apples.\n")
    assert until(lambda: tended.found("cider is pressed") == "apples.md")
    tended.close()
    assert tended.said == []


def test_damage_that_a_reader_has_met_is_mended_and_told(tended: Tended):
    asked = tended.asked
    (folder,) = tended.worker.opened
    times = folder.index_paths.store.stat()
    store = bytearray(folder.index_paths.store.read_bytes())
    at = store.index(b"Pears ripen off the tree")
    store[at : at + 5] = b"Bears"
    folder.index_paths.store.write_bytes(store)
    # a failing disk changes no times
    os.utime(folder.index_paths.store, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(IndexDamagedError):
        tended.reader.query("pears ripen off the tree")
    tended.reader.request_repair()
    assert until(
        lambda: any("was damaged" in line and "built anew" in line for line in tended.said)
    )
    assert until(lambda: tended.is_settled() and tended.paths() == sorted(NOTES))
    assert (tended.found("ripen off the tree"), tended.asked) == ("fruit/Pears.md", asked)


# ------------------------------------------------------------------ several processes
