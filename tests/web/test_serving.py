"""`thumbindex serve --http` and `thumbindex page` as processes: start, output and shutdown."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from program import app
from servers import META
from thumbindex.web.app import PAGE_PORT
from thumbindex.web.token_file import add_token, default_token_file
from waiting import until

pytestmark = pytest.mark.slow

JSON = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "query",
}
SERVE = ("serve", "--http", "--port", "0")
PAGE = ("page", "--port", "0", "--no-browser")


@contextmanager
def process(
    tmp_path: Path,
    *arguments: str,
    command: tuple[str, ...] = SERVE,
    new_session: bool = False,
    stderr: int = subprocess.PIPE,
    browser: str = "",
) -> Iterator[subprocess.Popen[str]]:
    """Start a server for a folder with one note."""
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / "notes" / "apples.md").write_text(
        "# Apples\n\nKeep apples in a cool cellar.\n", encoding="utf-8"
    )
    options = ("--folder", str(tmp_path / "notes"), "--index", str(tmp_path / "ix"))
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "BROWSER": browser,
    }
    full_command = [sys.executable, "-m", "thumbindex", *command, *options, *arguments]
    running = subprocess.Popen(
        full_command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
        start_new_session=new_session,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def ask(url: str, arguments: dict[str, Any], **headers: str) -> httpx2.Response:
    params = {"name": "query", "arguments": arguments, "_meta": META}
    return httpx2.post(
        url,
        headers={**JSON, **headers},
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        timeout=60,
    )


def wait_until_ready(url: str) -> None:
    until(lambda: httpx2.get(url.replace("/mcp", "/ready")).status_code == 200, 60)


def test_first_query_waits_for_the_index_and_edits_are_found(tmp_path: Path) -> None:
    with process(tmp_path) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        first = ask(url, {"query": "keep apples"}).json()["result"]["structuredContent"]
        (tmp_path / "notes" / "pears.md").write_text(
            "# Pears\n\nPears ripen off the tree.\n", encoding="utf-8"
        )
        edited = ask(url, {"query": "pears ripen off the tree", "wait_fresh": 30}).json()["result"][
            "structuredContent"
        ]
        wait_until_ready(url)
        assert httpx2.get(url.replace("/mcp", "/ready")).json() == {"status": "ready"}
    assert first["results"][0]["citation"].startswith("apples.md")
    assert edited["results"][0]["citation"].startswith("pears.md")


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_signal_lets_running_requests_finish(tmp_path: Path) -> None:
    """A running request is answered, a stream ends at once, and nothing more is printed."""
    with process(tmp_path, "--set", "serve.watch.enabled=false") as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        wait_until_ready(url)
        (tmp_path / "notes" / "pears.md").write_text("# Pears\n\nPears ripen.\n", encoding="utf-8")
        answers: list[Any] = []
        asking = threading.Thread(
            target=lambda: answers.append(ask(url, {"query": "apples", "wait_fresh": 60}))
        )
        asking.start()
        with httpx2.stream(
            "POST",
            url,
            headers={**JSON, "Mcp-Method": "subscriptions/listen"},
            json=LISTEN,
            timeout=30,
        ) as stream:
            lines = stream.iter_lines()
            next(lines)
            time.sleep(0.3)
            started = time.monotonic()
            running.send_signal(signal.SIGTERM)
            list(lines)
            stream_ended = time.monotonic() - started
        asking.join()
        out, _ = running.communicate(timeout=60)
    assert (running.returncode, out, stream_ended < 10) == (0, "", True)
    (result, *_) = answers[0].json()["result"]["structuredContent"]["results"]
    assert result["citation"].startswith("apples.md")


LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {"notifications": {"resourcesListChanged": True}, "_meta": META},
}


def test_public_addresses_need_a_token(tmp_path: Path) -> None:
    with process(tmp_path, "--host", "0.0.0.0") as refused:
        out, err = refused.communicate(timeout=60)
    assert (refused.returncode, out) == (2, "")
    assert err.startswith(
        "Other machines can reach 0.0.0.0, and no token is required: run `thumbindex token NAME`"
    )


SECRET = "zirconium"

PING, NONSENSE = {"method": "ping"}, {"method": SECRET, "params": {SECRET: 1}}

HOSTILE: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    *((f"{SECRET}.example.org{'x' * 20_000}", (), PING) for _ in range(30)),
    ("localhost", (f"Origin: https://{SECRET}.example.org",), PING),
    ("localhost", (f"Mcp-Session-Id: {SECRET}",), PING),
    ("localhost", (SECRET,), PING),
    ("localhost", (f"X\0: {SECRET}",), PING),
    ("localhost", ("Connection: upgrade", f"Upgrade: {SECRET}"), PING),
    ("localhost", (f"MCP-Protocol-Version: {SECRET}",), PING),
    ("localhost", ("MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {SECRET}"), NONSENSE),
    ("localhost", ("Mcp-Session-Id: SESSION",), NONSENSE),
    (
        "localhost",
        ("Mcp-Session-Id: SESSION",),
        {"method": "notifications/cancelled", "params": {"requestId": {SECRET: 1}}},
    ),
    ("localhost", ("Mcp-Session-Id: SESSION",), {"id": {SECRET: 1}, "method": "ping"}),
    ("localhost", ("Mcp-Session-Id: SESSION", "Authorization: Bearer BOB"), PING),
    ("localhost", (f"Authorization: Bearer {SECRET}",), PING),
)
"""Host header, other headers, and message of each request; by default with alice's token."""


def test_log_contains_no_client_data(tmp_path: Path) -> None:
    """Refusals are logged once, in a short line without client data."""
    alice, bob = (add_token(tmp_path / "tokens", name) for name in ("alice", "bob"))
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": SECRET, "version": "1"},
    }
    with process(tmp_path, "--token-file", str(tmp_path / "tokens")) as running:
        assert running.stdout is not None
        port = int(running.stdout.readline().strip().removesuffix("/mcp").rpartition(":")[2])
        greeted = send(
            port,
            "localhost",
            [f"Authorization: Bearer {alice}"],
            {"method": "initialize", "params": hello},
        )
        session = greeted.partition("mcp-session-id: ")[2].split()[0]
        statuses = set[str]()
        for host, headers, message in HOSTILE:
            all_headers = [
                header.replace("SESSION", session).replace("BOB", bob) for header in headers
            ]
            if not any("Bearer" in text for text in all_headers):
                all_headers.insert(0, f"Authorization: Bearer {alice}")
            statuses.add(send(port, host, all_headers, message).split()[1])
        running.terminate()
        _, log = running.communicate(timeout=60)
    lines = log.splitlines()
    assert {"200", "202", "400", "401", "403", "404", "421"} == statuses
    assert [text for text in (SECRET, session, alice, bob) if text in log] == []
    assert [
        len([line for line in lines if key in line])
        for key in ("`serve.http.hosts`", "`serve.http.origins`")
    ] == [1, 1]
    assert (len(lines) < 10, max(map(len, lines)) < 200) == (True, True), log


def send(port: int, host: str, headers: list[str], message: dict[str, Any]) -> str:
    """Send a message, with an id if it is a request; return the raw response."""
    number = {} if message["method"].startswith("notifications/") else {"id": SECRET}
    body = json.dumps({"jsonrpc": "2.0", **number, **message})
    fixed = (
        "Accept: */*",
        "Content-Type: application/json",
        "Connection: close",
        f"Content-Length: {len(body)}",
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(
            "\r\n".join(
                ["POST /mcp HTTP/1.1", f"Host: {host}", *headers, *fixed, "", body]
            ).encode()
        )
        return b"".join(iter(lambda: client.recv(4096), b"")).decode()


def ended(running: subprocess.Popen[str]) -> str:
    """Terminate a process; return its remaining output."""
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert os.name == "nt" or running.returncode == 0
    return (out or "") + (err or "")


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
def test_terminal_shows_how_to_use_the_address(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    with (
        process(tmp_path, command=(*SERVE, "--page"), stderr=terminal) as running,
        os.fdopen(controller, "rb", buffering=0) as screen,
    ):
        os.close(terminal)
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        output = ""
        while not re.search(r"Press Ctrl-C .*\n", output):
            output += screen.read(4096).decode().replace("\r\n", "\n")
    assert f"In a browser, open {address.removesuffix('mcp')}.\nPress Ctrl-C" in output


# ------------------------------------------------------------------ the page alone


def test_one_time_address_works_once_and_the_terminal_shows_the_next(
    tmp_path: Path,
) -> None:
    with process(tmp_path, command=PAGE) as running, httpx2.Client(timeout=60) as browser:
        assert running.stdout is not None
        assert running.stderr is not None
        once = running.stdout.readline().strip()
        base = once.partition("/sign-in")[0]
        assert browser.get(once).status_code == 303
        # screens wait only briefly for the index
        assert until(
            lambda: "cool cellar" in browser.get(base + "/", params={"q": "keep apples"}).text, 60
        )
        assert httpx2.get(once, timeout=60).status_code == 401
        label, _, again = running.stderr.readline().strip().rpartition(" ")
        assert (label, again.startswith(f"{base}/sign-in/"), again == once) == (
            "For another browser:",
            True,
            False,
        )
        assert httpx2.get(again, timeout=60).status_code == 303
        assert running.stderr.readline().startswith("For another browser: ")
        assert browser.get(base + "/mcp").status_code == 404
        assert ended(running) == ""


@pytest.mark.skipif(os.name == "nt", reason="the program is a script of a shell")
def test_browser_opens_a_private_file_instead_of_the_key(
    tmp_path: Path,
) -> None:
    program, opened = tmp_path / "browser", tmp_path / "opened"
    write = f'printf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"'
    program.write_text(f"#!/bin/sh\n{write}\n", encoding="utf-8")
    program.chmod(0o755)
    folder = tmp_path / "state" / "thumbindex" / "page"
    folder.mkdir(parents=True)
    (folder / "left.html").touch()
    os.utime(folder / "left.html", (1, 1))  # left by a killed process
    from_file = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with (
        process(tmp_path, command=("page", "--port", "0"), browser=str(program)) as running,
        httpx2.Client(timeout=60) as browser,
    ):
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        assert until(opened.exists, 30)
        url = opened.read_text(encoding="utf-8")
        file = Path(url.removeprefix("file://"))
        assert address.rpartition("/")[2] not in url
        assert f'content="0; url={address}"' in file.read_text(encoding="utf-8")
        assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
        assert list(folder.iterdir()) == [file]
        led = browser.get(address, headers=from_file)
        # An HTTP redirect would count as the file's request, without the SameSite=Strict cookie.
        assert (led.status_code, led.headers["refresh"]) == (200, "0; url=/")
        base = address.partition("/sign-in")[0]
        assert browser.get(base, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert httpx2.get(address, headers=from_file, timeout=60).status_code == 401
        assert not file.exists()
        ended(running)
    assert list(folder.iterdir()) == []


def test_page_uses_its_default_port_or_a_free_one(
    tmp_path: Path,
) -> None:
    ports = list[int]()
    with (
        process(tmp_path, command=("page", "--no-browser")) as first,
        process(tmp_path, command=("page", "--no-browser")) as second,
    ):
        for page in (first, second):
            assert page.stdout is not None
            ports.append(int(page.stdout.readline().partition("/sign-in")[0].rpartition(":")[2]))
    assert len(set(ports)) == 2
    assert PAGE_PORT in ports or is_taken(PAGE_PORT)


def is_taken(port: int) -> bool:
    """Return whether another program listens on the port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_prints_nothing(tmp_path: Path) -> None:
    """A terminal also sends the signal to the server's child, which may still be importing."""
    with process(tmp_path, new_session=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        assert (running.stderr.read(), running.wait(60)) == ("", 0)


def test_default_token_file_makes_tokens_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    result = CliRunner().invoke(app, ["token", "alice"])
    file = default_token_file()
    assert (file.is_relative_to(tmp_path), "From its next start" in result.stderr) == (True, True)
    assert os.name == "nt" or file.stat().st_mode & 0o777 == 0o600
    with process(tmp_path) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        with_token = {"Authorization": f"Bearer {result.stdout.strip()}"}
        assert [
            ask(url, {"query": "apples"}).status_code,
            ask(url, {"query": "apples"}, **with_token).status_code,
        ] == [401, 200]
