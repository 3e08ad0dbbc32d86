"""Documents as MCP resources: URIs, listing, completion and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

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
from thumbindex.model import Changes, OutlineEntry
from thumbindex.text import SCHEME, format_address, parse_address

if TYPE_CHECKING:
    from thumbindex.library import Library

RESOURCE_TEMPLATE = SCHEME + "{folder}/{+path}"

MARKDOWN_TYPE = "text/markdown"

_MAX_URI_CHARS = 16_384
"""Maximum characters of a URI: enough for a percent-encoded path of 4,096 bytes."""

_RESOURCES_PER_PAGE = 200
"""Resources per page of `resources/list`. A full page has about 40 KB."""


def parse_uri(uri: str) -> tuple[str, str]:
    """Parse the URI of a resource or passage into folder and path. Raises UsageError."""
    if len(uri) > _MAX_URI_CHARS:
        raise UsageError(
            f"The address has {len(uri):,} characters; the maximum is {_MAX_URI_CHARS:,}."
        )
    address = parse_address(uri)
    if address is None:
        raise UsageError(
            f"{uri} is not a resource of this server: addresses look like {RESOURCE_TEMPLATE}."
        )
    return address.folder, address.path


def list_resources(
    library: Library, cursor: str | None
) -> tuple[tuple[OutlineEntry, ...], str | None]:
    """Return a page of documents and the next cursor, which is None on the last page."""
    after = parse_uri(cursor) if cursor else ("", "")
    # the cursor is the URI of the last document: positions change if documents are added or deleted
    page = library.browse(
        lambda entries: (entry for entry in entries if (entry.folder, entry.path) > after),
        _RESOURCES_PER_PAGE + 1,
    )
    more = len(page) > _RESOURCES_PER_PAGE
    return page[:_RESOURCES_PER_PAGE], format_address(
        page[_RESOURCES_PER_PAGE - 1].folder, page[_RESOURCES_PER_PAGE - 1].path
    ) if more else None


# ------------------------------------------------------------------ subscriptions

_DocumentKey = tuple[str, str]
"""Folder and path."""

MAX_SUBSCRIBED = 1_000
"""Maximum documents that a client or stream can subscribe to.

The server compares each change with all of them.
"""


class Subscriber:
    """A client that uses a protocol version before 2026-07-28.

    While the client is slow, repeated changes of a document are merged. Use this class only on the
    event loop.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._subscribed: dict[_DocumentKey, str] = {}  # URIs as the client wrote them
        self._updated: dict[str, None] = {}
        self._listed = False
        self._wake = anyio.Event()

    def subscribe(self, address: _DocumentKey, uri: str) -> None:
        """Notify the client of a document's changes from now on.

        Raises UsageError if the client already subscribes to `MAX_SUBSCRIBED` documents.
        """
        if address not in self._subscribed and len(self._subscribed) >= MAX_SUBSCRIBED:
            raise UsageError(
                f"You can subscribe to at most {MAX_SUBSCRIBED:,} documents: unsubscribe from "
                "one, or subscribe to the list of documents instead."
            )
        self._subscribed[address] = uri

    def unsubscribe(self, address: _DocumentKey) -> None:
        """Stop notifying the client about a document."""
        self._subscribed.pop(address, None)

    def add_changes(self, changed: Iterable[_DocumentKey], listed: bool) -> None:
        """Queue notifications about the `changed` documents that the client subscribes to.

        If `listed`, also queue a notification that the list of documents changed.
        """
        uris = (self._subscribed[address] for address in changed if address in self._subscribed)
        self._updated |= dict.fromkeys(uris)
        self._listed = self._listed or listed
        if self._updated or self._listed:
            self._wake.set()

    async def send_notifications(self) -> None:
        """Send queued notifications until cancelled."""
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
    """The clients to notify of changes. A slow client does not delay other clients."""

    def __init__(self, folders: Callable[[], Collection[str]], group: TaskGroup) -> None:
        self._folders, self._group = folders, group
        # clients with a protocol version before 2026-07-28
        self._subscribers: dict[Connection, Subscriber] = {}
        # streams of clients with a later version
        self._bus = InMemorySubscriptionBus()

    def for_session(self, session: ServerSession) -> Subscriber:
        """Return the session's subscriber, created on first use."""
        # private in the SDK, but no other object lives as long as the client
        connection = session._connection
        if connection not in self._subscribers:
            self._subscribers[connection] = subscriber = Subscriber(session)
            scope = anyio.CancelScope()
            self._group.start_soon(_notify_until_closed, subscriber, scope)

            def leave() -> None:
                self._subscribers.pop(connection, None)
                scope.cancel()

            connection.exit_stack.callback(leave)
        return self._subscribers[connection]

    async def listen(
        self, ctx: Any, requested: types.SubscriptionFilter
    ) -> types.SubscriptionsListenResult:
        """Stream the requested changes until the client ends the stream."""
        uris: dict[str, None] = {}
        for uri in requested.resource_subscriptions or ():
            with suppress(UsageError):
                uris[format_address(*self.document_key(uri))] = None
        honored = types.SubscriptionFilter(
            resources_list_changed=requested.resources_list_changed,
            resource_subscriptions=list(uris)[:MAX_SUBSCRIBED],
        )
        # one handler per stream, so that one client's streams do not limit another's
        return await ListenHandler(self._bus)(
            ctx, types.SubscriptionsListenRequestParams(notifications=honored)
        )

    async def publish(self, changes_by_folder: Mapping[str, Changes]) -> None:
        """Queue notifications about changes in the indexes, for all clients."""
        changed = [
            (name, path)
            for name, changes in changes_by_folder.items()
            for path in (*changes.added, *changes.changed, *changes.removed)
        ]
        listed = any(changes.added or changes.removed for changes in changes_by_folder.values())
        for subscriber in self._subscribers.values():
            subscriber.add_changes(changed, listed)
        if listed:
            await self._bus.publish(ResourcesListChanged())
        for address in changed:
            await self._bus.publish(ResourceUpdated(format_address(*address)))

    def document_key(self, uri: str) -> _DocumentKey:
        """Return the folder and path of a URI. Raises UsageError if the folder is unknown."""
        folder, path = parse_uri(uri)
        if folder not in (folders := self._folders()):
            raise UnknownFolderError(
                f"{uri}: unknown folder {folder!r}. The folders are {', '.join(folders)}."
            )
        return folder, path


async def _notify_until_closed(subscriber: Subscriber, scope: anyio.CancelScope) -> None:
    # the client may have closed its connection
    with scope, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await subscriber.send_notifications()


@asynccontextmanager
async def subscriptions_lifespan(
    listen: Callable[[Listener], Callable[[], object]],
    folders: Callable[[], Collection[str]],
) -> AsyncIterator[Subscribers]:
    """Yield the clients to notify, and notify them of changes while the context is open."""
    async with BlockingPortal() as portal, anyio.create_task_group() as group:
        subscribers = Subscribers(folders, group)

        def publish_from_thread(changes_by_folder: Mapping[str, Changes]) -> None:
            """Pass changes from the follower's thread to the event loop."""
            with suppress(RuntimeError):  # raised if the portal has just closed
                portal.start_task_soon(subscribers.publish, changes_by_folder)

        leave = listen(publish_from_thread)
        try:
            yield subscribers
        finally:
            leave()
            group.cancel_scope.cancel()
