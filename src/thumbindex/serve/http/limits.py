"""Limits of the HTTP server: who may ask, from where, how often, how much and for how long; refusals and counts."""

from __future__ import annotations

import json
import logging
import os
import time
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from ipaddress import ip_address
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp_types as types
import pydantic_core
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.model import IndexState
from thumbindex.serve.early import invalid_request
from thumbindex.serve.tools import TOOLS
from thumbindex.settings import HttpSettings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: a warm query takes some hundredths, `wait_fresh` up to 60."""

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]

_STATM = Path("/proc/self/statm")


class Metrics:
    """Counts since the start of a server; all of it happens on the event loop."""

    def __init__(self) -> None:
        self._started = time.time()
        self._seconds: dict[tuple[str, str], list[int]] = {}  # by tool and outcome: how many fell into each bucket
        self._sums: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[int] = Counter()

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a call of a tool."""
        buckets = self._seconds.setdefault((tool, outcome), [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._sums[tool, outcome] += seconds  # type: ignore[assignment]

    def answered(self, status: int) -> None:
        """Count an answer of HTTP."""
        self._statuses[status] += 1

    def text(self, folders: Mapping[str, IndexState], streams: int) -> str:
        """Return all of it in Prometheus' text format, version 0.0.4."""
        by_folder = [({"folder": name}, state) for name, state in sorted(folders.items())]
        families: list[tuple[str, str, str, list[Sample]]] = [
            ("thumbindex_info", "gauge", "The version that runs.", [("", {"version": version("thumbindex")}, 1)]),
            ("thumbindex_tool_seconds", "histogram", "Seconds of tool calls by tool and outcome.", list(self._histogram())),
            (
                "thumbindex_http_responses_total",
                "counter",
                "Answers by HTTP status.",
                [("", {"status": str(status)}, count) for status, count in sorted(self._statuses.items())],
            ),
            ("thumbindex_streams", "gauge", "Streams of changes that are open.", [("", {}, streams)]),
            ("thumbindex_index_documents", "gauge", "Documents of an index.", [("", labels, state.documents) for labels, state in by_folder]),
            ("thumbindex_index_chunks", "gauge", "Chunks of an index.", [("", labels, state.chunks) for labels, state in by_folder]),
            ("thumbindex_index_vectors", "gauge", "Chunks that have a vector.", [("", labels, state.vectors) for labels, state in by_folder]),
            ("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.", [("", {}, self._started)]),
            ("process_resident_memory_bytes", "gauge", "Memory of the server, its child not counted.", _memory()),
        ]
        return "".join(_family(*each) for each in families if each[3])

    def _histogram(self) -> Iterator[Sample]:
        for (tool, outcome), buckets in sorted(self._seconds.items()):
            labels = {"tool": tool, "outcome": outcome}
            for bound, count in zip([*map(_number, BUCKETS), "+Inf"], accumulate(buckets), strict=True):
                yield "_bucket", {**labels, "le": bound}, count
            yield "_sum", labels, self._sums[tool, outcome]
            yield "_count", labels, sum(buckets)


def _family(name: str, kind: str, about: str, samples: Sequence[Sample]) -> str:
    head = f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{suffix}{_labels(labels)} {_number(value)}\n" for suffix, labels, value in samples)


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _memory() -> list[Sample]:
    """Return what the process holds in memory; nothing where the system does not tell as Linux does."""
    try:
        return [("", {}, int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE"))]
    except (OSError, ValueError, IndexError):
        return []


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error that the protocol's clients read as their own, and everybody else as JSON."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


class Sent:
    """What was sent of an answer, so that it can be ended properly wherever it was broken off."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = self.is_over = False

    async def __call__(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self.is_begun = self.is_begun or message["type"] == "http.response.start"
        self.is_over = self.is_over or (message["type"] == "http.response.body" and not message.get("more_body", False))
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive, instead: Response) -> None:
        """End the answer: by another one where nothing was sent of it."""
        if not self.is_begun:
            await instead(scope, receive, self)
        elif not self.is_over:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


class Observed:
    """The outermost layer: counts answers by status, and puts errors that are plain text into JSON."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        said = b""

        async def observe(message: Message) -> None:
            nonlocal begun, said
            if message["type"] == "http.response.start":
                self._metrics.answered(message["status"])
                if _is_plain_error(message):
                    begun = message
                    return
            if begun is None:
                await send(message)
                return
            said += message.get("body", b"")
            if not message.get("more_body", False):
                kept = {name: value for name, value in Headers(raw=begun["headers"]).items() if name in _KEPT}
                message_said = said.decode("utf-8", errors="replace").strip() or HTTPStatus(begun["status"]).phrase
                await refusal(begun["status"], message_said, kept)(scope, receive, send)

        await self._app(scope, receive, observe)


_KEPT = {"allow", "retry-after", "www-authenticate", "vary", "access-control-allow-origin"}


def _is_plain_error(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return bool(message["status"] >= 400 and not kind.startswith(("application/json", "text/event-stream")))


def as_json_line(value: object) -> str:
    """Write a value on one line."""
    return json.dumps(value, ensure_ascii=False)


MOST_CLIENTS = 10_000
"""Clients that are remembered: who has not asked for longest is forgotten, his bucket would be full by then."""


class Rates:
    """A bucket of `burst` requests for each client, filled with `rate` a second; rate 0 is without limit."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by client: what was left, and when

    def take(self, client: str) -> float:
        """Take a request out of a client's bucket and return 0; or take none and return the seconds until there is one."""
        if wait := self.wait(client):
            return wait
        if self._rate:
            self._left[client] = (self._filled(client) - 1, self._clock())
            self._left.move_to_end(client)
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return 0.0

    def wait(self, client: str) -> float:
        """Return the seconds until a client may ask; 0 where it may now."""
        if not self._rate:
            return 0.0
        return max(0.0, (1 - self._filled(client)) / self._rate)

    def _filled(self, client: str) -> float:
        left, at = self._left.get(client, (float(self._burst), self._clock()))
        return min(float(self._burst), left + (self._clock() - at) * self._rate)


_NAMES = frozenset(tool["name"] for tool in TOOLS)


class Calls:
    """What the protocol's package calls around each request."""

    def __init__(self, metrics: Metrics, seconds: float) -> None:
        self._metrics, self._seconds = metrics, seconds

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request within its time, a stream of changes without one."""
        if ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        if ctx.method != "tools/call":
            return await self._within(ctx, call_next)
        name = str((ctx.params or {}).get("name"))
        began, outcome = time.perf_counter(), "cancelled"
        try:
            result = await self._within(ctx, call_next)
            outcome = "error" if _is_error(result) else "ok"
        except TimeLimitError:
            outcome = "timeout"
            raise
        except MCPError:
            outcome = "refused"
            raise
        finally:
            # A name that somebody made up is no label: there would be as many as anybody likes.
            self._metrics.called(name if name in _NAMES else "unknown", outcome, time.perf_counter() - began)
        return result

    async def _within(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        with anyio.move_on_after(self._seconds):
            return await call_next(ctx)
        raise TimeLimitError(types.INTERNAL_ERROR, f"No answer within {self._seconds:g} s: ask for less, or again in a while.")


class TimeLimitError(MCPError):
    """A request took too long."""


def _is_error(result: HandlerResult) -> bool:
    if isinstance(result, Mapping):
        return bool(result.get("isError"))
    return bool(getattr(result, "is_error", False))


_LOG = logging.getLogger(__name__)

CHECK_SECONDS = 15.0
"""Between two looks whether the token of an open stream is still taken: it may be revoked, or run out, while nothing is asked."""

_LOOPBACKS = ("localhost", "127.0.0.1", "[::1]")

_LOCAL_ORIGINS = frozenset(f"http://{name}" for name in _LOOPBACKS)
"""Pages of this machine, at whatever port: they may ask a server that nobody else reaches."""

_LAST_PORT = 65_535

_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

_OPEN = ("/health", "/ready")
"""Paths that tell nobody anything, for those who watch over servers and call them by their address."""


class AnyOf:
    """Takes a token that one of several verifiers takes."""

    def __init__(self, verifiers: Collection[TokenVerifier]) -> None:
        self._verifiers = tuple(verifiers)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the first of them that takes it knows of a token."""
        for each in self._verifiers:
            if found := await each.verify_token(token):
                return found
        return None


class Senders:
    """Refuses what a web page, or a proxy that nobody meant to open, has sent: Host and Origin are compared with what is known."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, *, asks: bool) -> None:
        self._app, self._asks = app, asks
        self._hosts, self._origins = known_hosts(settings), known_origins(settings)
        self._is_local = is_loopback(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in _OPEN and (refused := self._refused(scope)):
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._asks and any(name in headers for name in _OF_PROXIES):
            return refusal(403, "This request came through a proxy, and no token is asked for: whoever runs this server gives it a --token-file.")
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or _without_port(hosts[0].lower()) not in self._hosts:
            _LOG.warning("A request was refused that calls this server by another name: `serve.http.hosts` says its names.")
            return refusal(421, "This is no name of this server: whoever runs it adds the name to `serve.http.hosts`.")
        if len(origins) > 1 or not all(self._may_ask(origin.lower()) for origin in origins):
            _LOG.warning("A request was refused that comes from a web page: `serve.http.origins` says whose pages may ask.")
            return refusal(403, "Pages of this origin may not ask: whoever runs this server adds the origin to `serve.http.origins`.")
        return None

    def _may_ask(self, origin: str) -> bool:
        return origin in self._origins or (self._is_local and _without_port(origin) in _LOCAL_ORIGINS)


class Strangers:
    """Tells an address that has shown too many tokens that are none to wait. Whoever shows one that is taken is let in, from there, too."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._rates = Rates(settings.rate, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count one that was not authorized."""
        instead: Response | None = None

        async def count(message: Message) -> None:
            nonlocal instead
            if message["type"] == "http.response.start" and message["status"] == 401 and (wait := self._rates.take(_address(scope))):
                instead = _too_many(wait)
                await instead(scope, receive, send)
            if instead is None:
                await send(message)

        await self._app(scope, receive, count)


class Gate:
    """Lets through messages: as many, as large and as long ones as a client may send. It knows the streams that are open."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, verifier: TokenVerifier | None = None, check_seconds: float = CHECK_SECONDS) -> None:
        self._app, self._settings, self._verifier, self._check_seconds = app, settings, verifier, check_seconds
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
        client, is_stream = _client(scope), _is_stream(scope)
        key = (client, is_stream)
        if wait := self._rates.take(client):
            await _too_many(wait)(scope, receive, send)
        elif self._open[key] >= self._settings.concurrent:
            await refusal(429, f"{self._settings.concurrent} requests are being worked on: wait for one of them.", _AFTER)(scope, receive, send)
        elif is_stream and self._is_draining:
            await refusal(503, "The server is about to end: come again.", _AFTER)(scope, receive, send)
        else:
            self._open[key] += 1
            try:
                await self._pass(scope, receive, Sent(send), is_stream)
            finally:
                self._open[key] -= 1
                self._open += Counter()  # drops those that have none open

    async def _pass(self, scope: Scope, receive: Receive, sent: Sent, is_stream: bool) -> None:
        body = await self._body(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, sent)
        elif is_stream:
            await self._stream(scope, _replay(body, receive), sent)
        else:
            with anyio.move_on_after(self._settings.request_seconds + _LATER_SECONDS):
                await self._app(scope, _replay(body, receive), sent)
            await sent.end(scope, receive, refusal(504, f"No answer within {self._settings.request_seconds:g} s: ask for less."))

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        """Receive a request whole, or say why it is not taken."""
        most, read = self._settings.max_body_bytes, bytearray()
        too_large = refusal(413, f"A request has at most {most:,} bytes.", {"Connection": "close"})
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and len(declared) < 20 and int(declared) > most:
            return too_large
        with anyio.move_on_after(self._settings.body_seconds):
            while True:
                message = await receive()
                read += message.get("body", b"")
                if len(read) > most:
                    return too_large
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return (_refused_message(read) if scope["method"] == "POST" else None) or bytes(read)
        return refusal(408, f"The request was not there within {self._settings.body_seconds:g} s.", {"Connection": "close"})

    async def _stream(self, scope: Scope, receive: Receive, sent: Sent) -> None:
        with anyio.CancelScope() as stream:
            self._streams.add(stream)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._check_token, scope, stream)
                    await self._app(scope, receive, sent)
                    group.cancel_scope.cancel()
            finally:
                self._streams.discard(stream)
        await sent.end(scope, receive, refusal(503, "The stream was ended: come again.", _AFTER))

    async def _check_token(self, scope: Scope, stream: anyio.CancelScope) -> None:
        """End a stream whose token is taken no longer."""
        while True:
            await anyio.sleep(self._check_seconds)
            shown = Headers(scope=scope).get("authorization", "").partition(" ")[2]
            if self._verifier is not None and _is_over(await self._verifier.verify_token(shown)):
                stream.cancel()


_AFTER = {"Retry-After": "1"}

_LATER_SECONDS = 2.0
"""After the protocol's own end of a request's time comes the end of its connection: the first says more."""


def is_loopback(host: str) -> bool:
    """Tell whether nobody but this machine can reach an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def known_hosts(settings: HttpSettings) -> frozenset[str]:
    """Return what the header Host may say before a port."""
    own = "" if settings.host in {"0.0.0.0", "::"} else settings.host
    names = (*_LOOPBACKS, own, *settings.hosts, urlsplit(settings.url).hostname or "")
    return frozenset(_in_header(name.lower()) for name in names) - {""}


def known_origins(settings: HttpSettings) -> frozenset[str]:
    """Return what the header Origin may say beside the pages of this machine: the server's own address and the pages that are configured."""
    own = (f"{urlsplit(settings.url).scheme}://{urlsplit(settings.url).netloc}",) if settings.url else ()
    return frozenset(origin.lower() for origin in (*own, *settings.origins))


def _in_header(name: str) -> str:
    """Return a name of a host, with a port or not, as a header has it before the port: IPv6 in brackets."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else _without_port(name)


def _without_port(name: str) -> str:
    """Return a name without the port after it; as it is where what follows is no port."""
    before, _, port = name.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= len(str(_LAST_PORT)) and 0 < int(port) <= _LAST_PORT
    return before if is_port else name


def names_of(scope: Scope) -> frozenset[str]:
    """Return the names by which the holder of a request's token is known; none where no token is asked for."""
    user = scope.get("user")
    claims = (user.access_token.claims or {}) if isinstance(user, AuthenticatedUser) else {}
    return frozenset(claims.get("names", ()))


def _client(scope: Scope) -> str:
    user = scope.get("user")
    return str(authorization_context(user)) if isinstance(user, AuthenticatedUser) else _address(scope)


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _is_stream(scope: Scope) -> bool:
    # That this header is true is what the protocol's package looks to.
    return bool(scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == "subscriptions/listen")


def _is_over(known: AccessToken | None) -> bool:
    return known is None or (known.expires_at is not None and known.expires_at < time.time())


def _refused_message(body: bytearray) -> Response | None:
    try:
        # By what the package reads it with, so that both find the same; it answers what is no JSON.
        message = pydantic_core.from_json(body)
    except ValueError:
        return None
    error = invalid_request(message)
    return None if error is None else JSONResponse(error, status_code=400)


def _too_many(wait: float) -> Response:
    return refusal(429, f"Too many requests: the next one is taken in {wait:.1f} s (`serve.http.rate`).", {"Retry-After": str(max(1, ceil(wait)))})


def _replay(body: bytes, receive: Receive) -> Receive:
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return rest.pop() if rest else await receive()

    return replay
