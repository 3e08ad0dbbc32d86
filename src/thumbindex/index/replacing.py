"""A file put in the place of another by one rename; where a reader has the old one open and the system minds, it is tried for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 2.0
"""How long a file that is open elsewhere is waited for: Windows refuses to replace one, and readers have a stamp open for well under a second."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.1


def put_in_place(source: Path, target: Path) -> None:
    """Rename a file to where another may be, whole or not at all; raise PermissionError where that is refused for two seconds."""
    patiently(lambda: source.replace(target))


def patiently(attempt: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Try what is refused while a file is open elsewhere until it succeeds; raise the last PermissionError when the time is up.

    On POSIX no rename is refused because a file is open; where the folder may not be written nothing gets as far as this.
    """
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while True:
        try:
            attempt()
        except PermissionError:
            if time.monotonic() + pause > until:
                raise
        else:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
