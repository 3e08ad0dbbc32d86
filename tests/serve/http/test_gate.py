"""The gate: from where, how often, how much and for how long one may ask."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from fakes import FakeEmbedder
from thumbindex.library import Library
from thumbindex.serve.http.limits import (
    BURST_SECONDS,
    Gate,
    Rates,
    WaitingConnections,
    known_hosts,
    known_origins,
    still_taken,
)
from thumbindex.serve.page.site import static
from thumbindex.settings import HttpSettings
from waiting import until

JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


NO_HOSTS = (
    "evil.example.org",
    "127.0.0.1.evil.example.org:80",
    "",
    "localhost:evil",
    "localhost:0",
    "localhost:65536",
    "localhost:1/x",
    "localhost.",
    "localhost, evil.example.org",
    "127.0.0.1:1@evil.example.org",
    "127.1",
    "[::1]x:1",
    "http://localhost",
)

NO_ORIGINS = (
    "https://evil.example.org",
    "null",
    "",
    "http://localhost.evil.example.org",
    "http://localhost:evil",
    "http://localhost:1@evil.example.org",
    "http://localhost:1/",
    "http://localhost?x",
    "http://localhost http://evil.example.org",
    "https://localhost",
    "localhost",
)


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        *(({"Host": host}, 421, "`serve.http.hosts`") for host in NO_HOSTS),
        *(({"Origin": origin}, 403, "`serve.http.origins`") for origin in NO_ORIGINS),
        (
            [("Origin", "http://localhost"), ("Origin", "https://evil.example.org")],
            403,
            "`serve.http.origins`",
        ),
        ({"X-Forwarded-For": "10.0.0.1"}, 403, "through a proxy"),
        ({"Forwarded": "for=10.0.0.1"}, 403, "through a proxy"),
    ],
)
def test_who_comes_by_another_name_is_refused_in_json(
    open_running: Any, headers: Any, status: int, says: str
) -> None:
    for path in ("/mcp", "/metrics"):
        refused = open_running.ask(path, headers=headers)
        assert (refused.status_code, says in refused.json()["error"]["message"]) == (status, True)


def test_this_machine_is_let_in_and_health_is_told_under_any_name(open_running: Any) -> None:
    names = ("localhost", "LocalHost:8377", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:1")
    given = [{"Host": name} for name in names]
    given += [{"Origin": f"http://{name.lower()}"} for name in names]
    assert {open_running.call("tools/list", each).status_code for each in ({}, *given)} == {200}
    elsewhere = {"Host": "10.0.0.7:8377", "X-Forwarded-For": "10.0.0.1"}
    for path in ("/health", "/ready"):
        assert open_running.ask(path, headers=elsewhere).status_code == 200


def test_names_are_those_that_are_configured() -> None:
    settings = HttpSettings(
        host="0.0.0.0",
        hosts=("Notes.lan", "docs.lan:81", "fe80::1", "[fe80::2]:80", "", ":80"),
        url="https://notes.example.org:8443/mcp",
    )
    of_this_machine = {"localhost", "127.0.0.1", "[::1]"}
    assert known_hosts(settings) == of_this_machine | {
        "notes.lan",
        "docs.lan",
        "[fe80::1]",
        "[fe80::2]",
        "notes.example.org",
    }
    assert known_hosts(HttpSettings(host="::1")) == of_this_machine
    assert known_origins(replace(settings, origins=("https://App.example.org",))) == {
        "https://notes.example.org:8443",
        "https://app.example.org",
    }


def test_a_page_of_this_machine_may_not_ask_a_server_for_others(serve: Callable[..., Any]) -> None:
    with serve(host="0.0.0.0", origins=("https://app.example.org",)) as running:
        address = running.server.servers[0].sockets[0].getsockname()[1]
        statuses = [
            httpx2.post(
                f"http://127.0.0.1:{address}/mcp",
                headers={**running.token("bob"), "Origin": origin},
            ).status_code
            for origin in (
                "http://localhost",
                "https://app.example.org:1",
                "https://app.example.org",
            )
        ]
    assert statuses == [403, 403, 400]  # the last one is let in, and says nothing


def test_a_page_that_is_configured_may_ask_from_a_browser(serve: Callable[..., Any]) -> None:
    with serve(origins=("https://app.example.org",)) as running:
        preflight = {
            "Origin": "https://app.example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        asked = running.ask(method="OPTIONS", headers=preflight)
        answered = running.call(
            "tools/list", {**running.token("bob"), "Origin": "https://app.example.org"}
        )
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (
        200,
        "https://app.example.org",
    )
    assert (answered.status_code, answered.headers["access-control-allow-origin"]) == (
        200,
        "https://app.example.org",
    )


@pytest.mark.parametrize("declared", [True, False])
def test_a_request_that_is_too_large_is_refused(running: Any, declared: bool) -> None:
    body = b"x" * 1_000_001
    refused = running.ask(
        method="POST",
        headers=running.token("bob"),
        content=body if declared else iter([body[:500_000], body[500_000:]]),
    )
    assert (refused.status_code, "1,000,000 bytes" in refused.json()["error"]["message"]) == (
        413,
        True,
    )


def test_a_browser_on_this_machine_is_told_what_is_here_and_a_stranger_is_not(
    open_running: Any, running: Any
) -> None:
    shown, refused = open_running.ask("/"), running.ask("/")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert shown.text == (
        "This is thumbindex, a server for MCP clients: give them this address with the path /mcp.\n"
    )
    assert (refused.status_code, refused.json()["error"]["message"]) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/nowhere", "/mcp/"])
def test_errors_are_json(open_running: Any, path: str) -> None:
    refused = open_running.ask(path)
    assert (refused.status_code, refused.json()["error"]["message"]) == (404, "Not Found")


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/mcp"), ("TRACE", "/health"), ("post", "/metrics")]
)
def test_a_method_that_there_is_not_is_refused_in_json(
    open_running: Any, method: str, path: str
) -> None:
    with connect(open_running) as client:
        client.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        head, _, body = (
            b"".join(iter(lambda: client.recv(4096), b"")).decode().partition("\r\n\r\n")
        )
    allowed = next(
        line.removeprefix("allow: ") for line in head.splitlines() if line.startswith("allow: ")
    )
    assert (head.split()[1], json.loads(body)["error"]["message"]) == ("405", "Method Not Allowed")
    assert set(allowed.split(", ")) == (
        {"GET", "HEAD", "POST", "DELETE"} if path == "/mcp" else {"GET", "HEAD"}
    )


def answer_to(running: Any, head: str, body: str = "") -> bytes:
    """Send a request as it is written; return all that comes back before the connection closes."""
    with connect(running) as client:
        client.sendall((head.replace("\n", "\r\n") + "\r\n\r\n" + body).encode())
        return b"".join(iter(lambda: client.recv(4096), b""))


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/mcp"), ("GET", "/health"), ("POST", "/sign-in")]
)
def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(
    serve: Callable[..., Any], method: str, path: str
) -> None:
    second = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve(page=True, body_seconds=5.0, origins=("https://app.example.org",)) as running:
        head = f"{method} {path} HTTP/1.1\nHost: localhost\nOrigin: https://app.example.org\n"
        head += "Access-Control-Request-Method: POST\nContent-Length: 5\nTransfer-Encoding: chunked"
        answer = answer_to(running, head, "0\r\n\r\n" + second)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_without_tokens_http_1_0_is_refused_as_some_proxies_speak_it_and_tell_nothing(
    open_running: Any, running: Any
) -> None:
    head = "POST /mcp HTTP/1.0\nHost: 127.0.0.1:8377"
    assert answer_to(open_running, head).startswith(b"HTTP/1.1 403 ")
    assert answer_to(open_running, "GET /health HTTP/1.0").startswith(b"HTTP/1.1 200 ")
    assert answer_to(running, head).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"jsonrpc": "2.0"}'])
def test_what_is_no_request_is_refused_in_json(open_running: Any, body: bytes) -> None:
    refused = open_running.ask(method="POST", headers=JSON, content=body)
    assert (refused.status_code, "message" in refused.json()["error"]) == (400, True)


def test_who_asks_too_often_waits(serve: Callable[..., Any]) -> None:
    # no other request's worth in this test, however slow the machine is
    with serve(rate=0.001, burst=3) as running:
        answers = [running.call("tools/list", running.token("bob")) for _ in range(4)]
        another = running.call("tools/list", running.token("alice"))
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert (800 < int(answers[3].headers["retry-after"]) <= 1000, another.status_code) == (
        True,
        200,
    )


def test_who_shows_tokens_that_are_none_is_told_to_wait_and_nobody_else(
    serve: Callable[..., Any],
) -> None:
    with serve(rate=0.001, burst=3) as running:
        assert [
            running.ask("/metrics", headers={"Authorization": "Bearer x"}).status_code
            for _ in range(5)
        ] == [401, 401, 401, 429, 429]
        # from the same address
        assert running.call("tools/list", running.token("bob")).status_code == 200


def connect(running: Any) -> socket.socket:
    host, port = running.base.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_who_sends_nothing_or_half_a_request_or_stays_is_not_waited_for(
    serve: Callable[..., Any],
) -> None:
    """Each connection is closed before its own ten seconds are over, in which it would raise."""
    with serve(body_seconds=0.3) as running, ExitStack() as stack:
        silent, slow, idle, half = (stack.enter_context(connect(running)) for _ in range(4))
        slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: local")
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        token = running.token("bob")["Authorization"]
        half.sendall(
            (
                f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
                f"Content-Length: 99\r\n\r\n{{"
            ).encode()
        )
        assert (silent.recv(1), slow.recv(1)) == (b"", b"")
        assert b"".join(iter(lambda: idle.recv(4096), b"")).startswith(b"HTTP/1.1 200 ")
        refused = half.recv(4096)
        assert (
            refused.startswith(b"HTTP/1.1 408 "),
            b"\r\nconnection: close\r\n" in refused.lower(),
        ) == (True, True)


def test_an_answer_that_takes_too_long_is_an_error(serve: Callable[..., Any], place: Path) -> None:
    (place / "handbook" / "unread.md").write_text("# Unread\n", encoding="utf-8")
    try:
        with serve(request_seconds=0.3) as running:
            began = time.monotonic()
            answer = running.call(
                "tools/call",
                running.token("bob"),
                name="query",
                arguments={"query": "leave", "wait_fresh": 60},
            ).json()
    finally:
        (place / "handbook" / "unread.md").unlink()
    assert (
        answer["error"]["message"] == "No answer within 0.3 s: ask for less, or again in a while."
    )
    assert time.monotonic() - began < 30  # the question would wait for 60


class Slow(FakeEmbedder):
    """Answers a question about slowness when the test lets it, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Semaphore(0)

    def embed_query(self, text: str) -> Any:
        if "slow" in text:
            assert self.may_answer.acquire(timeout=30)
        return super().embed_query(text)


def ask_page(running: Any, name: str, question: str) -> None:
    assert running.ask(f"/ask.json?q={question}", headers=running.token(name)).status_code == 200


def ask_protocol(running: Any, name: str, question: str, mode: str) -> None:
    async def call() -> None:
        async with running.client(name, mode=mode) as client:
            assert not (await client.call_tool("query", {"query": question})).is_error

    anyio.run(call)


@pytest.mark.parametrize(
    "ask",
    [ask_page, partial(ask_protocol, mode="legacy")],
)
def test_a_token_with_many_slow_questions_takes_turns_with_another(
    serve: Callable[..., Any], open_indexed: Callable[..., Any], place: Path, config: Any, ask: Any
) -> None:
    open_indexed().close()
    slow = Slow()
    with (
        Library.open(
            index=place / "index", config=config, embedder=slow, wait_for_models=False
        ) as library,
        serve(library=library, page=True, rate=0.0) as running,
        ThreadPoolExecutor(8) as pool,
    ):
        asked = [pool.submit(ask, running, "bob", f"slow {number}") for number in range(6)]
        assert until(lambda: waiting_in(library) == 4)
        alice = pool.submit(ask, running, "alice", "leave")
        assert until(lambda: waiting_in(library) == 5)
        slow.may_answer.release(2)  # bob's next question, then alice's
        alice.result(20)
        slow.may_answer.release(4)
        for each in asked:
            each.result(20)


def waiting_in(library: Library) -> int:
    return sum(map(len, library._turns._waiting.values()))


# ------------------------------------------------------------------ a gate alone


class Verifier:
    """Takes any token until it does not."""

    takes = True

    async def verify_token(self, token: str) -> Any:
        from mcp.server.auth.provider import AccessToken

        return AccessToken(token="", client_id="bob", scopes=[]) if self.takes else None


async def ask(
    gate: Gate, method: str = "GET", address: str = "1.2.3.4", **headers: str
) -> list[Any]:
    """Ask a gate once; return what it sent."""
    sent: list[Any] = []
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": method,
        "path": "/mcp",
        "headers": raw,
        "client": (address, 5),
    }
    came = [
        {
            "type": "http.request",
            "body": b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
            "more_body": False,
        }
    ]

    async def receive() -> Any:
        return came.pop() if came else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    await gate(scope, receive, send)
    return sent


async def endless(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await asyncio.sleep(60)


@pytest.mark.anyio
async def test_one_client_has_so_many_requests_worked_on_at_once() -> None:
    may_end, worked_on = anyio.Event(), list[str]()

    async def work(scope: Any, receive: Any, send: Any) -> None:
        worked_on.append(scope["client"][0])
        await may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    gate = Gate(work, HttpSettings(concurrent=2))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(ask, gate, "POST")
            await anyio.wait_all_tasks_blocked()
            refused = await ask(gate, "POST")
            group.start_soon(ask, gate, "POST", "5.6.7.8")
            await anyio.wait_all_tasks_blocked()
            may_end.set()
        again = await ask(gate, "POST")
    assert (refused[0]["status"], worked_on[:3], again[0]["status"]) == (
        429,
        ["1.2.3.4", "1.2.3.4", "5.6.7.8"],
        200,
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("2001:db8:0:1:2:3:4:5", 429),
        ("2001:db8:0:2::1", 200),
        ("::ffff:1.2.3.4", 200),
        ("a name", 200),
    ],
)
async def test_all_addresses_of_one_ipv6_network_are_one_client(address: str, status: int) -> None:
    async def work(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    gate = Gate(work, HttpSettings(rate=0.001, burst=1))
    await ask(gate, "POST", "2001:db8:0:1::1")
    assert (await ask(gate, "POST", address))[0]["status"] == status


@pytest.mark.anyio
async def test_a_stream_ends_when_its_token_is_revoked() -> None:
    verifier = Verifier()
    gate = Gate(endless, HttpSettings(), still_taken(verifier), check_seconds=0.05)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                sent = await ask(gate, authorization="Bearer x")
                assert [each["type"] for each in sent] == [
                    "http.response.start",
                    "http.response.body",
                ]
                assert verifier.takes is False

            group.start_soon(listen)
            await anyio.sleep(0.2)
            assert gate.streams == 1
            verifier.takes = False
    assert gate.streams == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "headers"), [("GET", {}), ("POST", {"mcp_method": "subscriptions/listen"})]
)
async def test_streams_end_when_the_server_ends_and_no_other_begins(
    method: str, headers: dict[str, str]
) -> None:
    gate = Gate(endless, HttpSettings())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: ask(gate, method, **headers))
            await anyio.sleep(0.05)
            gate.drain()
    refused = await ask(gate, method, **headers)
    assert (
        refused[0]["status"],
        "about to end" in json.loads(refused[1]["body"])["error"]["message"],
    ) == (503, True)


@pytest.mark.anyio
async def test_a_connection_does_not_outlast_its_time_whatever_the_package_does() -> None:
    gate = Gate(endless, HttpSettings(request_seconds=0.1))
    with anyio.fail_after(20):
        sent = await ask(gate, "POST")
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("proxies", "statuses"),
    [(("127.0.0.1",), [401, 429, 401]), (("10.0.0.9",), [401, 429, 429]), ((), [401, 429, 429])],
)
def test_a_proxy_is_believed_where_it_is_configured(
    serve: Callable[..., Any], proxies: tuple[str, ...], statuses: list[int]
) -> None:
    with serve(rate=0.001, burst=1, proxies=proxies) as running:
        shown = [
            {"Authorization": "Bearer x", "X-Forwarded-For": address}
            for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2")
        ]
        assert [
            running.ask("/metrics", headers=headers).status_code for headers in shown
        ] == statuses


# ------------------------------------------------------------------ connections that wait

LARGE = static("page.js")

WAITING = {
    "idle": b"",
    "half a head": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ",
    "half a body": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "half a form": (
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken="
    ),
    "idle after an answer": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@contextmanager
def stranger(running: Any, count: int, sent: bytes, pause: float = 0.0) -> Iterator[None]:
    """Keep connections open that wait, and open another one for each that the server closes.

    A request that is sent whole is answered before the next one is opened: it waits only then.
    """
    stop, is_full = threading.Event(), threading.Event()

    def keep() -> None:
        with ExitStack() as stack:
            held: list[socket.socket] = []
            while not stop.is_set():
                while len(held) < count and not stop.is_set():
                    held.append(stack.enter_context(connect(running)))
                    with suppress(OSError):
                        held[-1].sendall(sent)
                        if sent == WAITING["idle after an answer"]:
                            held[-1].recv(4096)
                    stop.wait(pause)
                is_full.set()
                held = [each for each in held if is_open(each, reads=len(sent) < 1000)]
                stop.wait(0.005)

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        assert is_full.wait(20)
        yield
    finally:
        stop.set()
        thread.join(20)


def is_open(client: socket.socket, reads: bool) -> bool:
    try:
        client.setblocking(False)
        return client.recv(4096, 0 if reads else socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_of_connections_that_wait_the_longest_waiting_of_the_same_address_are_closed() -> None:
    now = [0.0]
    waiting: WaitingConnections[str] = WaitingConnections(6, 2, lambda: now[0])
    for name in ("a1", "b1", "a2", "a3", "a4"):
        waiting.begin(name, name[0])
    assert waiting.surplus("a") == []  # a burst
    waiting.end("a1")
    now[0] = BURST_SECONDS + 0.1
    waiting.begin("b1", "b")  # waits since the beginning
    assert (waiting.surplus("a"), waiting.surplus("b"), waiting.surplus("c")) == (
        ["a2", "a3"],
        [],
        [],
    )


def test_if_too_many_connections_wait_the_longest_waiting_of_the_address_with_most_is_closed() -> (
    None
):
    waiting: WaitingConnections[str] = WaitingConnections(4, 9, lambda: 0.0)
    for name in ("b1", "a1", "a2"):
        waiting.begin(name, name[0])
    assert waiting.surplus("c") == []
    waiting.begin("c1", "c")
    assert waiting.surplus("b") == ["a1"]


def test_a_connection_that_waits_beyond_the_limit_is_closed(serve: Callable[..., Any]) -> None:
    with serve(rate=0.0, connections=20, body_seconds=30.0) as running, ExitStack() as stack:
        oldest, older, *newer = (stack.enter_context(connect(running)) for _ in range(3))
        time.sleep(BURST_SECONDS + 0.2)
        newer.append(stack.enter_context(connect(running)))
        assert (oldest.recv(1), older.recv(1)) == (b"", b"")
        assert [is_open(each, reads=True) for each in newer] == [True, True]


@pytest.mark.parametrize("form", WAITING)
def test_a_stranger_with_connections_that_wait_keeps_nobody_out(
    serve: Callable[..., Any], form: str
) -> None:
    with serve(page=True, rate=0.0, connections=20, body_seconds=30.0) as running:
        token = running.token("alice")
        with stranger(running, 40, WAITING[form]):
            statuses = [
                running.ask(path, headers=token).status_code
                for path in ("/ask.json?q=leave", "/health") * 10
            ]
    assert statuses == [200] * 20


def test_a_stranger_who_does_not_read_answers_keeps_nobody_out(serve: Callable[..., Any]) -> None:
    sent = f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 500
    with (
        serve(page=True, rate=0.0, connections=20, body_seconds=30.0) as running,
        stranger(running, 18, sent, pause=0.03),
        httpx2.Client() as one,
        httpx2.Client() as two,
        httpx2.Client() as three,
    ):
        answers = [each.get(f"{running.base}/health") for each in (one, two, three)]
        assert [each.status_code for each in answers] == [200, 200, 200]


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    rates = Rates(2.0, 4, lambda: now[0])
    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] = 0.5
    assert [rates.take("a"), rates.take("a"), rates.take("b")] == [0, 0.5, 0]
    assert Rates(0, 1).take("a") == Rates(0, 1).take("a") == 0
