"""Subscriptions: tell each client what changed by its protocol era's own mechanism."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
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

from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.model import Changes
from thumbindex.serve.background import Listener
from thumbindex.serve.replies import parse_uri

Address = tuple[str, str]
"""Folder and path."""

MOST_SUBSCRIBED = 1_000
"""Documents of which one client, or one of its streams, is told: each is looked at with each
change, and nobody reads as many one by one.
"""


class Subscriber:
    """One client. All of it happens on the event loop; what is told late is told once, however
    often it has changed meanwhile.
    """

    def __init__(self, folders: Callable[[], Collection[str]]) -> None:
        self._folders = folders
        self._session: ServerSession | None = None  # of a client of the years before 2026-07-28
        # by address as the client wrote it: it is told in its own words
        self._subscribed: dict[str, Address] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        # the same, of the streams that a later client opened
        self._listened: Counter[str] = Counter()
        self._updated: dict[str, None] = {}
        self._listed = False
        self._wake = anyio.Event()

    def welcome(self, session: ServerSession) -> None:
        """Take a client that is told outside of any request's answer."""
        self._session = session

    def subscribe(self, uri: str, session: ServerSession) -> None:
        """Tell the client from now on when the document at an address changes; it need not be there
        yet.

        Raises UsageError.
        """
        address = self._checked(uri)
        if uri not in self._subscribed and len(self._subscribed) >= MOST_SUBSCRIBED:
            raise UsageError(
                f"A client subscribes to {MOST_SUBSCRIBED:,} documents at most: unsubscribe "
                "from one, or listen to the list of all."
            )
        self._subscribed[uri] = address
        self._session = session

    def unsubscribe(self, uri: str) -> None:
        """Tell it no longer; an address that is written otherwise is the same one."""
        address = self._checked(uri)
        self._subscribed = {
            each: other for each, other in self._subscribed.items() if other != address
        }

    async def listen(
        self, ctx: Any, asked: types.SubscriptionFilter
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of what was asked for until the client ends it; what never comes from here
        is not promised.
        """
        ours = [uri for uri in asked.resource_subscriptions or () if self._is_ours(uri)]
        uris = ours[:MOST_SUBSCRIBED]
        honored = types.SubscriptionFilter(
            resources_list_changed=asked.resources_list_changed, resource_subscriptions=uris
        )
        self._listened.update(uris)
        try:
            return await self._streams(
                ctx, types.SubscriptionsListenRequestParams(notifications=honored)
            )
        finally:
            self._listened.subtract(uris)
            self._listened += Counter()  # drops those that nobody listens to any longer

    def take(self, news: Mapping[str, Changes]) -> None:
        """Take what is new in the indexes, to be told at the next opportunity."""
        watched = {**self._subscribed, **{uri: parse_uri(uri) for uri in self._listened}}
        new = set[tuple[str, str]]()
        for name, changes in news.items() if watched else ():
            paths = (*changes.added, *changes.changed, *changes.removed)
            new.update((name, path) for path in paths)
        self._updated |= dict.fromkeys(uri for uri, address in watched.items() if address in new)
        self._listed = self._listed or any(
            changes.added or changes.removed for changes in news.values()
        )
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
                await self._bus.publish(ResourcesListChanged())
                if self._session is not None:
                    await self._session.send_resource_list_changed()
            for uri in updated:
                if uri in self._listened:
                    await self._bus.publish(ResourceUpdated(uri))
                if uri in self._subscribed and self._session is not None:
                    await self._session.send_resource_updated(uri)

    def _is_ours(self, uri: str) -> bool:
        with suppress(UsageError):
            return bool(self._checked(uri))
        return False

    def _checked(self, uri: str) -> Address:
        folder, path = parse_uri(uri)
        if folder not in (folders := self._folders()):
            raise UnknownFolderError(
                f"{uri}: no folder {folder!r} here: there is {', '.join(folders)}."
            )
        return folder, path


class Subscribers:
    """A server's clients, one a connection, known from when one first wants to be told of
    something.

    None waits for another one.
    """

    def __init__(self, folders: Callable[[], Collection[str]], group: TaskGroup) -> None:
        self._folders, self._group = folders, group
        self._subscribers: dict[Connection, Subscriber] = {}

    def __len__(self) -> int:
        """Return how many clients are told."""
        return len(self._subscribers)

    def of(self, session: ServerSession) -> Subscriber:
        """Return a session's client."""
        # the package shows it to nobody, and nothing else lasts as long as the client
        connection = session._connection
        if connection not in self._subscribers:
            self._subscribers[connection] = subscriber = Subscriber(self._folders)
            scope = anyio.CancelScope()
            self._group.start_soon(_until_gone, subscriber, scope)

            def leave() -> None:
                self._subscribers.pop(connection, None)
                scope.cancel()

            connection.exit_stack.callback(leave)
        return self._subscribers[connection]

    def take(self, news: Mapping[str, Changes]) -> None:
        """Take what is new in the indexes, for every client."""
        for subscriber in self._subscribers.values():
            subscriber.take(news)


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
