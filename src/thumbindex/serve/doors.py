"""An entrance to the protocol for each set of folders that somebody sees: whoever stands in one knows of no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import current_default_thread_limiter
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from thumbindex.serve.answers import refusal
from thumbindex.serve.gate import names_of
from thumbindex.serve.rights import Rights

Entrance = Callable[[frozenset[str]], StreamableHTTPSessionManager]
"""Makes the protocol's entrance to some folders."""

THREADS = 256
"""Requests that wait for something at once, of all clients: a thread that waits costs little, and who waits for nothing must not wait for one."""


class Doors:
    """Leads each request to the entrance of the folders that its sender sees; entrances are made when somebody first comes."""

    def __init__(self, rights: Rights, make: Entrance) -> None:
        self._rights, self._make = rights, make
        self._made: dict[frozenset[str], StreamableHTTPSessionManager] = {}
        self._group: TaskGroup | None = None
        self._making = anyio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let people in until this is left."""
        current_default_thread_limiter().total_tokens = THREADS
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        seen = self._rights.seen_by(names_of(scope))
        if not seen:
            await refusal(403, "This token sees no folder: whoever runs this server names it in `tokens` of a folder.")(scope, receive, send)
            return
        await (await self._entrance(seen)).handle_request(scope, receive, send)

    async def _entrance(self, seen: frozenset[str]) -> StreamableHTTPSessionManager:
        async with self._making:
            if seen not in self._made:
                assert self._group is not None, "open() comes first"
                entrance = self._make(seen)
                await self._group.start(_keep_open, entrance)
                self._made[seen] = entrance
        return self._made[seen]


class Door(StreamableHTTPSessionManager):
    """The protocol's entrance, at which one client has only so many sessions: those that nobody ends stay for half an hour."""

    def __init__(self, *args: Any, sessions_each: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._each = sessions_each

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. One that resumes a stream gets a new one: no event is kept, and to that header the package alone answers nothing."""
        headers = [each for each in scope["headers"] if each[0] != b"last-event-id"]
        await super().handle_request({**scope, "headers": headers}, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        # Where the package itself counts all sessions: it tells nobody when one has ended.
        has = sum(owner == requestor for owner in self._session_owners.values())
        return None if requestor is not None and has >= self._each else super()._admit_session(requestor)


async def _keep_open(entrance: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    async with entrance.run():
        task_status.started()
        await anyio.sleep_forever()
