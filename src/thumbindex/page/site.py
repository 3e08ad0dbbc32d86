"""The page's addresses: each screen as HTML and as JSON, forms, files, what changed, and how a
visitor gets in.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import anyio
import jinja2
from anyio.to_thread import run_sync
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.background.host import LibraryHost
from thumbindex.errors import ThumbindexError, UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import Changes
from thumbindex.page import ask, broken_links, judge, note, review, state, why
from thumbindex.page.session import (
    OneTimeKey,
    Visitors,
    came_from_elsewhere,
    cookie_name,
    cookie_of,
    is_own_form,
    set_cookie,
)
from thumbindex.page.visit import (
    Done,
    NotAllowedError,
    NotThereError,
    Screen,
    Visit,
    address,
    note_address,
    own_address,
)
from thumbindex.settings import HttpSettings
from thumbindex.text import line_range, plural
from thumbindex.web.access import EVERYONE, Folders, Rights, names_of
from thumbindex.web.limits import SIGN_IN

_LOG = logging.getLogger(__name__)

Values = Mapping[str, tuple[str, ...]]
"""The values of an address or a form, by name."""

SCREENS: Mapping[str, Callable[[Visit], Screen]] = {
    "ask": ask.show,
    "names": ask.names,
    "note": note.show,
    "why": why.show,
    "links": broken_links.show,
    "review": review.show,
    "state": state.show,
    "judge": judge.show,
}
"""By the first part of its address, what shows a screen; `ask` is at `/`."""

FORMS: Mapping[tuple[str, str], Callable[[Visit], Done]] = {
    ("review", "decide"): review.decide,
    ("review", "undo"): review.undo,
    ("judge", "mark"): judge.mark,
    ("judge", "out"): judge.take_out,
}
"""By screen and name, what a form does."""

NAVIGATION = (
    ("ask", "Ask"),
    ("links", "Links"),
    ("review", "Review"),
    ("state", "State"),
    ("judge", "Judge"),
)
"""The screens that every page leads to, and what they are called."""

CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; font-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'"
)

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    # `no-referrer` would have browsers send forms with `Origin: null`
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""What every answer of the page says beside its text: nothing of a note runs, loads, is framed or
kept.
"""

_TYPES = {".css": "text/css", ".js": "text/javascript"}

CHANGES = "/changes"
"""The stream of what changes."""

PART = "Thumbindex-Part"
"""The header in which our scripts say which element of a page they will take: what stands elsewhere
need not be made.
"""

_MOST_FIELDS = 500
"""Values of an address or a form."""

_LARGE, _LEVEL = 1_000, 4
"""Bytes from which on an answer is compressed, and how hard: half a millisecond's work."""

_FIRST_SECONDS = 2.0
"""The longest that a screen waits for the library to open or have words: after it the screen says
how far it is.
"""

_BEAT_SECONDS = 15.0
"""Between two lines of a stream in which nothing changed, so that nobody between closes it."""

_NOT_THERE = "There is nothing here: the note or the page does not exist, or is not yours to see."

_ELSEWHERE = "Another site has led here. Nothing was asked or changed."


# ------------------------------------------------------------------ what a page is made of


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the files that pages load, by name: they are few and small."""
    root = Path(str(files("thumbindex.page").joinpath("static")))
    return {each.name: each.read_bytes() for each in sorted(root.iterdir())}


@cache
def static_digest() -> str:
    """Return a digest of all of them: a part of their addresses, so that a browser keeps them for
    ever and never has an old one.
    """
    return hashlib.sha256(
        b"".join(name.encode() + body for name, body in static_files().items())
    ).hexdigest()[:12]


def static(name: str) -> str:
    """Return the address of a file that pages load. Raises KeyError where there is none."""
    static_files()[name]
    return f"/static/{static_digest()}/{name}"


@cache
def templates() -> jinja2.Environment:
    """Return the templates: all values are escaped, and one that is missing is an error."""
    root = Path(str(files("thumbindex.page").joinpath("templates")))
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.globals |= {
        "static": static,
        "address": address,
        "note_address": note_address,
        "plural": plural,
        "line_range": line_range,
    }
    return found


def render(name: str, screen: Screen, visit: Visit | None, **more: Any) -> str:
    """Return a screen as HTML."""
    here = {
        "name": name,
        "title": screen.title,
        "visit": visit,
        "navigation": NAVIGATION,
        "can_sign_out": False,
        **more,
    }
    return templates().get_template(f"{name}.html").render({**here, **screen.values})


def _said(title: str, sentence: str, status: int, more: Mapping[str, Any] | None = None) -> Screen:
    """Return a page that says one thing."""
    return Screen(
        title,
        {"sentence": sentence, "link": "", "link_text": "", **(more or {})},
        lambda: {"error": sentence},
        status,
    )


# ------------------------------------------------------------------ who may


@dataclass(frozen=True, slots=True)
class SignIn:
    """Who gets in: without sessions whoever can reach the server; with a key, who started it; else
    the holders of tokens.
    """

    rights: Rights
    visitors: Visitors | None
    key: OneTimeKey | None = None

    @property
    def is_near(self) -> bool:
        """Tell whether visitors are on this machine: paths of its disk are theirs anyway."""
        return self.visitors is None or self.key is not None

    def may_write(self, scope: Scope, settings: HttpSettings) -> bool:
        """Tell whether a visitor decides of copies and judges answers, or only looks."""
        return self.is_near or bool({EVERYONE, *names_of(scope)} & set(settings.writers))


class Page:
    """The page over some folders, as the routes of a site."""

    def __init__(
        self, background: LibraryHost, folders: Folders, settings: HttpSettings, sign_in: SignIn
    ) -> None:
        self._background, self._folders = background, folders
        self._settings, self._entry = settings, sign_in
        self._screens = SignedIn(request_response(self._response), sign_in.visitors, settings)
        self._stream = SignedIn(request_response(self._changes), sign_in.visitors, settings)

    def routes(self, through: Callable[[ASGIApp], ASGIApp]) -> list[Route]:
        """Return the page's routes; `through` is what requests pass that cost something."""
        return [
            _route("/static/{digest}/{name:path}", request_response(self._static), "GET"),
            _route("/favicon.ico", request_response(self._favicon), "GET"),
            _route("/{rest:path}", through(self._dispatch), "GET", "POST"),
        ]

    async def still_signed_in(self, scope: Scope) -> bool:
        """Tell whether the sender of a request is still known."""
        return await user_of(scope, self._entry.visitors, self._settings) is not None

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if (
            self._entry.visitors is not None
            and path.startswith(SIGN_IN)
            and path[len(SIGN_IN) :][:1] in {"", "/"}
        ):
            await request_response(self._sign_in)(scope, receive, send)
        elif path == CHANGES:
            await self._stream(scope, receive, send)
        else:
            await self._screens(scope, receive, send)

    # -------------------------------------------------------------- a screen, a form, a file

    async def _response(self, request: Request) -> Response:
        path, as_json = _path(request).removeprefix("/"), _wants_json(request)
        first, _, rest = path.partition("/")
        # Of `/note/notes/a.md.json` the last suffix alone says how it is answered.
        is_twin = path.endswith(".json")
        name, rest = (
            (first, rest.removesuffix(".json")) if rest else (first.removesuffix(".json"), "")
        )
        if request.method == "POST" and name == "sign-out" and is_own_form(request.scope):
            return self._sign_out(request)
        try:
            if request.method == "POST":
                return await self._post(request, name, rest)
            if came_from_elsewhere(request.scope):
                is_navigation = request.headers.get("sec-fetch-mode") == "navigate" and not is_twin
                link = (
                    {"link": own_address(_target(request)), "link_text": "Open it from here"}
                    if is_navigation
                    else None
                )
                return self._page(
                    "message", _said("From another site", _ELSEWHERE, 403, link), is_twin or as_json
                )
            visit = partial(
                self._visit,
                request,
                self._background_of(request),
                rest,
                _values(request.url.query),
            )
            name = name or "ask"
            if name not in SCREENS or (rest and name != "note") or path == "ask":
                raise NotThereError(_NOT_THERE)
            return await run_sync(
                partial(self._shown, name, visit, is_twin), abandon_on_cancel=True
            )
        except ThumbindexError as error:
            said = self._in_words(error)
            # what was typed is in the form still, one step back
            if request.method == "POST" and name in SCREENS:
                said = replace(
                    said, values={**said.values, "link": address(name), "link_text": "Back"}
                )
            return self._page("message", said, is_twin or as_json)

    def _background_of(self, request: Request) -> LibraryHost:
        """Return what a visitor sees. Raises NotAllowedError where that is nothing."""
        names = self._entry.rights.seen_by(names_of(request.scope))
        if not names:
            raise NotAllowedError(
                "This token sees no folder: whoever runs this server names it in `tokens` of "
                "a folder."
            )
        # By what the server was started with, never by what is open: before it is open that is
        # nothing, for everybody.
        sees_all = names == {name for name, _ in self._folders}
        return self._background if sees_all else self._background.only(names)

    def _visit(self, request: Request, background: LibraryHost, rest: str, query: Values) -> Visit:
        """Return the visit: its library has words by now, or is about to.

        Raises what opening it raised.
        """
        background.await_words(_FIRST_SECONDS)
        background.await_model()
        # before anything is read: news of what is read meanwhile comes again
        revision = background.revision()
        library, is_near = background.library(), self._entry.is_near
        return Visit(
            background,
            library if is_near else library.from_afar(),
            query,
            rest,
            self._entry.may_write(request.scope, self._settings),
            is_near,
            request.headers.get(PART, ""),
            revision,
        )

    def _shown(self, name: str, open_visit: Callable[[], Visit], is_twin: bool) -> Response:
        visit = open_visit()
        return visit.background.answer_after_repair(
            lambda: self._page(name, SCREENS[name](visit), is_twin, visit)
        )

    async def _post(self, request: Request, name: str, form: str) -> Response:
        do = FORMS.get((name, form))
        if do is None:
            raise NotThereError(_NOT_THERE)
        if not is_own_form(request.scope):
            raise NotAllowedError(_ELSEWHERE)
        background, values = self._background_of(request), await _form(request)
        if not self._entry.may_write(request.scope, self._settings):
            raise NotAllowedError(_ONLY_LOOKING)
        done = await run_sync(lambda: do(self._visit(request, background, form, values)))
        if _wants_json(request):
            return JSONResponse(done.payload)
        return RedirectResponse(done.address, status_code=303)

    def _in_words(self, error: ThumbindexError) -> Screen:
        """Say what went wrong, without what a visitor from afar may not know."""
        if isinstance(error, NotThereError | UnknownPathError | UnknownFolderError):
            return _said("Not there", _NOT_THERE, 404)
        if isinstance(error, NotAllowedError):
            return _said("Not allowed", str(error), 403)
        if isinstance(error, UsageError):
            is_told = self._entry.is_near or not any(
                str(root) in str(error) for _, root in self._folders
            )
            return _said(
                "This cannot be done",
                str(error) if is_told else "This cannot be done with this folder as it is now.",
                400,
            )
        _LOG.warning("A page could not be shown: %s", error)
        from_afar = (
            "The notes cannot be read just now: whoever runs this server finds the reason in its "
            "log."
        )
        return _said("Not just now", str(error) if self._entry.is_near else from_afar, 503)

    def _page(
        self, name: str, screen: Screen, as_json: bool, visit: Visit | None = None
    ) -> Response:
        if as_json:
            body = json.dumps(screen.twin(), ensure_ascii=False).encode("utf-8", "replace")
            return Response(body, screen.status, media_type="application/json")
        html = render(
            name, screen, visit, can_sign_out=visit is not None and self._entry.visitors is not None
        )
        return Response(html.encode("utf-8", "replace"), screen.status, media_type="text/html")

    # -------------------------------------------------------------- getting in and out

    async def _sign_in(self, request: Request) -> Response:
        """Take a token from a form, or the key of an address that opens the page once."""
        visitors, key = self._entry.visitors, self._entry.key
        assert visitors is not None, "the address is there with sessions only"
        given, target = _path(request).removeprefix(SIGN_IN).removeprefix("/"), "/"
        if request.method == "POST":
            if not is_own_form(request.scope):
                return self._page("message", _said("From another site", _ELSEWHERE, 403), False)
            try:
                form = await _form(request)
            except UsageError as error:
                return self._page("message", self._in_words(error), _wants_json(request))
            given, target = (next(iter(form.get(name, ())), "").strip() for name in ("token", "to"))
            target = own_address(target)
        # a look at the headers opens nothing
        elif not given or key is None or request.method != "GET":
            return self._page(
                "sign_in", self._asking(own_address(request.query_params.get("to", "/"))), False
            )
        elif await user_of(request.scope, visitors, self._settings):
            return RedirectResponse("/", status_code=303)
        id_ = await visitors.sign_in(given) if key is None or key.take(given) else None
        if id_ is None:
            return self._page("sign_in", self._asking(target, 401), _wants_json(request))
        has_tls = is_secure(request.scope, self._settings)
        cookie = set_cookie(cookie_name(request.scope, is_secure=has_tls), id_, is_secure=has_tls)
        # a file: a redirect from there would not bring the cookie
        if came_from_elsewhere(request.scope):
            said = _said(
                "Signed in", "You have signed in.", 200, {"link": target, "link_text": "Go on"}
            )
            answer = self._page("message", said, False)
            answer.headers.update(
                {"Set-Cookie": cookie, "Refresh": f"0; url={quote(target, safe='/?&=%#+')}"}
            )
            return answer
        return RedirectResponse(target, status_code=303, headers={"Set-Cookie": cookie})

    def _asking(self, target: str, status: int = 200) -> Screen:
        values = {"target": target, "by_key": self._entry.key is not None, "refused": status == 401}
        return Screen(
            "Sign in",
            values,
            lambda: {"error": "This page is for those who have signed in."},
            status,
        )

    def _sign_out(self, request: Request) -> Response:
        has_tls = is_secure(request.scope, self._settings)
        name = cookie_name(request.scope, is_secure=has_tls)
        if self._entry.visitors is not None:
            self._entry.visitors.sign_out(cookie_of(request.scope, name))
        return RedirectResponse(
            SIGN_IN,
            status_code=303,
            headers={"Set-Cookie": set_cookie(name, "", is_secure=has_tls)},
        )

    # ------------------------------------------------------------ what pages load, and what changed

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        body = static_files().get(name)
        if (
            body is None
            or request.path_params["digest"] != static_digest()
            or came_from_elsewhere(request.scope)
        ):
            return self._page("message", _said("Not there", _NOT_THERE, 404), False)
        kind = _TYPES[Path(name).suffix]
        return Response(
            body,
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
            media_type=kind,
        )

    async def _favicon(self, request: Request) -> Response:
        return Response(status_code=204, headers={"Cache-Control": "public, max-age=86400"})

    async def _changes(self, request: Request) -> Response:
        """Stream that something has changed in the folders that a visitor sees, or that indexing
        has gone on.
        """
        try:
            if came_from_elsewhere(request.scope):
                raise NotThereError(_NOT_THERE)
            background = self._background_of(request)
        except ThumbindexError as error:
            return self._page("message", self._in_words(error), True)
        return StreamingResponse(_events(background), media_type="text/event-stream")


_ONLY_LOOKING = (
    "You may look, but not decide: whoever runs this server adds your token's name to "
    "`serve.http.writers`."
)


async def _events(background: LibraryHost) -> AsyncIterator[str]:
    """Yield an event after notes have changed, and for each step of indexing and loading: a screen
    is loaded anew then, of what its visitor sees.

    The first event is `Follower.revision`: a screen of another one has missed what came before
    anybody listened.
    """
    changed = anyio.Event()
    token = anyio.lowlevel.current_token()

    def listen(changes: Mapping[str, Changes]) -> None:
        anyio.from_thread.run_sync(lambda: changed.set(), token=token)

    end = background.listen(listen)
    try:
        background.start()
        yield f"event: revision\ndata: {background.revision()}\n\n"
        before, quiet = _doing(background), 0.0
        while True:
            with anyio.move_on_after(1.0):
                await changed.wait()
            now = _doing(background)
            if changed.is_set():
                changed = anyio.Event()
                yield "event: notes\ndata:\n\n"
            elif now != before:
                yield "event: progress\ndata:\n\n"
            elif quiet >= _BEAT_SECONDS:
                yield ": still here\n\n"
            else:
                quiet += 1.0
                continue
            before, quiet = now, 0.0
    finally:
        end()


def _doing(background: LibraryHost) -> list[Any]:
    return [[each.folder, each.phase, each.done, each.total] for each in background.progress()]


# ------------------------------------------------------------------ requests


class SignedIn:
    """Lets visitors through whose session, or whose token, the server knows; the others are led to
    where one signs in.
    """

    def __init__(self, app: ASGIApp, visitors: Visitors | None, settings: HttpSettings) -> None:
        self._app, self._visitors, self._settings = app, visitors, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._visitors is None:
            await self._app(scope, receive, send)
        elif user := await user_of(scope, self._visitors, self._settings):
            await self._app({**scope, "user": user}, receive, send)
        else:
            await _to_sign_in(scope)(scope, receive, send)


async def user_of(
    scope: Scope, visitors: Visitors | None, settings: HttpSettings
) -> AuthenticatedUser | None:
    """Return the sender of a request, by its token or its session; a token must allow all that the
    protocol asks for.
    """
    user: Any = scope.get("user")
    if isinstance(user, AuthenticatedUser) and set(settings.scopes) <= set(user.scopes):
        return user
    id_ = cookie_of(scope, cookie_name(scope, is_secure=is_secure(scope, settings)))
    return await visitors.user(id_) if id_ and visitors is not None else None


def is_secure(scope: Scope, settings: HttpSettings) -> bool:
    """Tell whether visitors come over https."""
    return scope.get("scheme") == "https" or urlsplit(settings.url).scheme == "https"


def _to_sign_in(scope: Scope) -> Response:
    request = Request(scope)
    if (
        _wants_json(request)
        or _path(request).endswith(".json")
        or request.method != "GET"
        or _path(request) == CHANGES
    ):
        return JSONResponse(
            {"error": "Sign in first: at /sign-in, or with a token in the header Authorization."},
            401,
        )
    target = _target(request)
    return RedirectResponse(
        address("sign-in", to="" if target == "/" else target),
        status_code=303,
    )


def _path(request: Request) -> str:
    """Return the path as names of files have it: a byte that is no UTF-8 stands for itself."""
    return unquote(_raw_path(request), errors="surrogateescape")


def _raw_path(request: Request) -> str:
    raw: bytes = request.scope["raw_path"]
    return raw.decode("ascii", "replace")


def _target(request: Request) -> str:
    """Return the address that was asked for, as it was written."""
    return _raw_path(request) + (f"?{request.url.query}" if request.url.query else "")


def _wants_json(request: Request) -> bool:
    return request.headers.get("accept", "").startswith("application/json")


async def _form(request: Request) -> Values:
    """Read a form as browsers send it. Raises UsageError for what is none."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise UsageError("A form is sent as application/x-www-form-urlencoded.")
    return _values((await request.body()).decode("ascii", "replace"))


def _values(encoded: str) -> Values:
    try:
        return {
            name: tuple(values)
            for name, values in parse_qs(
                encoded, max_num_fields=_MOST_FIELDS, errors="replace"
            ).items()
        }
    except ValueError:
        raise UsageError(f"There are more than {_MOST_FIELDS} values: give less.") from None


def _route(path: str, app: ASGIApp, *methods: str) -> Route:
    """Return a route of the page: its answers have the page's headers, and are compressed."""
    compressed = GZipMiddleware(PageHeaders(app), minimum_size=_LARGE, compresslevel=_LEVEL)
    return Route(path, compressed, methods=list(methods))


class PageHeaders:
    """Adds the page's headers to each answer, unless it has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
