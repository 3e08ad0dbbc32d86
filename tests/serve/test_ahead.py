"""The first requests are answered before the protocol's package is there, and just as it would
answer them.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from thumbindex.serve.early import VERSIONS, EarlyLines, answer_initialize, answer_list

CLIENT = {"name": "test", "version": "1"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "query", "arguments": {"query": "press the green button"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def initialize(version: str = "2025-06-18", **other: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT, **other},
    }


class Pipes:
    """A client at one end; at the other, messages as the package would be given them."""

    def __init__(
        self,
        folders: tuple[tuple[str, Path], ...],
        answer_call: Callable[..., Any] = lambda *_: None,
    ) -> None:
        (incoming, self._asks), (answers, outgoing) = os.pipe(), os.pipe()
        self.answers = os.fdopen(answers)
        answered = {
            "initialize": partial(answer_initialize, folders=folders),
            "tools/list": answer_list,
        }
        self._outgoing = os.fdopen(outgoing, "w")
        self.ahead = EarlyLines(os.fdopen(incoming, "rb"), self._outgoing, answered, answer_call)
        self._is_here = True

    def tell(self, *messages: Any) -> None:
        for each in messages:
            os.write(
                self._asks, (each if isinstance(each, str) else json.dumps(each)).encode() + b"\n"
            )

    def answer(self) -> Any:
        return json.loads(self.answers.readline())

    def leave(self) -> None:
        if self._is_here:
            self._is_here = False
            os.close(self._asks)
            self.ahead._listener.join(10)

    def close(self) -> None:
        self.leave()
        self._outgoing.close()
        self.answers.close()


@pytest.fixture
def folders(vault: Path) -> tuple[tuple[str, Path], ...]:
    return (("vault", vault),)


@pytest.fixture
def pipes(folders: tuple[tuple[str, Path], ...]) -> Iterator[Pipes]:
    made = Pipes(folders)
    yield made
    made.close()


def test_a_client_shakes_hands_and_lists_the_tools_while_nobody_takes_its_messages(
    pipes: Pipes,
) -> None:
    pipes.tell(initialize(), INITIALIZED, LIST_TOOLS)
    greeted, listed = pipes.answer(), pipes.answer()
    assert (
        greeted["id"],
        greeted["result"]["protocolVersion"],
        listed["id"],
        len(listed["result"]["tools"]),
    ) == (1, "2025-06-18", "two", 6)


def test_the_package_is_given_every_message_and_what_it_answers_again_is_not_sent(
    pipes: Pipes,
) -> None:
    asked = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    pipes.tell(initialize(), LIST_TOOLS, asked)
    pipes.leave()
    sent = [pipes.answer(), pipes.answer()]
    taken = [json.loads(line) for line in iter(pipes.ahead.readline, "")]
    for each in (
        *sent,
        {"jsonrpc": "2.0", "method": "notifications/message"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ):
        pipes.ahead.write(json.dumps(each) + "\n")
    pipes.ahead.flush()
    assert taken == [initialize(), LIST_TOOLS, asked]
    assert [pipes.answer().get("id"), pipes.answer().get("id")] == [None, 3]


def test_a_first_call_is_answered_before_the_package_is_there_and_not_a_second_time(
    folders: tuple[tuple[str, Path], ...],
) -> None:
    pipes = Pipes(
        folders,
        lambda asked, greeting: {"asked": asked["name"], "version": greeting["protocolVersion"]},
    )
    pipes.tell(initialize(), INITIALIZED, LIST_TOOLS, CALL, {**CALL, "id": 8})
    sent = [pipes.answer() for _ in range(3)]
    pipes.ahead.await_call()
    taken = [json.loads(pipes.ahead.readline()) for _ in range(5)]
    for number in (7, 8):
        pipes.ahead.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "result": "of the package"}) + "\n"
        )
    pipes.ahead.flush()
    assert (sent[2]["id"], sent[2]["result"]) == (7, {"asked": "query", "version": "2025-06-18"})
    assert (taken[3:], pipes.answer()["id"]) == ([CALL, {**CALL, "id": 8}], 8)
    pipes.close()


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        ("{broken", -32700, None),
        ("[" * 100_000, -32700, None),
        ({**initialize(), "id": None}, -32600, None),
        ({**initialize(), "params": []}, -32600, 1),
        ({"id": "half \ud83d", "method": "ping"}, -32600, "half \ud83d"),
    ],
)
def test_a_line_that_is_no_message_is_answered_with_an_error_before_and_after_the_package_is_there(
    pipes: Pipes, line: Any, code: int, number: int | str | None
) -> None:
    asked, answer = (
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}},
    )
    pipes.tell(line, initialize(), line, asked, "", line, answer)
    pipes.leave()
    told = [pipes.answer() for _ in range(4)]
    assert [(each["id"], each["error"]["code"] if "error" in each else None) for each in told] == [
        (number, code),
        (1, None),
        *[(number, code)] * 2,
    ]
    assert [json.loads(each) for each in iter(pipes.ahead.readline, "")] == [
        initialize(),
        asked,
        answer,
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ude00 fox \ud83d\ude00", "\ufffd fox \U0001f600"),
    ],
)
def test_half_a_character_is_replaced_and_the_request_reaches_the_package(
    pipes: Pipes, written: str, read: str
) -> None:
    asked = {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "tools/call",
        "params": {"query": "QUERY", "brackets": "[" * 300},
    }
    pipes.tell(json.dumps(asked).replace("QUERY", written))
    pipes.leave()
    taken = jsonrpc_message_adapter.validate_json(pipes.ahead.readline(), by_name=False)
    assert isinstance(taken, JSONRPCRequest)
    assert (taken.id, (taken.params or {})["query"]) == (3, read)


def test_the_versions_are_those_in_which_the_package_shakes_hands() -> None:
    assert VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_package_answers_the_same(
    server: Server, folders: tuple[tuple[str, Path], ...], version: str
) -> None:
    lines = Written([initialize(version), INITIALIZED, LIST_TOOLS])
    async with stdio_server(stdin=anyio.wrap_file(lines), stdout=anyio.wrap_file(lines)) as (
        incoming,
        outgoing,
    ):
        with anyio.fail_after(20):
            await server.run(incoming, outgoing, server.create_initialization_options())
    assert lines.answers == [
        answer_initialize(initialize(version)["params"], folders),
        answer_list({}),
    ]


class Written:
    """Messages that are there already, and the results that are written to them; no more come once
    all are answered.
    """

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self._messages = messages
        self._asked = sum("id" in each for each in messages)
        self.answers: list[Any] = []

    def readline(self) -> str:
        if self._messages:
            return json.dumps(self._messages.pop(0)) + "\n"
        while len(self.answers) < self._asked:
            anyio.run(anyio.sleep, 0.01)
        return ""

    def write(self, line: str) -> None:
        self.answers.append(json.loads(line)["result"])

    def flush(self) -> None:
        pass
