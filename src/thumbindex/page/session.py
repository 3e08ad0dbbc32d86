"""Signing in to the page: sessions in memory, the one-time key, cookies, and checks of a
request's origin.
"""

from __future__ import annotations

import hmac
import html
import os
import secrets
import tempfile
import threading
import time
import webbrowser
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from platformdirs import user_state_path
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from thumbindex.present.exit_codes import print_error
from thumbindex.settings import HttpSettings
from thumbindex.web.access import EVERYONE, MAX_TOKEN_CHARS, FolderRights, token_names
from thumbindex.web.limits import CHECK_SECONDS

_MAX_SESSIONS = 1_000
"""Maximum sessions of all visitors; the longest unused one ends first."""

IDLE_SECONDS = 12 * 3600.0
"""Seconds without a request after which a session ends."""

_ID_BYTES = 32
"""Random bytes of a session's id and of a key."""


@dataclass(slots=True)
class _Session:
    """A visitor who has signed in. The token is kept in memory alone, to be verified again."""

    token: str
    access: AccessToken
    used_at: float
    verified_at: float


class SessionStore:
    """The sessions of visitors who have signed in with a valid token that has all required
    scopes.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        scopes: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._verifier, self._scopes, self._clock = verifier, frozenset(scopes), clock
        self._open: OrderedDict[str, _Session] = OrderedDict()

    async def sign_in(self, token: str) -> str | None:
        """Begin a session and return its id; None if the token is not valid."""
        access = await self._verify(token)
        if access is None:
            return None
        now, id_ = self._clock(), secrets.token_urlsafe(_ID_BYTES)
        self._open[id_] = _Session(token, access, now, now)
        while len(self._open) > _MAX_SESSIONS:
            self._open.popitem(last=False)
        return id_

    async def user(self, id_: str) -> AuthenticatedUser | None:
        """Return a session's user; None if it has ended or its token is no longer valid."""
        session, now = self._open.get(id_), self._clock()
        if session is None:
            return None
        if now > session.used_at + IDLE_SECONDS:
            self.sign_out(id_)
            return None
        if now > session.verified_at + CHECK_SECONDS:
            access = await self._verify(session.token)
            if access is None:
                self.sign_out(id_)
                return None
            session.access, session.verified_at = access, now
        if session.access.expires_at is not None and session.access.expires_at < time.time():
            self.sign_out(id_)
            return None
        session.used_at = now
        if id_ in self._open:
            self._open.move_to_end(id_)
        return AuthenticatedUser(session.access)

    def sign_out(self, id_: str) -> None:
        """End a session."""
        self._open.pop(id_, None)

    async def _verify(self, token: str) -> AccessToken | None:
        if not token or len(token) > MAX_TOKEN_CHARS:
            return None
        access = await self._verifier.verify_token(token)
        if access is None or (access.expires_at is not None and access.expires_at < time.time()):
            return None
        return access if self._scopes <= set(access.scopes) else None


class OneTimeKey:
    """The verifier of a page for its owner: a key works once, and the next one is announced in
    the terminal alone.
    """

    def __init__(self, announce: Callable[[str], object]) -> None:
        self._announce = announce
        self.key = secrets.token_urlsafe(_ID_BYTES)
        self._used: set[str] = set()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Accept a used key, by which its session is verified again; `use` is for signing in."""
        if token in self._used:
            return AccessToken(token="", client_id="owner", scopes=[], claims={"names": ["owner"]})
        return None

    def use(self, key: str) -> bool:
        """Use the key up and announce another one; return False for any other key."""
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self.key.encode()):
            return False
        self._used.add(self.key)
        self.key = secrets.token_urlsafe(_ID_BYTES)
        self._announce(self.key)
        return True


def cookie_name(scope: Scope, *, is_secure: bool) -> str:
    """Return the cookie's name. It has the port, since browsers send cookies to all ports of a
    host.
    """
    port = (scope.get("server") or ("", 0))[1]
    return "__Host-thumbindex" if is_secure else f"thumbindex-{port}"


def read_cookie(scope: Scope, name: str) -> str:
    """Return the value of a request's cookie; empty if there is none."""
    for header in Headers(scope=scope).getlist("cookie"):
        if found := cookie_parser(header).get(name):
            return found
    return ""


def cookie_header(name: str, id_: str, *, is_secure: bool) -> str:
    """Return the header that stores a session's id in the browser; an empty id deletes it."""
    ends = "; Max-Age=0" if not id_ else ""
    return f"{name}={id_}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if is_secure else ''}{ends}"


def is_cross_site(scope: Scope) -> bool:
    """Return whether the browser says that another site sent a request (Fetch Metadata)."""
    return any(
        each.lower() not in {"same-origin", "none"}
        for each in Headers(scope=scope).getlist("sec-fetch-site")
    )


def is_same_origin_form(scope: Scope) -> bool:
    """Return whether one of our own pages sent a form, by Fetch Metadata, else by the Origin."""
    headers = Headers(scope=scope)
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    if len(origins) > 1 or len(sites) > 1:
        return False
    hosts = {f"{scheme}://{headers.get('host', '').lower()}" for scheme in ("http", "https")}
    if origins and origins[0].lower() not in hosts:
        return False
    return sites[0].lower() == "same-origin" if sites else bool(origins)


@dataclass(frozen=True, slots=True)
class SignIn:
    """Rules of signing in: without sessions everyone is in; with a key, the owner; else holders
    of tokens.
    """

    rights: FolderRights
    sessions: SessionStore | None
    key: OneTimeKey | None = None

    @property
    def is_local(self) -> bool:
        """Return whether visitors are on this machine, and may see paths of its disk."""
        return self.sessions is None or self.key is not None

    def may_write(self, scope: Scope, settings: HttpSettings) -> bool:
        """Return whether a visitor may decide about duplicates and judge answers."""
        return self.is_local or bool({EVERYONE, *token_names(scope)} & set(settings.writers))


async def signed_in_user(
    scope: Scope, sessions: SessionStore | None, settings: HttpSettings
) -> AuthenticatedUser | None:
    """Return the sender of a request, by its token or its session; a token needs all required
    scopes.
    """
    user: Any = scope.get("user")
    if isinstance(user, AuthenticatedUser) and set(settings.scopes) <= set(user.scopes):
        return user
    id_ = read_cookie(scope, cookie_name(scope, is_secure=is_secure(scope, settings)))
    return await sessions.user(id_) if id_ and sessions is not None else None


def is_secure(scope: Scope, settings: HttpSettings) -> bool:
    """Return whether visitors use https."""
    return scope.get("scheme") == "https" or urlsplit(settings.url).scheme == "https"


# ------------------------------------------------------------------ opening the browser

_REDIRECT_SECONDS = 60.0
"""Age after which redirect files of a killed page are deleted at the next start."""


def open_in_browser(address: str, shown: list[Path]) -> None:
    """Open a browser at an address through a private file, and add the file to `shown`.

    Every user of the machine can read a command line; only its owner can read the file.
    """
    folder = user_state_path("thumbindex", appauthor=False) / "page"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _delete_old_files(folder)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".html")  # rights: 0600
        shown.append(Path(name))
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_redirect_page(address))
    except OSError as error:
        print_error(
            f"No browser is opened ({folder}: {error.strerror}): open the address yourself."
        )
        return
    threading.Thread(target=webbrowser.open, args=(shown[-1].as_uri(),), daemon=True).start()


def delete_redirect_files(shown: list[Path]) -> None:
    """Delete the files that were opened."""
    while shown:
        with suppress(OSError):
            shown.pop().unlink()


def _delete_old_files(folder: Path) -> None:
    for path in folder.glob("*.html"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _REDIRECT_SECONDS:
                path.unlink()


def _redirect_page(address: str) -> str:
    there = html.escape(address)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>thumbindex</title>'
        f'<meta http-equiv="refresh" content="0; url={there}">'
        f'<p><a href="{there}">Open the page</a></p></html>\n'
    )
