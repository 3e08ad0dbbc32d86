"""Documents as resources: addresses, the list, completion, and subscriptions to changes."""

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
from thumbindex.text import SCHEME, format_address, one_line, parse_address

if TYPE_CHECKING:
    from thumbindex.library import Library

RESOURCE_TEMPLATE = SCHEME + "{folder}/{+path}"

MARKDOWN_TYPE = "text/markdown"

_MAX_URI_CHARS = 16_384
"""Maximum characters of an address: a path of 4,096 bytes, percent-encoded."""

_RESOURCES_PER_PAGE = 200
"""Resources in one page of the list: about 40 KB."""

_MAX_COMPLETIONS = 100
"""Maximum completions that the protocol allows in one answer."""


def parse_uri(uri: str) -> tuple[str, str]:
    """Return the folder and path of a resource or passage. Raises UsageError."""
    if len(uri) > _MAX_URI_CHARS:
        raise UsageError(
            f"An address of {len(uri):,} characters is not a resource of this server: the "
            f"longest has {_MAX_URI_CHARS:,}."
        )
    address = parse_address(uri)
    if address is None:
        raise UsageError(
            f"{uri} is not a resource of this server: their addresses read {RESOURCE_TEMPLATE}."
        )
    return address.folder, address.path


def resource_link(folder: str, path: str) -> dict[str, Any]:
    """Return a link to a document, as the protocol writes it."""
    return {
        "type": "resource_link",
        "uri": format_address(folder, path),
        "name": one_line(path),
        "mimeType": MARKDOWN_TYPE,
    }


def list_resources(
    library: Library, cursor: str | None
) -> tuple[tuple[OutlineEntry, ...], str | None]:
    """Return one page of documents, and the cursor of the next: its last document's address."""
    after = ("", "") if cursor is None else parse_uri(cursor)
    # By comparing, not by position: documents come and go between two pages.
    page = library.browse(
        lambda every: (each for each in every if (each.folder, each.path) > after),
        _RESOURCES_PER_PAGE + 1,
    )
    more = len(page) > _RESOURCES_PER_PAGE
    return page[:_RESOURCES_PER_PAGE], format_address(
        page[_RESOURCES_PER_PAGE - 1].folder, page[_RESOURCES_PER_PAGE - 1].path
    ) if more else None


def complete_argument(
    library: Library, argument: str, value: str, folder: str | None = None
) -> tuple[list[str], bool]:
    """Return completions of the template's `folder` or `path`, and whether there are more."""
    folders = [name for name, _ in library.folders]
    values: Iterable[str] = ()
    if argument == "folder":
        values = sorted(each for each in folders if value.casefold() in each.casefold())
    if argument == "path":
        most = len(folders) * (_MAX_COMPLETIONS + 1)
        found = library.suggest_notes(value, most, folder=folder if folder in folders else None)
        values = (each.path for each in found)
    first = list(dict.fromkeys(values))  # a path of two folders comes once
    return first[:_MAX_COMPLETIONS], len(first) > _MAX_COMPLETIONS


# ------------------------------------------------------------------ subscriptions

_DocumentKey = tuple[str, str]
"""Folder and path."""

MAX_SUBSCRIBED = 1_000
"""Maximum subscribed documents of one client or stream; all are checked with each change."""


class Subscriber:
    """A client of a protocol before 2026-07-28, used on the event loop only. Changes that it has
    not been sent yet are merged.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._subscribed: dict[_DocumentKey, str] = {}  # as the client wrote it
        self._updated: dict[str, None] = {}
        self._listed = False
        self._wake = anyio.Event()

    def subscribe(self, address: _DocumentKey, uri: str) -> None:
        """Notify the client when a document changes or appears. Raises UsageError."""
        if address not in self._subscribed and len(self._subscribed) >= MAX_SUBSCRIBED:
            raise UsageError(
                f"A client subscribes to {MAX_SUBSCRIBED:,} documents at most: unsubscribe "
                "from one, or listen to the list of all."
            )
        self._subscribed[address] = uri

    def unsubscribe(self, address: _DocumentKey) -> None:
        """End a subscription."""
        self._subscribed.pop(address, None)

    def add_changes(self, changed: Iterable[_DocumentKey], listed: bool) -> None:
        """Queue changes for the client."""
        uris = (self._subscribed[each] for each in changed if each in self._subscribed)
        self._updated |= dict.fromkeys(uris)
        self._listed = self._listed or listed
        if self._updated or self._listed:
            self._wake.set()

    async def send_notifications(self) -> None:
        """Send queued changes, without end."""
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
    """The clients of a server: connections of earlier protocols, and streams of later ones. A slow
    client delays no other one.
    """

    def __init__(self, folders: Callable[[], Collection[str]], group: TaskGroup) -> None:
        self._folders, self._group = folders, group
        self._subscribers: dict[Connection, Subscriber] = {}
        self._bus = InMemorySubscriptionBus()

    def for_session(self, session: ServerSession) -> Subscriber:
        """Return a session's client, subscribed to the list of documents."""
        # the package shows it to nobody, and nothing else lasts as long as the client
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
        self, ctx: Any, asked: types.SubscriptionFilter
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of the requested changes until the client ends it."""
        uris: dict[str, None] = {}
        for uri in asked.resource_subscriptions or ():
            with suppress(UsageError):
                uris[format_address(*self.document_key(uri))] = None
        honored = types.SubscriptionFilter(
            resources_list_changed=asked.resources_list_changed,
            resource_subscriptions=list(uris)[:MAX_SUBSCRIBED],
        )
        # a handler of its own: so many streams of one client are no limit to another
        return await ListenHandler(self._bus)(
            ctx, types.SubscriptionsListenRequestParams(notifications=honored)
        )

    async def publish(self, changes_by_folder: Mapping[str, Changes]) -> None:
        """Queue the indexes' changes for every client."""
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
        """Return the folder and path of an address. Raises UsageError for other servers'
        addresses.
        """
        folder, path = parse_uri(uri)
        if folder not in (folders := self._folders()):
            raise UnknownFolderError(
                f"{uri}: no folder {folder!r} here: there is {', '.join(folders)}."
            )
        return folder, path


async def _notify_until_closed(subscriber: Subscriber, scope: anyio.CancelScope) -> None:
    # the connection of a client that is about to be gone may be closed already
    with scope, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await subscriber.send_notifications()


@asynccontextmanager
async def subscriptions_lifespan(
    listen: Callable[[Listener], Callable[[], object]],
    folders: Callable[[], Collection[str]],
) -> AsyncIterator[Subscribers]:
    """Notify clients of changes until this is left."""
    async with BlockingPortal() as portal, anyio.create_task_group() as group:
        subscribers = Subscribers(folders, group)

        def publish_from_thread(changes_by_folder: Mapping[str, Changes]) -> None:
            """Publish changes from the follower's thread on the event loop."""
            with suppress(RuntimeError):  # the client has just left
                portal.start_task_soon(subscribers.publish, changes_by_folder)

        leave = listen(publish_from_thread)
        try:
            yield subscribers
        finally:
            leave()
            group.cancel_scope.cancel()
