"""Limits of the HTTP server: from where, how often, how much and for how long one may ask; refusals
and counts.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import anyio
import mcp_types as types
import prometheus_client as prometheus
import pydantic_core
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import TokenVerifier
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.model import STATEMENT_BUCKETS, DatabaseStatus, IndexState
from thumbindex.process import CLIENT
from thumbindex.serve.http.access import is_loopback
from thumbindex.serve.tools import TOOLS
from thumbindex.settings import HttpSettings

_LOG = logging.getLogger(__name__)

# ------------------------------------------------------------------ counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: a warm query takes some hundredths, `wait_fresh` up to 60."""

_STATM = Path("/proc/self/statm")
"""Where Linux states how much memory a process holds."""

_TOOL_NAMES = frozenset(tool["name"] for tool in TOOLS)


class Metrics:
    """Counts since the start of a server, in a registry of their own."""

    def __init__(self) -> None:
        # else each count has a second line, which says when it began
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = prometheus.CollectorRegistry()
        prometheus.Gauge(
            "thumbindex_info", "The version that runs.", ["version"], registry=registry
        ).labels(version("thumbindex")).set(1)
        about = "Seconds of tool calls by tool and outcome."
        self._calls = prometheus.Histogram(
            "thumbindex_tool_seconds",
            about,
            ["tool", "outcome"],
            registry=registry,
            buckets=BUCKETS,
        )
        self._responses = prometheus.Counter(
            "thumbindex_http_responses", "Answers by HTTP status.", ["status"], registry=registry
        )
        self._streams = prometheus.Gauge(
            "thumbindex_streams", "Streams of changes that are open.", registry=registry
        )
        parts = {
            "documents": "Documents of an index.",
            "chunks": "Chunks of an index.",
            "vectors": "Chunks that have a vector.",
        }
        self._indexes = {
            part: prometheus.Gauge(f"thumbindex_index_{part}", about, ["folder"], registry=registry)
            for part, about in parts.items()
        }
        registry.register(engine := EngineMetrics())
        self._engine = engine
        about = "When the server started, in seconds since 1970."
        prometheus.Gauge(
            "process_start_time_seconds", about, registry=registry
        ).set_to_current_time()
        if _STATM.exists():
            about = "Memory of the server, its child not counted."
            prometheus.Gauge(
                "process_resident_memory_bytes", about, registry=registry
            ).set_function(_memory)

    def count_call(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a call of a tool."""
        # A name that somebody made up is no label: there would be as many as anybody likes.
        self._calls.labels(tool if tool in _TOOL_NAMES else "unknown", outcome).observe(seconds)

    def count_response(self, status: int) -> None:
        """Count an answer of HTTP."""
        self._responses.labels(status).inc()

    def text(
        self,
        folders: Mapping[str, IndexState],
        streams: int,
        database: DatabaseStatus | None = None,
    ) -> bytes:
        """Return all of it in Prometheus' text format, version 0.0.4."""
        self._streams.set(streams)
        self._engine.status = database
        for part, gauge in self._indexes.items():
            gauge.clear()
            for name, state in sorted(folders.items()):
                gauge.labels(name).set(getattr(state, part))
        return prometheus.generate_latest(self._registry)


class EngineMetrics(Collector):
    """What is told of a database, where folders lie in one."""

    status: DatabaseStatus | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield each family."""
        told = self.status
        if told is None:
            return
        name = "thumbindex_engine"
        yield GaugeMetricFamily(
            f"{name}_up", "Whether a server of the database answers.", bool(told.server)
        )
        if told.lag_seconds is not None:
            yield GaugeMetricFamily(
                f"{name}_standby", "Whether the one that answers is a standby.", told.standby
            )
            yield GaugeMetricFamily(
                f"{name}_lag_seconds",
                "How far it is behind the primary server, at most.",
                told.lag_seconds,
            )
        pool = GaugeMetricFamily(
            f"{name}_pool_connections", "Connections to the database by state.", labels=["state"]
        )
        for state, count in (("used", told.used), ("idle", told.idle)):
            pool.add_metric([state], count)
        yield pool
        yield GaugeMetricFamily(
            f"{name}_pool_waiting", "Questions that wait for a connection.", told.waiting
        )
        yield CounterMetricFamily(
            f"{name}_statements", "Statements that the database was asked.", told.statements
        )
        yield CounterMetricFamily(
            f"{name}_slow_statements",
            "Those that took half a second or longer.",
            told.slow_statements,
        )
        bounds, counts = [*map(str, STATEMENT_BUCKETS), "+Inf"], list(accumulate(told.buckets))
        yield HistogramMetricFamily(
            f"{name}_statement_seconds",
            "Seconds of statements.",
            list(zip(bounds, counts, strict=True)),
            told.seconds,
        )


def _memory() -> float:
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Calls:
    """What the protocol's package calls around each request: it has its time, and a call of a tool
    is counted.
    """

    def __init__(self, metrics: Metrics, seconds: float) -> None:
        self._metrics, self._seconds = metrics, seconds

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a request within its time, a stream of changes without one."""
        if ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        began, outcome = time.perf_counter(), "cancelled"
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
                    str((ctx.params or {}).get("name")), outcome, time.perf_counter() - began
                )
        raise MCPError(
            types.INTERNAL_ERROR,
            f"No answer within {self._seconds:g} s: ask for less, or again in a while.",
        )


# ------------------------------------------------------------------ refusals


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error that the protocol's clients read as their own, and everybody else as JSON."""
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": types.INVALID_REQUEST, "message": message},
    }
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def _too_many(wait: float) -> Response:
    return refusal(
        429,
        f"Too many requests: the next one is taken in {wait:.1f} s (`serve.http.rate`).",
        {"Retry-After": str(max(1, ceil(wait)))},
    )


_AFTER = {"Retry-After": "1"}

_KEPT = {"allow", "retry-after", "www-authenticate", "vary", "access-control-allow-origin"}


_WHOLE = ("application/json", "text/event-stream", "text/html")
"""Errors that say all of it: those of the page are pages."""


class Observed:
    """The outermost layer: counts answers by status, and puts errors that are plain text into
    JSON.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        plain: Message | None = None  # the beginning of an error that is plain text
        body = b""

        async def observe(message: Message) -> None:
            nonlocal plain, body
            if message["type"] == "http.response.start":
                self._metrics.count_response(message["status"])
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if message["status"] >= 400 and not kind.startswith(_WHOLE):
                    plain = message
                    return
            if plain is None:
                await send(message)
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                kept = {
                    name: value
                    for name, value in Headers(raw=plain["headers"]).items()
                    if name in _KEPT
                }
                said = (
                    body.decode("utf-8", errors="replace").strip()
                    or HTTPStatus(plain["status"]).phrase
                )
                await refusal(plain["status"], said, kept)(scope, receive, send)

        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy that goes by the length would take a request for another one's body.
            two = "A request has a Content-Length or a Transfer-Encoding, not both."
            await refusal(400, two, {"Connection": "close"})(scope, receive, observe)
            return
        await self._app(scope, receive, observe)


# ------------------------------------------------------------------ from where

_LOOPBACKS = ("localhost", "127.0.0.1", "[::1]")

_LOCAL_ORIGINS = frozenset(f"http://{name}" for name in _LOOPBACKS)
"""Pages of this machine, at whatever port: they may ask a server that nobody else reaches."""

_LAST_PORT = 65_535

_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

_OPEN = ("/health", "/ready")
"""Paths that tell nobody anything, for those who watch over servers and call them by their
address.
"""


class Senders:
    """Refuses what a web page, or a proxy that nobody meant to open, has sent: Host and Origin are
    compared with what is known.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, *, asks: bool) -> None:
        self._app, self._asks, self._has_page = app, asks, settings.page
        self._hosts, self._origins = known_hosts(settings), known_origins(settings)
        self._is_local = is_loopback(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        is_asked = scope["type"] == "http" and scope["path"] not in _OPEN
        await ((self._refused(scope) if is_asked else None) or self._app)(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # nginx, unless told otherwise, asks in HTTP/1.0 and names neither itself nor the client.
        is_proxied = scope["http_version"] == "1.0" or any(name in headers for name in _OF_PROXIES)
        if not self._asks and is_proxied:
            return refusal(
                403,
                "This request came through a proxy, and no token is asked for: whoever runs "
                "this server gives it a --token-file.",
            )
        hosts, origins = (
            headers.getlist("host"),
            [each.lower() for each in headers.getlist("origin")],
        )
        if len(hosts) != 1 or _without_port(hosts[0].lower()) not in self._hosts:
            _LOG.warning(
                "A request was refused that calls this server by another name: "
                "`serve.http.hosts` says its names."
            )
            return refusal(
                421,
                "This is no name of this server: whoever runs it adds the name to "
                "`serve.http.hosts`.",
            )
        # A page of ours sends its forms from the very host that it calls, which is known by now.
        own = (
            {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
            if self._has_page
            else set()
        )
        known = [
            each
            for each in origins
            if each in self._origins | own
            or (self._is_local and _without_port(each) in _LOCAL_ORIGINS)
        ]
        if len(origins) > 1 or known != origins:
            _LOG.warning(
                "A request was refused that comes from a web page: `serve.http.origins` says "
                "whose pages may ask."
            )
            return refusal(
                403,
                "Pages of this origin may not ask: whoever runs this server adds the origin "
                "to `serve.http.origins`.",
            )
        return None


def known_hosts(settings: HttpSettings) -> frozenset[str]:
    """Return what the header Host may say before a port."""
    own = "" if settings.host in {"0.0.0.0", "::"} else settings.host
    names = [
        name.lower()
        for name in (*_LOOPBACKS, own, *settings.hosts, urlsplit(settings.url).hostname or "")
    ]
    hosts = set()
    for name in names:
        # IPv6 has brackets in a header.
        lacks_brackets = name.count(":") > 1 and not name.startswith("[")
        hosts.add(f"[{name}]" if lacks_brackets else _without_port(name))
    return frozenset(hosts - {""})


def known_origins(settings: HttpSettings) -> frozenset[str]:
    """Return what the header Origin may say beside the pages of this machine: the server's own
    address and the pages that are configured.
    """
    origins = [*settings.origins]
    if settings.url:
        own = urlsplit(settings.url)
        origins.append(f"{own.scheme}://{own.netloc}")
    return frozenset(origin.lower() for origin in origins)


def _without_port(name: str) -> str:
    """Return a name without the port after it; as it is where what follows is no port."""
    before, _, port = name.rpartition(":")
    is_port = (
        port.isascii()
        and port.isdigit()
        and len(port) <= len(str(_LAST_PORT))
        and 0 < int(port) <= _LAST_PORT
    )
    return before if is_port else name


# ------------------------------------------------------------------ how often

MOST_CLIENTS = 10_000
"""Clients that are remembered: who has not asked for longest is forgotten, his bucket would be full
by then.
"""


class Rates:
    """A bucket of `burst` requests for each client, filled with `rate` a second; rate 0 is without
    limit.
    """

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        # by client: what was left, and when
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a request out of a client's bucket and return 0; or take none and return the seconds
        until there is one.
        """
        if not self._rate:
            return 0.0
        now = self._clock()
        left, at = self._left.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        self._left[client] = (left - 1, now)
        self._left.move_to_end(client)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0


def _address(scope: Scope) -> str:
    return network_of(str((scope.get("client") or ("",))[0]))


def network_of(address: str) -> str:
    """Return the part of an address that its holder cannot choose: of IPv6 the first 64 bits."""
    try:
        read = ip_address(address)
    except ValueError:
        return address
    if isinstance(read, IPv4Address):
        return address
    return str(read.ipv4_mapped or IPv6Address(int(read) >> 64 << 64))


BURST_SECONDS = 1.0
"""A connection counts for its address after this time: a proxy opens many at once, each with its
request.
"""

_Connection = TypeVar("_Connection")


class WaitingConnections(Generic[_Connection]):
    """The connections that wait for their client, and which of them to close if there are too
    many.
    """

    def __init__(
        self, most: int, most_each: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._most_each, self._clock = most, most_each, clock
        self._since: dict[_Connection, tuple[str, float]] = {}  # the longest waiting first

    def __len__(self) -> int:
        return len(self._since)

    def begin(self, connection: _Connection, address: str) -> None:
        """Note that a connection waits; one that waits already goes on."""
        self._since.setdefault(connection, (address, self._clock()))

    def end(self, connection: _Connection) -> None:
        """Note that a connection waits no longer."""
        self._since.pop(connection, None)

    def surplus(self, address: str) -> list[_Connection]:
        """Return the connections to close before one more of an address is taken, the longest
        waiting of that address.

        If too many wait in all, it is one of the address that has most.
        """
        counted = self._clock() - BURST_SECONDS
        own = [
            each for each, (of, since) in self._since.items() if of == address and since < counted
        ]
        own = own[: max(0, len(own) + 1 - self._most_each)]
        if own or len(self._since) < self._most:
            return own
        ((largest, _),) = Counter(of for of, _ in self._since.values()).most_common(1)
        return [next(each for each, (of, _) in self._since.items() if of == largest)]


class Strangers:
    """Tells an address that has shown too many tokens that are none to wait.

    Whoever shows one that is taken is let in, from there, too.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._rates = Rates(settings.rate, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count one that was not authorized."""
        instead: Response | None = None

        async def count(message: Message) -> None:
            nonlocal instead
            if (
                message["type"] == "http.response.start"
                and message["status"] == 401
                and (wait := self._rates.take(_address(scope)))
            ):
                instead = _too_many(wait)
                await instead(scope, receive, send)
            if instead is None:
                await send(message)

        await self._app(scope, receive, count)


# ----------------------------------------------------------------- how many, how much, for how long

CHECK_SECONDS = 15.0
"""Between two looks whether the token of an open stream is still taken: it may be revoked, or run
out, while nothing is asked.
"""

_LATER_SECONDS = 2.0
"""After the protocol's own end of a request's time comes the end of its connection: the first says
more.
"""


class Sent:
    """What was sent of an answer, so that it can be ended properly wherever it was broken off."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = self.is_over = False

    async def __call__(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self.is_begun = self.is_begun or message["type"] == "http.response.start"
        self.is_over = self.is_over or (
            message["type"] == "http.response.body" and not message.get("more_body", False)
        )
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive, instead: Response) -> None:
        """End the answer: by another one where nothing was sent of it."""
        if not self.is_begun:
            await instead(scope, receive, self)
        elif not self.is_over:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


def is_stream_of_protocol(scope: Scope) -> bool:
    """Tell whether a request of the protocol is answered by a stream."""
    # That this header is true is what the protocol's package looks to.
    return (
        scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == "subscriptions/listen"
    )


def error_in_message(body: bytes) -> Any:
    """Return what is wrong with a message of the protocol; None where nothing is."""
    try:
        # By what the package reads it with, so that both find the same; it answers what is no JSON.
        return _invalid_request(pydantic_core.from_json(body))
    except ValueError:
        return None


_INVALID_REQUEST = -32600
"""The error code of JSON-RPC 2.0, section 5.1."""


def _invalid_request(message: Any) -> Mapping[str, Any] | None:
    """Return the error for JSON that is not a message; None for a message.

    The SDK takes a request with a wrong id for a notification: its sender would wait.
    """
    if not isinstance(message, dict):
        return _error(None, "send one object at a time, no batch")
    has_method = isinstance(message.get("method"), str)
    if not has_method and not {"result", "error"}.isdisjoint(message):
        return None  # answering an answer could go on forever
    number = message.get("id")
    known = number if isinstance(number, (int, str)) and not isinstance(number, bool) else None
    has_params = isinstance(message.get("params", {}), (dict, type(None)))
    is_whole = message.get("jsonrpc") == "2.0" and ("id" not in message or known is not None)
    if is_whole and has_method and has_params:
        return None
    return _error(
        known,
        'it needs "jsonrpc": "2.0", a method, params that are an object or none, and in a request '
        "an id that is a text or a whole number",
    )


def _error(number: int | str | None, reason: str) -> Mapping[str, Any]:
    error = {"code": _INVALID_REQUEST, "message": f"not a message of JSON-RPC: {reason}"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


StillKnown = Callable[[Scope], Awaitable[bool]]
"""Tells whether the sender of a stream's request is still known: a token may be revoked, or run
out.
"""


def still_taken(verifier: TokenVerifier | None) -> StillKnown | None:
    """Return what looks a request's own token up again; None where no token is asked for."""
    if verifier is None:
        return None

    async def look(scope: Scope) -> bool:
        known = await verifier.verify_token(
            Headers(scope=scope).get("authorization", "").partition(" ")[2]
        )
        return known is not None and not (
            known.expires_at is not None and known.expires_at < time.time()
        )

    return look


class Gate:
    """Lets through messages: as many, as large and as long ones as a client may send.

    It knows the streams that are open.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        still_known: StillKnown | None = None,
        check_seconds: float = CHECK_SECONDS,
        is_stream: Callable[[Scope], bool] = is_stream_of_protocol,
        error_in: Callable[[bytes], Any] = error_in_message,
    ) -> None:
        self._app, self._settings, self._still_known, self._check_seconds = (
            app,
            settings,
            still_known,
            check_seconds,
        )
        self._is_stream, self._error_in = is_stream, error_in
        self._rates = Rates(settings.rate, settings.burst)
        self._open: Counter[tuple[str, bool]] = Counter()  # by client, and whether they are streams
        self._streams: set[anyio.CancelScope] = set()
        self._is_draining = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def drain(self) -> None:
        """End the streams, which would never end; requests that are under way go on."""
        self._is_draining = True
        for each in self._streams:
            each.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        user = scope.get("user")
        client = (
            str(authorization_context(user))
            if isinstance(user, AuthenticatedUser)
            else _address(scope)
        )
        is_stream = self._is_stream(scope)
        key = (client, is_stream)
        if wait := self._rates.take(client):
            await _too_many(wait)(scope, receive, send)
        elif self._open[key] >= self._settings.concurrent:
            await refusal(
                429,
                f"{self._settings.concurrent} requests are being worked on: wait for one of them.",
                _AFTER,
            )(scope, receive, send)
        elif is_stream and self._is_draining:
            await refusal(503, "The server is about to end: come again.", _AFTER)(
                scope, receive, send
            )
        else:
            self._open[key] += 1
            CLIENT.set(client)
            try:
                await self._pass(scope, receive, Sent(send), is_stream)
            finally:
                self._open[key] -= 1
                self._open += Counter()  # drops those that have none open

    async def _pass(self, scope: Scope, receive: Receive, sent: Sent, is_stream: bool) -> None:
        body = await self._body(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, sent)
            return
        rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return rest.pop() if rest else await receive()

        if is_stream:
            await self._stream(scope, replay, sent)
            await sent.end(scope, replay, refusal(503, "The stream was ended: come again.", _AFTER))
        else:
            with anyio.move_on_after(self._settings.request_seconds + _LATER_SECONDS):
                await self._app(scope, replay, sent)
            await sent.end(
                scope,
                receive,
                refusal(
                    504, f"No answer within {self._settings.request_seconds:g} s: ask for less."
                ),
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        """Receive a request whole, or say why it is not taken."""
        most, read = self._settings.max_body_bytes, bytearray()
        too_large = refusal(413, f"A request has at most {most:,} bytes.", {"Connection": "close"})
        declared = Headers(scope=scope).get("content-length", "")
        if (
            declared.isascii()
            and declared.isdigit()
            and len(declared) < 20
            and int(declared) > most
        ):
            return too_large
        with anyio.move_on_after(self._settings.body_seconds):
            while True:
                message = await receive()
                read += message.get("body", b"")
                if len(read) > most:
                    return too_large
                if message["type"] != "http.request" or not message.get("more_body", False):
                    break
            if scope["method"] != "POST":
                return bytes(read)
            error = self._error_in(bytes(read))
            return bytes(read) if error is None else JSONResponse(error, status_code=400)
        return refusal(
            408,
            f"The request was not there within {self._settings.body_seconds:g} s.",
            {"Connection": "close"},
        )

    async def _stream(self, scope: Scope, receive: Receive, sent: Sent) -> None:
        """Pass a stream on until it ends, the server does, or its token is taken no longer."""
        with anyio.CancelScope() as stream:

            async def check_token() -> None:
                while self._still_known is not None:
                    await anyio.sleep(self._check_seconds)
                    if not await self._still_known(scope):
                        stream.cancel()

            self._streams.add(stream)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(check_token)
                    await self._app(scope, receive, sent)
                    group.cancel_scope.cancel()
            finally:
                self._streams.discard(stream)
