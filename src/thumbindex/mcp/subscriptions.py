"""Subscriptions: tell each client what changed by its protocol era's own mechanism."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from thumbindex.background.host import Listener
from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.mcp.replies import parse_uri
from thumbindex.model import Changes
from thumbindex.text import format_address

Address = tuple[str, str]
"""Folder and path."""

MOST_SUBSCRIBED = 1_000
"""Documents of which one client, or one of its streams, is told: each is looked at with each
change, and nobody reads as many one by one.
"""


class Subscriber:
    """One client of the years before 2026-07-28. All of it happens on the event loop; what is told
    late is told once, however often it has changed meanwhile.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._subscribed: dict[Address, str] = {}  # as the client wrote it
        self._updated: dict[str, None] = {}
        self._listed = False
        self._wake = anyio.Event()

    def subscribe(self, address: Address, uri: str) -> None:
        """Tell the client from now on when a document changes; it need not be there yet.

        Raises UsageError.
        """
        if address not in self._subscribed and len(self._subscribed) >= MOST_SUBSCRIBED:
            raise UsageError(
                f"A client subscribes to {MOST_SUBSCRIBED:,} documents at most: unsubscribe "
                "from one, or listen to the list of all."
            )
        self._subscribed[address] = uri

    def unsubscribe(self, address: Address) -> None:
        """Tell it no longer."""
        self._subscribed.pop(address, None)

    def take(self, changed: Iterable[Address], listed: bool) -> None:
        """Take what is new, to be told at the next opportunity."""
        uris = (self._subscribed[each] for each in changed if each in self._subscribed)
        self._updated |= dict.fromkeys(uris)
        self._listed = self._listed or listed
        if self._updated or self._listed:
            self._wake.set()

    async def tell(self) -> None:
        """Tell the client, as fast as it listens, without end."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            updated, listed = self._updated, self._listed
            self._updated, self._listed = {}, False
            if listed:
                await self._session.send_resource_list_changed()
            for uri in updated:
                await self._session.send_resource_updated(uri)


class Subscribers:
    """A server's clients: those of an earlier era one a connection, the streams of later ones on
    one bus.

    None waits for another one.
    """

    def __init__(self, folders: Callable[[], Collection[str]], group: TaskGroup) -> None:
        self._folders, self._group = folders, group
        self._subscribers: dict[Connection, Subscriber] = {}
        self._bus = InMemorySubscriptionBus()

    def of(self, session: ServerSession) -> Subscriber:
        """Return a session's client, which from now on hears what comes and goes."""
        # the package shows it to nobody, and nothing else lasts as long as the client
        connection = session._connection
        if connection not in self._subscribers:
            self._subscribers[connection] = subscriber = Subscriber(session)
            scope = anyio.CancelScope()
            self._group.start_soon(_until_gone, subscriber, scope)

            def leave() -> None:
                self._subscribers.pop(connection, None)
                scope.cancel()

            connection.exit_stack.callback(leave)
        return self._subscribers[connection]

    async def listen(
        self, ctx: Any, asked: types.SubscriptionFilter
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of what was asked for until the client ends it; what never comes from here
        is not promised.
        """
        uris: dict[str, None] = {}
        for uri in asked.resource_subscriptions or ():
            with suppress(UsageError):
                uris[format_address(*self.address(uri))] = None
        honored = types.SubscriptionFilter(
            resources_list_changed=asked.resources_list_changed,
            resource_subscriptions=list(uris)[:MOST_SUBSCRIBED],
        )
        # a handler of its own: so many streams of one client are no limit to another
        return await ListenHandler(self._bus)(
            ctx, types.SubscriptionsListenRequestParams(notifications=honored)
        )

    async def take(self, news: Mapping[str, Changes]) -> None:
        """Take what is new in the indexes, for every client."""
        changed = [
            (name, path)
            for name, changes in news.items()
            for path in (*changes.added, *changes.changed, *changes.removed)
        ]
        listed = any(changes.added or changes.removed for changes in news.values())
        for subscriber in self._subscribers.values():
            subscriber.take(changed, listed)
        if listed:
            await self._bus.publish(ResourcesListChanged())
        for address in changed:
            await self._bus.publish(ResourceUpdated(format_address(*address)))

    def address(self, uri: str) -> Address:
        """Return folder and path of an address. Raises UsageError for what is none of this
        server's.
        """
        folder, path = parse_uri(uri)
        if folder not in (folders := self._folders()):
            raise UnknownFolderError(
                f"{uri}: no folder {folder!r} here: there is {', '.join(folders)}."
            )
        return folder, path


async def _until_gone(subscriber: Subscriber, scope: anyio.CancelScope) -> None:
    # the connection of a client that is about to be gone may be closed already
    with scope, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await subscriber.tell()


@asynccontextmanager
async def follow_for_clients(
    listen: Callable[[Listener], Callable[[], object]],
    folders: Callable[[], Collection[str]],
) -> AsyncIterator[Subscribers]:
    """Tell each client what changes, for as long as it stays."""
    async with BlockingPortal() as portal, anyio.create_task_group() as group:
        subscribers = Subscribers(folders, group)

        def hand_over(news: Mapping[str, Changes]) -> None:
            """Hand news over from the follower's thread to the event loop."""
            with suppress(RuntimeError):  # the client has just left
                portal.start_task_soon(subscribers.take, news)

        leave = listen(hand_over)
        try:
            yield subscribers
        finally:
            leave()
            group.cancel_scope.cancel()
