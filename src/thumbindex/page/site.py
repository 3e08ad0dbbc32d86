"""The page's routes: screens as HTML and JSON, forms, static files, changes, and signing in."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import anyio
import jinja2
from anyio.to_thread import run_sync
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.background.host import LibraryHost
from thumbindex.errors import ThumbindexError, UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import Changes
from thumbindex.page import ask, checkup, judge, note, notes, state, why
from thumbindex.page.session import (
    SessionStore,
    SignIn,
    cookie_header,
    cookie_name,
    is_cross_site,
    is_same_origin_form,
    is_secure,
    read_cookie,
    signed_in_user,
)
from thumbindex.page.visit import (
    ForbiddenError,
    FormResult,
    NotFoundError,
    Screen,
    Visit,
    note_address,
    same_site_address,
    screen_address,
)
from thumbindex.settings import HttpSettings
from thumbindex.text import line_range, plural
from thumbindex.web.access import Folders, token_names
from thumbindex.web.limits import SIGN_IN_PATH

_LOG = logging.getLogger(__name__)

_Values = Mapping[str, tuple[str, ...]]
"""Values of a query string or form by name."""

SCREENS: Mapping[str, Callable[[Visit], Screen]] = {
    "ask": ask.ask_screen,
    "names": ask.names_screen,
    "note": note.note_screen,
    "why": why.why_screen,
    "notes": notes.notes_screen,
    "checkup": checkup.checkup_screen,
    "state": state.state_screen,
    "judge": judge.judge_screen,
}
"""Screens by the first part of their path; `ask` is at `/`."""

FORMS: Mapping[tuple[str, str], Callable[[Visit], FormResult]] = {
    ("checkup", "decide"): checkup.save_decision,
    ("checkup", "undo"): checkup.delete_decision,
    ("judge", "mark"): judge.grade_passage,
    ("judge", "out"): judge.delete_judgment,
}
"""Form actions by screen and name."""

_NAVIGATION = {
    "main": (("ask", "Ask"), ("notes", "Notes"), ("checkup", "Health")),
    "menu": (("judge", "Judge"), ("state", "State")),
}
"""Screens in the navigation bar and in its menu, with their titles."""

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; font-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'"
)

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # with `no-referrer`, browsers would send forms with `Origin: null`
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every response.

They prevent notes from running code, and screens from being framed or cached.
"""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

CHANGES_PATH = "/changes"
"""Path of the event stream of changes."""

_PART_HEADER = "Thumbindex-Part"
"""Request header that names the page element needed by a script."""

_MAX_FIELDS = 500
"""Maximum number of values in a query string or form."""

_GZIP_BYTES, _GZIP_LEVEL = 1_000, 4
"""Responses of at least this many bytes are compressed, at this compression level."""

_WAIT_SECONDS = 2.0
"""Maximum seconds that a screen waits for a first index. Then it shows the progress."""

_HEARTBEAT_SECONDS = 15.0
"""If nothing changes for this many seconds, a line is sent to keep the stream open."""

_NOT_FOUND = "This note or page does not exist, or you may not see it."

_CROSS_SITE = "Another site sent this request, so nothing was searched or changed."


# ------------------------------------------------------------------ templates and static files


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the static files by name."""
    root = Path(str(files("thumbindex.page").joinpath("static")))
    return {path.name: path.read_bytes() for path in sorted(root.iterdir())}


@cache
def _static_digest() -> str:
    """Return a digest of all static files.

    The files' addresses contain the digest, so that browsers can cache the files.
    """
    return hashlib.sha256(
        b"".join(name.encode() + body for name, body in static_files().items())
    ).hexdigest()[:12]


def static_address(name: str) -> str:
    """Return the address of a static file. Raises KeyError if it does not exist."""
    static_files()[name]
    return f"/static/{_static_digest()}/{name}"


@cache
def _templates() -> jinja2.Environment:
    root = Path(str(files("thumbindex.page").joinpath("templates")))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "static": static_address,
        "address": screen_address,
        "note_address": note_address,
        "plural": plural,
        "line_range": line_range,
    }
    return environment


def render(name: str, screen: Screen, visit: Visit | None, **extra: Any) -> str:
    """Return a screen as HTML."""
    frame = {
        "name": name,
        "title": screen.title,
        "visit": visit,
        "navigation": _NAVIGATION,
        "can_sign_out": False,
        **extra,
    }
    return _templates().get_template(f"{name}.html").render({**frame, **screen.values})


def _message_screen(
    title: str, sentence: str, status: int, link: Mapping[str, Any] | None = None
) -> Screen:
    return Screen(
        title,
        {"sentence": sentence, "link": "", "link_text": "", **(link or {})},
        lambda: {"error": sentence},
        status,
    )


# ------------------------------------------------------------------ the page


class Page:
    """The routes of the page."""

    def __init__(
        self, library_host: LibraryHost, folders: Folders, settings: HttpSettings, sign_in: SignIn
    ) -> None:
        self._library_host, self._folders = library_host, folders
        self._settings, self._rules = settings, sign_in
        self._screens = _RequireSignIn(request_response(self._response), sign_in.sessions, settings)
        self._stream = _RequireSignIn(
            request_response(self._change_stream), sign_in.sessions, settings
        )

    def routes(self, with_limits: Callable[[ASGIApp], ASGIApp]) -> list[Route]:
        """Return the page's routes. `with_limits` adds limits to the app of an expensive route."""
        return [
            _route("/static/{digest}/{name:path}", request_response(self._static), "GET"),
            _route("/favicon.ico", request_response(self._favicon), "GET"),
            _route("/{rest:path}", with_limits(self._dispatch), "GET", "POST"),
        ]

    async def is_signed_in(self, scope: Scope) -> bool:
        """Return whether the request's sender is signed in."""
        return await signed_in_user(scope, self._rules.sessions, self._settings) is not None

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if (
            self._rules.sessions is not None
            and path.startswith(SIGN_IN_PATH)
            and path[len(SIGN_IN_PATH) :][:1] in {"", "/"}
        ):
            await request_response(self._sign_in)(scope, receive, send)
        elif path == CHANGES_PATH:
            await self._stream(scope, receive, send)
        else:
            await self._screens(scope, receive, send)

    # -------------------------------------------------------------- screens and forms

    async def _response(self, request: Request) -> Response:
        path, as_json = _path(request).removeprefix("/"), _wants_json(request)
        first, _, rest = path.partition("/")
        name, is_json = first.removesuffix(".json"), first.endswith(".json")
        if request.method == "POST" and name == "sign-out" and is_same_origin_form(request.scope):
            return self._sign_out(request)
        try:
            if request.method == "POST":
                return await self._submit_form(request, name, rest)
            if is_cross_site(request.scope):
                is_navigation = request.headers.get("sec-fetch-mode") == "navigate" and not is_json
                link = (
                    {"link": same_site_address(_target(request)), "link_text": "Open it anyway"}
                    if is_navigation
                    else None
                )
                return self._respond(
                    "message",
                    _message_screen("Request from another site", _CROSS_SITE, 403, link),
                    is_json or as_json,
                )
            visit = partial(
                self._visit,
                request,
                self._host_for(request),
                rest,
                _values(request.url.query),
            )
            name = name or "ask"
            if name not in SCREENS or (rest and name != "note") or path == "ask":
                raise NotFoundError(_NOT_FOUND)
            return await run_sync(
                partial(self._screen_response, name, visit, is_json), abandon_on_cancel=True
            )
        except ThumbindexError as error:
            screen = self._error_screen(error)
            if request.method == "POST" and name in SCREENS:
                link = {"link": screen_address(name), "link_text": "Back"}
                screen = replace(screen, values={**screen.values, **link})
            return self._respond("message", screen, is_json or as_json)

    def _host_for(self, request: Request) -> LibraryHost:
        """Return the library host for the visitor's folders.

        Raises ForbiddenError if the visitor may see no folder.
        """
        names = self._rules.rights.visible_to(token_names(request.scope))
        if not names:
            raise ForbiddenError(
                "This token has access to no folder. The server's administrator can add it to the "
                "`tokens` of a folder."
            )
        # compare with the configured folders, because the library may not be open yet
        sees_all = names == {name for name, _ in self._folders}
        return self._library_host if sees_all else self._library_host.only(names)

    def _visit(
        self, request: Request, library_host: LibraryHost, rest: str, query: _Values
    ) -> Visit:
        """Return the visit, after a short wait for the index and model."""
        library_host.await_words(_WAIT_SECONDS)
        library_host.await_model()
        # taken before reading, so that a change during reading triggers a reload
        revision = library_host.revision()
        library, is_local = library_host.library(), self._rules.is_local
        return Visit(
            library_host,
            library if is_local else library.without_local_paths(),
            query,
            rest,
            self._rules.may_write(request.scope, self._settings),
            is_local,
            self._rules.is_owner,
            request.headers.get(_PART_HEADER, ""),
            revision,
        )

    def _screen_response(
        self, name: str, open_visit: Callable[[], Visit], is_json: bool
    ) -> Response:
        visit = open_visit()
        return visit.library_host.answer_after_repair(
            lambda: self._respond(name, SCREENS[name](visit), is_json, visit)
        )

    async def _submit_form(self, request: Request, name: str, form: str) -> Response:
        action = FORMS.get((name, form))
        if action is None:
            raise NotFoundError(_NOT_FOUND)
        if not is_same_origin_form(request.scope):
            raise ForbiddenError(_CROSS_SITE)
        library_host, values = self._host_for(request), await _form(request)
        if not self._rules.may_write(request.scope, self._settings):
            raise ForbiddenError(_READ_ONLY)
        result = await run_sync(lambda: action(self._visit(request, library_host, form, values)))
        if _wants_json(request):
            return JSONResponse(result.payload)
        return RedirectResponse(result.address, status_code=303)

    def _error_screen(self, error: ThumbindexError) -> Screen:
        """Return a screen for an error; only local visitors see file paths."""
        if isinstance(error, NotFoundError | UnknownPathError | UnknownFolderError):
            return _message_screen("Not found", _NOT_FOUND, 404)
        if isinstance(error, ForbiddenError):
            return _message_screen("Not allowed", str(error), 403)
        if isinstance(error, UsageError):
            is_safe = self._rules.is_local or not any(
                str(root) in str(error) for _, root in self._folders
            )
            return _message_screen(
                "Invalid request",
                str(error) if is_safe else "This is not possible for this folder at the moment.",
                400,
            )
        _LOG.warning("Cannot show a page: %s", error)
        sentence = "The notes are unavailable at the moment. The server's log has the details."
        return _message_screen("Unavailable", str(error) if self._rules.is_local else sentence, 503)

    def _respond(
        self, name: str, screen: Screen, as_json: bool, visit: Visit | None = None
    ) -> Response:
        if as_json:
            if screen.payload is None:
                raise NotFoundError(_NOT_FOUND)
            body = json.dumps(screen.payload(), ensure_ascii=False).encode("utf-8", "replace")
            return Response(body, screen.status, media_type="application/json")
        html = render(
            name, screen, visit, can_sign_out=visit is not None and self._rules.sessions is not None
        )
        return Response(html.encode("utf-8", "replace"), screen.status, media_type="text/html")

    # -------------------------------------------------------------- signing in and out

    async def _sign_in(self, request: Request) -> Response:
        """Sign in with a token from a form, or with the key in a one-time address."""
        sessions, key = self._rules.sessions, self._rules.key
        assert sessions is not None, "this path exists only with sessions"
        secret, target = _path(request).removeprefix(SIGN_IN_PATH).removeprefix("/"), "/"
        if request.method == "POST":
            if not is_same_origin_form(request.scope):
                screen = _message_screen("Request from another site", _CROSS_SITE, 403)
                return self._respond("message", screen, False)
            try:
                form = await _form(request)
            except UsageError as error:
                return self._respond("message", self._error_screen(error), _wants_json(request))
            secret, target = (
                next(iter(form.get(name, ())), "").strip() for name in ("token", "to")
            )
            target = same_site_address(target)
        # a HEAD request must not use up the key
        elif not secret or key is None or request.method != "GET":
            return self._respond(
                "sign_in",
                self._sign_in_screen(same_site_address(request.query_params.get("to", "/"))),
                False,
            )
        elif await signed_in_user(request.scope, sessions, self._settings):
            return RedirectResponse("/", status_code=303)
        id_ = await sessions.sign_in(secret) if key is None or key.use(secret) else None
        if id_ is None:
            return self._respond("sign_in", self._sign_in_screen(target, 401), _wants_json(request))
        has_tls = is_secure(request.scope, self._settings)
        cookie = cookie_header(
            cookie_name(request.scope, is_secure=has_tls), id_, is_secure=has_tls
        )
        # After a redirect file, browsers would not send the cookie with an HTTP redirect.
        if is_cross_site(request.scope):
            screen = _message_screen(
                "Signed in", "You are signed in.", 200, {"link": target, "link_text": "Continue"}
            )
            response = self._respond("message", screen, False)
            response.headers.update(
                {"Set-Cookie": cookie, "Refresh": f"0; url={quote(target, safe='/?&=%#+')}"}
            )
            return response
        return RedirectResponse(target, status_code=303, headers={"Set-Cookie": cookie})

    def _sign_in_screen(self, target: str, status: int = 200) -> Screen:
        values = {"target": target, "by_key": self._rules.key is not None, "refused": status == 401}
        return Screen(
            "Sign in",
            values,
            lambda: {"error": "Sign in to see this page."},
            status,
        )

    def _sign_out(self, request: Request) -> Response:
        has_tls = is_secure(request.scope, self._settings)
        name = cookie_name(request.scope, is_secure=has_tls)
        if self._rules.sessions is not None:
            self._rules.sessions.sign_out(read_cookie(request.scope, name))
        return RedirectResponse(
            SIGN_IN_PATH,
            status_code=303,
            headers={"Set-Cookie": cookie_header(name, "", is_secure=has_tls)},
        )

    # ------------------------------------------------------------ static files and changes

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        body = static_files().get(name)
        if (
            body is None
            or request.path_params["digest"] != _static_digest()
            or is_cross_site(request.scope)
        ):
            return self._respond("message", _message_screen("Not found", _NOT_FOUND, 404), False)
        return Response(
            body,
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
            media_type=_TYPES[Path(name).suffix],
        )

    async def _favicon(self, request: Request) -> Response:
        return Response(status_code=204, headers={"Cache-Control": "public, max-age=86400"})

    async def _change_stream(self, request: Request) -> Response:
        """Stream changes of the visitor's folders, and the progress of indexing."""
        try:
            if is_cross_site(request.scope):
                raise NotFoundError(_NOT_FOUND)
            library_host = self._host_for(request)
        except ThumbindexError as error:
            return self._respond("message", self._error_screen(error), True)
        return StreamingResponse(_events(library_host), media_type="text/event-stream")


_READ_ONLY = (
    "You have read-only access. The server's administrator can add your token's name to "
    "`serve.http.writers`."
)


async def _events(library_host: LibraryHost) -> AsyncIterator[str]:
    """Yield the revision, then an event after each change of notes and each step of indexing."""
    changed = anyio.Event()
    token = anyio.lowlevel.current_token()

    def listen(changes: Mapping[str, Changes]) -> None:
        anyio.from_thread.run_sync(lambda: changed.set(), token=token)

    stop_listening = library_host.listen(listen)
    try:
        library_host.start()
        # a screen with another revision has missed changes
        yield f"event: revision\ndata: {library_host.revision()}\n\n"
        last_counts, idle_seconds = _progress_counts(library_host), 0.0
        while True:
            with anyio.move_on_after(1.0):
                await changed.wait()
            counts = _progress_counts(library_host)
            if changed.is_set():
                changed = anyio.Event()
                yield "event: notes\ndata:\n\n"
            elif counts != last_counts:
                yield "event: progress\ndata:\n\n"
            elif idle_seconds >= _HEARTBEAT_SECONDS:
                yield ": still here\n\n"
            else:
                idle_seconds += 1.0
                continue
            last_counts, idle_seconds = counts, 0.0
    finally:
        stop_listening()


def _progress_counts(library_host: LibraryHost) -> list[Any]:
    return [[step.folder, step.phase, step.done, step.total] for step in library_host.progress()]


# ------------------------------------------------------------------ requests


class _RequireSignIn:
    """Serves visitors with a session or valid token. Redirects all others to the sign-in form."""

    def __init__(self, app: ASGIApp, sessions: SessionStore | None, settings: HttpSettings) -> None:
        self._app, self._sessions, self._settings = app, sessions, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._sessions is None:
            await self._app(scope, receive, send)
        elif user := await signed_in_user(scope, self._sessions, self._settings):
            await self._app({**scope, "user": user}, receive, send)
        else:
            await _sign_in_response(scope)(scope, receive, send)


def _sign_in_response(scope: Scope) -> Response:
    request = Request(scope)
    if (
        _wants_json(request)
        or _path(request).endswith(".json")
        or request.method != "GET"
        or _path(request) == CHANGES_PATH
    ):
        return JSONResponse(
            {"error": "Sign in first: at /sign-in, or with a token in the Authorization header."},
            401,
        )
    target = _target(request)
    return RedirectResponse(
        screen_address("sign-in", to="" if target == "/" else target),
        status_code=303,
    )


def _path(request: Request) -> str:
    """Return the decoded path. Bytes that are not UTF-8 become surrogates, as in file names."""
    return unquote(_raw_path(request), errors="surrogateescape")


def _raw_path(request: Request) -> str:
    raw: bytes = request.scope["raw_path"]
    return raw.decode("ascii", "replace")


def _target(request: Request) -> str:
    """Return the requested path and query verbatim."""
    return _raw_path(request) + (f"?{request.url.query}" if request.url.query else "")


def _wants_json(request: Request) -> bool:
    return request.headers.get("accept", "").startswith("application/json")


async def _form(request: Request) -> _Values:
    """Return the values of a form. Raises UsageError."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise UsageError("Send the form as application/x-www-form-urlencoded.")
    return _values((await request.body()).decode("ascii", "replace"))


def _values(encoded: str) -> _Values:
    try:
        return {
            name: tuple(values)
            for name, values in parse_qs(
                encoded, max_num_fields=_MAX_FIELDS, errors="replace"
            ).items()
        }
    except ValueError:
        raise UsageError(f"Too many values; the maximum is {_MAX_FIELDS}.") from None


def _route(path: str, app: ASGIApp, *methods: str) -> Route:
    """Return a route that adds the page's headers and compresses responses."""
    compressed = GZipMiddleware(
        _PageHeaders(app), minimum_size=_GZIP_BYTES, compresslevel=_GZIP_LEVEL
    )
    return Route(path, compressed, methods=list(methods))


class _PageHeaders:
    """Adds the `SECURITY_HEADERS` that a response does not already have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
