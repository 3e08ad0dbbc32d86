"""What is counted and not timed: statements a question, modules before the handshake, commits, what
the model is asked for, files that are read.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median

from bench.results import Row
from bench.subject import TRUSTED_SECONDS, RandomEmbedder, Subject, draw_questions
from counting import count_modules, files_read, statements
from thumbindex.library.answering import answer
from thumbindex.library.reader import Reader
from thumbindex.model import Filters, Query

QUESTIONS = 30

MOST_BYTES = 300_000


def measure(subject: Subject) -> Iterator[Row]:
    """Count what a start, an indexing, an indexing again and a question do."""
    yield Row(
        "counts", "modules loaded when the tools are listed", "", [count_modules(subject.arguments)]
    )
    yield from _of_indexing(subject.at(subject.copy_some(MOST_BYTES), subject.empty("counted")))
    yield from _of_questions(subject)


def _of_indexing(subject: Subject) -> Iterator[Row]:
    time.sleep(TRUSTED_SECONDS)  # else it would be counted what copies cost that were made just now
    with subject.open(embedder=RandomEmbedder(subject.model())) as library:
        words = library.index(words_only=True)
        whole = library.index()
        with files_read(
            frozenset(entry.path.rpartition("/")[2] for entry in library.outline())
        ) as read:
            again = library.index()
    yield Row(
        "counts",
        "commits of words",
        "",
        [words.generation],
        note=f"{words.chunks:,} chunks of {words.added:,} files",
    )
    yield Row("counts", "commits of vectors", "", [whole.generation - words.generation])
    yield Row("counts", "texts that the model is asked for", "", [whole.embedded])
    yield Row(
        "counts", "unchanged: texts that the model is asked for", "", [again.embedded], most=0
    )
    yield Row("counts", "unchanged: commits", "", [again.generation - whole.generation], most=0)
    yield Row("counts", "unchanged: notes that are read", "", [read.total()], most=0)


def _of_questions(subject: Subject) -> Iterator[Row]:
    questions, model, found = draw_questions(subject.chunks(), QUESTIONS), subject.model(), []
    with subject.open() as library, closing(Reader(library.opened[0])) as reader:
        settings = library.config.query
        for text in questions:
            with statements() as counted:
                answer(Query(text, settings.limit, Filters()), [reader], settings, model, None)
            found.append(counted.total())
    first, *others = found
    note = "the index is opened for it, on a thread whose statements are not counted"
    yield Row("counts", "SQL statements of the first question", "", [first], note=note)
    yield Row("counts", "SQL statements a question, median", "", [median(others)])
    yield Row("counts", "SQL statements a question, most", "", [max(others)])
