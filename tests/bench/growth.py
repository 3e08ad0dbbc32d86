"""What a question and the memory cost as a folder grows: notes made of its own, passages with
random vectors, questions with real ones.

As a program it opens one index in a process of its own, asks it the questions of its input, and
prints what each took and the memory held.
"""

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.memory import memory_of
from bench.query import HYBRID, HYBRID_LARGE, LARGE, WORDS, ask_all
from bench.results import Row, quantile_rows, ratios
from bench.subject import RandomEmbedder, Subject, draw_questions, program
from notes import make_variants, write
from thumbindex.errors import ThumbindexError
from thumbindex.serve.opening import Opening

SIZES = (1_000, 10_000, 100_000)
"""Chunks, about: notes are added until they should have so many."""

QUESTIONS = 40
"""A round, at each size."""

WARM = 20
"""The first questions, which are not counted; the memory is that after them, before the index is
opened a second time.
"""

WITHOUT_LOOKING = ("index.duplicates.enabled=false", "index.ingest.enabled=false")
"""Paragraphs that are dealt again and again are copies by the thousand, as no real folder has
them.
"""

Asked = dict[str, Any]
"""What the program prints of one index: milliseconds of `words` and `hybrid` answers, `chunks`, and
`resident` bytes.
"""


def measure(subject: Subject) -> Iterator[Row]:
    """Grow a folder of variants from size to size; then ask all sizes by turns, each in a process
    of its own.
    """
    questions = draw_questions(subject.chunks(), (QUESTIONS + WARM) * subject.given.rounds)
    grown = list(_grow(subject))
    sizes: list[list[Asked]] = [[] for _ in grown]
    for start in range(0, len(questions), QUESTIONS + WARM):
        for each, found in zip(grown, sizes, strict=True):
            found.append(ask_apart(each.arguments, questions[start : start + QUESTIONS + WARM]))
    for rounds in sizes:
        yield from rows_of(rounds)
    for small, large in pairwise(sizes):
        yield from steps_of(small, large)


def _grow(subject: Subject) -> Iterator[Subject]:
    """Write and index size after size; yield where an index of each stays."""
    grown = subject.at(subject.empty("grown"), subject.empty("grown's index"), *WITHOUT_LOOKING)
    notes, embedder, written = subject.texts(), RandomEmbedder(subject.model()), 0.0
    a_chunk, variants = (
        sum(len(text) for _, text in notes) / len(subject.chunks()),
        make_variants(notes),
    )
    for size in (each for each in SIZES if each <= subject.given.most):
        while written < size * a_chunk:
            path, text = next(variants)
            write(grown.folder / path, text)
            written += len(text)
        with grown.open(embedder=embedder) as library:
            library.index()
        kept = subject.scratch / f"index of {size}"
        shutil.copytree(Path(grown.opening.index or kept), kept)
        yield grown.at(grown.folder, kept)


def rows_of(rounds: Sequence[Asked]) -> Iterator[Row]:
    """Yield the figures of one size."""
    chunks = rounds[0]["chunks"]
    large, at = chunks >= LARGE, f"{chunks:,} chunks"
    for way, targets in (
        ("words", (None, None) if large else WORDS),
        ("hybrid", HYBRID_LARGE if large else HYBRID),
    ):
        yield from quantile_rows(
            "growth", f"{way}, {{}}, {at}", [each[way] for each in rounds], targets, size=chunks
        )
    yield Row(
        "growth", f"resident, {at}", "MB", [each["resident"] / 1e6 for each in rounds], size=chunks
    )


def steps_of(small: Sequence[Asked], large: Sequence[Asked]) -> Iterator[Row]:
    """Yield what became of them from one size to the next."""
    chunks = small[0]["chunks"], large[0]["chunks"]
    name = f"{chunks[0]:,} to {chunks[1]:,} chunks"
    for way in ("words", "hybrid"):
        before, after = (
            [float(np.median(each[way])) for each in rounds] for rounds in (small, large)
        )
        yield Row("growth", f"{way}, p50, {name}", "×", ratios(after, before), most=4.0)
    more = [
        (a["resident"] - b["resident"]) / 1e3 / (chunks[1] - chunks[0])
        for a, b in zip(large, small, strict=True)
    ]
    yield Row("growth", f"memory a chunk, {name}", "KB", more, most=4.0)


def ask_apart(options: Sequence[str], questions: Sequence[str]) -> Asked:
    """Run the program over an index of random vectors. Raises ThumbindexError where it fails."""
    command, environment = program("bench.growth", options)
    done = subprocess.run(
        command,
        input=json.dumps(list(questions)),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise ThumbindexError(
            "An index could not be asked: "
            f"{(done.stderr.strip() or 'no reason was given').splitlines()[-1]}"
        )
    found: Asked = json.loads(done.stdout)
    return found


def main() -> None:
    """Read a server's options and, from standard input, the questions."""
    subject, questions = (
        Subject(Opening.from_arguments(sys.argv[1:]), Path(), Namespace()),
        json.load(sys.stdin),
    )
    with subject.open(embedder=RandomEmbedder(subject.model())) as full:
        ask_all({"hybrid": full}, questions[:WARM])
        resident, _ = memory_of(os.getpid())
        with subject.open() as words:
            ask_all({"words": words}, questions[:WARM])
            asked = ask_all({"words": words, "hybrid": full}, questions[WARM:])
        chunks = full.status()[0].state.chunks
    print(json.dumps({**asked, "chunks": chunks, "resident": resident}))


if __name__ == "__main__":
    main()
