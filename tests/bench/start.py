"""From a server's spawn to its first answers, with the index on disk; before each, the import that
every such server begins with.
"""

import subprocess
import sys
import time
from collections.abc import Iterator

from bench.results import Row, ratios
from bench.subject import Subject, draw_questions, timed
from servers import ServerProcess, await_meaning

REFERENCE = "import mcp.server"


def measure(subject: Subject) -> Iterator[Row]:
    """Start a server as often as there are rounds."""
    chunks = subject.chunks()
    (question,) = draw_questions(chunks, 1)
    names = ("initialize", "tools/list", "first answer by words", "first hybrid answer")
    found: dict[str, list[float]] = {name: [] for name in names}
    reference = []
    for _ in range(subject.given.rounds):
        reference.append(
            timed(lambda: subprocess.run([sys.executable, "-P", "-c", REFERENCE], check=True))
        )
        began = time.perf_counter()
        server = ServerProcess(subject.arguments)
        steps = (
            server.initialize,
            lambda server=server: server.request("tools/list", {}),
            lambda server=server: server.call("query", query=question),
            lambda server=server: await_meaning(server.call, question),
        )
        try:
            for name, step in zip(names, steps, strict=True):
                step()
                found[name].append(time.perf_counter() - began)
        finally:
            server.end()
    yield Row("start", f"`{REFERENCE}`", "s", reference)
    yield Row("start", "initialize", "s", found["initialize"], note=f"{len(chunks):,} chunks")
    yield Row(
        "start", "initialize / the import", "×", ratios(found["initialize"], reference), most=1.3
    )
    yield Row(
        "start", "tools/list / the import", "×", ratios(found["tools/list"], reference), most=1.3
    )
    yield Row("start", "first answer by words", "s", found["first answer by words"])
    yield Row(
        "start",
        "first answer by words / the import",
        "×",
        ratios(found["first answer by words"], reference),
        most=2.0,
    )
    yield Row("start", "first hybrid answer", "s", found["first hybrid answer"], most=3.0)
