"""Clients that others have written, on the server as a process: the SDKs of Python and TypeScript,
MCP Inspector, and the conformance suite.

`make test-clients` runs these and first installs what they need by npm; `make test` leaves them
out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"

pytestmark = [
    pytest.mark.skipif(
        "THUMBINDEX_CLIENTS" not in os.environ, reason="`make test-clients` runs these"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and MODULES.is_dir()),
    reason="node is missing, or `npm ci` was not run in tests/clients",
)

NOTES = {
    "sync.md": (
        "# Sync\n\n## Set up\n\nPress it.\n\n## Conflicts\n\n"
        "When two devices edit one note, the newer note wins. See [[canvas]].\n"
    ),
    "plugins/canvas.md": (
        "# Canvas\n\nDraw boxes and arrows on an endless whiteboard. See [[sync]].\n"
    ),
    "plugins/graph view.md": "# Graph view\n\nShows how notes link to each other.\n",
}

LEAVES_EDITS_ALONE = ("quiet_ms=60000", "reconcile_seconds=3600")
"""So that a question that waits for an edit is still waiting when it is cancelled."""

OF_THE_SUITES_OWN = {
    "the suite's demonstration tools": "tools-call-image tools-call-audio "
    "tools-call-embedded-resource tools-call-mixed-content "
    "tools-call-with-logging tools-call-with-progress json-schema-2020-12 server-sse-polling",
    "tools that ask the client's model or its user, which no tool here does": "tools-call-sampling "
    "tools-call-elicitation "
    "elicitation-sep1034-defaults elicitation-sep1330-enums",
    "the suite's demonstration resources (test://…)": "resources-read-text resources-read-binary "
    "resources-templates-read "
    "resources-subscribe "
    "resources-unsubscribe",
    "the suite's demonstration prompts": (
        "prompts-get-simple prompts-get-with-args prompts-get-embedded-resource "
        "prompts-get-with-image"
    ),
}
"""Scenarios that ask for what only the suite's own server has, by what that is."""

APPLICABLE = (
    "server-initialize logging-set-level ping completion-complete tools-list "
    "tools-call-simple-text tools-call-error "
    "server-sse-multiple-streams resources-list prompts-list dns-rebinding-protection"
)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write a few notes; return how to serve them, by words alone."""
    place = tmp_path_factory.mktemp("clients")
    for path, text in NOTES.items():
        (place / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "vault" / path).write_text(text, encoding="utf-8")
    options = [
        "-m",
        "thumbindex",
        "serve",
        f"--folder={place / 'vault'}",
        f"--index={place / 'index'}",
        f"--set=encode.embed.model={place / 'absent'}",
    ]
    return [*options, *(f"--set=serve.watch.{each}" for each in LEAVES_EDITS_ALONE)]


@pytest.fixture(scope="module")
def url(options: list[str]) -> Iterator[str]:
    """Serve the same over HTTP; without a rate, since the suite asks from one address faster than
    any client, and would be told to wait.
    """
    command = [sys.executable, *options, "--http", "--port=0", "--json", "--set=serve.http.rate=0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()


def run(*command: str, notes: str = "") -> str:
    """Run a program of node's, which may write to the folder of notes; return what it printed."""
    environment = {**os.environ, "NOTES": notes}
    done = subprocess.run(
        ["node", *command],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.stdout


def way_to(options: list[str], url: str, transport: str) -> list[str]:
    return [sys.executable, *options] if transport == "stdio" else [url]


def folder_of(options: list[str]) -> str:
    return next(each.removeprefix("--folder=") for each in options if each.startswith("--folder="))


def failures(printed: str) -> dict[str, str]:
    return {name: problem for name, problem in json.loads(printed).items() if problem}


@needs_node
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_typescript_sdk_is_served(
    options: list[str], url: str, version: str, transport: str
) -> None:
    assert (
        failures(
            run("sdk1.mjs", version, *way_to(options, url, transport), notes=folder_of(options))
        )
        == {}
    )


@needs_node
@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_second_typescript_sdk_is_served(
    options: list[str], url: str, version: str, transport: str
) -> None:
    assert (
        failures(
            run("sdk2.mjs", version, *way_to(options, url, transport), notes=folder_of(options))
        )
        == {}
    )


@needs_node
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_is_served(options: list[str], url: str, era: str, transport: str) -> None:
    def inspect(*asked: str) -> Any:
        program = [
            str(MODULES / ".bin" / "mcp-inspector"),
            "--cli",
            "--protocol-era",
            era,
            "--format",
            "json",
            *given,
        ]
        target = (
            ["--", sys.executable, *options]
            if transport == "stdio"
            else ["--transport", "http", url]
        )
        return json.loads(run(*program, "--method", *asked, *target))["result"]

    # it hands on no environment of its own, and takes no empty value
    given = [
        each
        for path in [os.environ.get("PYTHONPATH")]
        if path
        for each in ("-e", f"PYTHONPATH={path}")
    ]
    assert len(inspect("tools/list", "--strict")["tools"]) == 6
    answer = inspect(
        "tools/call",
        "--tool-name",
        "query",
        "--tool-arg",
        "query=which note wins when two devices edit",
    )
    assert answer["structuredContent"]["results"][0]["path"] == "sync.md"
    assert len(inspect("resources/list")["resources"]) == 3
    assert inspect("prompts/list")["prompts"][0]["name"] == "answer_from_notes"


@needs_node
def test_the_conformance_suite_passes_but_for_what_it_asks_of_its_own_server(url: str) -> None:
    program = str(MODULES / ".bin" / "conformance")
    done = subprocess.run(
        [program, "server", "--url", url, "--suite", "all"],
        cwd=HERE,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    found = {
        name: mark for mark, name in re.findall(r"^([✓✗]) ([\w-]+): ", done.stdout, re.MULTILINE)
    }
    not_ours = {name for names in OF_THE_SUITES_OWN.values() for name in names.split()}
    assert {name for name, mark in found.items() if mark == "✓"} == set(APPLICABLE.split()), (
        done.stdout
    )
    assert {name for name, mark in found.items() if mark == "✗"} == not_ours


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_python_sdk_is_served(
    options: list[str], url: str, version: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", version)
    server = (
        StdioServerParameters(command=sys.executable, args=options, env=dict(os.environ))
        if transport == "stdio"
        else url
    )
    async with Client(
        server, mode="legacy" if version in HANDSHAKE_PROTOCOL_VERSIONS else version
    ) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("query", {"query": "which note wins when two devices edit"})
        document = (await client.read_resource("thumbindex://vault/sync.md")).contents[0]
        assert client.protocol_version == version
    jsonschema.validate(result.structured_content, listed["query"].output_schema)
    assert result.structured_content["results"][0]["path"] == "sync.md"
    assert document.text == NOTES["sync.md"].rstrip("\n")
