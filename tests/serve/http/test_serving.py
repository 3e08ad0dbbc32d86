"""`thumbindex serve --http` as a process: what it prints, how it begins, and how it ends."""

import json
import os
import signal
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

from thumbindex.errors import UsageError
from thumbindex.serve.listen import Listening
from thumbindex.serve.tokens import add_token
from thumbindex.settings import HttpSettings

JSON = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "query"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@contextmanager
def process(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start the server on a note of its own."""
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / "notes" / "apples.md").write_text("# Apples\n\nKeep apples in a cool cellar.\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "thumbindex",
        "serve",
        "--http",
        "--port",
        "0",
        "--folder",
        str(tmp_path / "notes"),
        "--index",
        str(tmp_path / "ix"),
    ]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "OMP_"))}
    environment = {**inherited, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    running = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def ask(url: str, arguments: dict[str, Any], **headers: str) -> httpx2.Response:
    params = {"name": "query", "arguments": arguments, "_meta": META}
    return httpx2.post(url, headers={**JSON, **headers}, json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, timeout=60)


def wait_until_ready(url: str) -> None:
    end = time.monotonic() + 60
    while httpx2.get(url.replace("/mcp", "/ready")).status_code != 200 and time.monotonic() < end:
        time.sleep(0.05)


def test_the_first_question_waits_for_words_and_an_edit_is_seen(tmp_path: Path) -> None:
    with process(tmp_path) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        first = ask(url, {"query": "keep apples"}).json()["result"]["structuredContent"]
        (tmp_path / "notes" / "pears.md").write_text("# Pears\n\nPears ripen off the tree.\n", encoding="utf-8")
        edited = ask(url, {"query": "pears ripen off the tree", "wait_fresh": 30}).json()["result"]["structuredContent"]
        wait_until_ready(url)
        assert httpx2.get(url.replace("/mcp", "/ready")).json() == {"status": "ready"}
    assert [each["results"][0]["path"] for each in (first, edited)] == ["apples.md", "pears.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is set, and /proc is not there")
def test_it_gives_memory_back_and_so_does_its_child(tmp_path: Path) -> None:
    """Both are told by the environment, which the child begins with: a server for many is asked more than the one on standard input."""
    with process(tmp_path) as running:
        assert running.stdout is not None
        running.stdout.readline()
        end = time.monotonic() + 20
        while not (found := told_to_child(running.pid)) and time.monotonic() < end:
            time.sleep(0.02)
    assert found == {b"MALLOC_ARENA_MAX=2", b"MALLOC_TRIM_THRESHOLD_=1048576", b"MALLOC_MMAP_THRESHOLD_=1048576", b"OMP_NUM_THREADS=1"}


def told_to_child(server: int) -> set[bytes]:
    """Return what numerical libraries and the allocator are told in the environment of a process's child; nothing while there is none."""
    children = [child for each in Path(f"/proc/{server}/task").glob("*/children") for child in each.read_text(encoding="ascii").split()]
    variables = Path(f"/proc/{children[0]}/environ").read_bytes().split(b"\0") if children else []
    return {each for each in variables if each.startswith((b"MALLOC_", b"OMP_"))}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_signal_ends_it_gently(tmp_path: Path) -> None:
    """A request that is under way is answered, a stream ends at once, and nothing more is printed."""
    with process(tmp_path, "--json", "--set", "serve.watch.enabled=false", "--set", "serve.http.drain_seconds=20") as running:
        assert running.stdout is not None
        url = json.loads(running.stdout.readline())["url"]
        wait_until_ready(url)
        (tmp_path / "notes" / "pears.md").write_text("# Pears\n\nPears ripen.\n", encoding="utf-8")
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(ask(url, {"query": "apples", "wait_fresh": 60})))
        asking.start()
        with httpx2.stream("POST", url, headers={**JSON, "Mcp-Method": "subscriptions/listen"}, json=LISTEN, timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            time.sleep(0.3)
            began = time.monotonic()
            running.send_signal(signal.SIGTERM)
            list(lines)
            stream_ended = time.monotonic() - began
        asking.join()
        out, _ = running.communicate(timeout=20)
    assert (running.returncode, out, stream_ended < 2) == (0, "", True)
    assert answers[0].json()["result"]["structuredContent"]["results"][0]["path"] == "apples.md"


LISTEN = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {"resourcesListChanged": True}, "_meta": META}}


def test_other_addresses_need_a_token(tmp_path: Path) -> None:
    with process(tmp_path, "--host", "0.0.0.0") as refused:
        out, err = refused.communicate(timeout=60)
    assert (refused.returncode, out) == (2, "")
    assert err.startswith("Others can reach 0.0.0.0, and no token is asked for: make one with `thumbindex token NAME --token-file FILE`")
    token = add_token(tmp_path / "tokens", "alice")
    with process(tmp_path, "--host", "0.0.0.0", "--token-file", str(tmp_path / "tokens")) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
        assert [ask(url, {"query": "apples"}).status_code, ask(url, {"query": "apples"}, Authorization=f"Bearer {token}").status_code] == [401, 200]


def test_a_port_that_is_taken_is_said_so(open_running: Any) -> None:
    settings = HttpSettings(port=int(open_running.base.rpartition(":")[2]))
    with pytest.raises(UsageError, match=f"cannot listen at 127.0.0.1, port {settings.port}: give another"):
        Listening(open_running.site.app, settings, print, print).run()
    assert open_running.ask("/health").status_code == 200


def test_its_options_are_for_http_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "thumbindex", "serve", "--port", "1"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stderr.strip()) == (2, "--port is for a server over HTTP: add --http.")
