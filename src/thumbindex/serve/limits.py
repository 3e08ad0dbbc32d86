"""How much one client may ask for: a bucket of requests that fills again with time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

MOST_CLIENTS = 10_000
"""Clients that are remembered: who has not asked for longest is forgotten, his bucket would be full by then."""


class Rates:
    """A bucket of `burst` requests for each client, filled with `rate` a second; rate 0 is without limit."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by client: what was left, and when

    def take(self, client: str) -> float:
        """Take a request out of a client's bucket and return 0; or take none and return the seconds until there is one."""
        if wait := self.wait(client):
            return wait
        if self._rate:
            self._left[client] = (self._filled(client) - 1, self._clock())
            self._left.move_to_end(client)
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return 0.0

    def wait(self, client: str) -> float:
        """Return the seconds until a client may ask; 0 where it may now."""
        if not self._rate:
            return 0.0
        return max(0.0, (1 - self._filled(client)) / self._rate)

    def _filled(self, client: str) -> float:
        left, at = self._left.get(client, (float(self._burst), self._clock()))
        return min(float(self._burst), left + (self._clock() - at) * self._rate)
