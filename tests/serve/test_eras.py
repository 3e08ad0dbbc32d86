"""What only some versions of the protocol have: roots, links.

Nothing of it is in the way of a client without.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.to_thread import run_sync
from mcp import Client
from mcp.server.lowlevel.server import Server
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from thumbindex.library import Library
from thumbindex.serve.background import ROOTS_SECONDS, Background
from thumbindex.serve.mcp import MOST_ROOTS, build_server, taken_roots
from thumbindex.serve.opening import Opening

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The roots capability is deprecated"),
]


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_an_answer_links_to_its_documents_where_the_version_knows_links(
    server: Server, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", version)
    async with Client(server, mode="legacy") as client:
        assert client.protocol_version == version
        result = await client.call_tool(
            "query", {"query": "which note wins when two devices edit", "limit": 1}
        )
    links = [each.uri for each in result.content if isinstance(each, types.ResourceLink)]
    assert links == ([] if version < "2025-06-18" else ["thumbindex://vault/sync.md"])


async def serve_roots(
    uris: list[str],
    opened: list[tuple[str, ...]],
    open_fake: Callable[[Opening], Library],
    index: Path,
) -> types.CallToolResult:
    """Ask a server without folders, as a client with these roots; note which folders it opens."""

    def open_it(opening: Opening) -> Library:
        opened.append(opening.folder)
        return open_fake(Opening(opening.folder, index))

    async def roots(ctx: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in uris])

    background = Background(Opening(), open_it, command=[], takes_roots=True)
    async with Client(
        build_server(background, ()), mode="legacy", list_roots_callback=roots
    ) as client:
        result = await client.call_tool("status", {})
    if library := background.library_if_open():
        await run_sync(library.close)
    return result


async def test_a_clients_roots_become_the_folders_when_none_is_configured(
    vault: Path, tmp_path: Path, open_fake: Callable[[Opening], Library]
) -> None:
    opened: list[tuple[str, ...]] = []
    result = await serve_roots([vault.as_uri(), "file:///no/such"], opened, open_fake, tmp_path)
    assert opened == [(str(vault),)]
    assert result.structured_content["folders"][0]["folder"] == "vault"
    assert result.structured_content["notes"][0].startswith(
        "The client's root file:///no/such is no folder of this machine"
    )


async def test_a_client_whose_roots_are_all_refused_is_served_no_folder_and_told_why(
    tmp_path: Path, open_fake: Callable[[Opening], Library]
) -> None:
    opened: list[tuple[str, ...]] = []
    result = await serve_roots([Path.home().as_uri()], opened, open_fake, tmp_path)
    assert opened == []
    assert result.is_error
    assert result.content[0].text.startswith(
        f"No folder is served. The client's root {Path.home().as_uri()} is your home folder"
    )


async def test_a_client_without_roots_is_served_the_current_folder_at_once(
    library: Library,
) -> None:
    background = Background(Opening(), lambda opening: library, command=[], takes_roots=True)
    with anyio.fail_after(ROOTS_SECONDS):
        async with Client(build_server(background, library.folders), mode="legacy") as client:
            assert (await client.call_tool("status", {})).is_error is False
    assert background.is_settled


@pytest.mark.parametrize(
    "uri",
    [
        "file:///",
        Path.home().as_uri(),
        "file://host/share",
        "x",
    ],
)
async def test_no_root_is_taken_that_is_too_large_or_elsewhere(uri: str) -> None:
    taken, refused = taken_roots([uri])
    assert (taken, len(refused)) == ((), 1)


async def test_roots_are_taken_once_and_up_to_a_number(tmp_path: Path) -> None:
    for number in range(MOST_ROOTS + 2):
        (tmp_path / f"root {number:02}" / "below").mkdir(parents=True)
    found = sorted(tmp_path.iterdir())
    taken, refused = taken_roots(
        [
            found[0].as_uri(),
            found[0].as_uri(),
            (found[0] / "below").as_uri(),
            *(each.as_uri() for each in found[1:]),
        ]
    )
    assert taken == tuple(map(str, found[:MOST_ROOTS]))
    assert len(refused) == 4


async def test_a_cancelled_query_stops_its_wait(
    vault: Path, tmp_path: Path, open_fake: Callable[[Opening], Library]
) -> None:
    ended = threading.Event()

    class Waits(Background):
        def await_words(
            self,
            seconds: float = 20.0,
            tell: Any = None,
            interrupted: Callable[[], bool] = lambda: False,
        ) -> None:
            while not interrupted():
                ended.wait(0.01)
            ended.set()

    with open_fake(Opening((str(vault),), tmp_path)) as library:
        async with Client(
            build_server(Waits(Opening(), lambda opening: library, command=[]), library.folders),
            mode="legacy",
        ) as client:
            with anyio.move_on_after(0.3):
                await client.call_tool("query", {"query": "x"})
            assert await run_sync(ended.wait, 15)
            assert (await client.call_tool("status", {})).is_error is False
