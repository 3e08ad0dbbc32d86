"""How much of the processor vectors may take while the user works on something else."""

from __future__ import annotations

import time
from collections.abc import Callable

from thumbindex import process

_PAUSE_SECONDS = 0.05
"""How soon a pause between vectors ends when words are due."""


class Share:
    """Says how long to pause so that this process takes no more than its share of all cores; each batch is paid for after it."""

    def __init__(
        self,
        share: float,
        cores: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self._allowed = share * (cores or process.cores())
        self._is_bound = share < 1
        self._clock, self._used = clock, used
        self._began, self._before = clock(), used()

    def owed(self) -> float:
        """Return for how many seconds to pause now; 0.0 where less than the share was taken since `begin`."""
        if not self._is_bound:
            return 0.0
        return max(0.0, (self._used() - self._before) / self._allowed - (self._clock() - self._began))

    def begin(self) -> None:
        """Count from now on: what was not taken is not saved up."""
        self._began, self._before = self._clock(), self._used()


class Turn:
    """Asked between two batches: pauses where more than a share of the processor was taken, tells when to stop, and remembers that it did."""

    def __init__(self, is_due: Callable[[], bool], share: Share | None = None) -> None:
        self.was_cut_short = False
        self._is_due, self._share = is_due, share

    def __call__(self) -> bool:
        """Tell whether to stop."""
        while self._share and not self._is_due() and (owed := self._share.owed()):
            time.sleep(min(owed, _PAUSE_SECONDS))
        if self._share:
            self._share.begin()
        self.was_cut_short = self._is_due()
        return self.was_cut_short
