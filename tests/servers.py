"""Start real server processes and call them over pipes or HTTP, as a client does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from thumbindex.errors import ThumbindexError
from thumbindex.index.files import VECTORS_FOLDER


def path_of(result: Mapping[str, Any]) -> str:
    """Return the path in the citation of a result of the tool `query`."""
    return re.split(r"#| \(line", result["citation"])[0]


ANSWER_SECONDS = 60.0
"""Maximum wait for an answer."""

END_SECONDS = 10.0
"""Maximum wait for a server to exit after its input is closed: five times the promised time."""

START_SECONDS = 300.0
"""Maximum wait until a new server indexes edits and all chunks have vectors."""

WARM_SECONDS = 3.0
"""Pause after the first answers, since a server may still be loading its model."""

# -P: the working directory may be a vault, whose files must never be imported.
THUMBINDEX = (sys.executable, "-P", "-m", "thumbindex")
SERVE = (*THUMBINDEX, "serve")
# port 0: a free port
SERVE_HTTP = (*SERVE, "--http", "--port", "0")

CLIENT = {"name": "thumbindex tests", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
_ENDED = {"error": {"message": "the server has ended"}}

Call = Callable[..., dict[str, Any]]
"""Calls a tool by name and arguments, and returns its structured answer.

Raises ThumbindexError if the server returns an error.
"""


class ServerProcess:
    """A context manager that runs `thumbindex serve` over stdio. Safe to call from threads."""

    def __init__(
        self,
        options: Sequence[str],
        program: Sequence[str] = SERVE,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stderr: BinaryIO | None = None,
    ) -> None:
        pipes = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": stderr or subprocess.DEVNULL,
        }
        self.process = subprocess.Popen([*program, *options], env=environment, cwd=folder, **pipes)
        self._numbers = count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}  # by request id
        self._ended = False
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        try:
            self.initialize()
            self.request("tools/list", {})
        except BaseException:
            self.process.kill()  # __exit__ does not run if __enter__ fails
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def initialize(self) -> None:
        """Perform the MCP handshake."""
        self.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
        )
        self._write({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its structured answer.

        Raises ThumbindexError if the server returns an error.
        """
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ThumbindexError(f"{tool}: {result['content'][0]['text']}")
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result.

        Raises ThumbindexError if the server returns an error or does not answer in time.
        """
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            id_ = next(self._numbers)
            self._waiting[id_] = future
            if self._ended:
                future.set_result(_ENDED)
        try:
            self._write({"id": id_, "method": method, "params": params})
            answer = future.result(ANSWER_SECONDS)
        except TimeoutError:
            raise ThumbindexError(f"{method}: no answer within {ANSWER_SECONDS:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(id_, None)
        if "error" in answer:
            raise ThumbindexError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            with self._lock:
                self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                self.process.stdin.flush()
        except (OSError, ValueError):
            raise ThumbindexError(f"{message['method']}: the server has ended") from None

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            # skip notifications and the server's own requests
            if "method" not in answer:
                with self._lock:
                    future = self._waiting.pop(answer.get("id"), None)
                if future is not None:
                    future.set_result(answer)
        with self._lock:
            self._ended = True
            unanswered, self._waiting = self._waiting, {}
        for future in unanswered.values():
            future.set_result(_ENDED)

    def end(self) -> None:
        """Close the server's input and wait for its exit.

        Kills the server and raises ThumbindexError if it does not exit in time.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # the server exited with unread input
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ThumbindexError(
                f"the server did not exit within {END_SECONDS:g} s after its input was closed"
            ) from None
        finally:
            self._listener.join(END_SECONDS)
            self.process.stdout.close()


class LineProcess:
    """Runs a program that prints "ready", then reads one JSON job per line.

    The program answers each job with a line, and exits when its input ends.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.line() == "ready"

    def ask(self, job: Mapping[str, Any]) -> str:
        """Send a job, and return the first line of the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self.line()

    def line(self) -> str:
        """Return the next line of output, or "" if the program has exited."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """Close the input and wait for the program to exit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def index_folder(index: Path) -> Path | None:
    """Return the folder of the only index in an index directory, or None if there is none yet."""
    folders = (
        [path for path in index.iterdir() if path.is_dir() and path.name != VECTORS_FOLDER]
        if index.is_dir()
        else []
    )
    assert len(folders) <= 1, folders
    return folders[0] if folders else None


def is_alive(pid: int) -> bool:
    """Return whether a process is running. A zombie is not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False


def children_of(process: int) -> list[int]:
    """Return the running children of a process, oldest first (Linux only)."""
    children: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # the thread has just ended
            children += map(int, (task / "children").read_text(encoding="ascii").split())
    return sorted(children)


def peak() -> float:
    """Return this process's peak memory in megabytes (Linux only).

    `getrusage` would include its parent's memory.
    """
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) / 1024


@contextmanager
def http_server(
    options: Sequence[str],
    stderr: BinaryIO | None = None,
) -> Iterator[tuple[str, int]]:
    """Start an HTTP server on a free port; yield its URL and process id.

    Raises ThumbindexError if it does not start.
    """
    with subprocess.Popen(
        [*SERVE_HTTP, *options],
        stdout=subprocess.PIPE,
        stderr=stderr or subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise ThumbindexError("the server exited before it printed its URL")
            yield url, process.pid
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()


@contextmanager
def http_client(url: str) -> Iterator[Call]:
    """Yield a function that calls a server's tools over an HTTP connection of its own."""
    # imported late: it would count in memory measurements
    import httpx2

    # trust_env=False: use no proxy for localhost
    with httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False) as http:

        def call(tool: str, **arguments: Any) -> dict[str, Any]:
            headers = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
            }
            request = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": META},
            }
            try:
                response = http.post(
                    url,
                    headers={**headers, "Mcp-Method": "tools/call", "Mcp-Name": tool},
                    json=request,
                )
                # a slow answer is the last event, after keep-alive events
                events = [
                    line.removeprefix("data:")
                    for line in response.text.split("\n")
                    if line.startswith("data:")
                ]
                answer = json.loads(events[-1] if events else response.text)
            except httpx2.HTTPError as error:
                raise ThumbindexError(f"{tool}: no answer ({error})") from None
            except ValueError:
                raise ThumbindexError(
                    f"{tool}: {response.status_code} {response.text[:200]}"
                ) from None
            result = answer.get("result", {})
            if response.status_code != 200 or "error" in answer or result.get("isError"):
                raise ThumbindexError(
                    f"{tool}: {answer.get('error') or result['content'][0]['text']}"
                )
            structured: dict[str, Any] = result["structuredContent"]
            return structured

        yield call


def await_start(
    call: Call, folder: Path, seconds: float = START_SECONDS, vectors: bool = True
) -> None:
    """Wait until the server indexes edits and, with `vectors`, has all vectors.

    Raises ThumbindexError after `seconds`.
    """
    path, until = folder / "started.md", time.monotonic() + seconds
    path.write_text("# Started\n\nmarkstarted\n", encoding="utf-8")
    conditions = (
        (
            lambda: is_found(call, "markstarted"),
            f"{path} was not found within {seconds:g} s: the server does not index edits.",
        ),
        (
            lambda: not vectors or has_all_vectors(call, folder.name),
            f"vectors were still missing after {seconds:g} s: the server does not embed notes.",
        ),
    )
    for is_met, message in conditions:
        while not is_met():
            if time.monotonic() >= until:
                raise ThumbindexError(message)
            time.sleep(0.1)
    time.sleep(WARM_SECONDS)


def is_found(call: Call, mark: str, **filters: Any) -> bool:
    """Return whether a query for a word finds a passage that contains it."""
    return any(
        mark in result["text"]
        for result in call("query", query=f'"{mark}"', limit=1, **filters)["results"]
    )


def has_all_vectors(call: Call, folder: str) -> bool:
    """Return whether every chunk of a folder has a vector."""
    return any(
        status["folder"] == folder and status["index"]["pending"] == 0
        for status in call("status")["folders"]
    )


def await_meaning(call: Call, question: str, seconds: float = ANSWER_SECONDS) -> None:
    """Repeat a query until vector search finds something, since loading a model takes seconds.

    Raises ThumbindexError after `seconds`.
    """
    until = time.monotonic() + seconds
    while not any(
        step["stage"] == "search_vector" and step["out"]
        for step in call("query", query=question, explain=True)["trace"]
    ):
        if time.monotonic() > until:
            raise ThumbindexError(
                f"Vector search found nothing within {seconds:g} s: check that the index has "
                "vectors (`thumbindex status`)."
            )
        time.sleep(0.02)
