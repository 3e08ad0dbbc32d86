"""Indexing with vectors, beside the model alone over the same texts, by turns; and beside one text a call in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds that the same texts took in one round."""

    alone: float
    words: float
    vectors: float
    torch: float  # of one text


def measure_vectors(subject: Subject) -> tuple[Row, ...]:
    """Index notes from files to vectors a few times, the model alone over half of the texts before each, and over the others after."""
    notes = copy_some(subject, MOST_BYTES)
    with subject.open(Where(notes, subject.begin("first"))) as library:
        chunks = library.index(words_only=True).chunks
        model, config = open_model(library.config), library.config
        texts = tuple(dict.fromkeys(embedded_text(chunk.heading_path, chunk.text) for _, chunk in read_chunks(library)))
    torch = open_model(replace(config, encode=replace(config.encode, embed=replace(config.encode.embed, runtime="torch"))))
    found = []
    for number in range(subject.rounds):
        found.append(_round(subject, notes, texts, model, torch))
        subject.tell(Progress("", "rounds of vectors", number + 1, subject.rounds))
    return _rows(found, len(texts), f"{len(texts):,} texts of {chunks:,} chunks, one a run, {model.name}")


def _round(subject: Subject, notes: Path, texts: Sequence[str], model: Embedder, torch: Embedder) -> Round:
    where = Where(notes, subject.begin("vectors"))
    apart = timed(lambda: _one_by_one(torch, texts[:FEW])) / len(texts[:FEW])
    alone = timed(lambda: model.embed_passages(texts[::2]))
    with subject.open(where, model) as library:
        words = timed(lambda: library.index(words_only=True))
        vectors = timed(library.index)
    alone += timed(lambda: model.embed_passages(texts[1::2]))
    return Round(alone, words, vectors, apart)


def _rows(found: Sequence[Round], texts: int, about: str) -> tuple[Row, ...]:
    alone = tuple(texts / each.alone for each in found)
    whole = tuple(texts / (each.words + each.vectors) for each in found)
    vectors = tuple(texts / each.vectors for each in found)
    torch = tuple(1 / each.torch for each in found)
    return (
        Row("vectors", "the model alone", "texts/s", alone, note=about),
        Row("vectors", "from files to vectors", "texts/s", whole, note="files, words, vectors, calibration, and duplicates looked for"),
        Row("vectors", "from files to vectors / the model alone", "×", ratios(whole, alone), SHARE),
        Row("vectors", "from words to vectors / the model alone", "×", ratios(vectors, alone), note="without files and words"),
        Row("vectors", "one text a call in torch", "texts/s", torch, note="on one thread, and without the reference design's commit a chunk"),
        Row("vectors", "from files to vectors / one text a call in torch", "×", ratios(whole, torch), TIMES),
    )


def _one_by_one(model: Embedder, texts: Sequence[str]) -> None:
    for text in texts:
        model.embed_passages([text])
