"""Indexing again what has not changed: beside listing and looking at the files, by turns."""

from __future__ import annotations

import os
import time
from pathlib import Path

from thumbindex.model import IndexReport
from thumbindex.study.bench.row import Row, Target, ratios
from thumbindex.study.bench.subject import TRUSTED_SECONDS, Subject, Where, timed
from thumbindex.study.vault import FOLDERS

FILES = 10_000

SHARE = Target(most=1.5)

NONE = Target(most=0)


def measure_unchanged(subject: Subject) -> tuple[Row, ...]:
    """Index the folder again, and ten thousand small notes made up for it; each beside `os.walk` and `stat` of the same files."""
    made = Where(_make_notes(subject.begin("many")), subject.begin("many's index"))
    time.sleep(TRUSTED_SECONDS)
    with subject.open(made) as library:
        library.index(words_only=True, progress=subject.tell)
    return (*_measure(subject, subject.where, "the folder", None), *_measure(subject, made, f"{FILES:,} files", SHARE, words_only=True))


def _measure(subject: Subject, where: Where, name: str, target: Target | None, words_only: bool = False) -> tuple[Row, ...]:
    walked, ours, asked, commits = [], [], [], []
    with subject.open(where) as library:
        library.index(words_only=words_only)
        before = library.index(words_only=words_only)  # one that finds nothing is what later ones go by

        def index() -> None:
            nonlocal before
            report: IndexReport = library.index(words_only=words_only)
            asked.append(float(report.embedded))
            commits.append(float(report.generation - before.generation))
            before = report

        for _ in range(subject.rounds):
            walked.append(timed(lambda: look_at_files(where.folder)))
            ours.append(timed(index))
    milliseconds = tuple(1000 * each for each in ours)
    return (
        Row("unchanged", f"{name}: os.walk + stat", "ms", tuple(1000 * each for each in walked)),
        Row("unchanged", f"{name}: indexed again", "ms", milliseconds),
        Row("unchanged", f"{name}: indexed again / os.walk + stat", "×", ratios(tuple(ours), tuple(walked)), target),
        Row("unchanged", f"{name}: texts that the model was asked for", "", tuple(asked), NONE),
        Row("unchanged", f"{name}: commits", "", tuple(commits), NONE),
    )


def look_at_files(root: Path) -> int:
    """List all files below a folder and look at each; return how many there are."""
    found = 0
    for place, _, names in os.walk(root):
        for name in names:
            os.stat(f"{place}/{name}")  # noqa: PTH116 - what is measured against is the system's call
            found += 1
    return found


def _make_notes(root: Path) -> Path:
    """Write many small notes, some folders of them."""
    for number in range(FOLDERS):
        (root / f"folder {number}").mkdir()
    for number in range(FILES):
        (root / f"folder {number % FOLDERS}" / f"note {number}.md").write_text(f"# Note {number}\n\nWritten as number {number}.\n", encoding="utf-8")
    return root
