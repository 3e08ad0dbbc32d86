"""Indexing words: files to a committed index, beside Whoosh alone over the same texts, by turns."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from thumbindex.study.bench.row import Row, Target, ratios
from thumbindex.study.bench.subject import Subject, Where, copy_some, read_chunks, timed
from thumbindex.study.bench.whoosh_alone import Text, index_texts, texts_of

MOST_BYTES = 3_000_000
"""Of Markdown: enough that a commit's own cost does not count, and a round takes seconds."""

SHARE = Target(least=0.6)


def measure_words(subject: Subject) -> tuple[Row, ...]:
    """Index notes by their words alone as often as there are rounds, Whoosh alone before each."""
    notes = copy_some(subject, MOST_BYTES)
    first = Where(notes, subject.begin("first"))
    with subject.open(first) as library:
        chunks = library.index(words_only=True).chunks
        texts = texts_of(read_chunks(library))
    alone, ours = [], []
    for _ in range(subject.rounds):
        alone.append(_whoosh(subject.begin("whoosh"), texts))
        with subject.open(Where(notes, subject.begin("words"))) as library:
            ours.append(timed(partial(library.index, words_only=True)))
    rate, reference = (tuple(chunks / seconds for seconds in each) for each in (ours, alone))
    about = f"{chunks:,} chunks of {len(list(notes.rglob('*.*'))):,} files"
    return (
        Row("words", "whoosh alone", "chunks/s", reference, note=f"{about}; four fields, texts in memory"),
        Row("words", "indexing, words only", "chunks/s", rate, note=f"{about}; files read, parsed, stored"),
        Row("words", "indexing, words only / whoosh alone", "×", ratios(rate, reference), SHARE),
    )


def _whoosh(place: Path, texts: Sequence[Text]) -> float:
    seconds = timed(lambda: index_texts(place, texts))
    shutil.rmtree(place)
    return seconds
