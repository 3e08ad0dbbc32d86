"""Count SQLite statements and opened files without patching our code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def statements() -> Iterator[Counter[str]]:
    """Count the SQLite statements of this thread by method name."""
    counts = Counter[str]()

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if (
            event == "c_call"
            and function.__name__.startswith("execute")
            and type(function.__self__).__module__ == "sqlite3"
        ):
            counts[function.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield counts
    finally:
        sys.setprofile(before)


_LISTENERS: list[tuple[frozenset[str], Counter[str]]] = []
"""File names and counts of each active `files_read`."""


@contextmanager
def files_read(names: frozenset[str]) -> Iterator[Counter[str]]:
    """Count how often this process opens files of these names, in any folder."""
    listener = (names, Counter[str]())
    _LISTENERS.append(listener)
    try:
        yield listener[1]
    finally:
        _LISTENERS.remove(listener)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _LISTENERS and isinstance(arguments[0], str):
        name = arguments[0].rpartition("/")[2]
        for names, counts in _LISTENERS:
            if name in names:
                counts[name] += 1


sys.addaudithook(_on_audit_event)  # cannot be removed, so one hook serves all listeners
