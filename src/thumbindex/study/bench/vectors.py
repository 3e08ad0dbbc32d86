"""Indexing with vectors, beside the model alone over the same texts, by turns; and beside one text a call in torch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

from thumbindex.library.raw import open_model
from thumbindex.model import Progress
from thumbindex.ports import Embedder
from thumbindex.study.bench.row import Row, Target, ratios
from thumbindex.study.bench.subject import Subject, Where, copy_some, read_chunks, timed
from thumbindex.text import embedded_text

MOST_BYTES = 300_000
"""Of Markdown: a thousand chunks, ten seconds of the model."""

FEW = 40
"""Texts that torch is asked for: it takes a hundred milliseconds for one."""

SHARE, TIMES = Target(least=0.9), Target(least=5.0)


def measure_vectors(subject: Subject) -> tuple[Row, ...]:
    """Index notes from files to vectors a few times, the model alone over half of the texts before each, and over the others after."""
    notes = copy_some(subject, MOST_BYTES)
    with subject.open(Where(notes, subject.begin("first"))) as library:
        library.index(words_only=True)
        model, config = open_model(library.config), library.config
        texts = tuple(dict.fromkeys(embedded_text(chunk.heading_path, chunk.text) for _, chunk in read_chunks(library)))
    torch = open_model(replace(config, encode=replace(config.encode, embed=replace(config.encode.embed, runtime="torch"))))
    halves = texts[::2], texts[1::2]
    raw, words, vectors, apart, asked = [], [], [], [], 0
    for number in range(subject.rounds):
        where = Where(notes, subject.begin("vectors"))
        apart.append(FEW / timed(lambda: _one_by_one(torch, texts[:FEW])))
        before = timed(lambda: model.embed_passages(halves[0]))
        with subject.open(where, model) as library:
            words.append(timed(lambda library=library: library.index(words_only=True)))  # type: ignore[misc]
            began = timed(lambda library=library: library.index())  # type: ignore[misc]
            vectors.append(began)
            asked = library.status()[0].state.vectors
        raw.append(before + timed(lambda: model.embed_passages(halves[1])))
        shutil.rmtree(where.index or "", ignore_errors=True)
        subject.tell(Progress("", "rounds of vectors", number + 1, subject.rounds))
    alone = tuple(len(texts) / each for each in raw)
    whole = tuple(len(texts) / (a + b) for a, b in zip(words, vectors, strict=True))
    return (
        Row("vectors", "the model alone", "texts/s", alone, note=f"{len(texts):,} texts of {asked:,} chunks, one a run, {model.name}"),
        Row(
            "vectors",
            "from files to vectors",
            "texts/s",
            whole,
            note="files read, words kept, texts embedded, index calibrated, duplicates looked for",
        ),
        Row("vectors", "from files to vectors / the model alone", "×", ratios(whole, alone), SHARE),
        Row("vectors", "from words to vectors / the model alone", "×", ratios(tuple(raw), tuple(vectors)), note="without files and words"),
        Row("vectors", "one text a call in torch", "texts/s", tuple(apart), note="on one thread, and without the reference design's commit a chunk"),
        Row("vectors", "from files to vectors / one text a call in torch", "×", ratios(whole, tuple(apart)), TIMES),
    )


def _one_by_one(model: Embedder, texts: Sequence[str]) -> None:
    for text in texts:
        model.embed_passages([text])
