"""Private notes never reach a client: on every surface, it sees the same with and without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from notes import write
from thumbindex.background.host import LibraryHost
from thumbindex.library import Library
from thumbindex.mcp.resources import Subscribers
from thumbindex.mcp.server import build_server
from thumbindex.opening import OpenOptions

# older clients use resources/subscribe
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed"),
]

SECRET = "Zanzibarquetzal"
"""A word that only the private note contains."""

HIDDEN = "journal/day.md"
URI = f"thumbindex://vault/{HIDDEN}"

BY_KEY = f"---\nprivate: true\n---\n# Day\n\n{SECRET} apples.\n"
BY_TAG = f"# Day #private\n\n{SECRET} apples.\n"
BY_GLOB = f"# Day\n\n{SECRET} apples.\n"

PASSING = re.compile(r"'(?:seconds|updated|size_bytes|age_seconds|generation)': [^,}]+")
"""Parts that differ between any two answers."""


class Vault:
    """A folder, its index and a server; the test is the writer."""

    def __init__(self, parent: Path, open_fake: Callable[[OpenOptions], Library]) -> None:
        self.root = parent / "vault"
        self.opening = OpenOptions(
            (str(self.root),), parent / "index", overrides=("corpus.private.globs=diary/**",)
        )
        self._open = open_fake
        self.write("apples.md", "# Apples\n\nApples keep in a cool cellar. See [[day]].\n")
        self.library_host = LibraryHost(self.opening, open_fake, command=[])
        self.folders = (("vault", self.root),)
        self.server = self.serve()

    def serve(self) -> Server[Subscribers]:
        """Return a new server."""
        return build_server(self.library_host, self.folders)

    def write(self, path: str, text: str) -> None:
        write(self.root / path, text)
        with self._open(self.opening) as writer:
            writer.index()


@pytest.fixture
def vault(tmp_path: Path, open_fake: Callable[[OpenOptions], Library]) -> Iterator[Vault]:
    vault = Vault(tmp_path, open_fake)
    yield vault
    vault.library_host.stop()


async def told(vault: Vault, path: str) -> dict[str, str]:
    """Ask for a note in every way that a client can; return the replies by way."""
    uri, replies = f"thumbindex://vault/{path}", {}
    async with Client(vault.server, mode="legacy") as client:
        ways: dict[str, Callable[[], Any]] = {
            "query": lambda: client.call_tool("query", {"query": f"{SECRET} apples"}),
            "query path": lambda: client.call_tool(
                "query", {"query": f"{SECRET} apples", "path": [path]}
            ),
            "query why": lambda: client.call_tool("query", {"query": "apples", "why": path}),
            "query wait_fresh": lambda: client.call_tool(
                "query", {"query": SECRET, "wait_fresh": 0.01}
            ),
            "read": lambda: client.call_tool("read", {"path": path}),
            "outline": lambda: client.call_tool("outline", {}),
            "outline path": lambda: client.call_tool("outline", {"path": path}),
            "related": lambda: client.call_tool("related", {"path": path}),
            "related back": lambda: client.call_tool("related", {"path": "apples.md"}),
            "verify": lambda: client.call_tool(
                "verify", {"text": f'{path}#Day (line 3): "{SECRET} apples"'}
            ),
            "status": lambda: client.call_tool("status", {}),
            "resources/list": client.list_resources,
            "resources/read": lambda: client.read_resource(uri),
            "resources/subscribe": lambda: client.subscribe_resource(uri),
        }
        for name, way in ways.items():
            try:
                replies[name] = PASSING.sub("", repr((await way()).model_dump()))
            except MCPError as error:
                replies[name] = f"MCPError: {error}"
    return replies


@pytest.mark.parametrize(
    ("path", "text"),
    [(HIDDEN, BY_KEY), (HIDDEN, BY_TAG), ("diary/day.md", BY_GLOB)],
    ids=["key", "tag", "glob"],
)
async def test_private_note_is_treated_like_a_missing_one(
    vault: Vault, path: str, text: str
) -> None:
    before = await told(vault, path)
    vault.write(path, text)
    assert await told(vault, path) == before


async def test_no_form_of_a_private_note_reaches_a_client(
    vault: Vault, private_forms: dict[str, str]
) -> None:
    before = await told(vault, "journal/0.md")
    for number, text in enumerate(private_forms.values()):
        path = vault.root / f"journal/{number}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n\n{SECRET} apples.\n", encoding="utf-8", newline="")
    vault.write("apples.md", "# Apples\n\nApples keep in a cool cellar. See [[day]].\n")
    assert await told(vault, "journal/0.md") == before


async def test_public_note_appears_on_every_compared_surface(
    vault: Vault,
) -> None:
    before = await told(vault, HIDDEN)
    vault.write(HIDDEN, BY_GLOB)
    after = await told(vault, HIDDEN)
    assert {name for name in before if before[name] == after[name]} == {"resources/subscribe"}


async def test_subscribers_hear_nothing_about_private_notes(
    vault: Vault,
) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        params = getattr(message, "params", None)
        heard.append(
            params.uri
            if isinstance(params, types.ResourceUpdatedNotificationParams)
            else message.method
        )

    vault.library_host.start()
    async with Client(vault.server, mode="legacy", message_handler=hear) as client:
        for uri in (URI, "thumbindex://vault/apples.md"):
            await client.subscribe_resource(uri)
        await anyio.sleep(0.6)  # the follower has polled once
        vault.write(HIDDEN, BY_KEY)
        await anyio.sleep(0.6)
        vault.write("apples.md", "# Apples\n\nApples are red.\n")
        with anyio.move_on_after(15):
            while not heard:
                await anyio.sleep(0.02)
    assert heard == ["thumbindex://vault/apples.md"]
