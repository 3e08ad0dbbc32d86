"""How a soak and a storm end: the index settles, and is compared with one that is built anew from
the same files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from judge import Verdict

from dump import logical_dump
from servers import ServerProcess
from thumbindex.index.files import Places, size_of
from thumbindex.index.store import Store
from thumbindex.library import Library
from thumbindex.serve.opening import Opening, open_library

QUIET_LOOKS, LOOK_SECONDS = 10, 0.5
"""Settled is what was complete, compared and written by nobody so many times, so far apart."""


PATIENCE = 2
"""Times as long as is allowed an index is waited for: one that comes late is compared all the
same.
"""


def settle(server: ServerProcess, seconds: float) -> tuple[Verdict, bool]:
    """Wait until all is indexed, with vectors, and compared, and nobody writes; judge how long it
    took, and tell whether it came.
    """
    began, quiet, state = time.monotonic(), 0, "never asked"
    while time.monotonic() < began + PATIENCE * seconds and quiet < QUIET_LOOKS:
        time.sleep(LOOK_SECONDS)
        folder = server.call("status")["folders"][0]
        fresh = server.call("query", query="settled", limit=1, wait_fresh=1)["index"].get("fresh")
        pending, writing, compared = (
            folder["index"]["pending"],
            folder["writing"],
            has_compared(Places(Path(folder["location"]))),
        )
        state = (
            f"fresh {fresh}, {pending} vectors missing, writing {writing}, all chunks compared "
            f"{compared}"
        )
        quiet = quiet + 1 if fresh and not pending and not writing and compared else 0
    took, settled = time.monotonic() - began, quiet >= QUIET_LOOKS
    return Verdict(
        "settled",
        settled and took <= seconds,
        f"after {took:.1f} s (at most {seconds:g} s); last seen: {state}",
    ), settled


def has_compared(places: Places) -> bool:
    """Tell whether all chunks were looked at for duplicates."""
    with closing(Store(places.store, read_only=True)) as store, store.reading():
        looked = int(store.meta("looked").rpartition(" ")[2] or 0)
        return not store.documents_between(looked, store.last_row) and not store.duplicates.lonely()


def compare_with_fresh(opening: Opening, fresh: Path, largest: float) -> list[Verdict]:
    """Judge whether the index says what one built anew in `fresh` says, and if at most `largest`
    times as large.

    Nobody may write meanwhile.
    """
    assert opening.index is not None
    with (
        open_library(opening) as grown,
        open_library(Opening(opening.folder, fresh, opening.config, opening.overrides)) as built,
    ):
        built.index()
        differing = differences(dump(grown), dump(built))
    return [
        judge_differences(differing),
        judge_size(size_of(opening.index), size_of(fresh), largest),
    ]


def dump(library: Library) -> Mapping[str, Sequence[Any]]:
    """Return a library's index as comparable rows."""
    (reader,) = library._readers
    return logical_dump(reader.store, reader.folder.places)


def differences(
    grown: Mapping[str, Sequence[Any]], built: Mapping[str, Sequence[Any]]
) -> list[str]:
    """Tell in words where two dumps differ: the table, how many rows there are in each, and the
    first pair that is not equal.
    """
    return [
        (
            f"{name}: {len(grown.get(name, ()))} rows for {len(built.get(name, ()))}, first "
            f"{_first(grown.get(name, ()), built.get(name, ()))}"
        )
        for name in sorted(grown.keys() | built.keys())
        if grown.get(name) != built.get(name)
    ]


def judge_differences(differing: Sequence[str]) -> Verdict:
    """Judge a comparison."""
    return Verdict("equal to a fresh build", not differing, "; ".join(differing) or "every table")


def judge_size(grown: int, fresh: int, largest: float) -> Verdict:
    """Judge what an index has come to on disk against one built anew of the same files."""
    seen = (
        f"{grown:,} bytes, {grown / fresh:.2f} times a fresh build's {fresh:,} (at most "
        f"{largest:g})"
    )
    return Verdict("index no larger than it may be", grown <= largest * fresh, seen)


def _first(grown: Sequence[Any], built: Sequence[Any]) -> str:
    unequal = next(((a, b) for a, b in zip(grown, built, strict=False) if a != b), None)
    return " for ".join(repr(row)[:200] for row in unequal) if unequal else "beyond the end of one"
