"""Questions of several threads take turns: many at once would be answered no sooner, and the last of them much later."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Self

AT_ONCE = 2
"""Questions that are answered at once: one computes in Python while another one's vectors are multiplied outside of it."""


class Turns:
    """Lets a few in at once, in the order in which they came; entered with a `with`."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._lock = threading.Lock()
        self._free = at_once
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> Self:
        with self._lock:
            if self._free:
                self._free -= 1
                return self
            called = threading.Event()
            self._waiting.append(called)
        try:
            called.wait()
        except BaseException:
            self._step_back(called)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._hand_on()

    def _hand_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()  # the turn is handed over: nobody who comes now gets in between
        else:
            self._free += 1

    def _step_back(self, called: threading.Event) -> None:
        """Wait no longer, and pass on what came just now."""
        with self._lock:
            if called in self._waiting:
                self._waiting.remove(called)
            else:
                self._hand_on()
