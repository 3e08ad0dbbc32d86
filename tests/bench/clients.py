"""Several clients of one database: processes that ask without pause, and agents over two servers
while a builder publishes edits.

As a program it is one of those processes: it opens what is published, and asks whenever it is told
to.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bench.load import descendants_seconds, processor_seconds
from bench.memory import memory_of
from bench.results import Row, quantile_rows
from bench.subject import Subject, program
from notes import write
from postgres.server import TestServer
from servers import END_SECONDS, SERVE, http_client, http_server
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.serve.opening import Opening

WARM = 20
"""Questions that each client asks before."""

AGENTS, SERVERS = 16, 2

THINKING = (0.5, 2.0)
"""Seconds that an agent does something else between two questions."""

EDIT_SECONDS = 1.0
"""Between two edits."""

PROBE_SECONDS = 0.2
"""Between two looks, at each server, for which edit it answers from."""

LATEST_SECONDS = 10.0
"""How long an edit is waited for after the last one: one that did not come is an error."""

LONGEST = 1000.0
"""Milliseconds that the longest wait is to come to."""

EDITED_BYTES = 400_000
"""Of the Markdown of the folder whose notes change."""

TIMES = 6
"""Agents ask for so many times the seconds that processes do: an agent asks once in a second and a
half.
"""


# ------------------------------------------------------------------ processes that ask without paus


def process_rows(
    subject: Subject, server: TestServer, database: str, questions: Sequence[str]
) -> Iterator[Row]:
    """Ask from one process, two, four and so on; yield how many answers came, and how late."""
    with ExitStack() as started:
        clients = [
            started.enter_context(_client(subject, server.address(database), questions))
            for _ in range(subject.given.clients)
        ]
        for client in clients:
            client.hear()
        for count in [2**n for n in range(subject.given.clients.bit_length())]:
            before = processor_seconds(server.process)
            for number, client in enumerate(clients[:count]):
                client.tell([subject.given.seconds, number * len(questions) // count])
            asked = [client.hear() for client in clients[:count]]
            milliseconds = [each for answer in asked for each in answer["milliseconds"]]
            seconds = max(answer["seconds"] for answer in asked)
            name = f"{count} {'process' if count == 1 else 'processes'}"
            yield Row("engine", f"{name}: answers", "a second", [len(milliseconds) / seconds])
            yield from quantile_rows("engine", f"{name}, {{}}", [milliseconds])
            here, there = (
                sum(answer["processor"] for answer in asked),
                processor_seconds(server.process) - before,
            )
            yield Row(
                "engine",
                f"{name}, processor time here, a question",
                "ms",
                [1000 * here / len(milliseconds)],
            )
            yield Row(
                "engine",
                f"{name}, processor time of PostgreSQL, a question",
                "ms",
                [1000 * there / len(milliseconds)],
            )
        yield Row(
            "engine",
            "resident, a client process",
            "MB",
            [float(np.median([memory_of(each.process.pid)[0] for each in clients])) / 1e6],
        )
        yield Row(
            "engine",
            "proportional, PostgreSQL",
            "MB",
            [memory_of(server.process)[1] / 1e6],
            note=f"with its shared buffers, and {len(clients)} clients",
        )


@dataclass(frozen=True, slots=True)
class _Client:
    """The program in a process of its own."""

    process: subprocess.Popen[str]

    def tell(self, said: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(said) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """Return what it says next. Raises ThumbindexError where it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ThumbindexError("A client has ended before it answered.")
        return json.loads(line)


@contextmanager
def _client(subject: Subject, url: str, questions: Sequence[str]) -> Iterator[_Client]:
    command, environment = program("bench.clients", subject.arguments)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        client = _Client(process)
        client.tell([url, list(questions)])
        try:
            yield client
        finally:
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()


def main() -> None:
    """Read a server's options, and from standard input the address, the questions, then how long to
    ask, and from which question on.
    """
    (url, questions), opening = (
        json.loads(sys.stdin.readline()),
        Opening.from_arguments(sys.argv[1:]),
    )
    with Library.open(config=opening.load(), engine=url, wait_for_models=False) as library:
        library.load_models()
        for question in questions[:WARM]:
            library.query(question)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            seconds, first = json.loads(line)
            print(
                json.dumps(_ask_for(library, questions[WARM:] or questions, seconds, first)),
                flush=True,
            )


def _ask_for(
    library: Library, questions: Sequence[str], seconds: float, first: int
) -> dict[str, Any]:
    milliseconds, began, spent = list[float](), time.perf_counter(), time.process_time()
    while time.perf_counter() < began + seconds:
        asked = time.perf_counter()
        library.query(questions[(first + len(milliseconds)) % len(questions)])
        milliseconds.append(1000 * (time.perf_counter() - asked))
    return {
        "milliseconds": milliseconds,
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - spent,
    }


# ------------------------------------------------------------------ agents over servers, while note


def agent_rows(
    subject: Subject, server: TestServer, database: str, questions: Sequence[str]
) -> Iterator[Row]:
    """Have agents ask two servers over HTTP what is published, while a builder publishes the edits
    of a second folder.
    """
    url, folder = server.address(database), subject.copy_some(EDITED_BYTES)
    pair = Pair(folder)
    pair.write(0)
    edited = subject.at(folder, subject.empty("edited"))
    with ExitStack() as started:
        builder = started.enter_context(_builder([*edited.arguments, f"--engine={url}"]))
        builder.await_first()
        overrides = [f"--set={each}" for each in subject.opening.overrides]
        urls = [
            started.enter_context(http_server([*overrides, f"--engine={url}"]))
            for _ in range(SERVERS)
        ]
        for each in urls:
            with http_client(each) as call:
                for question in questions[:WARM]:
                    call("query", query=question)
        here, there = descendants_seconds(), processor_seconds(server.process)
        found = asyncio.run(_let_agents_ask(urls, questions, pair, TIMES * subject.given.seconds))
        here, there, published = (
            descendants_seconds() - here,
            processor_seconds(server.process) - there,
            builder.publications,
        )
    yield Row(
        "engine",
        f"{AGENTS} agents, answers",
        "a second",
        [len(found.milliseconds) / found.seconds],
        note=f"{SERVERS} servers; 0.5 to 2 s of thought",
    )
    yield from quantile_rows("engine", f"{AGENTS} agents, {{}}", [found.milliseconds])
    yield Row("engine", f"{AGENTS} agents, longest wait", "ms", [max(found.milliseconds)], LONGEST)
    asked = len(found.milliseconds) + found.probes
    yield Row(
        "engine",
        f"{AGENTS} agents, processor time here, a question",
        "ms",
        [1000 * here / asked],
        note="of servers, agents and builder",
    )
    yield Row(
        "engine",
        f"{AGENTS} agents, processor time of PostgreSQL, a question",
        "ms",
        [1000 * there / asked],
    )
    yield Row(
        "engine",
        f"{AGENTS} agents, errors",
        "",
        [len(found.errors)],
        0.0,
        note="; ".join(sorted(set(found.errors)))[:300],
    )
    yield Row(
        "engine",
        "edits",
        "",
        [len(pair.written)],
        note=f"{published} publications of a folder of its own, beside the large one",
    )
    yield Row(
        "engine",
        "edits, torn answers",
        "",
        [found.torn],
        0.0,
        note=f"of {found.pairs:,} that show both notes of a pair",
    )
    yield from quantile_rows("engine", "edit to answer, {}", [found.seen])
    yield Row("engine", "edit to answer, longest", "ms", [max(found.seen)])
    yield Row(
        "engine",
        "edits that were not seen",
        "",
        [len(pair.written) * SERVERS - len(found.seen)],
        0.0,
    )


class Pair:
    """Two notes that are changed together, and when each revision of them was written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # by the number of the revision less one; that of the first, 0, is not asked for
        self.written: list[float] = []

    def write(self, number: int) -> None:
        """Put both notes in place at once, as near as files allow."""
        names = ("one", "two")
        for name in names:
            write(
                self._folder / f".pair {name}",
                f"# Pair {name}\n\nThe turbine {name} is at revision {number}.\n",
            )
        for name in names:
            (self._folder / f".pair {name}").replace(self._folder / f"pair {name}.md")
        if number:
            self.written.append(time.perf_counter())


@dataclass(slots=True)
class _Found:
    """What agents and probes found."""

    milliseconds: list[float] = field(default_factory=list)
    # milliseconds from an edit to its answer, once a server
    seen: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    torn: int = 0
    pairs: int = 0  # answers that show both notes
    probes: int = 0
    seconds: float = 0.0


class _Asks(Protocol):
    async def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Ask a server the tool `query`; return its structured answer.

        Raises ThumbindexError where it refuses.
        """


async def _let_agents_ask(
    urls: Sequence[str], questions: Sequence[str], pair: Pair, seconds: float
) -> _Found:
    """Have agents ask, probes look, and the notes change, for so many seconds."""
    found, over = _Found(), asyncio.Event()
    async with AsyncExitStack() as connected:
        agents = [await _connected(connected, urls[number % len(urls)]) for number in range(AGENTS)]
        probes = [await _connected(connected, url) for url in urls]
        began = time.perf_counter()
        tasks = [
            asyncio.create_task(_be_agent(ask, number, questions, found, over))
            for number, ask in enumerate(agents)
        ]
        looks = [asyncio.create_task(_look(ask, pair, found, over)) for ask in probes]
        while time.perf_counter() < began + seconds:
            await asyncio.sleep(EDIT_SECONDS)
            pair.write(len(pair.written) + 1)
        found.seconds = time.perf_counter() - began
        over.set()
        await asyncio.gather(*tasks, *looks)
    return found


async def _connected(stack: AsyncExitStack, url: str) -> _Asks:
    """Connect the client of the SDK to a server."""
    # Imported here: the processes above do not pay for it.
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    http = await stack.enter_async_context(httpx2.AsyncClient(timeout=60, trust_env=False))
    client = await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))

    async def ask(**arguments: Any) -> dict[str, Any]:
        result = await client.call_tool("query", arguments)
        if result.is_error:
            raise ThumbindexError(str(result.content))
        structured: dict[str, Any] = result.structured_content or {}
        return structured

    return ask


async def _be_agent(
    ask: _Asks, number: int, questions: Sequence[str], found: _Found, over: asyncio.Event
) -> None:
    chance = random.Random(number)
    await asyncio.sleep(chance.uniform(0, THINKING[1]))
    while not over.is_set():
        began = time.perf_counter()
        try:
            await ask(query=chance.choice(questions))
        except Exception as error:  # whatever it was that an agent got in place of an answer
            found.errors.append(f"{type(error).__name__}: {error}"[:100])
        found.milliseconds.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(chance.uniform(*THINKING))


async def _look(ask: _Asks, pair: Pair, found: _Found, over: asyncio.Event) -> None:
    """Ask one server for the pair, until it has shown the last edit; note when each was seen first,
    and where one note is older than the other.
    """
    seen, until = 0, 0.0
    while not until or (seen < len(pair.written) and time.perf_counter() < until):
        if over.is_set() and not until:
            until = time.perf_counter() + LATEST_SECONDS
        answer = await ask(query="turbine revision", limit=10, folder=[pair._folder.name])
        now = time.perf_counter()
        shown = [
            int(each)
            for result in answer["results"]
            if "pair" in result["path"]
            for each in re.findall(r"revision (\d+)", result["text"])
        ]
        found.probes += 1
        found.pairs += len(shown) > 1
        found.torn += len(set(shown)) > 1
        newest = max(shown, default=0)
        found.seen += [1000 * (now - pair.written[number]) for number in range(seen, newest)]
        seen = max(seen, newest)
        await asyncio.sleep(PROBE_SECONDS)


class _Builder:
    """`engine publish --watch` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.publications = 0
        self._is_there, self._process = threading.Event(), process
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.publications += 1
                self._is_there.set()

    def await_first(self) -> None:
        """Wait until something is published. Raises ThumbindexError where that does not come."""
        if not self._is_there.wait(60):
            raise ThumbindexError("The builder published nothing within a minute.")


@contextmanager
def _builder(options: Sequence[str]) -> Iterator[_Builder]:
    command = [*SERVE[:-1], "engine", "publish", "--watch", "--json", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield _Builder(process)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()


if __name__ == "__main__":
    main()
