"""From saving a note to its text in an answer: measured through a server's own pipes, words first,
then vectors.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from bench.results import Row
from bench.subject import Subject
from notes import make_vault, note_path
from servers import ServerProcess, await_start, has_all_vectors, is_found
from thumbindex.errors import ThumbindexError
from waiting import until

NOTES, EDITS = 1000, 200

LARGE_TIMES, LARGE_BYTES, LARGE_EVERY = 2000, 9_500_000, 10
"""The large note is so many times a small one, but less than is read (`corpus.max_file_bytes`); it
is saved anew before so many small edits.
"""

LARGE_SECONDS = 300.0
"""The longest wait until a version of the large note is found: 10 MB are read in half a minute."""

GIVEN_UP_SECONDS = 10.0
"""An edit that is not found by then counts as missed."""

PAUSE_SECONDS = 0.01
"""Between two questions for the same edit: finer than what is measured, and the server keeps time
for its work.
"""

TARGETS = {
    "words": {50: 0.4, 95: 0.7},
    "vectors": {95: 2.0},
    "words beside a large note": {95: 1.0},
}
"""Seconds that quantiles are to come to."""


def measure(subject: Subject) -> Iterator[Row]:
    """Make a vault, and edit its notes one after another under a server."""
    notes, edits = subject.given.made or NOTES, subject.given.edits or EDITS
    made = subject.at(subject.empty("vault"), subject.empty("index"))
    author = make_vault(made.folder, notes, subject.given.characters)
    with made.open() as library:
        chunks = library.index().chunks
    found: dict[str, list[float]] = {name: [] for name in TARGETS}
    with ServerProcess(made.arguments) as server:
        await_start(server.call, made.folder)

        def edit(number: int, awaited: Mapping[str, Callable[[], bool]]) -> None:
            text = (
                f"{author.write_note(number % notes, notes, subject.given.characters)}\n"
                f"Here stands mark{number}.\n"
            )
            saved = _save(note_path(made.folder, number % notes), text)
            for name, is_so in awaited.items():
                found[name] += _seconds_until(saved, is_so)

        for number in range(edits):
            whole = partial(has_all_vectors, server.call, made.folder.name)
            edit(
                number, {"words": partial(is_found, server.call, f"mark{number}"), "vectors": whole}
            )
        large = author.write_note(
            0, notes, min(LARGE_TIMES * subject.given.characters, LARGE_BYTES)
        )

        def save_large(mark: str) -> None:  # with a section more at its top
            nonlocal large
            large = f"{author.write_note(0, notes, 1)}\nHere stands {mark}.\n{large}"
            _save(made.folder / "large.md", large)

        def is_indexed(mark: str) -> bool:
            return until(partial(is_found, server.call, mark), LARGE_SECONDS)

        save_large("largefirst")
        if not is_indexed("largefirst"):
            raise ThumbindexError(
                f"large.md was not found within {LARGE_SECONDS:g} s: nothing can be measured "
                "beside it."
            )
        for number in range(edits, 2 * edits):
            if (number - edits) % LARGE_EVERY == 0:
                save_large(last := f"largemark{number}")
            edit(
                number,
                {"words beside a large note": partial(is_found, server.call, f"mark{number}")},
            )
        has_last = is_indexed(last)
    note = (
        f"{edits:,} edits in {notes:,} notes of {subject.given.characters:,} characters, "
        f"{chunks:,} chunks"
    )
    beside = f"{note}; a note of {len(large):,} characters is saved anew at every {LARGE_EVERY}th"
    yield Row(
        "freshness",
        "the large note's last version: missed",
        "",
        [float(not has_last)],
        most=0,
        note=beside,
    )
    for name, seconds in found.items():
        yield Row(
            "freshness",
            f"save to {name}: missed",
            "",
            [edits - len(seconds)],
            most=0,
            note=beside if "large" in name else note,
        )
        if seconds:
            yield Row("freshness", f"save to {name}", "s", seconds, TARGETS[name].get(50))
        for quantile in (90, 95, 99) if seconds else ():
            value = float(np.percentile(seconds, quantile, method="inverted_cdf"))
            yield Row(
                "freshness",
                f"save to {name}, p{quantile}",
                "s",
                [value],
                TARGETS[name].get(quantile),
            )


def _save(path: Path, text: str) -> float:
    """Save a text as an editor does: another file takes the note's place. Return when that was."""
    beside = path.with_name(f".{path.name}.saving")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return time.perf_counter()


def _seconds_until(saved: float, is_so: Callable[[], bool]) -> list[float]:
    """Return the seconds that it took; nothing where it was not seen."""
    while not is_so():
        if time.perf_counter() - saved > GIVEN_UP_SECONDS:
            return []
        time.sleep(PAUSE_SECONDS)
    return [time.perf_counter() - saved]
