"""Whoosh as it comes, over the same texts: what indexing words is held against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whoosh import fields
from whoosh.analysis import LowercaseFilter, RegexTokenizer, StemmingAnalyzer
from whoosh.index import create_in

from thumbindex.model import Chunk

WRITER_MEGABYTES = 128
"""More than the texts take, so that it sorts them in memory, as ours does."""

Text = dict[str, str]
"""A chunk's fields by name."""


def texts_of(chunks: Sequence[tuple[str, Chunk]]) -> tuple[Text, ...]:
    """Return the four fields of each chunk: its document's title, its headings, its text as prose and as code."""
    return tuple(
        {"title": title, "headings": "\n".join(chunk.heading_path[1:]), "body": chunk.text, "code": "\n".join((*chunk.heading_path, chunk.text))}
        for title, chunk in chunks
    )


def index_texts(place: Path, texts: Sequence[Text]) -> None:
    """Index texts into an empty folder with one commit: stemmed words with their places, code as it is written."""
    prose = {name: fields.TEXT(analyzer=StemmingAnalyzer()) for name in ("title", "headings", "body")}
    code = fields.TEXT(analyzer=RegexTokenizer(r"[\w.:/-]+") | LowercaseFilter(), phrase=False)
    writer = create_in(str(place), fields.Schema(row=fields.STORED, code=code, **prose)).writer(limitmb=WRITER_MEGABYTES)
    for row, text in enumerate(texts):
        writer.add_document(row=row, **text)
    writer.commit()
