"""What a watch says about the real file system: that something changed, soon, once, and never too
often.
"""

from __future__ import annotations

import errno
import gc
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.events import FileSystemEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from thumbindex.serve.watch import Quiet, Watch
from thumbindex.settings import CorpusSettings, WatchSettings

SETTINGS = WatchSettings(quiet_ms=20, longest_ms=200)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault" / "sub").mkdir(parents=True)
    (tmp_path / "vault" / ".git").mkdir()
    (tmp_path / "vault" / "sub" / "a.md").write_text("a")
    (tmp_path / "index").mkdir()
    return tmp_path / "vault"


Start = Callable[..., tuple[Watch, threading.Event]]


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    begun: list[Watch] = []

    def start_it(make: Callable[[], BaseObserver] = Observer) -> tuple[Watch, threading.Event]:
        woken = threading.Event()
        watch = Watch(root, root.parent / "index", SETTINGS, CorpusSettings(), woken.set, make)
        begun.append(watch)
        watch.look()
        settle(watch, woken)
        return watch, woken

    yield start_it
    for watch in begun:
        watch.close()


def settle(watch: Watch, woken: threading.Event) -> None:
    """Take in what happened so far."""
    watch.quiet.clear()
    woken.clear()


class Full(Observer):  # type: ignore[misc, valid-type]
    """An observer on a system that has no watch left."""

    def schedule(self, *_: object, **__: object) -> None:
        """Refuse."""
        raise OSError(errno.ENOSPC, "inotify watch limit reached")


class AlmostFull(Observer):  # type: ignore[misc, valid-type]
    """An observer on a system whose last watch went to the folder itself."""

    def schedule(self, *arguments: object, recursive: bool = False, **options: object) -> object:
        """Refuse all but the recursive watch."""
        if not recursive:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return super().schedule(*arguments, recursive=recursive, **options)


# ------------------------------------------------------------------ when


def test_changes_are_due_once_it_is_quiet():
    quiet = Quiet(0.3, 2.0)
    assert [quiet.note(10.0), quiet.note(10.1), quiet.due()] == [True, False, pytest.approx(10.4)]


def test_changes_that_never_end_are_due_at_the_latest_moment():
    quiet = Quiet(0.3, 2.0)
    for tick in range(100):
        quiet.note(10.0 + tick / 10)
    assert quiet.due() == 12.0


def test_nothing_is_due_after_a_firing_until_the_next_change():
    quiet = Quiet(0.3, 2.0)
    quiet.note(10.0)
    quiet.clear()
    assert (quiet.due(), quiet.note(20.0), quiet.due()) == (None, True, pytest.approx(20.3))


# ------------------------------------------------------------------ what counts


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file saved": lambda root: (root / "sub" / "a.md").write_text("b"),
    "a file saved through another": lambda root: (root / "sub" / "a.md~").replace(
        root / "sub" / "a.md"
    ),
    "a file deleted": lambda root: (root / "sub" / "a.md").unlink(),
    "a folder moved": lambda root: (root / "sub").rename(root / "bus"),
    "a folder made": lambda root: (root / "new").mkdir(),
    "a folder taken out of sight": lambda root: (root / "sub").rename(root / ".trash"),
    "an ignore file": lambda root: (root / "sub" / ".gitignore").write_text("*.md"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_kind_of_change_is_heard(root: Path, start: Start, what: str):
    (root / "sub" / "a.md~").write_text("c")
    _, woken = start()
    CHANGES[what](root)
    assert woken.wait(3)


def test_what_is_saved_in_a_folder_that_was_just_made_is_heard(root: Path, start: Start):
    watch, woken = start()
    (root / "new" / "deep").mkdir(parents=True)
    assert woken.wait(3)
    settle(watch, woken)
    (root / "new" / "deep" / "b.md").write_text("b")
    assert woken.wait(3)


def test_reading_and_what_programs_do_in_hidden_folders_wakes_nobody(root: Path, start: Start):
    watch, woken = start()
    (root / "sub" / "a.md").read_text()
    (root / ".git" / "index.lock").write_text("x")
    (root / ".git" / ".gitignore").write_text("x")
    (root / "sub" / ".a.md.swp").write_text("x")
    # events come in order: after this one all of them are here
    heard_last = (root / "sub" / "b.md").write_text
    assert (watch.quiet.due(), woken.wait(0.2), heard_last("b"), woken.wait(3)) == (
        None,
        False,
        1,
        True,
    )


def events_in_memory() -> int:
    # `isinstance` would ask the objects themselves
    return sum(issubclass(type(each), FileSystemEvent) for each in gc.get_objects())


def test_of_a_storm_two_times_are_kept_and_no_events(root: Path, start: Start):
    watch, woken = start()
    assert watch._observer
    queue, before, queued = watch._observer.event_queue, events_in_memory(), list[int]()
    for number in range(2000):
        (root / "sub" / f"{number}.md").write_text("b")
        queued.append(queue.qsize())
    assert woken.wait(3)
    assert max(queued) < 3000  # each file is three events or more: they are taken in as they come
    end = time.monotonic() + 10
    while (queue.qsize() or events_in_memory() > before + 2) and time.monotonic() < end:
        time.sleep(0.2)
    assert (queue.qsize(), events_in_memory() <= before + 2) == (0, True)
    assert [
        type(value) for name, value in vars(watch.quiet).items() if name in ("_first", "_last")
    ] == [float, float]


# ------------------------------------------------------------------ where it cannot be watched


@pytest.mark.parametrize("make", [Full, AlmostFull])
def test_without_watches_left_every_look_counts_as_a_change_and_the_reason_is_told(
    start: Start, make: Callable[[], BaseObserver]
):
    watch, woken = start(make)
    watch.look()
    assert (watch.failure, woken.is_set()) == ("inotify watch limit reached", True)


def test_a_look_at_a_folder_that_is_watched_well_changes_nothing(start: Start):
    watch, woken = start()
    watch.look()
    assert (watch.failure, watch.is_there, woken.is_set()) == ("", True, False)


def test_events_that_the_system_dropped_count_as_a_change_and_the_watch_begins_again(
    root: Path, start: Start
):
    watch, woken = start()
    logging.getLogger("watchdog.observers.inotify_c").warning(
        "Inotify queue overflowed; filesystem events were lost"
    )
    assert woken.is_set()
    watch.look()
    settle(watch, woken)
    (root / "sub" / "a.md").write_text("b")
    assert woken.wait(3)


@pytest.mark.skipif(sys.platform != "linux", reason="the thread that reads inotify")
def test_a_watch_whose_reading_thread_ended_begins_again(root: Path, start: Start):
    watch, woken = start()
    assert watch._observer
    reader = watch._observer._inotify_fd
    # its loop ends with the next event, and the system's side stays open
    reader._stopped_event.set()
    (root / "sub" / "a.md").write_text("b")
    reader.join(3)
    watch.look()
    settle(watch, woken)
    (root / "sub" / "a.md").write_text("b")
    assert woken.wait(3)


def test_a_root_that_went_and_came_back_is_watched_again(root: Path, start: Start):
    watch, woken = start()
    shutil.rmtree(root)
    watch.look()
    assert not watch.is_there
    root.mkdir()
    watch.look()
    assert not watch.is_there  # a mount point without its drive
    (root / "a.md").write_text("a")
    watch.look()
    assert watch.is_there
    settle(watch, woken)
    (root / "b.md").write_text("b")
    assert woken.wait(3)
