"""How far a run is, in lines for the server that started it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from thumbindex.model import Progress
from thumbindex.serve.child import PROGRESS

TOLD_SECONDS = 0.5
"""Between two lines about progress."""


class Told:
    """Says how far a run is, at most every half second, and its end where its middle was said."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._last = float("-inf")
        self._unfinished = ("", "")
        self._lock = threading.Lock()

    def __call__(self, progress: Progress) -> None:
        """Take note of how far it is."""
        with self._lock:
            now, phase, is_end = self._clock(), (progress.folder, progress.phase), progress.done == progress.total
            if now - self._last >= TOLD_SECONDS or (is_end and phase == self._unfinished):
                self._last, self._unfinished = now, ("", "") if is_end else phase
                facts = {name: value for name, value in asdict(progress).items() if name != "pid"}  # the server knows its child
                self._say(f"{PROGRESS}{json.dumps(facts, ensure_ascii=False)}\n")
