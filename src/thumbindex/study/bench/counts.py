"""What is counted and not timed: statements a question, modules before the handshake, commits, what the model is asked for, files that are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median
from types import FrameType
from typing import Any

from thumbindex.library.answering import answer
from thumbindex.library.raw import open_model
from thumbindex.library.reader import Reader
from thumbindex.model import Filters, Query
from thumbindex.study.bench.greeted import count_modules
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import TRUSTED_SECONDS, Subject, Where, copy_some, read_chunks
from thumbindex.study.bench.synthetic import SyntheticEmbedder

QUESTIONS = 30

MOST_BYTES = 300_000

NONE = Target(most=0)


@dataclass(slots=True)
class Tally:
    """How often something happened."""

    count: int = 0


def measure_counts(subject: Subject) -> tuple[Row, ...]:
    """Count what a start, an indexing, an indexing again and a question do."""
    modules = count_modules(subject.arguments(subject.where))
    return (Row("counts", "modules loaded when the tools are listed", "", (float(modules),)), *_of_indexing(subject), *_of_questions(subject))


def _of_indexing(subject: Subject) -> Iterator[Row]:
    where = Where(copy_some(subject, MOST_BYTES), subject.begin("counted"))
    time.sleep(TRUSTED_SECONDS)  # else it would be counted what copies cost that were made just now
    with subject.open(where) as library:
        embedder = SyntheticEmbedder(open_model(library.config))
    with subject.open(where, embedder) as library:
        words = library.index(words_only=True)
        whole = library.index()
        names = frozenset(entry.path.rpartition("/")[2] for entry in library.outline())
        with files_read(names) as read:
            again = library.index()
    yield Row("counts", "commits of words", "", (float(words.generation),), note=f"{words.chunks:,} chunks of {words.added:,} files")
    yield Row("counts", "commits of vectors", "", (float(whole.generation - words.generation),))
    yield Row("counts", "texts that the model is asked for", "", (float(whole.embedded),), note="those of the calibration too")
    yield Row("counts", "unchanged: texts that the model is asked for", "", (float(again.embedded),), NONE)
    yield Row("counts", "unchanged: commits", "", (float(again.generation - whole.generation),), NONE)
    yield Row("counts", "unchanged: notes that are read", "", (float(read.count),), NONE)


def _of_questions(subject: Subject) -> Iterator[Row]:
    with subject.open(subject.where) as library:
        questions = draw_questions(read_chunks(library), QUESTIONS)
        model, settings, (folder, *_) = open_model(library.config), library.config.query, library.opened
    with closing(Reader(folder)) as reader:
        found = []
        for text in questions:
            with statements() as told:
                answer(Query(text, settings.limit, Filters()), [reader], settings, model, None)
            found.append(float(told.count))
    first, *others = found
    yield Row(
        "counts",
        "SQL statements of the first question",
        "",
        (first,),
        note="the index is opened for it, on a thread whose statements are not counted",
    )
    yield Row("counts", "SQL statements a question, median", "", (median(others),))
    yield Row("counts", "SQL statements a question, most", "", (max(others),))


@contextmanager
def statements() -> Iterator[Tally]:
    """Count the statements that this thread has SQLite run: no door is opened for it, the interpreter tells of calls."""
    tally = Tally()

    def seen(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__name__", "").startswith("execute") and type(called.__self__).__module__ == "sqlite3":
            tally.count += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        yield tally
    finally:
        sys.setprofile(before)


_heard: list[tuple[frozenset[str], Tally]] = []
"""Who counts which names now: a hook that the interpreter was given stays, so there is one."""

_hooks = Tally()


@contextmanager
def files_read(names: frozenset[str]) -> Iterator[Tally]:
    """Count the files of these names, whatever their folder, that this process opens."""
    if not _hooks.count:
        sys.addaudithook(_hear)
        _hooks.count = 1
    counted = (names, Tally())
    _heard.append(counted)
    try:
        yield counted[1]
    finally:
        _heard.remove(counted)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _heard and isinstance(arguments[0], str):
        for names, tally in _heard:
            tally.count += arguments[0].rpartition("/")[2] in names
