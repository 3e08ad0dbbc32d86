"""Indexing words: files to a committed index, beside Whoosh as it comes over the same texts, by
turns.
"""

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from whoosh import fields
from whoosh.analysis import LowercaseFilter, RegexTokenizer, StemmingAnalyzer
from whoosh.index import create_in

from bench.results import Row, ratios
from bench.subject import Subject, timed
from thumbindex.model import Chunk

MOST_BYTES = 3_000_000
"""Of Markdown: enough that a commit's own cost does not count, and a round takes seconds."""

WRITER_MEGABYTES = 128
"""More than the texts take, so that Whoosh sorts them in memory, as ours does."""


def measure(subject: Subject) -> Iterator[Row]:
    """Index notes by their words alone as often as there are rounds, Whoosh alone before each."""
    notes = subject.copy_some(MOST_BYTES)
    first = subject.at(notes, subject.empty("first"))
    with first.open() as library:
        chunks = library.index(words_only=True).chunks
    texts = texts_of(first.chunks())
    alone, ours = [], []
    for _ in range(subject.given.rounds):
        place = subject.empty("whoosh")
        alone.append(timed(partial(index_by_whoosh, place, texts)))
        shutil.rmtree(place)
        with subject.at(notes, subject.empty("words")).open() as library:
            ours.append(timed(partial(library.index, words_only=True)))
    about = f"{chunks:,} chunks of {len(list(notes.rglob('*.*'))):,} files"
    rate, reference = ([chunks / seconds for seconds in each] for each in (ours, alone))
    yield Row(
        "words",
        "whoosh alone",
        "chunks/s",
        reference,
        note=f"{about}; four fields, texts in memory",
    )
    yield Row(
        "words",
        "indexing, words only",
        "chunks/s",
        rate,
        note=f"{about}; files read, parsed, stored",
    )
    yield Row(
        "words", "indexing, words only / whoosh alone", "×", ratios(rate, reference), least=0.6
    )


def texts_of(chunks: Sequence[tuple[str, Chunk]]) -> list[dict[str, str]]:
    """Return the four fields of each chunk: its document's title, its headings, its text as prose
    and as code.
    """
    return [
        {
            "title": title,
            "headings": "\n".join(chunk.heading_path[1:]),
            "body": chunk.text,
            "code": "\n".join((*chunk.heading_path, chunk.text)),
        }
        for title, chunk in chunks
    ]


def index_by_whoosh(place: Path, texts: Sequence[dict[str, str]]) -> None:
    """Index texts into an empty folder with one commit: stemmed words with their places, code as it
    is written.
    """
    prose = {
        name: fields.TEXT(analyzer=StemmingAnalyzer()) for name in ("title", "headings", "body")
    }
    code = fields.TEXT(analyzer=RegexTokenizer(r"[\w.:/-]+") | LowercaseFilter(), phrase=False)
    writer = create_in(str(place), fields.Schema(row=fields.STORED, code=code, **prose)).writer(
        limitmb=WRITER_MEGABYTES
    )
    for row, text in enumerate(texts):
        writer.add_document(row=row, **text)
    writer.commit()
