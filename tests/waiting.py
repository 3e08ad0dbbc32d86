"""Wait for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Wait until a condition holds; return False after a timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


TRUSTED_SECONDS = 2.1
"""Minimum age of a file whose modification time is trusted; younger ones are read again."""
