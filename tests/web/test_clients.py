"""MCP over Streamable HTTP, with clients of each protocol version."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from filelock import FileLock
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from thumbindex.index.locks import publish_run
from thumbindex.library import Library

pytestmark = pytest.mark.anyio

ACCEPT = {"Accept": "application/json, text/event-stream"}


def event(response: httpx2.Response) -> Any:
    """Return the message of a response with one event."""
    return json.loads(
        next(
            line for line in response.text.splitlines() if line.startswith("data: {")
        ).removeprefix("data: ")
    )


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_sdk_client_queries_and_reads(running: Any, mode: str) -> None:
    async with running.client("bob", mode) as client:
        answer = (
            await client.call_tool("query", {"query": "how many days of leave"})
        ).structured_content
        contents = await client.read_resource("thumbindex://handbook/travel.md")
        listed = (await client.list_resources()).resources
    assert answer["results"][0]["citation"].startswith("leave.md (lines 1-3)")
    assert contents.contents[0].text.startswith("# Travel")
    assert [resource.name for resource in listed] == ["leave.md", "travel.md"]


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_every_handshake_version_is_served(running: Any, version: str) -> None:
    greeted = running.greet(running.token("bob"), version)
    assert event(greeted)["result"]["protocolVersion"] == version
    headers = {
        **ACCEPT,
        **running.token("bob"),
        "Mcp-Session-Id": greeted.headers["mcp-session-id"],
        "MCP-Protocol-Version": version,
    }
    running.ask(
        method="POST",
        headers=headers,
        json={"jsonrpc": "2.0", "method": "notifications/initialized"},
    )
    call = {"name": "query", "arguments": {"query": "tickets for trains"}}
    answered = running.ask(
        method="POST",
        headers=headers,
        json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    )
    assert event(answered)["result"]["structuredContent"]["results"][0]["citation"].startswith(
        "travel.md"
    )
    assert running.ask(method="DELETE", headers=headers).status_code == 200


@pytest.mark.slow
def test_waiting_requests_do_not_delay_other_clients(
    serve: Callable[..., Any], library: Library, place: Path
) -> None:
    """Many requests wait for indexing; another client is answered at once."""
    (place / "handbook" / "unread.md").write_text("# Unread\n", encoding="utf-8")
    paths = next(index.index_paths for index in library.opened if index.name == "handbook")
    try:
        with serve() as running:
            with FileLock(paths.watch):
                threads = [
                    threading.Thread(
                        target=running.call,
                        args=("tools/call", running.token("alice")),
                        kwargs={"name": "query", "arguments": WAIT},
                    )
                    for _ in range(48)
                ]
                for thread in threads:
                    thread.start()
                time.sleep(0.5)
                answer = running.call(
                    "tools/call", running.token("bob"), name="query", arguments={"query": "tickets"}
                ).json()
                waiting = sum(thread.is_alive() for thread in threads)
            for thread in threads:
                thread.join()
    finally:
        (place / "handbook" / "unread.md").unlink()
    assert answer["result"]["structuredContent"]["results"][0]["citation"].startswith("travel.md")
    assert waiting == 48  # they wait for a minute


WAIT = {"query": "tickets", "wait_fresh": 60}


@pytest.mark.slow
async def test_waiting_client_receives_progress(
    serve: Callable[..., Any], library: Library
) -> None:
    messages: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    handbook = next(
        index.index_paths.folder for index in library.opened if index.name == "handbook"
    )
    with serve() as running, publish_run(handbook) as indexed:
        indexed("words", 0, 7)
        async with running.client("bob", "legacy") as client:
            await client.call_tool("query", {**WAIT, "wait_fresh": 1}, progress_callback=hear)
    assert messages == ["indexed 0 of 7 notes"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_changes_are_sent_only_to_clients_that_may_see_the_folder(
    running: Any, library: Library, place: Path, mode: str
) -> None:
    """Alice and Bob listen to everything; a note is added to a folder hidden from Bob."""
    heard: dict[str, list[str]] = {"alice": [], "bob": []}

    async def listen(name: str, ready: anyio.Event) -> None:
        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceListChangedNotification):
                heard[name].append("list")

        async with running.client(
            name, mode, message_handler=hear if mode == "legacy" else None
        ) as client:
            if mode == "legacy":
                await client.list_tools()
                await anyio.sleep(0.5)  # until the stream of notifications is open
                ready.set()
                await anyio.sleep_forever()
            async with client.listen(resources_list_changed=True) as stream:
                ready.set()
                async for _ in stream:
                    heard[name].append("list")

    async with anyio.create_task_group() as group:
        for name in heard:
            ready = anyio.Event()
            group.start_soon(listen, name, ready)
            await ready.wait()
        await anyio.sleep(0.6)
        for events in heard.values():
            events.clear()  # from the previous test
        for folder in ("salaries", "handbook"):
            path = place / folder / f"new-{mode}.md"
            path.write_text("# New\n\nNew.\n", encoding="utf-8")
            await anyio.to_thread.run_sync(library.index)
            await anyio.sleep(1)
            if folder == "salaries":
                assert heard == {"alice": ["list"], "bob": []}
        assert heard == {"alice": ["list", "list"], "bob": ["list"]}
        group.cancel_scope.cancel()
    for folder in ("salaries", "handbook"):
        (place / folder / f"new-{mode}.md").unlink()
    library.index()


def test_session_belongs_to_its_token(running: Any) -> None:
    session = running.greet(running.token("alice")).headers["mcp-session-id"]
    foreign = running.greet({**running.token("bob"), "Mcp-Session-Id": session})
    unknown = running.greet({**running.token("bob"), "Mcp-Session-Id": "0" * 32})
    assert (foreign.status_code, foreign.content) == (unknown.status_code, unknown.content)
    assert foreign.status_code == 404


def test_number_of_sessions_is_limited(serve: Callable[..., Any]) -> None:
    with serve(connections=4) as running:
        opened = [running.greet(running.token("bob")) for _ in range(5)]
        session = {"Mcp-Session-Id": opened[0].headers["mcp-session-id"]}
        ended = running.ask(method="DELETE", headers={**running.token("bob"), **session})
        again = running.greet(running.token("bob"))
    assert [response.status_code for response in opened] == [200, 200, 200, 200, 503]
    assert (ended.status_code, again.status_code) == (200, 200)
