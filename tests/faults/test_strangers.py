"""What strangers send to a server, and commands that meet on one folder: it stays up, answers the
others, and each command ends with a sentence.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from dump import dump
from faults.vault import old_notes, open_library, sizes, write_notes
from servers import THUMBINDEX, http_client, http_server
from waiting import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks processes up in /proc"
)

ANSWER_SECONDS = 20.0
"""The longest that an answer may take beside a flood, on a busy machine of two cores."""

MOST = 0.9
"""Of the connections of a flood so many must be made; those of one that stays open must show in the
server's handles, up to its limit.
"""

STRANGER = ("127.0.0.2", 0)
"""Another address of this machine: limits count by address."""


def held(pid: int) -> tuple[int, int, float]:
    """Return the handles, threads and megabytes that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    handles, threads = (
        sum(1 for _ in Path(f"/proc/{pid}/{each}").iterdir()) for each in ("fd", "task")
    )
    return handles, threads, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def listening(root: Path, index: Path) -> Iterator[tuple[str, int]]:
    """Start a server that tells of no error of its own; yield its address and its process."""
    options = (f"--folder={root}", f"--index={index}", "--set", "serve.watch.enabled=false")
    with TemporaryFile() as said:
        with http_server(options, said) as server:
            yield server
        said.seek(0)
        assert b"Traceback" not in (errors := said.read()), errors.decode()


META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{},'
    b'"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}'
)
QUERY = (
    (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        b'"params":{"name":"query","arguments":{"query":"stone wall"},'
    )
    + META
    + b"}}"
)
LISTEN = (
    b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",'
    b'"params":{"notifications":{"resourcesListChanged":true},' + META + b"}}"
)


def request(body: bytes, method: str = "tools/call", length: int | None = None) -> bytes:
    """Return a request of the latest protocol."""
    named = "Mcp-Name: query\r\n" if method == "tools/call" else ""
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Type: application/json\r\n{named}"
    )
    head += (
        f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


class Strangers:
    """Clients that mean no good, at one server."""

    def __init__(self, url: str) -> None:
        self.port = int(url.rpartition(":")[2].partition("/")[0])
        self.sockets: list[socket.socket] = []
        chance, whole = random.Random(7), request(QUERY)
        begun = (b"", b"G", b"POST /mcp HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\n")
        headers = (b"X-A", b"Host", b"Authorization", b"Mcp-Session-Id", b"Cookie")
        huge = b": " + b"a" * 500_000 + b"\r\n\r\n"
        self.floods: dict[str, tuple[int, Callable[[], bytes]]] = {
            "slow bodies": (20, lambda: request(b'{"jsonrpc"', length=1000)),
            "streams": (20, lambda: request(LISTEN, method="subscriptions/listen")),
            "half requests": (40, lambda: chance.choice(begun)),
            "giant headers": (10, lambda: b"GET / HTTP/1.1\r\n" + chance.choice(headers) + huge),
            "cut off": (80, lambda: whole[: chance.randrange(2 * len(whole))]),
        }

    def send(self, data: bytes, *, cut: bool) -> bool:
        """Send something, close at once with a reset if it is to be cut off; tell whether there was
        a connection.
        """
        address = ("127.0.0.1", self.port)
        try:
            client = socket.create_connection(address, timeout=5, source_address=STRANGER)
        except OSError:
            return False
        self.sockets.append(client)
        with suppress(OSError):
            if cut:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(data)
            if cut:
                client.close()
        return True

    def a_byte_each(self) -> None:
        for each in self.sockets:
            with suppress(OSError):
                each.send(b" ")

    def leave(self) -> None:
        for each in self.sockets:
            each.close()
        self.sockets.clear()


@pytest.mark.parametrize("many", sizes(1, 5))
def test_flooded_server_answers_others_and_frees_its_resources(many: int, scratch: Path) -> None:
    write_notes(scratch / "vault", old_notes())
    with (
        listening(scratch / "vault", scratch / "index") as (url, pid),
        http_client(url) as call,
        ExitStack() as ending,
    ):
        strangers = Strangers(url)
        ending.callback(strangers.leave)
        for _ in range(20):
            call("query", query="stone wall")
        longest, before = 0.0, held(pid)
        quiet = before[0]
        # the first one warms up what a first flood takes: threads, and memory that is kept
        for turn in range(2):
            for name, (size, data) in strangers.floods.items():
                # what the last turn left may still be closing: those are no handles to count on
                at_rest = held(pid)[0] if strangers.sockets else quiet
                sent = [strangers.send(data(), cut=name == "cut off") for _ in range(size * many)]
                assert sum(sent) >= MOST * len(sent), f"{name}: too few connections"
                if name in ("slow bodies", "streams"):
                    most = at_rest + MOST * sum(sent)
                    assert until(lambda most=most: held(pid)[0] >= most), (name, most, held(pid))
                strangers.a_byte_each()
                began = time.monotonic()
                assert call("query", query="stone wall")["results"]
                longest = max(longest, time.monotonic() - began)
            strangers.leave()
            handles = before[0] + 1  # others are closed in their turn, some after a while
            assert until(lambda most=handles: held(pid)[0] <= most, 60), (before, held(pid))
            before = held(pid) if turn == 0 else before
        after = held(pid)
    assert longest < ANSWER_SECONDS
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 8
    assert after[2] <= before[2] * 1.1 + 16


# ------------------------------------------------------------------ commands that meet


COMMANDS = (
    ("index", "--words-only"),
    ("index", "--words-only", "--rebuild"),
    ("forget",),
    ("serve",),
    ("query", "stone wall"),
    ("status",),
)


def start(command: tuple[str, ...], options: list[str], pause: float) -> subprocess.Popen[str]:
    """Start a command after a while; a server's input ends when it is waited for."""
    time.sleep(pause)
    return subprocess.Popen(
        [*THUMBINDEX, *command, *options],
        text=True,
        stdin=subprocess.PIPE if command == ("serve",) else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.long
def test_concurrent_commands_end_with_a_result_or_a_sentence(scratch: Path) -> None:
    write_notes(scratch / "vault", old_notes())
    options = [f"--folder={scratch / 'vault'}", f"--index={scratch / 'index'}"]
    chance = random.Random(11)
    for _ in range(36):
        chosen = chance.choices(COMMANDS, k=4)
        running = [(given, start(given, options, chance.random() * 0.8)) for given in chosen]
        # servers serve until the others have ended
        for given, process in sorted(running, key=lambda each: each[0] == ("serve",)):
            out, said = process.communicate(timeout=180)
            # beside a run or a server
            is_refused = (
                given == ("forget",)
                and process.returncode == 3
                and said.startswith("Nothing was deleted: ")
            )
            assert is_refused or process.returncode in (0, 1, 2), (given, process.returncode, said)
            assert "Traceback" not in said + out, (given, said)
            assert process.returncode == 0 or said.strip() or out.strip(), given
    done = start(("index", "--words-only", "--verify"), options, 0)
    done.communicate(timeout=180)
    assert done.returncode == 0
    dumps = []
    for index in ("index", "fresh"):
        with open_library(scratch / "vault", scratch / index) as library:
            library.index()
            dumps.append(dump(library))
    assert dumps[0] == dumps[1]
