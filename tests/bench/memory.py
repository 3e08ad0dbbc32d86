"""The memory of a server with its child: at rest, beside a second one on the same folder, and while
it makes an index.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.results import Row
from bench.subject import Subject, draw_questions
from servers import ServerProcess, await_meaning, children_of
from thumbindex.errors import UsageError

QUESTIONS = 20
"""Asked before a server counts as one at rest: its model, its snapshot and its caches are there
then.
"""

REST_SECONDS = 5.0
"""Between the last answer and the measurement."""

MOST_SECONDS = 45.0
"""While indexing is looked at: by then words are done, and vectors on their way."""

Memory = tuple[int, int]
"""Bytes in memory: a page that several processes map counted for each of them (resident), and
divided among them (proportional).
"""


def measure(subject: Subject) -> Iterator[Row]:
    """Start servers as clients do and look at what the system says of them; once, whatever the
    rounds: it is no clock.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        raise UsageError(
            "Memory is measured by /proc/PID/smaps_rollup, which only Linux has: leave "
            "`memory` out here."
        )
    chunks = subject.chunks()
    questions = draw_questions(chunks, QUESTIONS)
    with ServerProcess(subject.arguments) as first:
        one = _at_rest(first, questions)
        with ServerProcess(subject.arguments) as second:
            other = _at_rest(second, questions)
            both = memory_of(first.process.pid)[1] + memory_of(second.process.pid)[1]
    most, index = _while_indexing(subject)
    note = (
        f"in the first {MOST_SECONDS:g} s: {index['chunks']:,} chunks, {index['vectors']:,} vectors"
    )
    yield _row(
        "at rest, resident", one[0], 230.0, f"{len(chunks):,} chunks; a server and its child"
    )
    yield _row(
        "at rest, proportional", one[1], None, "pages that several map are divided among them"
    )
    yield _row("second server, resident", other[0])
    yield _row(
        "second server, proportional, more",
        both - one[1],
        150.0,
        "both together less the first alone",
    )
    yield _row("indexing, resident, most", most[0], 500.0, note)
    yield _row("indexing, proportional, most", most[1])


def _row(name: str, size: int, most: float | None = None, note: str = "") -> Row:
    return Row("memory", name, "MB", [size / 1e6], most, note=note)


def _at_rest(server: ServerProcess, questions: Sequence[str]) -> Memory:
    """Ask until answers come by meaning, then all questions, and wait."""
    await_meaning(server.call, questions[0])
    for question in questions:
        server.call("query", query=question)
    time.sleep(REST_SECONDS)
    return memory_of(server.process.pid)


def _while_indexing(subject: Subject) -> tuple[Memory, dict[str, int]]:
    """Start a server that has no index yet; return the most that was held, and how far it came."""
    new, most = subject.at(subject.folder, subject.empty("indexing")), (0, 0)
    with ServerProcess(new.arguments) as server:
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until:
            resident, proportional = memory_of(server.process.pid)
            most = max(most[0], resident), max(most[1], proportional)
            time.sleep(0.1)
        return most, server.call("status")["folders"][0]["index"]


def memory_of(process: int) -> Memory:
    """Return what a process and all of its descendants hold; what has ended holds nothing."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0, 0
    kilobytes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
    }
    held = [
        (1024 * kilobytes["Rss"], 1024 * kilobytes["Pss"]),
        *map(memory_of, children_of(process)),
    ]
    return sum(each[0] for each in held), sum(each[1] for each in held)
