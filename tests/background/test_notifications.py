"""Clients are told what comes, goes and changes, each by the mechanism of its era."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import Subscription
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from fakes import FakeEmbedder
from notes import write
from thumbindex.background.host import IndexFollower, LibraryHost
from thumbindex.config import load_config
from thumbindex.errors import IndexDamagedError, UsageError
from thumbindex.library import Library
from thumbindex.mcp.resources import MAX_SUBSCRIBED, Subscriber
from thumbindex.mcp.server import build_server
from thumbindex.model import Changes
from thumbindex.opening import OpenOptions
from waiting import until

# resources/subscribe is what the clients of an earlier era have
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed"),
]

LISTED = "notifications/resources/list_changed"


class Counted(Library):
    """A library that counts how often it was refreshed."""

    refreshed = 0

    def warm_up(self, folder: Sequence[str] = ()) -> None:
        super().warm_up(folder)
        self.refreshed += 1


class Vault:
    """A folder that changes, its writer, and a server that follows."""

    def __init__(self, parent: Path) -> None:
        self.root, self.index = parent / "vault", parent / "index"
        self.root.mkdir()
        self.change(
            {"apples.md": "Apples grow on trees.", "my pears.md": "Pears ripen off the tree."}
        )
        self.background = LibraryHost(OpenOptions(), lambda opening: self.open(), command=[])
        self.server: Server[Subscriber] = build_server(self.background, [("vault", self.root)])

    def open(self) -> Counted:
        return Counted.open(
            [self.root],
            index=self.index,
            config=load_config(user_file=self.root / "none"),
            embedder=FakeEmbedder(),
        )

    def change(self, notes: dict[str, str | None]) -> None:
        """Write notes, delete those without a text, and index."""
        for path, text in notes.items():
            if text is None:
                (self.root / path).unlink()
            else:
                write(self.root / path, f"# {path}\n\n{text}\n")
        with self.open() as writer:
            writer.index(words_only=True)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    vault = Vault(tmp_path)
    vault.background.start()
    # before it refreshes again, the follower has looked once
    assert until(lambda: vault.background.library().refreshed > 1)
    yield vault
    vault.background.stop()


class Legacy:
    """A client of 2025 that keeps what it is told."""

    def __init__(self, server: Server[Subscriber]) -> None:
        self.told: list[str] = []
        self.client = Client(server, mode="legacy", message_handler=self._on_event)

    async def _on_event(self, message: Any) -> None:
        found = getattr(message, "params", None)
        self.told.append(
            found.uri
            if isinstance(found, types.ResourceUpdatedNotificationParams)
            else message.method
        )

    async def wait(self, count: int) -> list[str]:
        """Wait for so many messages, and a moment for those that should not come."""
        with anyio.move_on_after(15):
            while len(self.told) < count:
                await anyio.sleep(0.02)
        await anyio.sleep(0.6)
        return self.told


async def events(stream: Subscription, count: int) -> list[object]:
    """Return so many events, and those that come in the moment after them."""
    found: list[object] = []
    with anyio.move_on_after(15):
        while len(found) < count:
            found.append(await anext(stream))
    with anyio.move_on_after(0.6):
        while True:
            found.append(await anext(stream))
    return found


def listening(
    vault: Vault, *uris: str, lists: bool = False
) -> AbstractAsyncContextManager[Subscription]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Subscription]:
        async with (
            Client(vault.server) as client,
            client.listen(resource_subscriptions=uris, resources_list_changed=lists) as stream,
        ):
            yield stream

    return opened()


async def test_both_eras_are_told_truthfully_what_can_change(vault: Vault) -> None:
    for mode in ("legacy", "auto"):
        async with Client(vault.server, mode=mode) as client:
            found = client.server_capabilities
        assert found.resources == types.ResourcesCapability(subscribe=True, list_changed=True)
        assert found.tools == types.ToolsCapability(list_changed=False)
        assert found.prompts == types.PromptsCapability(list_changed=False)


async def test_a_stream_is_told_addresses_as_the_list_of_documents_writes_them(
    vault: Vault,
) -> None:
    async with listening(vault, "thumbindex://vault/my pears.md") as stream:
        vault.change({"my pears.md": "Pears are green."})
        assert await events(stream, 1) == [ResourceUpdated("thumbindex://vault/my%20pears.md")]


async def test_notes_that_come_and_go_are_told_by_a_changed_list(vault: Vault) -> None:
    legacy = Legacy(vault.server)
    async with legacy.client, listening(vault, lists=True) as stream:
        vault.change({"plums.md": "Plums are blue.", "apples.md": None})
        assert await events(stream, 1) == [ResourcesListChanged()]
        assert legacy.told == [LISTED]


async def test_who_unsubscribes_is_told_no_longer(vault: Vault) -> None:
    legacy = Legacy(vault.server)
    async with legacy.client as client:
        await client.subscribe_resource("thumbindex://vault/my%20pears.md")
        await client.unsubscribe_resource("thumbindex://vault/my pears.md")
        await client.subscribe_resource("thumbindex://vault/apples.md")
        vault.change({"my pears.md": "Pears are green.", "apples.md": "Apples are red."})
        assert await legacy.wait(1) == ["thumbindex://vault/apples.md"]


@pytest.mark.parametrize("uri", ["https://example.org/a.md", "thumbindex://other/apples.md"])
async def test_what_is_no_address_of_this_server_cannot_be_subscribed_to(
    vault: Vault, uri: str
) -> None:
    async with Client(vault.server, mode="legacy") as client:
        with pytest.raises(
            MCPError,
            match=r"is not a resource of this server|unknown folder 'other'. The folders are vault",
        ):
            await client.subscribe_resource(uri)
        with pytest.raises(MCPError):
            await client.unsubscribe_resource(uri)
    async with listening(vault, uri, "thumbindex://vault/apples.md", lists=True) as stream:
        assert stream.honored == types.SubscriptionFilter(
            resource_subscriptions=["thumbindex://vault/apples.md"], resources_list_changed=True
        )


class Deaf:
    """A session whose client has stopped reading, until `reads` is set."""

    def __init__(self) -> None:
        self.sent, self.reads = 0, anyio.Event()

    async def send_resource_updated(self, uri: str) -> None:
        self.sent += 1
        await self.reads.wait()


async def test_a_client_that_stopped_reading_holds_up_nobody_and_nothing_piles_up() -> None:
    session = Deaf()
    subscriber = Subscriber(session)  # type: ignore[arg-type]
    subscriber.subscribe(("vault", "a.md"), "thumbindex://vault/a.md")
    async with anyio.create_task_group() as group:
        group.start_soon(subscriber.send_notifications)
        for _ in range(3):
            subscriber.add_changes([("vault", "a.md")], listed=False)
            await anyio.sleep(0.02)
        assert session.sent == 1
        session.reads.set()
        await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    assert session.sent == 2


async def test_a_client_that_has_left_is_forgotten(vault: Vault) -> None:
    for mode in ("legacy", "auto"):
        async with Client(vault.server, mode=mode) as client:
            await client.list_resources()
    assert vault.background.follower._listeners == {}


async def test_a_client_subscribes_to_so_many_documents() -> None:
    subscriber = Subscriber(Deaf())  # type: ignore[arg-type]
    for number in range(MAX_SUBSCRIBED):
        subscriber.subscribe(("vault", f"{number}.md"), "")
    with pytest.raises(UsageError, match="at most 1,000 documents"):
        subscriber.subscribe(("vault", "more.md"), "")
    subscriber.subscribe(("vault", "1.md"), "")  # again
    subscriber.unsubscribe(("vault", "1.md"))
    subscriber.subscribe(("vault", "more.md"), "")
    with pytest.raises(UsageError):
        subscriber.subscribe(("vault", "1.md"), "")


def test_a_follower_survives_an_index_that_cannot_be_read_and_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Damaged(Library):
        asked = 0

        def warm_up(self, folder: Sequence[str] = ()) -> None:
            self.asked += 1
            if self.asked in {2, 3}:
                raise IndexDamagedError("broken")
            super().warm_up(folder)

    (tmp_path / "vault").mkdir()
    follower, told = IndexFollower(0.02), list[object]()
    follower.listen(told.append)
    with Damaged.open(
        [tmp_path / "vault"], index=tmp_path / "index", embedder=FakeEmbedder()
    ) as library:
        follower.start(library)
        assert until(lambda: library.asked > 3)
        write(tmp_path / "vault" / "a.md", "# A\n")
        library.index(words_only=True)
        assert until(lambda: told == [{"vault": Changes(("a.md",))}])
        follower.stop()
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
