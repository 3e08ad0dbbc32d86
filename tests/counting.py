"""What can be counted from outside: statements of SQLite, files that are opened.

Nothing of ours is patched.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def statements() -> Iterator[Counter[str]]:
    """Count the statements that this thread has SQLite run, by the method that runs them."""
    counted = Counter[str]()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if (
            event == "c_call"
            and called.__name__.startswith("execute")
            and type(called.__self__).__module__ == "sqlite3"
        ):
            counted[called.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield counted
    finally:
        sys.setprofile(before)


_HEARING: list[tuple[frozenset[str], Counter[str]]] = []
"""Who counts which names now."""


@contextmanager
def files_read(names: frozenset[str]) -> Iterator[Counter[str]]:
    """Count the files of these names, whatever their folder, that this process opens."""
    hearing = (names, Counter[str]())
    _HEARING.append(hearing)
    try:
        yield hearing[1]
    finally:
        _HEARING.remove(hearing)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _HEARING and isinstance(arguments[0], str):
        name = arguments[0].rpartition("/")[2]
        for names, counted in _HEARING:
            if name in names:
                counted[name] += 1


sys.addaudithook(_hear)  # stays as long as the process: there is one for all
