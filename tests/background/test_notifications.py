"""Notifications of changed documents, by the mechanisms of both protocol eras."""

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

# clients of the earlier era have only resources/subscribe
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
    """A folder, its writer, and a server."""

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
            writer.index(complete=False)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    vault = Vault(tmp_path)
    vault.background.start()
    # at the second refresh, the follower has polled once
    assert until(lambda: vault.background.library().refreshed > 1)
    yield vault
    vault.background.stop()


class Legacy:
    """A client of 2025 that records its notifications."""

    def __init__(self, server: Server[Subscriber]) -> None:
        self.notifications: list[str] = []
        self.client = Client(server, mode="legacy", message_handler=self._on_event)

    async def _on_event(self, message: Any) -> None:
        params = getattr(message, "params", None)
        self.notifications.append(
            params.uri
            if isinstance(params, types.ResourceUpdatedNotificationParams)
            else message.method
        )

    async def wait(self, count: int) -> list[str]:
        """Wait for `count` notifications, then a moment for unexpected ones."""
        with anyio.move_on_after(15):
            while len(self.notifications) < count:
                await anyio.sleep(0.02)
        await anyio.sleep(0.6)
        return self.notifications


async def receive_events(stream: Subscription, count: int) -> list[object]:
    """Wait for `count` events, then a moment for unexpected ones; return all."""
    events: list[object] = []
    with anyio.move_on_after(15):
        while len(events) < count:
            events.append(await anext(stream))
    with anyio.move_on_after(0.6):
        while True:
            events.append(await anext(stream))
    return events


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


async def test_capabilities_state_what_can_change_in_both_eras(vault: Vault) -> None:
    for mode in ("legacy", "auto"):
        async with Client(vault.server, mode=mode) as client:
            capabilities = client.server_capabilities
        assert capabilities.resources == types.ResourcesCapability(
            subscribe=True, list_changed=True
        )
        assert capabilities.tools == types.ToolsCapability(list_changed=False)
        assert capabilities.prompts == types.PromptsCapability(list_changed=False)


async def test_update_event_has_the_percent_encoded_uri(vault: Vault) -> None:
    async with listening(vault, "thumbindex://vault/my pears.md") as stream:
        vault.change({"my pears.md": "Pears are green."})
        events = await receive_events(stream, 1)
        assert events == [ResourceUpdated("thumbindex://vault/my%20pears.md")]


async def test_added_and_removed_notes_send_one_list_change(vault: Vault) -> None:
    legacy = Legacy(vault.server)
    async with legacy.client, listening(vault, lists=True) as stream:
        vault.change({"plums.md": "Plums are blue.", "apples.md": None})
        assert await receive_events(stream, 1) == [ResourcesListChanged()]
        assert legacy.notifications == [LISTED]


async def test_unsubscribed_client_gets_no_more_notifications(vault: Vault) -> None:
    legacy = Legacy(vault.server)
    async with legacy.client as client:
        await client.subscribe_resource("thumbindex://vault/my%20pears.md")
        await client.unsubscribe_resource("thumbindex://vault/my pears.md")
        await client.subscribe_resource("thumbindex://vault/apples.md")
        vault.change({"my pears.md": "Pears are green.", "apples.md": "Apples are red."})
        assert await legacy.wait(1) == ["thumbindex://vault/apples.md"]


@pytest.mark.parametrize("uri", ["https://example.org/a.md", "thumbindex://other/apples.md"])
async def test_subscription_to_a_foreign_uri_is_refused(vault: Vault, uri: str) -> None:
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


async def test_notifications_for_a_stalled_client_are_coalesced() -> None:
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


async def test_listeners_of_a_disconnected_client_are_removed(vault: Vault) -> None:
    for mode in ("legacy", "auto"):
        async with Client(vault.server, mode=mode) as client:
            await client.list_resources()
    assert vault.background.follower._listeners == {}


async def test_number_of_subscriptions_is_limited() -> None:
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


def test_follower_ignores_a_damaged_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Damaged(Library):
        polls = 0

        def warm_up(self, folder: Sequence[str] = ()) -> None:
            self.polls += 1
            if self.polls in {2, 3}:
                raise IndexDamagedError("broken")
            super().warm_up(folder)

    (tmp_path / "vault").mkdir()
    follower, received = IndexFollower(0.02), list[object]()
    follower.listen(received.append)
    with Damaged.open(
        [tmp_path / "vault"], index=tmp_path / "index", embedder=FakeEmbedder()
    ) as library:
        follower.start(library)
        assert until(lambda: library.polls > 3)
        write(tmp_path / "vault" / "a.md", "# A\n")
        library.index(complete=False)
        assert until(lambda: received == [{"vault": Changes(("a.md",))}])
        follower.stop()
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
