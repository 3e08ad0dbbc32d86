"""A server survives hostile clients, and concurrent commands end with a result or a message."""

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
"""Maximum time of an answer during a flood, on a busy machine with two cores."""

MIN_SHARE = 0.9
"""Minimum share of a flood's connections that must succeed and, if they stay open, show as handles
of the server.
"""

HOSTILE_ADDRESS = ("127.0.0.2", 0)
"""A separate address, since limits count by address."""


def resources(pid: int) -> tuple[int, int, float]:
    """Return the handles, threads and megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    handles, threads = (
        sum(1 for _ in Path(f"/proc/{pid}/{kind}").iterdir()) for kind in ("fd", "task")
    )
    return handles, threads, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def listening(root: Path, index: Path) -> Iterator[tuple[str, int]]:
    """Start a server that may log no traceback; yield its address and process id."""
    options = (f"--folder={root}", f"--index={index}", "--set", "serve.watch.enabled=false")
    with TemporaryFile() as log:
        with http_server(options, log) as server:
            yield server
        log.seek(0)
        assert b"Traceback" not in (errors := log.read()), errors.decode()


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
    """Return a request in the latest protocol."""
    header = "Mcp-Name: query\r\n" if method == "tools/call" else ""
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Type: application/json\r\n{header}"
    )
    head += (
        f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


class HostileClients:
    """Hostile clients of one server."""

    def __init__(self, url: str) -> None:
        self.port = int(url.rpartition(":")[2].partition("/")[0])
        self.sockets: list[socket.socket] = []
        chance, complete = random.Random(7), request(QUERY)
        beginnings = (b"", b"G", b"POST /mcp HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\n")
        headers = (b"X-A", b"Host", b"Authorization", b"Mcp-Session-Id", b"Cookie")
        huge = b": " + b"a" * 500_000 + b"\r\n\r\n"
        self.floods: dict[str, tuple[int, Callable[[], bytes]]] = {
            "slow bodies": (20, lambda: request(b'{"jsonrpc"', length=1000)),
            "streams": (20, lambda: request(LISTEN, method="subscriptions/listen")),
            "half requests": (40, lambda: chance.choice(beginnings)),
            "giant headers": (10, lambda: b"GET / HTTP/1.1\r\n" + chance.choice(headers) + huge),
            "cut off": (80, lambda: complete[: chance.randrange(2 * len(complete))]),
        }

    def send(self, data: bytes, *, cut: bool) -> bool:
        """Send data, then reset the connection if `cut`; return whether it was accepted."""
        address = ("127.0.0.1", self.port)
        try:
            client = socket.create_connection(address, timeout=5, source_address=HOSTILE_ADDRESS)
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

    def send_a_byte_each(self) -> None:
        for client in self.sockets:
            with suppress(OSError):
                client.send(b" ")

    def leave(self) -> None:
        for client in self.sockets:
            client.close()
        self.sockets.clear()


@pytest.mark.parametrize("many", sizes(1, 5))
def test_flooded_server_answers_others_and_frees_its_resources(many: int, scratch: Path) -> None:
    write_notes(scratch / "vault", old_notes())
    with (
        listening(scratch / "vault", scratch / "index") as (url, pid),
        http_client(url) as call,
        ExitStack() as stack,
    ):
        clients = HostileClients(url)
        stack.callback(clients.leave)
        for _ in range(20):
            call("query", query="stone wall")
        longest, before = 0.0, resources(pid)
        idle_handles = before[0]
        # the first turn starts threads and allocates memory that stay
        for turn in range(2):
            for name, (size, data) in clients.floods.items():
                # connections of the last turn may still be closing
                handles = resources(pid)[0] if clients.sockets else idle_handles
                sent = [clients.send(data(), cut=name == "cut off") for _ in range(size * many)]
                assert sum(sent) >= MIN_SHARE * len(sent), f"{name}: too few connections"
                if name in ("slow bodies", "streams"):
                    least = handles + MIN_SHARE * sum(sent)
                    assert until(lambda least=least: resources(pid)[0] >= least), (
                        name,
                        least,
                        resources(pid),
                    )
                clients.send_a_byte_each()
                started = time.monotonic()
                assert call("query", query="stone wall")["results"]
                longest = max(longest, time.monotonic() - started)
            clients.leave()
            most = before[0] + 1  # some connections are closed later
            assert until(lambda most=most: resources(pid)[0] <= most, 60), (before, resources(pid))
            before = resources(pid) if turn == 0 else before
        after = resources(pid)
    assert longest < ANSWER_SECONDS
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 8
    assert after[2] <= before[2] * 1.1 + 16


# ------------------------------------------------------------------ concurrent commands


COMMANDS = (
    ("index",),
    ("index", "--rebuild"),
    ("forget",),
    ("serve",),
    ("query", "stone wall"),
    ("status",),
)


def start(command: tuple[str, ...], options: list[str], pause: float) -> subprocess.Popen[str]:
    """Start a command after a pause. A server's input ends once it is waited for."""
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
        running = [
            (command, start(command, options, chance.random() * 0.8))
            for command in chance.choices(COMMANDS, k=4)
        ]
        # servers last: they run until their input ends
        for command, process in sorted(running, key=lambda pair: pair[0] == ("serve",)):
            out, errors = process.communicate(timeout=180)
            # another process is indexing or serving
            is_refused = (
                command == ("forget",)
                and process.returncode == 3
                and errors.startswith("Nothing was deleted: ")
            )
            assert is_refused or process.returncode in (0, 1, 2), (
                command,
                process.returncode,
                errors,
            )
            assert "Traceback" not in errors + out, (command, errors)
            assert process.returncode == 0 or errors.strip() or out.strip(), command
    last = start(("index", "--verify"), options, 0)
    last.communicate(timeout=180)
    assert last.returncode == 0
    dumps = []
    for index in ("index", "fresh"):
        with open_library(scratch / "vault", scratch / index) as library:
            library.index()
            dumps.append(dump(library))
    assert dumps[0] == dumps[1]
