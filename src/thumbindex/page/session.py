"""Signing in to the page: sessions, the one-time key, cookies, and checks of requests' origin."""

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
"""Maximum sessions of all visitors. A further session ends the least recently used one."""

IDLE_SECONDS = 12 * 3600.0
"""Seconds without a request after which a session ends."""

_ID_BYTES = 32
"""Number of random bytes in a session id or key."""


@dataclass(slots=True)
class _Session:
    """A signed-in visitor. The token is kept only in memory, to verify it again."""

    token: str
    access: AccessToken
    used_at: float
    verified_at: float


class SessionStore:
    """Sessions of signed-in visitors. Signing in requires a valid token with all `scopes`."""

    def __init__(
        self,
        verifier: TokenVerifier,
        scopes: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._verifier, self._scopes, self._clock = verifier, frozenset(scopes), clock
        self._open: OrderedDict[str, _Session] = OrderedDict()

    async def sign_in(self, token: str) -> str | None:
        """Start a session and return its id, or None if the token is invalid."""
        access = await self._verify(token)
        if access is None:
            return None
        now, id_ = self._clock(), secrets.token_urlsafe(_ID_BYTES)
        self._open[id_] = _Session(token, access, now, now)
        while len(self._open) > _MAX_SESSIONS:
            self._open.popitem(last=False)
        return id_

    async def user(self, id_: str) -> AuthenticatedUser | None:
        """Return a session's user, or None if the session has ended or its token is invalid."""
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
    """The key with which the user who started the page signs in.

    Each key works once. Then `announce` gets a new key, to show it in the terminal.
    """

    def __init__(self, announce: Callable[[str], object]) -> None:
        self._announce = announce
        self.key = secrets.token_urlsafe(_ID_BYTES)
        self._used: set[str] = set()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the owner's access if `use` has accepted `token`, else None.

        `SessionStore` calls this repeatedly during a session.
        """
        if token in self._used:
            return AccessToken(token="", client_id="owner", scopes=[], claims={"names": ["owner"]})
        return None

    def use(self, key: str) -> bool:
        """Return whether `key` is the current key.

        If so, the key is used up, and a new one is announced.
        """
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self.key.encode()):
            return False
        self._used.add(self.key)
        self.key = secrets.token_urlsafe(_ID_BYTES)
        self._announce(self.key)
        return True


def cookie_name(scope: Scope, *, is_secure: bool) -> str:
    """Return the cookie's name.

    Without https, the name contains the port, because browsers send cookies to all ports of a host.
    """
    port = (scope.get("server") or ("", 0))[1]
    return "__Host-thumbindex" if is_secure else f"thumbindex-{port}"


def read_cookie(scope: Scope, name: str) -> str:
    """Return the value of a request's cookie, or "" if there is none."""
    for header in Headers(scope=scope).getlist("cookie"):
        if value := cookie_parser(header).get(name):
            return value
    return ""


def cookie_header(name: str, id_: str, *, is_secure: bool) -> str:
    """Return the Set-Cookie value for a session id; an empty id deletes the cookie."""
    max_age = "; Max-Age=0" if not id_ else ""
    secure = "; Secure" if is_secure else ""
    return f"{name}={id_}; Path=/; HttpOnly; SameSite=Strict{secure}{max_age}"


def is_cross_site(scope: Scope) -> bool:
    """Return whether another site sent the request, according to Fetch Metadata."""
    return any(
        site.lower() not in {"same-origin", "none"}
        for site in Headers(scope=scope).getlist("sec-fetch-site")
    )


def is_same_origin_form(scope: Scope) -> bool:
    """Return whether our own page sent the form, according to Fetch Metadata or Origin."""
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
    """Access rules of the page.

    If `sessions` is None, everyone has access. If `key` is given, only visitors who signed in with
    a key have access. Otherwise, all holders of a valid token have access.
    """

    rights: FolderRights
    sessions: SessionStore | None
    key: OneTimeKey | None = None

    @property
    def is_local(self) -> bool:
        """Whether visitors are on this machine and may see its file paths."""
        return self.sessions is None or self.key is not None

    @property
    def is_owner(self) -> bool:
        """Whether visitors own the notes: only on the page of `thumbindex page`."""
        return self.key is not None

    def may_write(self, scope: Scope, settings: HttpSettings) -> bool:
        """Return whether a visitor may decide about duplicates and grade passages."""
        return self.is_local or bool({EVERYONE, *token_names(scope)} & set(settings.writers))


async def signed_in_user(
    scope: Scope, sessions: SessionStore | None, settings: HttpSettings
) -> AuthenticatedUser | None:
    """Return the user of a request's token or session. A token must have all required scopes."""
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
"""Maximum age of redirect files; older ones are deleted at the next start."""


def open_in_browser(address: str, redirect_files: list[Path]) -> None:
    """Open an address in a browser through a redirect file, and add the file to `redirect_files`.

    The redirect file hides the key in the address from other users, who can see command lines.
    """
    folder = user_state_path("thumbindex", appauthor=False) / "page"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _delete_old_files(folder)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".html")  # mode 0600
        redirect_files.append(Path(name))
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_redirect_page(address))
    except OSError as error:
        print_error(
            f"Cannot open a browser ({folder}: {error.strerror}): open the address yourself."
        )
        return
    url = redirect_files[-1].as_uri()
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def delete_redirect_files(redirect_files: list[Path]) -> None:
    """Delete the redirect files and empty the list."""
    while redirect_files:
        with suppress(OSError):
            redirect_files.pop().unlink()


def _delete_old_files(folder: Path) -> None:
    for path in folder.glob("*.html"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _REDIRECT_SECONDS:
                path.unlink()


def _redirect_page(address: str) -> str:
    target = html.escape(address)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>thumbindex</title>'
        f'<meta http-equiv="refresh" content="0; url={target}">'
        f'<p><a href="{target}">Open the page</a></p></html>\n'
    )
