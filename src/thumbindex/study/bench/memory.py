"""The memory of a server with its child: at rest, beside a second one on the same folder, and while it makes an index."""

from __future__ import annotations

import time
from collections.abc import Sequence

from thumbindex.errors import ThumbindexError
from thumbindex.model import Progress
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import Subject, Where, read_chunks
from thumbindex.study.bench.taken import Taken, check_measurable, taken_by
from thumbindex.study.client import ServerProcess

QUESTIONS = 20
"""Asked before a server counts as one at rest: its model, its snapshot and its caches are there then."""

REST_SECONDS = 5.0
"""Between the last answer and the measurement."""

MOST_SECONDS = 45.0
"""While indexing is looked at: by then words are done, and vectors on their way."""

READY_SECONDS = 60.0
"""The longest wait for the model."""

PAUSE_SECONDS = 0.1

IDLE, INDEXING, SECOND = Target(most=250.0), Target(most=500.0), Target(most=150.0)


def measure_memory(subject: Subject) -> tuple[Row, ...]:
    """Start servers as clients do and look at what the system says of them; once, whatever the rounds: it is no clock."""
    check_measurable()
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
    questions = draw_questions(chunks, QUESTIONS)
    with ServerProcess(subject.arguments(subject.where)) as first:
        one = _at_rest(first, questions)
        with ServerProcess(subject.arguments(subject.where)) as second:
            other = _at_rest(second, questions)
            both = taken_by(first.process.pid) + taken_by(second.process.pid)
    peak, how_far = _while_indexing(subject)
    note = f"{len(chunks):,} chunks; a server and its child"
    return (
        _row("at rest, resident", one.resident, IDLE, note),
        _row("at rest, proportional", one.proportional, None, "pages that several map are divided among them"),
        _row("second server, resident", other.resident),
        _row("second server, proportional, more", both.proportional - one.proportional, SECOND, "both together less the first alone"),
        _row("indexing, resident, most", peak.resident, INDEXING, how_far),
        _row("indexing, proportional, most", peak.proportional),
    )


def _row(name: str, size: int, target: Target | None = None, note: str = "") -> Row:
    return Row("memory", name, "MB", (size / 1e6,), target, note)


def _at_rest(server: ServerProcess, questions: Sequence[str]) -> Taken:
    """Ask until answers come by meaning, then all questions, and wait."""
    until = time.monotonic() + READY_SECONDS
    while not any(step["stage"] == "search_vector" and step["out"] for step in server.call("query", query=questions[0], explain=True)["trace"]):
        if time.monotonic() > until:
            raise ThumbindexError(f"No answer came by meaning within {READY_SECONDS:g} s: has the index vectors (`thumbindex status`)?")
        time.sleep(PAUSE_SECONDS)
    for question in questions:
        server.call("query", query=question)
    time.sleep(REST_SECONDS)
    return taken_by(server.process.pid)


def _while_indexing(subject: Subject) -> tuple[Taken, str]:
    """Start a server that has no index yet; return the most that was held, and how far it came."""
    where = Where(subject.where.folder, subject.begin("indexing"))
    most, began = Taken(), time.monotonic()
    with ServerProcess(subject.arguments(where)) as server:
        while (passed := time.monotonic() - began) < MOST_SECONDS:
            now = taken_by(server.process.pid)
            most = Taken(max(most.resident, now.resident), max(most.proportional, now.proportional))
            subject.tell(Progress("", "seconds of indexing", int(passed), int(MOST_SECONDS)))
            time.sleep(PAUSE_SECONDS)
        index = server.call("status")["folders"][0]["index"]
    return most, f"in the first {MOST_SECONDS:g} s: {index['chunks']:,} chunks, {index['vectors']:,} vectors"
