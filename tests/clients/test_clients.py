"""Third-party clients on a server process: the Python SDK, and in `make long` the TypeScript SDKs,
MCP Inspector and the conformance suite.
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
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from mcp_types.version import LATEST_MODERN_VERSION as LATEST

from folders import write_notes
from servers import path_of
from thumbindex.index.locks import hold_lock, publish_run
from thumbindex.library import Library

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def node() -> str:
    """Return the node program for the npm clients."""
    program = shutil.which("node")
    if not program or not MODULES.is_dir():
        pytest.skip("node is missing, or `npm ci` has not run in tests/clients")
    return program


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

OF_THE_SUITES_OWN = (
    # its demonstration tools
    "tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content "
    "tools-call-with-logging tools-call-with-progress json-schema-2020-12 server-sse-polling "
    # tools that query the client's model or user; ours do not
    "completion-complete tools-call-sampling tools-call-elicitation elicitation-sep1034-defaults "
    "elicitation-sep1330-enums "
    # its demonstration resources (test://…) and prompts
    "resources-read-text resources-read-binary resources-templates-read resources-subscribe "
    "resources-unsubscribe prompts-get-simple prompts-get-with-args prompts-get-embedded-resource "
    "prompts-get-with-image "
    # client logging, which the protocol has dropped
    "logging-set-level"
)
"""Scenarios that need features of the suite's own server."""

APPLICABLE = (
    "server-initialize ping tools-list "
    "tools-call-simple-text tools-call-error "
    "server-sse-multiple-streams resources-list prompts-list dns-rebinding-protection"
)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Index a few notes without vectors; yield the arguments that serve them.

    Another process holds the write lock and reports a run at its first file, so that no edit is
    indexed.
    """
    place = tmp_path_factory.mktemp("clients")
    write_notes(place / "vault", NOTES)
    with Library.open([place / "vault"], index=place / "index") as library:
        library.index(complete=False)
        (folder,) = library.opened
    with hold_lock(folder.index_paths.lock), publish_run(folder.index_paths.folder) as at:
        at("words", 0, 1)
        yield [
            "-m",
            "thumbindex",
            "serve",
            f"--folder={place / 'vault'}",
            f"--index={place / 'index'}",
            f"--set=encode.embed.model={place / 'absent'}",
        ]


@pytest.fixture(scope="module")
def url(options: list[str]) -> Iterator[str]:
    """Serve the same notes over HTTP."""
    command = [sys.executable, *options, "--http", "--port=0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


def run(node: str, *command: str, notes: str = "") -> str:
    """Run a node program, which may write to the notes; return its output."""
    result = subprocess.run(
        [node, *command],
        cwd=HERE,
        env={**os.environ, "NOTES": notes},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert result.stdout, result.stderr
    return result.stdout


def way_to(options: list[str], url: str, transport: str) -> list[str]:
    return [sys.executable, *options] if transport == "stdio" else [url]


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "version"),
    [
        *(("sdk1.mjs", version) for version in HANDSHAKE_PROTOCOL_VERSIONS),
        *(("sdk2.mjs", version) for version in [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST]),
    ],
)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_typescript_sdks_are_served(
    node: str, options: list[str], url: str, program: str, version: str, transport: str
) -> None:
    folder = next(option.removeprefix("--folder=") for option in options if "--folder=" in option)
    printed = run(node, program, version, *way_to(options, url, transport), notes=folder)
    assert {name: problem for name, problem in json.loads(printed).items() if problem} == {}


@pytest.mark.long
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_inspector_is_served(
    node: str, options: list[str], url: str, era: str, transport: str
) -> None:
    program = (str(MODULES / ".bin" / "mcp-inspector"), "--cli", "--protocol-era", era)
    target = (
        ["--", sys.executable, *options] if transport == "stdio" else ["--transport", "http", url]
    )

    def inspect(*arguments: str) -> Any:
        printed = run(node, *program, "--format", "json", "--method", *arguments, *target)
        return json.loads(printed)["result"]

    assert len(inspect("tools/list", "--strict")["tools"]) == 6
    asked = ("--tool-name", "query", "--tool-arg", "query=which note wins when two devices edit")
    answer = inspect("tools/call", *asked)
    assert path_of(answer["structuredContent"]["results"][0]) == "sync.md"
    assert len(inspect("resources/list")["resources"]) == 3
    assert inspect("prompts/list")["prompts"][0]["name"] == "answer_from_notes"


@pytest.mark.long
def test_conformance_suite_passes(node: str, url: str) -> None:
    program = str(MODULES / ".bin" / "conformance")
    printed = run(node, program, "server", "--url", url, "--suite", "all")
    found = {name: mark for mark, name in re.findall(r"^([✓✗]) ([\w-]+): ", printed, re.MULTILINE)}
    assert {name for name, mark in found.items() if mark == "✓"} == set(APPLICABLE.split()), printed
    assert {name for name, mark in found.items() if mark == "✗"} == set(OF_THE_SUITES_OWN.split())


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("version", [HANDSHAKE_PROTOCOL_VERSIONS[0], LATEST])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_python_sdk_is_served(
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
    assert path_of(result.structured_content["results"][0]) == "sync.md"
    assert document.text == NOTES["sync.md"].rstrip("\n")
