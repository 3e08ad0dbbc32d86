"""The server as a real process: handshake, output and shutdown."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from notes import write
from servers import children_of, is_alive

pytestmark = pytest.mark.slow

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

HEAVY = (
    "torch transformers sentence_transformers llama_index faiss onnxruntime onnx whoosh networkx "
    "numpy thumbindex.library.library watchdog sqlite3"
)
HEAVY += " psycopg thumbindex.postgres.database"

# A client in a thread of the server process sees which modules are loaded when the answer arrives.
DRIVER = f"""
import json, os, sys, threading
requests, answers = os.pipe(), os.pipe()
keep, messages = os.dup(1), json.loads(sys.argv[1])
os.dup2(requests[0], 0), os.dup2(answers[1], 1)

def client():
    out, incoming = os.fdopen(requests[1], "w"), os.fdopen(answers[0])
    for message in messages:
        out.write(json.dumps(message) + "\\n")
        out.flush()
        answer = json.loads(incoming.readline()) if "id" in message else None
    loaded = [name for name in {HEAVY!r}.split() if name in sys.modules]
    os.write(keep, json.dumps([len(answer["result"]["tools"]), loaded]).encode())
    os._exit(0)

threading.Thread(target=client).start()
sys.argv = ["thumbindex", "serve", *sys.argv[2:]]
from thumbindex.__main__ import main
main()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def command(vault: Path, tmp_path: Path) -> list[str]:
    # no model: these tests are about processes
    options = [
        "--folder",
        str(vault),
        "--index",
        str(tmp_path / "index"),
        "--set",
        f"encode.embed.model={tmp_path / 'absent'}",
    ]
    return [sys.executable, "-m", "thumbindex", "serve", *options]


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a server and complete the handshake."""
    with subprocess.Popen(
        command,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            send(process, INITIALIZE)
            assert receive(process)["result"]["serverInfo"]["name"] == "thumbindex"
            send(process, INITIALIZED)
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def receive(process: subprocess.Popen[str]) -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


def test_handshake_and_tool_list_need_no_heavy_import(
    command: list[str], environment: dict[str, str]
) -> None:
    messages = json.dumps([INITIALIZE, INITIALIZED, LIST_TOOLS])
    driver = [sys.executable, "-c", DRIVER, messages, *command[4:]]
    result = subprocess.run(driver, env=environment, capture_output=True, text=True, timeout=60)
    assert json.loads(result.stdout) == [6, []], result.stderr


@pytest.mark.anyio
async def test_sdk_client_queries_a_server_process(
    command: list[str], environment: dict[str, str]
) -> None:
    async with Client(
        StdioServerParameters(command=command[0], args=command[1:], env=environment)
    ) as client:
        assert len((await client.list_tools()).tools) == 6
        result = await client.call_tool("query", {"query": "press the green button"})
    assert isinstance(result.content[0], TextContent)
    assert "## 1. sync.md#Set up (lines " in result.content[0].text
    assert result.structured_content["results"][0]["citation"].startswith("sync.md#Set up")


@pytest.mark.anyio
async def test_server_answers_from_index_until_its_missing_folder_returns(
    editable: tuple[list[str], Path], environment: dict[str, str]
) -> None:
    command, root = editable
    async with Client(
        StdioServerParameters(command=command[0], args=command[1:], env=environment)
    ) as client:
        await client.call_tool("query", {"query": "press the green button", "wait_fresh": 30})
    root.rename(root.with_name("elsewhere"))
    async with Client(
        StdioServerParameters(command=command[0], args=command[1:], env=environment)
    ) as client:
        away = await client.call_tool("query", {"query": "press the green button"})
        write(root.with_name("elsewhere") / "new.md", "# New\n\nWritten while it was away.\n")
        root.with_name("elsewhere").rename(root)
        back = await client.call_tool(
            "query", {"query": "written while it was away", "wait_fresh": 30}
        )
    assert away.structured_content["results"][0]["citation"].startswith("sync.md")
    assert back.structured_content["results"][0]["citation"].startswith("new.md")


def test_stdout_carries_only_the_protocol(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    noisy = tmp_path / "noisy.py"
    write(
        noisy,
        "import os, sys\nfrom thumbindex.background import host\nreal = host.open_library\n"
        "def loud(opening):\n    os.write(1, b'native noise\\n'); print('python noise', "
        "flush=True); return real(opening)\n"
        "start = host.LibraryHost.__init__\nstart.__defaults__ = (loud, "
        "*start.__defaults__[1:])\n"
        "from thumbindex.__main__ import main\nmain()\n",
    )
    with started([sys.executable, str(noisy), *command[3:]], environment) as process:
        send(
            process,
            {
                "jsonrpc": "2.0",
                "id": 3,
                "method": "tools/call",
                "params": {"name": "status", "arguments": {}},
            },
        )
        assert receive(process)["id"] == 3
        assert process.stdin
        process.stdin.close()
        assert process.stdout
        assert process.stderr
        assert process.stdout.read() == ""
        assert "native noise\npython noise\n" in process.stderr.read()


WAIT = {
    "jsonrpc": "2.0",
    "id": 9,
    "method": "tools/call",
    "params": {"name": "query", "arguments": {"query": "button", "wait_fresh": 60}},
}


@pytest.fixture
def editable(vault: Path, tmp_path: Path, command: list[str]) -> tuple[list[str], Path]:
    """Copy the vault, to edit it; return the command that serves the copy, and its path."""
    root = tmp_path / "living"
    shutil.copytree(vault, root)
    return [str(root) if part == str(vault) else part for part in command], root


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_subscriber_is_notified_of_an_edit(
    editable: tuple[list[str], Path], environment: dict[str, str]
) -> None:
    command, root = editable
    uri, notified = "thumbindex://living/sync.md", anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(getattr(message, "params", None), "uri", None) == uri:
            notified.set()

    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment)
    async with Client(parameters, mode="legacy", message_handler=on_message) as client:
        await client.call_tool("query", {"query": "press the green button", "wait_fresh": 20})
        await client.subscribe_resource(uri)
        write(root / "sync.md", "# Sync\n\nPress the red button.\n")
        with anyio.fail_after(10):
            await notified.wait()
        result = await client.call_tool("query", {"query": "red button", "wait_fresh": 20})
    assert "Press the red button." in str(result.content)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
@pytest.mark.alone
@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
def test_closed_stdin_or_signal_ends_a_busy_server_within_two_seconds(
    editable: tuple[list[str], Path], environment: dict[str, str], end: str
) -> None:
    command, root = editable
    with started(command, environment) as process:
        send(
            process,
            {
                "jsonrpc": "2.0",
                "id": 3,
                "method": "resources/subscribe",
                "params": {"uri": "thumbindex://living/sync.md"},
            },
        )
        assert receive(process)["result"] == {}
        send(
            process,
            {
                "jsonrpc": "2.0",
                "id": 4,
                "method": "tools/call",
                "params": {"name": "query", "arguments": {"query": "button"}},
            },
        )
        while receive(process).get("id") != 4:
            pass
        children = children_of(process.pid)
        index = Path(command[command.index("--index") + 1])
        with FileLock(next(index.rglob("writer.lock"))):  # the child cannot index the edit
            write(root / "more.md", "# More\n")
            send(process, WAIT)
            time.sleep(0.7)
            started_at = time.monotonic()
            end_server(process, end)
            process.wait(2)
            assert until_gone(children, started_at + 2) == []
        assert process.stdout
        # the query was still waiting
        assert not any('"id":9' in line and '"result"' in line for line in process.stdout)


def end_server(process: subprocess.Popen[str], end: str) -> None:
    """Close the server's standard input, or send it a signal."""
    if end == "stdin":
        assert process.stdin
        process.stdin.close()
    else:
        process.send_signal(signal.Signals[end])


def until_gone(children: list[int], end: float) -> list[int]:
    """Wait for processes to end; return the survivors."""
    while any(map(is_alive, children)) and time.monotonic() < end:
        time.sleep(0.05)
    return [child for child in children if is_alive(child)]
