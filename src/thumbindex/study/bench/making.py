"""The folder's own index: brought up to date before anything is measured of it, and what that took."""

from __future__ import annotations

import os
import time
from pathlib import Path

from thumbindex.study.bench.row import Row
from thumbindex.study.bench.subject import Subject


def measure_index(subject: Subject, words_only: bool) -> tuple[Row, ...]:
    """Index the folder; a row of the time where there was something to do, and of the most memory that this process has held by then."""
    began = time.perf_counter()
    with subject.open(subject.where) as library:
        report = library.index(words_only=words_only, progress=subject.tell)
    seconds = time.perf_counter() - began
    if not (report.added or report.changed or report.embedded):
        return ()
    note = f"{report.chunks:,} chunks of {report.added + report.changed:,} files, {report.embedded:,} texts embedded"
    rows = [Row("index", "the folder, indexed once", "s", (seconds,), note=note)]
    peak = peak_of(os.getpid())
    return (*rows, Row("index", "resident, most", "MB", (peak / 1e6,), note="of the process that indexed")) if peak else tuple(rows)


def peak_of(process: int) -> int:
    """Return the most bytes that a process has held so far; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
