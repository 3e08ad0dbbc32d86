"""The HTTP server: MCP over Streamable HTTP, health, metrics and the page."""

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
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, TextIO

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
from thumbindex.model import IndexState
from thumbindex.opening import (
    OpenOptions,
    named_folders,
    served_folders,
)
from thumbindex.page.session import (
    OneTimeKey,
    SessionStore,
    SignIn,
    delete_redirect_files,
    open_in_browser,
)
from thumbindex.present.exit_codes import print_error
from thumbindex.process import (
    limit_numeric_threads,
    raise_file_limit,
    return_freed_memory,
    switch_threads_often,
)
from thumbindex.settings import Config, HttpSettings
from thumbindex.text import one_line
from thumbindex.web.access import (
    EVERYONE,
    FolderRights,
    Folders,
    HostCheck,
    access_policy,
    error_response,
    nested_folder_warnings,
    token_names,
)
from thumbindex.web.limits import (
    CHECK_SECONDS,
    AuthFailureLimit,
    ProtocolTimeLimit,
    RequestLimits,
    token_check,
)
from thumbindex.web.metrics import CONTENT_TYPE, Metrics, MetricsMiddleware
from thumbindex.web.token_file import default_token_file

_OTHER_FILES = 2_000
"""Number of files that the server may open besides connections, such as indexes and pipes."""


class HttpServer(uvicorn.Server):
    """A uvicorn server that reports its address, and ends streams on shutdown."""

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
            log_config=None,  # uvicorn's default writes to standard output
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=list(settings.proxies),
            limit_concurrency=settings.connections,
            # typed as int, but any number works
            timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]
        )
        super().__init__(config)
        self._host, self._port = settings.host, settings.port
        self._tell_address, self._drain = tell_address, drain

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal. Raises UsageError if the address is unavailable."""
        with _bind(self._host, self._port) as listener:
            super().run([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report the address."""
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._tell_address(f"http://{host}:{port}/mcp")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, stop accepting connections, and wait for running requests."""
        self._drain()
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"Port {port} on {host} is in use: choose another with --port (0 picks a free one)."
            ) from error
        raise UsageError(
            f"Cannot listen on {host}, port {port}: {error.strerror}. Choose others with --host "
            "and --port."
        ) from error


_FRAMES = 5
"""At most this many frames of an exception are logged: the innermost ones."""


class ServerLog(logging.StreamHandler[TextIO]):
    """A log without client data, in which each line appears at most once a minute.

    Our own messages contain no request data. For exceptions and other packages' messages, only the
    type and the source line are logged.
    """

    SECONDS = 60.0

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._written: dict[str, float] = {}  # time of writing by line

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        if record.name.partition(".")[0] == "thumbindex":
            line = " ".join(one_line(record.getMessage()).split())
        else:
            line = f"{record.name}: {record.levelname.lower()} at {record.filename}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        frames = extract_tb(error.__traceback__)[-_FRAMES:]
        places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        return f"{line}: {type(error).__name__} at {places}"

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record's line, at most once a minute."""
        line, now = self.format(record), self._clock()
        self._written = {
            text: time for text, time in self._written.items() if now < time + self.SECONDS
        }
        if line not in self._written:
            self._written[line] = now
            super().emit(record)


_MAX_THREADS = 256
"""Maximum worker threads, which the requests of all clients share."""


class _SessionsByFolders:
    """One MCP session manager per set of visible folders, created on first use."""

    def __init__(
        self, rights: FolderRights, make: Callable[[frozenset[str]], StreamableHTTPSessionManager]
    ) -> None:
        self._rights, self._make = rights, make
        self._managers: dict[frozenset[str], StreamableHTTPSessionManager] = {}
        self._group: TaskGroup | None = None
        self._making = anyio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept requests while the context is open."""
        current_default_thread_limiter().total_tokens = _MAX_THREADS
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        folders = self._rights.visible_to(token_names(scope))
        if not folders:
            await error_response(
                403,
                "This token has access to no folder. The server's administrator can add it to the "
                "`tokens` of a folder.",
            )(scope, receive, send)
            return
        async with self._making:
            if folders not in self._managers:
                assert self._group is not None, "call open() first"
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


class HttpApp:
    """The ASGI application: MCP, health, metrics and the page."""

    def __init__(
        self,
        library_host: LibraryHost,
        folders: Folders,
        config: Config,
        key: OneTimeKey | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """Build the application. If `key` is given, serve neither MCP nor metrics."""
        self._library_host, self._folders = library_host, folders
        self._about = config.about
        self._settings = config.serve.http
        self._access = access_policy(config, folders)
        self._sessions = _SessionsByFolders(self._access.rights, self._sessions_for)
        self.metrics = Metrics()
        self._check_seconds = check_seconds
        self.limits = [
            RequestLimits(
                self._sessions, self._settings, token_check(self._access.verifier), check_seconds
            )
        ]
        self.app = self._build_app(key)

    @property
    def requires_token(self) -> bool:
        """Whether clients need a token."""
        return self._access.verifier is not None

    def warnings(self) -> list[str]:
        """Return warnings about folder rights."""
        return nested_folder_warnings(self._folders, self._access.rights)

    def _sessions_for(self, names: frozenset[str]) -> StreamableHTTPSessionManager:
        """Build the MCP sessions for the folders `names`. They have no access to other folders."""
        http, folders = self._settings, [folder for folder in self._folders if folder[0] in names]
        library_host = (
            self._library_host
            if len(folders) == len(self._folders)
            else self._library_host.only(names)
        )
        server = build_server(library_host, folders, self._about, is_local=False)
        server.middleware.append(ProtocolTimeLimit(self.metrics, http.request_seconds))
        return StreamableHTTPSessionManager(server, max_sessions=http.connections)

    def drain(self) -> None:
        """End all streams. Other requests continue."""
        for limits in self.limits:
            limits.drain()

    @property
    def streams(self) -> int:
        """Number of open streams."""
        return sum(limits.streams for limits in self.limits)

    def _build_app(self, key: OneTimeKey | None) -> ASGIApp:
        """Build the routes and their middleware, from the inside out: limits, route, token, CORS,
        host, metrics.
        """
        verifier, settings = self._access.verifier, self._settings
        protocol: ASGIApp = self.limits[0]
        metrics: Any = self._metrics
        if verifier is not None:
            metadata_url = (
                build_resource_metadata_url(AnyHttpUrl(settings.url)) if settings.issuer else None
            )
            protocol, metrics = (
                RequireAuthMiddleware(endpoint, list(settings.scopes), metadata_url)
                for endpoint in (protocol, request_response(metrics))
            )
        routes = [Route("/health", self._health), Route("/ready", self._ready)]
        if key is None:
            routes += [
                Route("/metrics", metrics, methods=["GET"]),
                Route("/mcp", protocol, methods=["GET", "POST", "DELETE"]),
            ]
        if settings.issuer:
            # AuthSettings keeps the issuer's address verbatim: clients compare it byte by byte.
            # Our own verifier checks the audience.
            auth = AuthSettings.model_validate(
                {
                    "issuer_url": settings.issuer,
                    "resource_server_url": settings.url,
                    "required_scopes": list(settings.scopes) or None,
                    "validate_token_resource": False,
                }
            )
            routes += create_protected_resource_routes(
                AnyHttpUrl(settings.url), [auth.issuer_url], auth.required_scopes
            )
        if settings.page:
            routes += self._page_routes(key)  # last, because it matches every other path
        site = Starlette(routes=routes, lifespan=self._lifespan)
        # behind a proxy, the redirect address could be wrong
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
            HostCheck(app, settings, requires_token=verifier is not None), self.metrics
        )

    def _page_routes(self, key: OneTimeKey | None) -> list[Route]:
        # imported here: a server without the page needs neither its screens nor Jinja
        from thumbindex.page.site import CHANGES_PATH, Page

        verifier = key or self._access.verifier
        sessions = (
            None
            if verifier is None
            else SessionStore(verifier, self._settings.scopes if key is None else ())
        )
        page = Page(
            self._library_host,
            self._folders,
            self._settings,
            SignIn(self._access.rights, sessions, key),
        )
        check_token = token_check(self._access.verifier)

        async def check_sender(scope: Scope) -> bool:
            if check_token is not None and isinstance(scope.get("user"), AuthenticatedUser):
                return await check_token(scope)
            return await page.is_signed_in(scope)

        def with_limits(app: ASGIApp) -> ASGIApp:
            limits = RequestLimits(
                app,
                self._settings,
                None if sessions is None else check_sender,
                self._check_seconds,
                is_stream=lambda scope: scope["path"] == CHANGES_PATH,
            )
            self.limits.append(limits)
            return limits

        return page.routes(with_limits)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._library_host.start()
        async with self._sessions.open():
            yield

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Report whether every folder can be searched."""
        if not self._library_host.is_ready:
            await self._index_counts()  # queries the database, which may be reachable again
        is_ready = self._library_host.is_ready
        return JSONResponse(
            {"status": "ready" if is_ready else "starting"}, status_code=200 if is_ready else 503
        )

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics of all folders, if `serve.http.metrics` lists the request's token."""
        if self._access.verifier is not None and not {
            EVERYONE,
            *token_names(request.scope),
        } & set(self._settings.metrics):
            return error_response(
                403,
                "This token may not read metrics. The server's administrator can add it to "
                "`serve.http.metrics`.",
            )
        folders = await self._index_counts()
        return Response(self.metrics.text(folders, self.streams), media_type=CONTENT_TYPE)

    async def _index_counts(self) -> Mapping[str, IndexState]:
        """Return the indexes' counts by folder; empty if a database does not answer in time."""
        library = self._library_host.opened_library()
        if library is not None:
            with anyio.move_on_after(_DATABASE_SECONDS), suppress(StorageError):
                return await run_sync(library.index_states, abandon_on_cancel=True)
        return {}


_DATABASE_SECONDS = 2.0
"""Maximum seconds that `/ready` and `/metrics` wait for a database."""


def connection_hint(address: str, *, requires_token: bool, has_page: bool = False) -> str:
    """Return instructions for connecting a client, to print in a terminal."""
    entry: dict[str, Any] = {"url": address}
    if requires_token:
        entry["headers"] = {"Authorization": "Bearer TOKEN"}
    servers = json.dumps({"mcpServers": {"thumbindex": entry}}, ensure_ascii=False)
    text = f"Add this address to your client. Most clients take this configuration:\n  {servers}\n"
    if requires_token:
        text += "Replace TOKEN with the token that `thumbindex token NAME` printed.\n"
    if has_page:
        text += f"In a browser, open {address.removesuffix('mcp')}.\n"
    return text + "Press Ctrl-C to stop the server.\n"


def serve_http(
    opening: OpenOptions,
    cli_settings: Mapping[str, Any],
    start_command_server: StartCommandServer,
) -> int:
    """Serve clients until a signal, then exit the process.

    Standard output gets one line, the address; everything else goes to standard error.
    """
    outgoing = claim_output()
    config = opening.load()
    config = _with_http_settings(config, **cli_settings)
    # an explicit empty value means that no token is required
    is_set = "token_file" in cli_settings or "serve.http.token_file" in config.explicit_keys
    if not is_set and not config.serve.http.issuer and default_token_file().is_file():
        print_error(
            f"Clients need a token from {default_token_file()}. To require none, use "
            "`--token-file ''`.",
            color=None,
        )
        config = _with_http_settings(config, token_file=str(default_token_file()))
    folders, about = served_folders(opening, config)
    database = opening.database_in(config)
    # in a database, rights depend on the published names, not on the folders' paths
    if database:
        config = replace(config, about=about, folders={name: str(root) for name, root in folders})
    library_host = LibraryHost(
        opening, start_command_server=None if database else start_command_server
    )
    site = HttpApp(library_host, folders, config)
    for warning in site.warnings():
        print_error(warning)

    def on_listening(address: str) -> None:
        hint = connection_hint(
            address, requires_token=site.requires_token, has_page=config.serve.http.page
        )
        _print_address(outgoing, address, hint)

    try:
        _serve(site, config.serve.http, on_listening)
    finally:
        library_host.stop()
    return _exit()


PAGE_PORT = 8378
"""Default port of `thumbindex page`. The port is fixed so that bookmarks keep working.

If the port is in use, the system chooses another one.
"""


def serve_page(
    opening: OpenOptions,
    port: int | None,
    start_command_server: StartCommandServer,
    *,
    opens_browser: bool,
) -> int:
    """Serve only the page, to browsers on this machine, until a signal, then exit the process.

    Each browser signs in at a one-time address. The first address goes to standard output, and
    further addresses go to standard error.
    """
    outgoing = claim_output()
    config = opening.load()
    # the key's holder owns the notes and sees all folders
    config = replace(
        config, folder_tokens={}, serve=replace(config.serve, http=HttpSettings(page=True))
    )
    folders = named_folders(opening)
    library_host = LibraryHost(opening, start_command_server=start_command_server)
    base = ""
    redirect_files: list[Path] = []  # to delete once the browser has opened the address

    def announce(key: str) -> None:
        delete_redirect_files(redirect_files)
        sys.stderr.write(f"For another browser: {base}/sign-in/{key}\n")
        sys.stderr.flush()

    def on_listening(address: str) -> None:
        nonlocal base
        base = address.removesuffix("/mcp")
        one_time_url = f"{base}/sign-in/{key.key}"
        hint = (
            "Open this address in a browser on this machine; it works once. Press Ctrl-C to stop.\n"
        )
        if opens_browser:
            open_in_browser(one_time_url, redirect_files)
            hint = (
                "Your browser should open this address. If not, open it yourself; it works once. "
                "Press Ctrl-C to stop.\n"
            )
        _print_address(outgoing, one_time_url, hint)

    key = OneTimeKey(announce)
    ports = (PAGE_PORT, 0) if port is None else (port,)
    try:
        for candidate in ports:
            settings = _with_http_settings(config, port=candidate)
            try:
                _serve(
                    HttpApp(library_host, folders, settings, key=key),
                    settings.serve.http,
                    on_listening,
                )
                break
            except UsageError:
                if candidate == ports[-1]:
                    raise
    finally:
        delete_redirect_files(redirect_files)
        library_host.stop()
    return _exit()


def _print_address(outgoing: TextIO, address: str, hint: str) -> None:
    """Start the log, and print `address`. In a terminal, also print `hint`."""
    logging.getLogger().addHandler(ServerLog(sys.stderr))
    outgoing.write(f"{address}\n")
    outgoing.flush()
    if sys.stderr.isatty():
        sys.stderr.write(hint)
        sys.stderr.flush()


def _with_http_settings(config: Config, **settings: Any) -> Config:
    return replace(config, serve=replace(config.serve, http=replace(config.serve.http, **settings)))


def _serve(site: HttpApp, settings: HttpSettings, on_listening: Callable[[str], object]) -> None:
    limit_numeric_threads()  # the indexer's process inherits this
    return_freed_memory()
    switch_threads_often()
    # A signal must end the server, not the process, so that the cleanup runs. uvicorn raises the
    # signal again when it is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # By default, sse-starlette cuts off all streams at once, even answers in progress. Our drain()
    # ends only the streams of changes.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
    HttpServer(site.app, settings, on_listening, site.drain).run()


def _exit() -> int:
    """Exit without waiting for threads that load a model or search."""
    sys.stderr.flush()
    os._exit(0)
