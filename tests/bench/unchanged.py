"""Indexing again what has not changed, beside listing and looking at the files, by turns."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.results import Row, ratios
from bench.subject import TRUSTED_SECONDS, Subject, timed
from notes import note_path, write

FILES = 10_000


def measure(subject: Subject) -> Iterator[Row]:
    """Index the folder again, and ten thousand small notes made up for it; before each, `os.walk`
    and `stat` of the same files.
    """
    many = subject.at(subject.empty("many"), subject.empty("many's index"))
    for number in range(FILES):
        write(note_path(many.folder, number), f"# Note {number}\n\nWritten as number {number}.\n")
    time.sleep(TRUSTED_SECONDS)
    yield from _measure(subject, "the folder", None, words_only=False)
    yield from _measure(many, f"{FILES:,} files", 1.5, words_only=True)


def _measure(subject: Subject, name: str, most: float | None, words_only: bool) -> Iterator[Row]:
    walked, ours, embedded, commits = [], [], [], []
    with subject.open() as library:
        library.index(words_only=words_only)
        # one that finds nothing is what later ones go by
        before = library.index(words_only=words_only)
        for _ in range(subject.given.rounds):
            walked.append(timed(lambda: look_at_files(subject.folder)))
            began = time.perf_counter()
            report = library.index(words_only=words_only)
            ours.append(time.perf_counter() - began)
            embedded.append(report.embedded)
            commits.append(report.generation - before.generation)
            before = report
    yield Row("unchanged", f"{name}: os.walk + stat", "ms", [1000 * each for each in walked])
    yield Row("unchanged", f"{name}: indexed again", "ms", [1000 * each for each in ours])
    yield Row(
        "unchanged", f"{name}: indexed again / os.walk + stat", "×", ratios(ours, walked), most
    )
    yield Row("unchanged", f"{name}: texts that the model was asked for", "", embedded, most=0)
    yield Row("unchanged", f"{name}: commits", "", commits, most=0)


def look_at_files(root: Path) -> int:
    """List all files below a folder and look at each; return how many there are."""
    found = 0
    for place, _, names in os.walk(root):
        for name in names:
            # - what is measured against is the system's call
            os.stat(f"{place}/{name}")  # noqa: PTH116
            found += 1
    return found
