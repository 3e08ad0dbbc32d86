"""MCP over Streamable HTTP for several clients: one address, and the order in which a request meets
what is behind it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TextIO

import anyio
import uvicorn
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import current_default_thread_limiter, run_sync
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    BearerAuthBackend,
    RequireAuthMiddleware,
)
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import AnyHttpUrl
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from thumbindex.background.host import LibraryHost, StartCommandServer
from thumbindex.errors import StorageError, UsageError
from thumbindex.mcp.server import build_server
from thumbindex.mcp.stdio import claim_output
from thumbindex.model import DatabaseStatus, IndexState
from thumbindex.opening import (
    MayNameDirectory,
    Opening,
    named_folders,
    names_allowed,
    served_folders,
)
from thumbindex.present.failures import print_error
from thumbindex.present.sentences import lag_sentence
from thumbindex.process import (
    limit_numeric_threads,
    raise_file_limit,
    return_freed_memory,
    switch_threads_often,
)
from thumbindex.settings import Config, HttpSettings
from thumbindex.text import one_line
from thumbindex.web.access import EVERYONE, Folders, Rights, admission, names_of, nested
from thumbindex.web.limits import (
    CHECK_SECONDS,
    AuthFailureLimit,
    HostCheck,
    RequestLimits,
    refusal,
    still_taken,
)
from thumbindex.web.metrics import CONTENT_TYPE, Calls, Metrics, MetricsMiddleware
from thumbindex.web.token_file import default_token_file

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.page.session import OneTimeKey


_OTHER_FILES = 2_000
"""Files beside the connections: indexes, databases, pipes."""


class Listening(uvicorn.Server):
    """A server that tells its address when it listens, and ends the streams before it ends."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        tell_address: Callable[[str], object],
        drain: Callable[[], object],
    ) -> None:
        raise_file_limit(settings.connections + _OTHER_FILES)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,  # uvicorn's own would write to standard output
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=list(settings.proxies),
            limit_concurrency=settings.connections,
            # any number will do
            timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]
        )
        super().__init__(config)
        self._host, self._port = settings.host, settings.port
        self._tell_address, self._drain = tell_address, drain

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal ends it. Raises UsageError if the address cannot be listened at."""
        with _bind(self._host, self._port) as listener:
            super().run([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell the address."""
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._tell_address(f"http://{host}:{port}/mcp")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection any longer, and wait for requests that are under way."""
        self._drain()
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"Port {port} is taken at {host}: choose another one with --port (0 takes "
                "a free one)."
            ) from error
        raise UsageError(
            f"The server cannot listen at {host}, port {port} ({error.strerror}): choose others "
            "with --host and --port."
        ) from error


_PLACES = 5
"""Of the places that an exception passed, the last ones say where it comes from."""


class ServerLog(logging.StreamHandler[TextIO]):
    """A log without any value that a client has sent, and with each line once a minute at most.

    Our own messages hold nothing of a request. Of another package's message, and of an exception,
    only kind and place are written.
    """

    SECONDS = 60.0

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._written: dict[str, float] = {}  # by line, when it was written

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        if record.name.partition(".")[0] == "thumbindex":
            said = " ".join(one_line(record.getMessage()).split())
        else:
            said = f"{record.name}: {record.levelname.lower()} at {record.filename}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return said
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        frames = extract_tb(error.__traceback__)[-_PLACES:]
        places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        return f"{said}: {type(error).__name__} at {places}"

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless its line was written in the last minute."""
        line, now = self.format(record), self._clock()
        self._written = {each: at for each, at in self._written.items() if now < at + self.SECONDS}
        if line not in self._written:
            self._written[line] = now
            super().emit(record)


THREADS = 256
"""Requests that wait for something at once, of all clients: a thread that waits costs little, and
who waits for nothing must not wait for one.
"""


class SessionsByFolders:
    """The protocol's sessions, with a session manager for each set of folders that a token sees.

    A manager is made with the first request for its folders.
    """

    def __init__(
        self, rights: Rights, make: Callable[[frozenset[str]], StreamableHTTPSessionManager]
    ) -> None:
        self._rights, self._make = rights, make
        self._managers: dict[frozenset[str], StreamableHTTPSessionManager] = {}
        self._group: TaskGroup | None = None
        self._making = anyio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept requests until this is left."""
        current_default_thread_limiter().total_tokens = THREADS
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        folders = self._rights.seen_by(names_of(scope))
        if not folders:
            await refusal(
                403,
                "This token sees no folder. The server's administrator can name it in `tokens` of "
                "a folder.",
            )(scope, receive, send)
            return
        async with self._making:
            if folders not in self._managers:
                assert self._group is not None, "open() comes first"
                manager = self._make(folders)
                await self._group.start(_keep_open, manager)
                self._managers[folders] = manager
        await self._managers[folders].handle_request(scope, receive, send)


async def _keep_open(
    manager: StreamableHTTPSessionManager,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()


class Site:
    """All that is behind one address: the protocol, health and metrics."""

    def __init__(
        self,
        background: LibraryHost,
        folders: Folders,
        config: Config,
        may_name: MayNameDirectory | None = None,
        key: OneTimeKey | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """Put a site together; with a key it is the page alone, for whoever opens it by that."""
        self._background, self._folders, self._may_name = background, folders, may_name
        self._about = config.about
        self._settings = config.serve.http
        self._admission = admission(config, folders)
        self._sessions = SessionsByFolders(self._admission.rights, self._sessions_over)
        self.metrics = Metrics()
        self._check_seconds = check_seconds
        self.limits = [
            RequestLimits(
                self._sessions, self._settings, still_taken(self._admission.verifier), check_seconds
            )
        ]
        self.app = self._layers(key)

    @property
    def asks(self) -> bool:
        """Tell whether a token is asked for."""
        return self._admission.verifier is not None

    def warnings(self) -> list[str]:
        """Say what is allowed and perhaps not meant."""
        return nested(self._folders, self._admission.rights)

    def _sessions_over(self, names: frozenset[str]) -> StreamableHTTPSessionManager:
        """Return the protocol's sessions over some folders: their server knows of no others."""
        http, folders = self._settings, [each for each in self._folders if each[0] in names]
        behind = (
            self._background if len(folders) == len(self._folders) else self._background.only(names)
        )
        server = build_server(behind, folders, self._may_name, self._about, is_near=False)
        server.middleware.append(Calls(self.metrics, http.request_seconds))
        return StreamableHTTPSessionManager(server, max_sessions=http.connections)

    def drain(self) -> None:
        """End the streams, which would never end; requests that are under way go on."""
        for limits in self.limits:
            limits.drain()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(limits.streams for limits in self.limits)

    def _layers(self, key: OneTimeKey | None) -> ASGIApp:
        """Return the layers that a request passes: metrics, its host, CORS, its token, its route,
        the limits.
        """
        verifier, settings = self._admission.verifier, self._settings
        protocol: ASGIApp = self.limits[0]
        metrics: Any = self._metrics
        if verifier is not None:
            metadata_url = (
                build_resource_metadata_url(AnyHttpUrl(settings.url)) if settings.issuer else None
            )
            protocol, metrics = (
                RequireAuthMiddleware(each, list(settings.scopes), metadata_url)
                for each in (protocol, request_response(metrics))
            )
        routes = [Route("/health", self._health), Route("/ready", self._ready)]
        if key is None:
            routes += [
                Route("/metrics", metrics, methods=["GET"]),
                Route("/mcp", protocol, methods=["GET", "POST", "DELETE"]),
            ]
        if settings.issuer:
            # These keep an issuer's address as it is written: clients compare it letter by letter.
            # Whom a token is for is our verifier's to check.
            given = {
                "issuer_url": settings.issuer,
                "resource_server_url": settings.url,
                "required_scopes": list(settings.scopes) or None,
            }
            known = AuthSettings.model_validate({**given, "validate_token_resource": False})
            routes += create_protected_resource_routes(
                AnyHttpUrl(settings.url), [known.issuer_url], known.required_scopes
            )
        if settings.page:
            routes += self._page(key)  # the last: it takes every address that is left
        site = Starlette(routes=routes, lifespan=self._lifespan)
        # behind a proxy an address that we make up may be a wrong one
        site.router.redirect_slashes = False
        app: ASGIApp = site
        if verifier is not None:
            app = AuthContextMiddleware(app)
            app = AuthenticationMiddleware(app, backend=BearerAuthBackend(verifier))
            app = AuthFailureLimit(app)
        if settings.origins:
            app = CORSMiddleware(
                app,
                list(settings.origins),
                ["GET", "POST", "DELETE"],
                ["*"],
                expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
            )
        return MetricsMiddleware(
            HostCheck(app, settings, asks_token=verifier is not None), self.metrics
        )

    def _page(self, key: OneTimeKey | None) -> list[Route]:
        # Imported here: a server without the page loads nothing of it.
        from thumbindex.page.session import Visitors
        from thumbindex.page.site import CHANGES, Page, SignIn

        asked = key or self._admission.verifier
        visitors = (
            None if asked is None else Visitors(asked, self._settings.scopes if key is None else ())
        )
        page = Page(
            self._background,
            self._folders,
            self._settings,
            SignIn(self._admission.rights, visitors, key),
        )
        by_token = still_taken(self._admission.verifier)

        async def still_known(scope: Scope) -> bool:
            if by_token is not None and isinstance(scope.get("user"), AuthenticatedUser):
                return await by_token(scope)
            return await page.still_signed_in(scope)

        def through(app: ASGIApp) -> ASGIApp:
            limits = RequestLimits(
                app,
                self._settings,
                None if visitors is None else still_known,
                self._check_seconds,
                is_stream=lambda scope: scope["path"] == CHANGES,
            )
            self.limits.append(limits)
            return limits

        return page.routes(through)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._background.start()
        async with self._sessions.open():
            yield

    async def _health(self, request: Request) -> Response:
        """Say that the process answers."""
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Say whether every folder has words to search."""
        if not self._background.is_ready:
            await self._counts()  # a database that was away may be back
        is_ready = self._background.is_ready
        library = self._background.library_if_open()
        database = library.database if library is not None and is_ready else None
        said = lag_sentence(database.lag()) if database else ""
        return JSONResponse(
            {"status": "ready" if is_ready else "starting", **({"note": said} if said else {})},
            status_code=200 if is_ready else 503,
        )

    async def _metrics(self, request: Request) -> Response:
        """Return the counts, of all folders: to those who are named for it."""
        if self._admission.verifier is not None and not {EVERYONE, *names_of(request.scope)} & set(
            self._settings.metrics
        ):
            return refusal(
                403,
                "This token may not read metrics. The server's administrator can name it in "
                "`serve.http.metrics`.",
            )
        folders, database = await self._counts()
        return Response(self.metrics.text(folders, self.streams, database), media_type=CONTENT_TYPE)

    async def _counts(self) -> tuple[Mapping[str, IndexState], DatabaseStatus | None]:
        """Return what the folders hold and how their database is, which is not waited for long."""
        library = self._background.library_if_open()
        if library is None:
            return {}, None
        with anyio.move_on_after(AWAY_SECONDS):
            return await run_sync(_counts_of, library, abandon_on_cancel=True)
        return {}, library.database.engine.status() if library.database else None


AWAY_SECONDS = 2.0
"""How long `/ready` and `/metrics` wait for a database: a monitor wants to hear that it is away."""


def _counts_of(library: Library) -> tuple[Mapping[str, IndexState], DatabaseStatus | None]:
    database = library.database.status() if library.database else None
    if database is not None and not database.server:
        return {}, database
    try:
        return library.states(), database
    except StorageError:
        return {}, database


def how_to_connect(address: str, *, asks: bool, has_page: bool = False) -> str:
    """Return what a terminal shows beside the address: how to give it to a client."""
    entry: dict[str, Any] = {"url": address}
    if asks:
        entry["headers"] = {"Authorization": "Bearer TOKEN"}
    servers = json.dumps({"mcpServers": {"thumbindex": entry}}, ensure_ascii=False)
    text = f"Give that address to a client. Most take it in their file of servers as\n  {servers}\n"
    if asks:
        text += "in which TOKEN is what `thumbindex token NAME` printed.\n"
    if has_page:
        text += f"The page for browsers is {address.removesuffix('mcp')}.\n"
    return text + "Ctrl-C ends the server.\n"


def serve_http(
    opening: Opening,
    given: Mapping[str, Any],
    start_command_server: StartCommandServer,
    *,
    as_json: bool,
) -> int:
    """Serve clients until a signal ends it, by the configuration and what the command line has
    given over it; the process ends here.

    Standard output gets one line, the address; everything else goes to standard error.
    """
    outgoing = claim_output()
    config = opening.load()
    config = _with_http(config, **given)
    # empty: no token is to be asked for
    is_said = "token_file" in given or "serve.http.token_file" in config.explicit_keys
    if not is_said and not config.serve.http.issuer and default_token_file().is_file():
        print_error(
            f"Clients are asked for the tokens of {default_token_file()}; `--token-file ''` "
            "asks for none.",
            color=None,
        )
        config = _with_http(config, token_file=str(default_token_file()))
    folders, about = served_folders(opening, config)
    database = opening.database_in(config)
    # who sees what goes by the names under which folders are published, wherever their notes lie
    if database:
        config = replace(config, about=about, folders={name: str(root) for name, root in folders})
    background = LibraryHost(
        opening, start_command_server=None if database else start_command_server
    )
    site = Site(background, folders, config, names_allowed(opening, folders))
    for warning in site.warnings():
        print_error(warning)

    def say(address: str) -> None:
        hint = how_to_connect(address, asks=site.asks, has_page=config.serve.http.page)
        _announce(outgoing, address, hint, as_json=as_json)

    try:
        _listen(site, config.serve.http, say)
    finally:
        background.stop()
    return _end()


PAGE_PORT = 8378
"""Where `thumbindex page` listens, so that addresses of its screens can be kept; where that is
taken, at a free port.
"""


def serve_page(
    opening: Opening,
    port: int | None,
    start_command_server: StartCommandServer,
    *,
    opens_browser: bool,
    as_json: bool,
) -> int:
    """Serve the page alone, on this machine, to whoever opens it by an address that works once; the
    process ends here.

    Standard output gets one line, that address; the next ones, for other browsers, go to standard
    error.
    """
    # Imported here: a server without the page loads nothing of it.
    from thumbindex.page.browser import open_unseen, remove
    from thumbindex.page.session import OneTimeKey

    outgoing = claim_output()
    config = opening.load()
    # whoever has the key owns the notes
    config = replace(
        config, folder_tokens={}, serve=replace(config.serve, http=HttpSettings(page=True))
    )
    folders = named_folders(opening)
    background = LibraryHost(opening, start_command_server=start_command_server)
    base = ""
    shown: list[Path] = []  # the file that leads a browser to the address, until that was used

    def announce(key: str) -> None:
        remove(shown)
        sys.stderr.write(f"For another browser: {base}/sign-in/{key}\n")
        sys.stderr.flush()

    def say(address: str) -> None:
        nonlocal base
        base = address.removesuffix("/mcp")
        once = f"{base}/sign-in/{key.key}"
        hint = "This address opens the page once, in a browser on this machine. Ctrl-C ends it.\n"
        if opens_browser:
            open_unseen(once, shown)
            hint += "If the browser shows nothing, open the address yourself.\n"
        _announce(outgoing, once, hint, as_json=as_json)

    key = OneTimeKey(announce)
    ports = (PAGE_PORT, 0) if port is None else (port,)
    try:
        for each in ports:
            settings = _with_http(config, port=each)
            try:
                _listen(Site(background, folders, settings, key=key), settings.serve.http, say)
                break
            except UsageError:
                if each == ports[-1]:
                    raise
    finally:
        remove(shown)
        background.stop()
    return _end()


def _announce(outgoing: TextIO, address: str, hint: str, *, as_json: bool) -> None:
    """Print the address, and a hint if somebody reads it; from here on strangers may be heard."""
    logging.getLogger().addHandler(ServerLog(sys.stderr))
    outgoing.write(f"{json.dumps({'url': address}, ensure_ascii=False) if as_json else address}\n")
    outgoing.flush()
    if sys.stderr.isatty():
        sys.stderr.write(hint)
        sys.stderr.flush()


def _with_http(config: Config, **given: Any) -> Config:
    return replace(config, serve=replace(config.serve, http=replace(config.serve.http, **given)))


def _listen(site: Site, settings: HttpSettings, say: Callable[[str], object]) -> None:
    """Serve until a signal ends it."""
    limit_numeric_threads()  # the child that indexes, too
    return_freed_memory()
    switch_threads_often()
    # A signal ends the server, not the process: what follows the server's end is to be done, too.
    # uvicorn raises it again when it is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # Else every stream is cut off at once, answers that are under way among them: the gate ends
    # what would never end.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
    Listening(site.app, settings, say, site.drain).run()


def _end() -> int:
    """End the process, as on standard input: threads that load a model or search must not keep a
    server that is to end.
    """
    sys.stderr.flush()
    os._exit(0)
