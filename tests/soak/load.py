"""Work at a pace of its own: what is due is due whether the one before is done or not, and what was
not done in time is counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

NAP_SECONDS = 0.1
"""While nothing is due, this often it is looked whether all is over."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What was due and what was done of it."""

    done: int
    # for how many seconds each of what was never begun had been due at the end
    undone: tuple[float, ...]
    behind: float  # the most seconds that something was begun late

    @property
    def share(self) -> float:
        """Return how much of what was due was begun before the end: 1.0 is all of it."""
        due = self.done + len(self.undone)
        return self.done / due if due else 1.0

    def __add__(self, other: Pace) -> Pace:
        return Pace(
            self.done + other.done, self.undone + other.undone, max(self.behind, other.behind)
        )


NOTHING_DUE = Pace(0, (), 0.0)


class Clock:
    """The time as it is; a test has one that only sleeping moves."""

    def now(self) -> float:
        """Return seconds on the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


REAL = Clock()


def paced(
    work: Callable[[float], object],
    a_second: float,
    end: Callable[[], float],
    began: float,
    clock: Clock = REAL,
) -> Pace:
    """Do something so many times a second from `began` to `end` (infinite while that is open): tell
    it when it was due.

    What falls behind is made up for as fast as it can be, until the end; a moment that passed is
    never taken off the plan.
    """
    done, behind = 0, 0.0
    while (due := began + done / a_second) < end():
        late = clock.now() - due
        if clock.now() >= end():
            break
        if late < 0:
            clock.sleep(min(-late, NAP_SECONDS))
            continue
        behind = max(behind, late)
        work(due)
        done += 1
    ended = end()
    undone = max(0, math.ceil((ended - began) * a_second) - done)
    return Pace(
        done, tuple(ended - began - (done + each) / a_second for each in range(undone)), behind
    )


class Crew:
    """Threads at work, each at its pace, until `stop`; what goes wrong in one of them ends all and
    is raised.
    """

    def __init__(self) -> None:
        self._end = math.inf
        self._pool = ThreadPoolExecutor(64)
        self._paces: dict[str, list[Future[Pace]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end = min(self._end, time.monotonic())
        self._pool.shutdown()

    def start(
        self, name: str, work: Callable[[float], object], a_second: float, threads: int = 1
    ) -> None:
        """Begin to do something so many times a second, by turns where there are several
        threads.
        """
        began = time.monotonic()
        for number in range(threads):
            turn = began + number / a_second
            self._paces.setdefault(name, []).append(
                self._pool.submit(paced, work, a_second / threads, lambda: self._end, turn)
            )

    def check(self) -> None:
        """Raise what went wrong in a thread."""
        for pace in self._all():
            if pace.done() and (error := pace.exception()) is not None:
                raise error

    def watch(self, seconds: float, look: Callable[[], object], every: float) -> None:
        """Look at something every so often while the threads work.

        Raises what went wrong in one of them.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(every, left))
            self.check()
            look()

    def stop(self) -> dict[str, Pace]:
        """End the work; return by name how it kept its pace. Raises what went wrong in a thread."""
        self._end = min(self._end, time.monotonic())
        self._pool.shutdown()
        self.check()
        return {
            name: sum((each.result() for each in paces), NOTHING_DUE)
            for name, paces in self._paces.items()
        }

    def _all(self) -> list[Future[Pace]]:
        return [pace for paces in self._paces.values() for pace in paces]
