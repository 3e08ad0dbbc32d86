"""Real servers in processes of their own, asked over pipes or HTTP: what is seen here is what a
client sees.
"""

from __future__ import annotations

import json
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

ANSWER_SECONDS = 60.0
"""The longest wait for an answer: as long as patient clients wait."""

END_SECONDS = 10.0
"""The longest wait for a server's end when its input has ended: five times what it promises."""

START_SECONDS = 300.0
"""The longest wait until edits are followed and no vector is missing: ten thousand notes take
less.
"""

WARM_SECONDS = 3.0
"""After its first answers a server still loads its model: what is looked at is a server that has
been up for a while.
"""

# -P: the working directory may be a vault, whose files must never be imported.
THUMBINDEX = (sys.executable, "-P", "-m", "thumbindex")
SERVE = (*THUMBINDEX, "serve")
# A free port.
SERVE_HTTP = (*SERVE, "--http", "--port", "0")

CLIENT = {"name": "thumbindex tests", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
_ENDED = {"error": {"message": "the server has ended"}}

Call = Callable[..., dict[str, Any]]
"""Calls a tool by its name and arguments; returns its structured answer.

Raises ThumbindexError where the server refuses.
"""


class ServerProcess:
    """`thumbindex serve` with some options over stdio, initialized and ended by the `with`.

    Any number of threads may ask at once.
    """

    def __init__(
        self,
        options: Sequence[str],
        program: Sequence[str] = SERVE,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        said: BinaryIO | None = None,  # takes what it writes to standard error
    ) -> None:
        pipes = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": said or subprocess.DEVNULL,
        }
        self.process = subprocess.Popen([*program, *options], env=environment, cwd=folder, **pipes)
        self._numbers = count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}  # by the number of the request
        self._ended = False
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        try:
            self.initialize()
            self.request("tools/list", {})
        except BaseException:
            self.process.kill()  # no `with` will end what it never entered
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
        """Shake hands."""
        self.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
        )
        self._write({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured answer.

        Raises ThumbindexError where the server refuses.
        """
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ThumbindexError(f"{tool}: {result['content'][0]['text']}")
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask and wait for the answer, whatever others ask meanwhile.

        Raises ThumbindexError where none comes, or it is an error.
        """
        coming: Future[dict[str, Any]] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = coming
            if self._ended:
                coming.set_result(_ENDED)
        try:
            self._write({"id": number, "method": method, "params": params})
            answer = coming.result(ANSWER_SECONDS)
        except TimeoutError:
            raise ThumbindexError(f"{method}: no answer within {ANSWER_SECONDS:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
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
            # a notification, or a request of the server's own, is no answer
            if "method" not in answer:
                with self._lock:
                    coming = self._waiting.pop(answer.get("id"), None)
                if coming is not None:
                    coming.set_result(answer)
        with self._lock:
            self._ended = True
            left, self._waiting = self._waiting, {}
        for coming in left.values():
            coming.set_result(_ENDED)

    def end(self) -> None:
        """End its input and wait for its end; kill it where that does not come.

        Raises ThumbindexError then.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # it has ended with something unread
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ThumbindexError(
                f"the server did not end within {END_SECONDS:g} s of its input"
            ) from None
        finally:
            self._listener.join(END_SECONDS)
            self.process.stdout.close()


class LineProcess:
    """A program that says "ready", is told jobs as JSON, a line each, and answers in lines; it ends
    with its input.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.line() == "ready"

    def ask(self, job: Mapping[str, Any]) -> str:
        """Give it a job; return the first line that it says."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self.line()

    def line(self) -> str:
        """Return the next line that it says; an empty one where it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End its input and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def index_folder(index: Path) -> Path | None:
    """Return the one folder's index in a directory of indexes; None where none has begun."""
    found = (
        [path for path in index.iterdir() if path.is_dir() and path.name != VECTORS_FOLDER]
        if index.is_dir()
        else []
    )
    assert len(found) <= 1, found
    return found[0] if found else None


def is_alive(pid: int) -> bool:
    """Tell whether a process runs.

    One that has ended stays in /proc until its parent, or whoever took it over, asks for its exit
    code.
    """
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False


def children_of(process: int) -> list[int]:
    """Return the processes that a process started and that are still there, the eldest first; none
    where it is gone itself.

    Linux only.
    """
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # a thread that has just ended
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return sorted(found)


def peak() -> float:
    """Return the most memory that this process has held, in megabytes; `getrusage` would begin with
    what its parent held.

    Linux only.
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
    said: BinaryIO | None = None,  # takes what it writes to standard error
) -> Iterator[tuple[str, int]]:
    """Start a server on a free port; yield its address and its process id.

    Raises ThumbindexError where it does not begin.
    """
    with subprocess.Popen(
        [*SERVE_HTTP, *options],
        stdout=subprocess.PIPE,
        stderr=said or subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise ThumbindexError("the server ended before it said where it listens")
            yield url, process.pid
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()


@contextmanager
def http_client(url: str) -> Iterator[Call]:
    """Yield what calls the tools of a server over HTTP, by a connection of its own."""
    # Imported here: a process whose memory is measured does not pay for it.
    import httpx2

    # no proxy stands between a machine and itself
    with httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False) as http:

        def call(tool: str, **arguments: Any) -> dict[str, Any]:
            about = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
            }
            asked = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": META},
            }
            try:
                response = http.post(
                    url, headers={**about, "Mcp-Method": "tools/call", "Mcp-Name": tool}, json=asked
                )
                # an answer that takes long comes as an event, after others that keep the connection
                # open
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
    """Wait until edits are followed, and all vectors made if there are to be any. The first edit is
    seen when the server's child has started and looked the folder through.

    Raises ThumbindexError where that takes longer than `seconds`.
    """
    path, until = folder / "started.md", time.monotonic() + seconds
    path.write_text("# Started\n\nmarkstarted\n", encoding="utf-8")
    complaints = (
        (
            lambda: is_found(call, "markstarted"),
            f"{path} was not found within {seconds:g} s: the server follows no edits.",
        ),
        (
            lambda: not vectors or has_all_vectors(call, folder.name),
            f"vectors were still missing after {seconds:g} s: the server does not fill them in.",
        ),
    )
    for is_so, complaint in complaints:
        while not is_so():
            if time.monotonic() >= until:
                raise ThumbindexError(complaint)
            time.sleep(0.1)
    time.sleep(WARM_SECONDS)


def is_found(call: Call, mark: str, **narrowed: Any) -> bool:
    """Tell whether a word is in the first passage that is found for it."""
    return any(
        mark in result["text"]
        for result in call("query", query=f'"{mark}"', limit=1, **narrowed)["results"]
    )


def has_all_vectors(call: Call, folder: str) -> bool:
    """Tell whether no chunk of a folder lacks its vector."""
    return any(
        each["folder"] == folder and each["index"]["pending"] == 0
        for each in call("status")["folders"]
    )


def await_meaning(call: Call, question: str, seconds: float = ANSWER_SECONDS) -> None:
    """Ask until an answer comes by meaning: loading a model takes seconds.

    Raises ThumbindexError where none does.
    """
    until = time.monotonic() + seconds
    while not any(
        step["stage"] == "search_vector" and step["out"]
        for step in call("query", query=question, explain=True)["trace"]
    ):
        if time.monotonic() > until:
            raise ThumbindexError(
                f"No answer came by meaning within {seconds:g} s: has the index vectors "
                "(`thumbindex status`)?"
            )
        time.sleep(0.02)
