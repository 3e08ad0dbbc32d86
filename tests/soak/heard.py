"""What watchdog's own queue holds while a checkout goes on: a server's child shows it to nobody, so the same watch is looked at in this process."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from judge import Verdict
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from thumbindex.serve.watch import Watch
from thumbindex.settings import CorpusSettings, WatchSettings

QUEUED_SHARE = 0.1
"""Watchdog's own queue may hold at most so many events a note: it is emptied as it fills."""


def count_queued(made: Path) -> tuple[int, int]:
    """Watch the vault in this process, as a server's child does, while the first branch is checked out again.

    Return the most events that stood in watchdog's queue, and how many times the watch woke who works: a child shows neither.
    """
    observers, woken, queued = list[BaseObserver](), [0], [0]

    def make_observer() -> BaseObserver:
        observers.append(Observer())
        return observers[-1]

    def wake() -> None:
        woken[0] += 1

    watch = Watch(made / "vault", made / "index", WatchSettings(), CorpusSettings(), wake, make_observer)
    watch.look()
    checkout = subprocess.Popen(["git", "-C", str(made / "vault"), "checkout", "--quiet", "before"])
    until = time.monotonic() + WatchSettings().longest_ms / 1000
    while checkout.poll() is None or time.monotonic() < until:
        queued.append(max(observer.event_queue.qsize() for observer in observers))
        time.sleep(0.001)
    watch.close()
    return (max(queued), woken[0]) if checkout.returncode == 0 else (-1, 0)


def judge_queue(counted: tuple[int, int], notes: int) -> Verdict:
    """Judge whether watchdog's queue is emptied as it fills, and whether anything was heard at all."""
    queued, woken = counted
    most = max(100, round(QUEUED_SHARE * notes))
    seen = f"{queued} at most in watchdog's queue during another checkout (at most {most}), woken {woken} times"
    return Verdict("event queue", 0 <= queued <= most and woken > 0, seen)
