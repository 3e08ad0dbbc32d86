"""Asks a tool over its own MCP server: how it is started, what an answer took and held, and how
long it may take before it is given up.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.memory import memory_of
from servers import children_of
from thumbindex.study.measures import RankedPassage
from thumbindex.study.queries import LabeledQuery

CALL_SECONDS = 60.0
"""The longest wait for one answer: as long as patient clients wait."""

START_SECONDS = 120.0
"""The longest wait for the handshake: four times what clients wait, so that a slow start is
measured and not cut off.
"""

SAMPLE_SECONDS = 0.1
"""Between two looks at the memory of the processes."""

CHARACTERS_A_TOKEN = 4
"""As all of these tools estimate it themselves: nobody's tokenizer is preferred."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool is installed, what it is to index, and a home of its own, empty at first:
    whatever it keeps is counted there.
    """

    programs: Path
    notes: Path
    home: Path

    def program(self, name: str) -> str:
        """Return the path of an installed program."""
        return str(self.programs / "bin" / name)

    @property
    def environment(self) -> dict[str, str]:
        """No model hub is asked, nothing is kept outside of the home, and the notes are in no work
        tree of git but their own: ours ignores them.
        """
        own = {
            "HOME": self.home,
            "XDG_CACHE_HOME": self.home / ".cache",
            "XDG_CONFIG_HOME": self.home / ".config",
            "XDG_DATA_HOME": self.home / ".local",
            "GIT_CEILING_DIRECTORIES": self.notes.resolve().parent,
        }
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "LC_ALL", "TMPDIR")
            if name in os.environ
        }
        return (
            kept
            | {name: str(path) for name, path in own.items()}
            | {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call came back with, as text and as structured content."""

    text: str
    structured: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """An adapter: how a tool is installed, indexes, starts, is asked and read."""

    name: str
    # with their versions; a name with "npm:" before it comes from npm, all others from PyPI
    packages: Words
    how: str  # what it is run with, in words
    serve: Callable[[Place], Words]
    call: str  # the tool that answers a question
    # of a question, and of how many results if not its default
    arguments: Callable[[Place, LabeledQuery, int | None], dict[str, Any]]
    paths: Callable[[Place, Reply], list[RankedPassage]]  # best first
    index: Callable[[Place], Sequence[Words]] = lambda _: ()
    environment: Callable[[Place], Mapping[str, str]] = lambda _: {}
    # what must lie in the home before anything is run
    prepare: Callable[[Place], None] = lambda _: None
    takes_rewordings: bool = False
    call_seconds: float = CALL_SECONDS


class GivenUpError(Exception):
    """A tool that could not be asked to the end, and why: a sentence for the table."""


def _held_below() -> int:
    return sum(memory_of(each)[1] for each in children_of(os.getpid()))


@dataclass(slots=True)
class Watch:
    """The most memory, in bytes, that was held at once: by all processes below this one, each page
    divided among those that map it.
    """

    held: Callable[[], int] = _held_below
    most: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.look()

    def look(self) -> None:
        """Look once: what is quicker than the samples is seen, too.

        Two threads may look, and the one that ends last may have seen less.
        """
        held = self.held()
        with self._lock:
            self.most = max(self.most, held)


def run_command(words: Words, environment: Mapping[str, str], folder: Path, seconds: float) -> None:
    """Run a command to its end.

    Raises GivenUpError where it fails, or takes longer: then it is ended with all that it started.
    """
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise GivenUpError(
                f"`{Path(words[0]).name} {' '.join(words[1:2])}` was ended after {seconds:.0f} s"
            ) from None
    if process.returncode:
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
        raise GivenUpError(
            f"`{Path(words[0]).name} {' '.join(words[1:2])}` ended with {process.returncode}: "
            f"{last[:200]}"
        )


def make_index(tool: Tool, place: Place, seconds: float) -> None:
    """Run what a tool's documentation says is run before its server."""
    environment = place.environment | dict(tool.environment(place))
    tool.prepare(place)
    for words in tool.index(place):
        run_command(words, environment, place.home, seconds)


class Session:
    """A server that answers questions, one after the other."""

    def __init__(self, tool: Tool, place: Place, client: Client) -> None:
        self.tool, self.place, self._client = tool, place, client

    async def ask(self, query: LabeledQuery, limit: int | None = None) -> tuple[Reply, float]:
        """Return the reply and the seconds that it took. Raises GivenUpError where none comes."""
        arguments = self.tool.arguments(self.place, query, limit)
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self.tool.call_seconds):
                result = await self._client.call_tool(self.tool.call, arguments)
        except TimeoutError:
            raise GivenUpError(
                f"no answer within {self.tool.call_seconds:g} s to {query.query[:60]!r}"
            ) from None
        seconds = time.perf_counter() - start
        text = "\n".join(getattr(each, "text", "") for each in result.content)
        return Reply(text, result.structured_content, bool(result.is_error)), seconds


@asynccontextmanager
async def session(tool: Tool, place: Place, log: Path) -> AsyncIterator[Session]:
    """Start a tool's server over stdio as clients do, and end it.

    Raises GivenUpError where it cannot be started, or goes.
    """
    command, *options = tool.serve(place)
    parameters = StdioServerParameters(
        command=command,
        args=options,
        env=place.environment | dict(tool.environment(place)),
        cwd=place.home,
    )
    with log.open("a", encoding="utf-8") as errors:
        try:
            async with _connected(parameters, errors) as client:
                yield Session(tool, place, client)
        except GivenUpError:
            raise
        except BaseExceptionGroup as group:
            raise _reason(group) from group
        # whatever a stranger's server does ends its own row only, and is shown there
        except Exception as error:
            raise GivenUpError(f"{type(error).__name__}: {str(error)[:200]}") from error


@asynccontextmanager
async def _connected(parameters: StdioServerParameters, errors: Any) -> AsyncIterator[Client]:
    client = Client(
        stdio_client(parameters, errlog=errors), mode="legacy", read_timeout_seconds=START_SECONDS
    )
    entered = asyncio.timeout(START_SECONDS)
    async with entered:
        await client.__aenter__()
        entered.reschedule(None)
        try:
            yield client
        finally:
            await client.__aexit__(None, None, None)


def _reason(group: BaseExceptionGroup[BaseException]) -> GivenUpError:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return (
        first
        if isinstance(first, GivenUpError)
        else GivenUpError(f"{type(first).__name__}: {str(first)[:200]}")
    )


def tokens_of(reply: Reply) -> int:
    """Estimate what the text of a reply costs a model that reads it."""
    return -(-len(reply.text) // CHARACTERS_A_TOKEN)


def relative(place: Place, path: str) -> str:
    """Return a path as the labels have it: relative to the notes."""
    return (
        path.removeprefix(f"{place.notes}/").removeprefix(f"{place.notes.name}/").removeprefix("./")
    )


def found_paths(place: Place, rows: Any, key: str, heading: str = "") -> list[RankedPassage]:
    """Read a list of results, each with its path under a key."""
    return [
        RankedPassage(
            relative(place, str(row[key])), (str(row[heading]),) if row.get(heading) else ()
        )
        for row in rows or ()
        if row.get(key)
    ]


def matched_paths(place: Place, reply: Reply, pattern: str) -> list[RankedPassage]:
    """Read results from text, by a pattern whose first group is the path."""
    return [
        RankedPassage(relative(place, each[1]), ())
        for each in re.finditer(pattern, reply.text, re.MULTILINE)
    ]
