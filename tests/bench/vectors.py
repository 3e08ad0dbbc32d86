"""Indexing with vectors, beside the model alone over the same texts, by turns; and beside one text
a call in torch.
"""

from collections.abc import Iterator

from bench.results import Row, ratios
from bench.subject import Subject, timed
from thumbindex.text import embedded_text

MOST_BYTES = 300_000
"""Of Markdown: a thousand chunks, ten seconds of the model."""

FEW = 40
"""Texts that torch is asked for: it takes a hundred milliseconds for one."""


def measure(subject: Subject) -> Iterator[Row]:
    """Index notes from files to vectors a few times, the model alone over half of the texts before
    each, and over the others after.
    """
    notes = subject.copy_some(MOST_BYTES)
    first = subject.at(notes, subject.empty("first"))
    with first.open() as library:
        chunks = library.index(words_only=True).chunks
    texts = tuple(
        dict.fromkeys(embedded_text(chunk.heading_path, chunk.text) for _, chunk in first.chunks())
    )
    few, model, one_by_one = texts[:FEW], subject.model(), subject.model_in_torch()
    # texts a second
    found: dict[str, list[float]] = {"alone": [], "whole": [], "vectors": [], "torch": []}

    def embed_few() -> None:
        for text in few:
            one_by_one.embed_passages([text])

    for _ in range(subject.given.rounds):
        found["torch"].append(len(few) / timed(embed_few))
        alone = timed(lambda: model.embed_passages(texts[::2]))
        with subject.at(notes, subject.empty("vectors")).open(embedder=model) as library:
            words = timed(lambda library=library: library.index(words_only=True))
            vectors = timed(library.index)
        alone += timed(lambda: model.embed_passages(texts[1::2]))
        for name, seconds in (("alone", alone), ("whole", words + vectors), ("vectors", vectors)):
            found[name].append(len(texts) / seconds)
    alone, whole, about = (
        found["alone"],
        found["whole"],
        f"{len(texts):,} texts of {chunks:,} chunks, one a run, {model.name}",
    )
    yield Row("vectors", "the model alone", "texts/s", alone, note=about)
    yield Row(
        "vectors",
        "from files to vectors",
        "texts/s",
        whole,
        note="files, words, vectors, and duplicates looked for",
    )
    yield Row(
        "vectors", "from files to vectors / the model alone", "×", ratios(whole, alone), least=0.9
    )
    yield Row(
        "vectors",
        "from words to vectors / the model alone",
        "×",
        ratios(found["vectors"], alone),
        note="without files and words",
    )
    yield Row(
        "vectors",
        "one text a call in torch",
        "texts/s",
        found["torch"],
        note="on one thread, without the reference design's commit a chunk",
    )
    yield Row(
        "vectors",
        "from files to vectors / one text a call in torch",
        "×",
        ratios(whole, found["torch"]),
        least=5.0,
    )
