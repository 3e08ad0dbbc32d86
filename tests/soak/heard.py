"""What watchdog's own queue holds while a checkout goes on: a server's child shows it to nobody, so
the same watch is looked at in this process.
"""

from __future__ import annotations

import math
import subprocess
import time
from pathlib import Path

from judge import Verdict
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from thumbindex.serve.watch import Watch
from thumbindex.settings import CorpusSettings, WatchSettings

MOST_QUEUED = 10_000
"""So many events are some MB; a checkout of ten thousand notes makes several times as many."""


EMPTIED_SECONDS = 30.0
"""So long after a checkout the queue may fill: git may tidy up in the background, and the deletion
of twenty thousand objects is heard, too.
"""


def count_queued(made: Path) -> tuple[int, int, int]:
    """Watch the vault in this process, as a server's child does, while the first branch is checked
    out again.

    Return the most events that stood in watchdog's queue, how many were left in the end, and how
    many times the watch woke who works.
    """
    observers, woken, queued = list[BaseObserver](), [0], [0]

    def make_observer() -> BaseObserver:
        observers.append(Observer())
        return observers[-1]

    def wake() -> None:
        woken[0] += 1

    watch = Watch(
        made / "vault", made / "index", WatchSettings(), CorpusSettings(), wake, make_observer
    )
    watch.look()
    checkout = subprocess.Popen(["git", "-C", str(made / "vault"), "checkout", "--quiet", "before"])
    ended = math.inf
    while (late := time.monotonic() - ended) < WatchSettings().longest_ms / 1000 or (
        queued[-1] and late < EMPTIED_SECONDS
    ):
        queued.append(max(observer.event_queue.qsize() for observer in observers))
        time.sleep(0.001)
        if ended == math.inf and checkout.poll() is not None:
            ended = time.monotonic()
    watch.close()
    return (max(queued), queued[-1], woken[0]) if checkout.returncode == 0 else (-1, -1, 0)


def judge_queue(counted: tuple[int, int, int]) -> Verdict:
    """Judge whether watchdog's queue is emptied as it fills, and whether anything was heard at
    all.
    """
    queued, left, woken = counted
    held = 0 <= queued <= MOST_QUEUED and left == 0 and woken > 0
    seen = (
        f"{queued:,} in watchdog's queue in another checkout (at most {MOST_QUEUED:,}), {left} "
        f"left after it (none), woken {woken} times"
    )
    return Verdict("event queue", held, seen)
