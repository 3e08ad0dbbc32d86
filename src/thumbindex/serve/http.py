"""MCP over Streamable HTTP for several clients: what is behind the one address, and in which order a request meets it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from thumbindex.config import configured_roots
from thumbindex.errors import ConfigError
from thumbindex.process import compute_on_one_thread, give_memory_back, take_short_turns
from thumbindex.serve.answers import Observed, as_json_line, refusal
from thumbindex.serve.background import Background
from thumbindex.serve.calls import Calls
from thumbindex.serve.doors import Door, Doors
from thumbindex.serve.gate import AnyOf, Gate, Senders, Strangers, is_loopback, names_of
from thumbindex.serve.greeting import MayName
from thumbindex.serve.listen import Listening, ServerLog, end_by_signal
from thumbindex.serve.mcp import build_server
from thumbindex.serve.metrics import CONTENT_TYPE, Metrics
from thumbindex.serve.oauth import Issuer
from thumbindex.serve.opening import Opening
from thumbindex.serve.outcome import say_error
from thumbindex.serve.rights import EVERYONE, Rights, checked_rights, nested
from thumbindex.serve.sight import Sight
from thumbindex.serve.stdio import claim_output, named_folders, names_allowed
from thumbindex.serve.token_file import TokenFile
from thumbindex.settings import Config, HttpSettings

Folders = Sequence[tuple[str, Path]]


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is let in, and who sees what."""

    rights: Rights
    verifier: AnyOf | None  # None where no token is asked for


def admission(config: Config, folders: Folders) -> Admission:
    """Return who is let in by a configuration; raise ConfigError where others would be let in by an oversight."""
    settings = config.serve.http
    tokens = TokenFile(Path(settings.token_file).expanduser(), settings.scopes) if settings.token_file else None
    issuer = Issuer(settings) if settings.issuer else None
    verifiers: list[TokenVerifier] = [each for each in (tokens, issuer) if each is not None]
    if not verifiers and (reached := _reached_by_others(settings)):
        raise ConfigError(
            f"{reached}, and no token is asked for: make one with `thumbindex token NAME --token-file FILE` and give --token-file FILE, "
            "or set `serve.http.issuer`."
        )
    rights = checked_rights(
        folders,
        config.granted,
        tokens.names() if tokens else (),
        asks=bool(verifiers),
        has_issuer=issuer is not None,
        configured=configured_roots(config),
    )
    return Admission(rights, AnyOf(verifiers) if verifiers else None)


def _reached_by_others(settings: HttpSettings) -> str:
    """Say why others than this machine could ask; empty where they cannot."""
    if not is_loopback(settings.host):
        return f"Others can reach {settings.host}"
    named = next((name for name in ("url", "hosts", "proxies") if getattr(settings, name)), "")
    return f"`serve.http.{named}` lets others in" if named else ""


class Site:
    """All that is behind one address: the protocol, health and metrics."""

    def __init__(self, background: Background, folders: Folders, config: Config, may_name: MayName | None = None) -> None:
        self._background, self._folders, self._may_name = background, folders, may_name
        self._settings = config.serve.http
        self._admission = admission(config, folders)
        self._doors = Doors(self._admission.rights, self._entrance)
        self.metrics = Metrics()
        self.gate = Gate(self._doors, self._settings, self._admission.verifier)
        self.app = self._layers()

    def warnings(self) -> list[str]:
        """Say what is allowed and perhaps not meant."""
        return nested(self._folders, self._admission.rights)

    def _entrance(self, seen: frozenset[str]) -> StreamableHTTPSessionManager:
        """Return the protocol's entrance to some folders: a server that knows of no others."""
        folders = [each for each in self._folders if each[0] in seen]
        behind = self._background if len(folders) == len(self._folders) else Sight(self._background, seen)
        server = build_server(behind, folders, self._may_name)
        server.middleware.append(Calls(self.metrics, self._settings.request_seconds))
        http = self._settings
        return Door(server, max_request_body_size=http.max_body_bytes, max_sessions=http.connections, sessions_each=http.sessions)

    def _layers(self) -> ASGIApp:
        verifier, settings = self._admission.verifier, self._settings
        routes = [
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._guarded(request_response(self._metrics)), methods=["GET"]),
            Route("/mcp", self._guarded(self.gate), methods=["GET", "POST", "DELETE"]),
        ]
        if settings.issuer:
            known = _auth_settings(settings)
            routes += create_protected_resource_routes(AnyHttpUrl(settings.url), [known.issuer_url], known.required_scopes)
        site = Starlette(routes=routes, lifespan=self._lifespan)
        site.router.redirect_slashes = False  # behind a proxy an address that we make up may be a wrong one
        app: ASGIApp = site
        if verifier is not None:
            app = Strangers(AuthenticationMiddleware(AuthContextMiddleware(app), backend=BearerAuthBackend(verifier)), settings)
        app = Senders(app, settings, asks=verifier is not None)
        if settings.origins:
            told = ["Mcp-Session-Id", "WWW-Authenticate"]
            app = CORSMiddleware(app, list(settings.origins), ["GET", "POST", "DELETE"], ["*"], expose_headers=told)
        return Observed(app, self.metrics)

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        if self._admission.verifier is None:
            return _Page(app)
        told = build_resource_metadata_url(AnyHttpUrl(self._settings.url)) if self._settings.issuer else None
        return RequireAuthMiddleware(app, list(self._settings.scopes), told)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._background.start()
        async with self._doors.open():
            yield

    async def _health(self, request: Request) -> Response:
        """Say that the process answers."""
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Say whether every folder has words to search."""
        is_ready = self._background.is_ready
        return JSONResponse({"status": "ready" if is_ready else "starting"}, status_code=200 if is_ready else 503)

    async def _metrics(self, request: Request) -> Response:
        """Tell what was counted, of all folders: to those who are named for it."""
        allowed = self._admission.verifier is None or {EVERYONE, *names_of(request.scope)} & set(self._settings.metrics)
        if not allowed:
            return refusal(403, "This token may not read metrics: whoever runs this server names it in `serve.http.metrics`.")
        library = self._background.library_if_open()
        held = await run_sync(library.states) if library else {}
        return PlainTextResponse(self.metrics.text(held, self.gate.streams), media_type=CONTENT_TYPE)


def _auth_settings(settings: HttpSettings) -> AuthSettings:
    # These keep an issuer's address as it is written: clients compare it letter by letter. Whom a token is for is our verifier's to check.
    given = {"issuer_url": settings.issuer, "resource_server_url": settings.url, "required_scopes": list(settings.scopes) or None}
    return AuthSettings.model_validate({**given, "validate_token_resource": False})


class _Page:
    """A route takes an object for an application of its own, a function for something else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def serve_http(opening: Opening, given: Mapping[str, Any], *, as_json: bool) -> int:
    """Serve clients until a signal ends it, by the configuration and what the command line has given over it; the process ends here.

    Standard output gets one line, the address; everything else goes to standard error.
    """
    outgoing = claim_output()
    compute_on_one_thread()  # the child that indexes, too
    give_memory_back()
    take_short_turns()
    config = opening.load()
    config = replace(config, serve=replace(config.serve, http=replace(config.serve.http, **given)))
    folders = named_folders(opening)
    background = Background(opening)
    site = Site(background, folders, config, names_allowed(opening, folders))
    for warning in site.warnings():
        say_error(warning)

    def say(address: str) -> None:
        logging.getLogger().addHandler(ServerLog(sys.stderr))  # from here on strangers are heard
        outgoing.write(f"{as_json_line({'url': address}) if as_json else address}\n")
        outgoing.flush()

    end_by_signal()
    try:
        Listening(site.app, config.serve.http, say, site.gate.drain).run()
    finally:
        background.stop()
    sys.stderr.flush()
    # As on standard input: threads that load a model or search must not keep a server that is to end.
    os._exit(0)
