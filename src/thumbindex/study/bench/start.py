"""A server's start with the index on disk, beside the import that every such server begins with."""

from __future__ import annotations

from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target, ratios
from thumbindex.study.bench.subject import Subject, read_chunks
from thumbindex.study.start import REFERENCE, measure_start

HANDSHAKE, ANSWER, BY_MEANING = Target(most=1.3), Target(most=2.0), Target(most=3.0)


def measure_starts(subject: Subject) -> tuple[Row, ...]:
    """Start a server as often as there are rounds, the reference before each."""
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
    (question,) = draw_questions(chunks, 1)
    found = measure_start(subject.arguments(subject.where), question, subject.rounds, subject.tell)
    reference = tuple(each.reference for each in found)
    initialized, listed = tuple(each.initialized for each in found), tuple(each.listed for each in found)
    answered, by_meaning = tuple(each.answered for each in found), tuple(each.by_meaning for each in found)
    return (
        Row("start", f"`{REFERENCE}`", "s", reference),
        Row("start", "initialize", "s", initialized, note=f"{len(chunks):,} chunks"),
        Row("start", "initialize / the import", "×", ratios(initialized, reference), HANDSHAKE),
        Row("start", "tools/list / the import", "×", ratios(listed, reference), HANDSHAKE),
        Row("start", "first answer by words", "s", answered),
        Row("start", "first answer by words / the import", "×", ratios(answered, reference), ANSWER),
        Row("start", "first hybrid answer", "s", by_meaning, BY_MEANING),
    )
