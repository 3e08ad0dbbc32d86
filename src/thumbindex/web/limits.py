"""Limits of the HTTP server: failed tokens, and the number, size and time of requests."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import TokenVerifier
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.settings import HttpSettings
from thumbindex.web.access import error_response
from thumbindex.web.metrics import Metrics

_LOG = logging.getLogger(__name__)


# ------------------------------------------------------------------ failed tokens

MAX_FAILURES, _FAILURE_SECONDS = 60, 60.0

SIGN_IN_PATH = "/sign-in"
"""Path of the page's sign-in form."""


class AuthFailureLimit:
    """Answers 429 instead of 401 to an address that sends too many invalid tokens in a minute.

    Valid tokens from that address are still accepted.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock
        self._failures: Counter[str] = Counter()
        self._counted_since = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Do not count requests without a token: OAuth clients send one to discover the issuer.
        has_token = "authorization" in Headers(scope=scope) or scope["path"].startswith(
            SIGN_IN_PATH
        )
        is_refused = False

        async def limit(message: Message) -> None:
            nonlocal is_refused
            is_failure = message["type"] == "http.response.start" and message["status"] == 401
            if has_token and is_failure and self._count(_network_of(scope)) > MAX_FAILURES:
                is_refused = True
                message_text = "Too many invalid tokens from this address: try again in a minute."
                retry = {"Retry-After": f"{_FAILURE_SECONDS:.0f}"}
                await error_response(429, message_text, retry)(scope, receive, send)
            if not is_refused:
                await send(message)

        await self._app(scope, receive, limit)

    def _count(self, address: str) -> int:
        if self._clock() > self._counted_since + _FAILURE_SECONDS:
            self._failures.clear()
            self._counted_since = self._clock()
        self._failures[address] += 1
        return self._failures[address]


def _network_of(scope: Scope) -> str:
    """Return a client's IPv4 address or IPv6 network."""
    address = str((scope.get("client") or ("",))[0])
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        # a client can use any address in its /64 network
        return str(parsed.ipv4_mapped or ip_network(f"{parsed}/64", strict=False))
    return address


# ------------------------------------------------------------------ requests and streams

CHECK_SECONDS = 15.0
"""Seconds after which the token of an open stream or session is verified again."""

_GRACE_SECONDS = 2.0
"""Seconds that an HTTP request may last beyond the time limit."""

_RETRY_AFTER = {"Retry-After": "1"}

_TokenCheck = Callable[[Scope], Awaitable[bool]]
"""Function that returns whether a stream's token is still valid."""


def token_check(verifier: TokenVerifier | None) -> _TokenCheck | None:
    """Return a function that checks a request's token, or None if no token is required."""
    if verifier is None:
        return None

    async def check(scope: Scope) -> bool:
        header = Headers(scope=scope).get("authorization", "")
        token = await verifier.verify_token(header.partition(" ")[2])
        return token is not None and (token.expires_at is None or token.expires_at >= time.time())

    return check


def _is_protocol_stream(scope: Scope) -> bool:
    """Return whether MCP answers the request with a stream."""
    # the SDK refuses a request whose body does not match this header
    return (
        scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == "subscriptions/listen"
    )


class RequestLimits:
    """Limits the size and duration of requests, and the number of a client's open requests.

    Streams of changes have no time limit. They end when the server stops or their token becomes
    invalid.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        check_sender: _TokenCheck | None = None,
        check_seconds: float = CHECK_SECONDS,
        is_stream: Callable[[Scope], bool] = _is_protocol_stream,
    ) -> None:
        self._app = RequestBodyLimitMiddleware(app, settings.max_body_bytes)
        self._concurrent, self._seconds = settings.concurrent, settings.request_seconds
        self._check_sender, self._check_seconds = check_sender, check_seconds
        self._is_stream = is_stream
        self._open: Counter[tuple[str, bool]] = Counter()  # by client and is_stream
        self._streams: set[anyio.CancelScope] = set()
        self._is_draining = False

    @property
    def streams(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    def drain(self) -> None:
        """End all streams and refuse new ones. Running requests continue."""
        self._is_draining = True
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        user, is_stream = scope.get("user"), self._is_stream(scope)
        if isinstance(user, AuthenticatedUser):
            client = str(authorization_context(user))
        else:
            client = _network_of(scope)
        key = (client, is_stream)
        if self._open[key] >= self._concurrent:
            message = f"You already have {self._concurrent} open requests: wait for one to finish."
            await error_response(429, message, _RETRY_AFTER)(scope, receive, send)
            return
        if is_stream and self._is_draining:
            message = "The server is shutting down: try again."
            await error_response(503, message, _RETRY_AFTER)(scope, receive, send)
            return
        self._open[key] += 1
        try:
            await (self._stream if is_stream else self._request)(scope, receive, send)
        finally:
            self._open[key] -= 1
            self._open += Counter()  # remove the counts that are zero

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        # the MCP request must end first, with a more specific error
        deadline = anyio.current_time() + self._seconds + _GRACE_SECONDS
        timeout = error_response(
            504, f"No answer within {self._seconds:g} seconds: request less, or try again later."
        )
        await self._answer(scope, receive, send, anyio.CancelScope(deadline=deadline), timeout)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = anyio.CancelScope()
        self._streams.add(stream)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._end_with_token, scope, stream)
                ended = error_response(503, "The stream has ended: try again.", _RETRY_AFTER)
                await self._answer(scope, receive, send, stream, ended)
                group.cancel_scope.cancel()
        finally:
            self._streams.discard(stream)

    async def _end_with_token(self, scope: Scope, stream: anyio.CancelScope) -> None:
        """End a stream when its token is no longer valid."""
        while self._check_sender is not None:
            await anyio.sleep(self._check_seconds)
            if not await self._check_sender(scope):
                stream.cancel()

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        cancel_scope: anyio.CancelScope,
        fallback: Response,
    ) -> None:
        """Answer until `cancel_scope` is cancelled, then end the response or send `fallback`."""
        has_started = has_ended = False

        async def send_and_track(message: Message) -> None:
            nonlocal has_started, has_ended
            has_started = True
            has_ended = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        with cancel_scope:
            await self._app(scope, receive, send_and_track)
        with anyio.move_on_after(_GRACE_SECONDS):  # the client may not be reading
            if not has_started:
                await fallback(scope, receive, send)
            elif not has_ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


class ProtocolTimeLimit:
    """SDK middleware that ends requests at the time limit and counts tool calls."""

    def __init__(self, metrics: Metrics, seconds: float) -> None:
        self._metrics, self._seconds = metrics, seconds

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a request within the time limit. Streams have no limit."""
        if ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        started, outcome = time.perf_counter(), "cancelled"
        try:
            with anyio.move_on_after(self._seconds):
                result = await call_next(ctx)
                is_error = (
                    result.get("isError")
                    if isinstance(result, Mapping)
                    else getattr(result, "is_error", False)
                )
                outcome = "error" if is_error else "ok"
                return result
            outcome = "timeout"
        except MCPError:
            outcome = "refused"
            raise
        finally:
            if ctx.method == "tools/call":
                self._metrics.count_call(
                    str((ctx.params or {}).get("name")), outcome, time.perf_counter() - started
                )
        raise MCPError(
            types.INTERNAL_ERROR,
            f"No answer within {self._seconds:g} seconds: request less, or try again later.",
        )
