"""How tests wait for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(is_so: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Tell whether something became so in time; what was so for a moment counts."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


TRUSTED_SECONDS = 2.1
"""A file that was written less long ago is read again, whatever its time says."""
