"""The watch on a real file system reports changes soon, and once."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from thumbindex.background.watch import Debounce, Watch
from thumbindex.settings import CorpusSettings, WatchSettings

SETTINGS = WatchSettings(debounce_ms=20, max_delay_ms=200)


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
    started: list[Watch] = []

    def start_it(make: Callable[[], BaseObserver] = Observer) -> tuple[Watch, threading.Event]:
        woken = threading.Event()
        watch = Watch(root, root.parent / "index", SETTINGS, CorpusSettings(), woken.set, make)
        started.append(watch)
        watch.check()
        settle(watch, woken)
        return watch, woken

    yield start_it
    for watch in started:
        watch.close()


def settle(watch: Watch, woken: threading.Event) -> None:
    """Forget the changes so far."""
    watch.debounce.clear()
    woken.clear()


# ------------------------------------------------------------------ debounce


def test_changes_are_due_after_a_quiet_period():
    debounce = Debounce(0.3, 2.0)
    assert [debounce.record(10.0), debounce.record(10.1), debounce.due()] == [
        True,
        False,
        pytest.approx(10.4),
    ]


def test_constant_changes_are_due_after_the_maximum_delay():
    debounce = Debounce(0.3, 2.0)
    for tick in range(100):
        debounce.record(10.0 + tick / 10)
    assert debounce.due() == 12.0


def test_nothing_is_due_after_clear_until_the_next_change():
    debounce = Debounce(0.3, 2.0)
    debounce.record(10.0)
    debounce.clear()
    assert (debounce.due(), debounce.record(20.0), debounce.due()) == (
        None,
        True,
        pytest.approx(20.3),
    )


# ------------------------------------------------------------------ events


def test_reads_and_hidden_files_do_not_count_as_changes(root: Path, start: Start):
    watch, woken = start()
    (root / "sub" / "a.md").read_text()
    (root / ".git" / "index.lock").write_text("x")
    (root / ".git" / ".gitignore").write_text("x")
    (root / "sub" / ".a.md.swp").write_text("x")
    assert (watch.debounce.due(), woken.wait(0.2)) == (None, False)
    # events come in order: this one comes after all others
    (root / "sub" / "b.md").write_text("b")
    assert woken.wait(15)


# ------------------------------------------------------------------ failures


def test_lost_events_count_as_a_change_and_restart_the_watch(root: Path, start: Start):
    watch, woken = start()
    logging.getLogger("watchdog.observers.inotify_c").warning(
        "Inotify queue overflowed; filesystem events were lost"
    )
    assert woken.is_set()
    watch.check()
    settle(watch, woken)
    (root / "sub" / "a.md").write_text("b")
    assert woken.wait(15)


def test_recreated_root_is_watched_again(root: Path, start: Start):
    watch, woken = start()
    shutil.rmtree(root)
    watch.check()
    assert not watch.folder_exists
    root.mkdir()
    watch.check()
    assert not watch.folder_exists  # a mount point without its drive
    (root / "a.md").write_text("a")
    watch.check()
    assert watch.folder_exists
    settle(watch, woken)
    (root / "b.md").write_text("b")
    assert woken.wait(15)
