"""Limits of the HTTP server: allowed hosts and origins, number, size and time of requests."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from thumbindex.page.site import static_address
from thumbindex.settings import HttpSettings
from thumbindex.web.access import allowed_hosts, allowed_origins
from thumbindex.web.limits import MAX_FAILURES
from waiting import until

WRONG_HOSTS = (
    "evil.example.org",
    "127.0.0.1.evil.example.org:80",
    "",
    "localhost:evil",
    "localhost:1/x",
    "localhost.",
    "localhost, evil.example.org",
    "127.0.0.1:1@evil.example.org",
    "127.1",
    "[::1]x:1",
    "http://localhost",
)

WRONG_ORIGINS = (
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
        *(({"Host": host}, 421, "`serve.http.hosts`") for host in WRONG_HOSTS),
        *(({"Origin": origin}, 403, "`serve.http.origins`") for origin in WRONG_ORIGINS),
        (
            [("Origin", "http://localhost"), ("Origin", "https://evil.example.org")],
            403,
            "`serve.http.origins`",
        ),
        ({"X-Forwarded-For": "10.0.0.1"}, 403, "through a proxy"),
        ({"Forwarded": "for=10.0.0.1"}, 403, "through a proxy"),
    ],
)
def test_unknown_hosts_origins_and_proxies_are_refused(
    open_running: Any, headers: Any, status: int, says: str
) -> None:
    for path in ("/mcp", "/metrics"):
        refused = open_running.ask(path, headers=headers)
        assert (refused.status_code, says in refused.json()["error"]["message"]) == (status, True)


def test_loopback_is_allowed_and_health_answers_for_any_host(open_running: Any) -> None:
    names = ("localhost", "LocalHost:8377", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:1")
    all_headers = [{"Host": name} for name in names]
    all_headers += [{"Origin": f"http://{name.lower()}"} for name in names]
    assert {
        open_running.call("tools/list", headers).status_code for headers in ({}, *all_headers)
    } == {200}
    elsewhere = {"Host": "10.0.0.7:8377", "X-Forwarded-For": "10.0.0.1"}
    for path in ("/health", "/ready"):
        assert open_running.ask(path, headers=elsewhere).status_code == 200


def test_allowed_hosts_and_origins_come_from_the_settings() -> None:
    settings = HttpSettings(
        host="0.0.0.0",
        hosts=("Notes.lan", "fe80::1", "[fe80::2]", ""),
        url="https://notes.example.org:8443/mcp",
    )
    of_this_machine = {"localhost", "127.0.0.1", "[::1]"}
    assert allowed_hosts(settings) == of_this_machine | {
        "notes.lan",
        "[fe80::1]",
        "[fe80::2]",
        "notes.example.org",
    }
    assert allowed_hosts(HttpSettings(host="::1")) == of_this_machine
    assert allowed_origins(replace(settings, origins=("https://App.example.org",))) == {
        "https://notes.example.org:8443",
        "https://app.example.org",
    }


def test_local_origins_are_refused_by_a_public_server(serve: Callable[..., Any]) -> None:
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
    assert statuses == [403, 403, 400]  # the last one is allowed, but its body is empty


def test_configured_origin_gets_cors_headers(serve: Callable[..., Any]) -> None:
    origin = {"Origin": "https://app.example.org"}
    with serve(origins=tuple(origin.values())) as running:
        preflight = {
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        answers = (
            running.ask(method="OPTIONS", headers=preflight),
            running.call("tools/list", {**running.token("bob"), **origin}),
        )
    for answer in answers:
        allowed = answer.headers["access-control-allow-origin"]
        assert (answer.status_code, allowed) == (200, origin["Origin"])


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("path", ["/mcp", "/sign-in"])
def test_oversized_requests_are_refused(
    serve: Callable[..., Any], path: str, declared: bool
) -> None:
    body = b"x" * 1_000_001
    content = body if declared else iter([body[:500_000], body[500_000:]])
    with serve(page=True) as running:
        refused = running.ask(path, "POST", running.token("bob"), content=content)
    assert refused.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/nowhere", 404), ("GET", "/mcp/", 404), ("PUT", "/mcp", 405)],
)
def test_unknown_paths_and_methods_are_refused(
    open_running: Any, method: str, path: str, status: int
) -> None:
    assert open_running.ask(path, method).status_code == status


def connect(running: Any) -> socket.socket:
    host, port = running.base.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def answer_to(running: Any, head: str, body: str = "") -> bytes:
    """Send a raw request; return everything received until the connection closes."""
    with connect(running) as client:
        client.sendall((head.replace("\n", "\r\n") + "\r\n\r\n" + body).encode())
        return b"".join(iter(lambda: client.recv(4096), b""))


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("GET", "/health"), ("POST", "/sign-in"), ("OPTIONS", "/mcp")],
)
def test_request_with_two_lengths_is_refused_and_closed(
    serve: Callable[..., Any], method: str, path: str
) -> None:
    second = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve(page=True, origins=("https://app.example.org",)) as running:
        head = f"{method} {path} HTTP/1.1\nHost: localhost\nOrigin: https://app.example.org\n"
        head += "Access-Control-Request-Method: POST\nContent-Length: 5\nTransfer-Encoding: chunked"
        answer = answer_to(running, head, "0\r\n\r\n" + second)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_http_1_0_without_tokens_is_refused_as_a_possible_proxy(
    open_running: Any, running: Any
) -> None:
    head = "POST /mcp HTTP/1.0\nHost: 127.0.0.1:8377"
    assert answer_to(open_running, head).startswith(b"HTTP/1.1 403 ")
    assert answer_to(open_running, "GET /health HTTP/1.0").startswith(b"HTTP/1.1 200 ")
    assert answer_to(running, head).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"jsonrpc": "2.0"}'])
def test_invalid_bodies_are_refused(open_running: Any, body: bytes) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    refused = open_running.ask(method="POST", headers=headers, content=body)
    assert (refused.status_code, "message" in refused.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("proxies", "last"), [(("127.0.0.1",), 401), (("10.0.0.9",), 429), ((), 429)]
)
def test_too_many_invalid_tokens_block_only_their_address(
    serve: Callable[..., Any], proxies: tuple[str, ...], last: int
) -> None:
    """A configured proxy names the client's address."""
    wrong = {"Authorization": "Bearer x", "X-Forwarded-For": "10.0.0.1"}
    with serve(proxies=proxies) as running, httpx2.Client(base_url=running.base) as client:

        def status(**headers: str) -> int:
            return client.get("/metrics", headers={**wrong, **headers}).status_code

        statuses = [status() for _ in range(MAX_FAILURES + 1)]
        other = status(**{"X-Forwarded-For": "10.0.0.2"})
        without = client.get("/metrics").status_code  # OAuth discovery
        # from the same address
        right = running.call("tools/list", running.token("bob")).status_code
    assert (set(statuses[:-1]), statuses[-1]) == ({401}, 429)
    assert (other, without, right) == (last, 401, 200)


def test_slow_answers_time_out(serve: Callable[..., Any], place: Path) -> None:
    (place / "handbook" / "unread.md").write_text("# Unread\n", encoding="utf-8")
    try:
        with serve(request_seconds=0.3) as running:
            started = time.monotonic()
            answer = running.call(
                "tools/call",
                running.token("bob"),
                name="query",
                arguments={"query": "leave", "wait_fresh": 60},
            ).json()
    finally:
        (place / "handbook" / "unread.md").unlink()
    assert (
        answer["error"]["message"]
        == "No answer within 0.3 seconds: request less, or try again later."
    )
    assert time.monotonic() - started < 30  # the query would wait for 60


# ------------------------------------------------------------------ concurrency


def half_a_request(running: Any, name: str) -> socket.socket:
    """Send the start of a request, which stays open until the rest arrives."""
    client = connect(running)
    token = running.token(name)["Authorization"]
    client.sendall(
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
        "Content-Length: 99\r\n\r\n{".encode()
    )
    return client


def test_concurrent_requests_per_token_are_limited(serve: Callable[..., Any]) -> None:
    def status(name: str) -> int:
        return running.call("tools/list", running.token(name)).status_code

    with serve(concurrent=2) as running, ExitStack() as stack:
        half = [stack.enter_context(half_a_request(running, "bob")) for _ in range(2)]
        assert until(lambda: status("bob") == 429)
        assert status("alice") == 200
        half[0].close()
        assert until(lambda: status("bob") == 200)


def test_incomplete_request_times_out(serve: Callable[..., Any]) -> None:
    with serve(request_seconds=0.1) as running, half_a_request(running, "bob") as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 504 ")


WAITING = {
    "nothing": b"",
    "half a head": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ",
    "half a form": (
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken="
    ),
    "answers that nobody reads": (
        f"GET {static_address('page.js')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("sent", WAITING.values(), ids=WAITING)
def test_a_hundred_idle_connections_do_not_block_others(
    serve: Callable[..., Any], sent: bytes
) -> None:
    with serve(page=True) as running, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(running)).sendall(sent)
        token = running.token("alice")
        statuses = [
            running.ask(path, headers=token).status_code for path in ("/?q=leave", "/health") * 5
        ]
    assert statuses == [200] * 10


# ------------------------------------------------------------------ streams


def test_streams_per_token_are_limited_apart_from_requests(serve: Callable[..., Any]) -> None:
    with serve(concurrent=1) as running, running.stream("bob") as stream:
        assert (stream.status_code, running.site.streams) == (200, 1)
        with running.stream("bob") as another, running.stream("alice") as others:
            assert (another.status_code, others.status_code) == (429, 200)
        assert running.call("tools/list", running.token("bob")).status_code == 200


def test_stream_ends_when_its_token_is_revoked(
    serve: Callable[..., Any], place: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    lines = (place / "tokens").read_text(encoding="utf-8").splitlines(keepends=True)
    tokens.write_text("".join(lines), encoding="utf-8")
    with (
        serve(token_file=str(tokens), check_seconds=0.05) as running,
        running.stream("alice") as stream,
    ):
        remaining = [line for line in lines if not line.startswith("alice")]
        tokens.write_text("".join(remaining), encoding="utf-8")
        assert "acknowledged" in stream.read().decode()  # returns only if the stream ends
        assert until(lambda: running.site.streams == 0)


def test_draining_ends_streams_and_refuses_new_ones(serve: Callable[..., Any]) -> None:
    with serve() as running, running.stream("bob") as stream:
        running.server.servers[0].get_loop().call_soon_threadsafe(running.site.drain)
        assert "acknowledged" in stream.read().decode()
        refused = running.ask(headers=running.token("bob"))
        assert (refused.status_code, "shutting down" in refused.text) == (503, True)
        assert running.call("tools/list", running.token("bob")).status_code == 200
