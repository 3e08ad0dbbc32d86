"""Who is looking: sessions in memory behind a cookie that holds no token, the key that opens the
page once, and what a browser says of a request.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from thumbindex.web.access import LONGEST_TOKEN
from thumbindex.web.limits import CHECK_SECONDS

MOST_SESSIONS = 1_000
"""Of all visitors together: the one that was away for longest is signed out."""

LONGEST_SECONDS = 12 * 3600.0
"""Without a request, after which a session ends."""

_BYTES = 32
"""Of randomness in a session's id and in a key: nobody finds one by trying."""


@dataclass(slots=True)
class Session:
    """A visitor who has signed in. The token is kept in memory alone, to be looked up again."""

    token: str
    known: AccessToken
    seen: float
    checked: float


class Visitors:
    """The visitors who have signed in with a token that the server takes, for all that it must
    allow.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        scopes: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._verifier, self._scopes, self._clock = verifier, frozenset(scopes), clock
        self._open: OrderedDict[str, Session] = OrderedDict()

    async def sign_in(self, token: str) -> str | None:
        """Begin a session and return its id; None where the token is not taken, or does not allow
        what the protocol asks for.
        """
        known = await self._known(token)
        if known is None:
            return None
        now, id_ = self._clock(), secrets.token_urlsafe(_BYTES)
        self._open[id_] = Session(token, known, now, now)
        while len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)
        return id_

    async def user(self, id_: str) -> AuthenticatedUser | None:
        """Return whose session this is; None where it has ended or its token is taken no longer."""
        session, now = self._open.get(id_), self._clock()
        if session is None:
            return None
        if now > session.seen + LONGEST_SECONDS:
            self.sign_out(id_)
            return None
        if now > session.checked + CHECK_SECONDS:
            known = await self._known(session.token)
            if known is None:
                self.sign_out(id_)
                return None
            session.known, session.checked = known, now
        if session.known.expires_at is not None and session.known.expires_at < time.time():
            self.sign_out(id_)
            return None
        session.seen = now
        if id_ in self._open:
            self._open.move_to_end(id_)
        return AuthenticatedUser(session.known)

    def sign_out(self, id_: str) -> None:
        """End a session."""
        self._open.pop(id_, None)

    async def _known(self, token: str) -> AccessToken | None:
        if not token or len(token) > LONGEST_TOKEN:
            return None
        known = await self._verifier.verify_token(token)
        if known is None or (known.expires_at is not None and known.expires_at < time.time()):
            return None
        return known if self._scopes <= set(known.scopes) else None


class OneTimeKey:
    """The verifier of a page for whoever started it: a key opens it once, and the next one is told
    to the terminal alone.
    """

    def __init__(self, announce: Callable[[str], object]) -> None:
        self._announce = announce
        self.key = secrets.token_urlsafe(_BYTES)
        self._used: set[str] = set()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Take a key that was used up, by which its session is looked up again; `take` is how one
        signs in.
        """
        if token in self._used:
            return AccessToken(token="", client_id="owner", scopes=[], claims={"names": ["owner"]})
        return None

    def take(self, key: str) -> bool:
        """Use the key up, and announce another one; False for what is not the present one."""
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self.key.encode()):
            return False
        self._used.add(self.key)
        self.key = secrets.token_urlsafe(_BYTES)
        self._announce(self.key)
        return True


def cookie_name(scope: Scope, *, is_secure: bool) -> str:
    """Return what the cookie is called: browsers send a cookie to every port of a host, so that two
    pages of one machine need two names.
    """
    port = (scope.get("server") or ("", 0))[1]
    return "__Host-thumbindex" if is_secure else f"thumbindex-{port}"


def cookie_of(scope: Scope, name: str) -> str:
    """Return what a request's cookie of this name holds; empty where there is none."""
    for header in Headers(scope=scope).getlist("cookie"):
        if found := cookie_parser(header).get(name):
            return found
    return ""


def set_cookie(name: str, id_: str, *, is_secure: bool) -> str:
    """Return the header that keeps a session's id in the browser until it is closed; an empty id
    takes it away.
    """
    ends = "; Max-Age=0" if not id_ else ""
    return f"{name}={id_}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if is_secure else ''}{ends}"


def came_from_elsewhere(scope: Scope) -> bool:
    """Tell whether the browser says that another site has sent a request (Fetch Metadata); without
    a word of it, it has not.
    """
    return any(
        each.lower() not in {"same-origin", "none"}
        for each in Headers(scope=scope).getlist("sec-fetch-site")
    )


def is_own_form(scope: Scope) -> bool:
    """Tell whether one of our own pages has sent a change: by Fetch Metadata, else by an Origin
    that is this host.
    """
    headers = Headers(scope=scope)
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    if len(origins) > 1 or len(sites) > 1:
        return False
    hosts = {f"{scheme}://{headers.get('host', '').lower()}" for scheme in ("http", "https")}
    if origins and origins[0].lower() not in hosts:
        return False
    return sites[0].lower() == "same-origin" if sites else bool(origins)
