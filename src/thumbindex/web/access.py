"""Access over HTTP: hosts and origins, tokens (from a file or an OAuth issuer), folder rights."""

from __future__ import annotations

import hmac
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import mcp_types as types
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from thumbindex.config import configured_roots
from thumbindex.errors import ConfigError
from thumbindex.opening import is_local_path
from thumbindex.settings import Config, HttpSettings
from thumbindex.web.token_file import hash_token, read_hashes

_LOG = logging.getLogger(__name__)

# ------------------------------------------------------------------ rights

EVERYONE = "*"
"""Entry in a folder's `tokens` that gives every valid token access."""

_ISSUER_CLAIMS = ("sub", "scope", "group")
"""Prefixes of token names from an issuer, e.g. `group:finance`.

Token names from a token file have no prefix.
"""

Folders = Sequence[tuple[str, Path]]


@dataclass(frozen=True, slots=True)
class FolderRights:
    """The folders, and the token names that give access to each.

    If `granted` is empty, everyone sees all folders.
    """

    folders: tuple[str, ...]
    granted: Mapping[str, Collection[str]]

    def visible_to(self, names: Collection[str]) -> frozenset[str]:
        """Return the folders that a holder of a token with these names may see."""
        if not self.granted:
            return frozenset(self.folders)
        return frozenset(
            folder
            for folder in self.folders
            if {EVERYONE, *names} & set(self.granted.get(folder, ()))
        )


def check_rights(
    folders: Folders,
    granted: Mapping[str, Collection[str]],
    token_file_names: Collection[str],
    *,
    requires_token: bool,
    has_issuer: bool,
    configured: Mapping[str, Path] | None = None,
) -> FolderRights:
    """Return the rights to `folders`.

    `configured` maps folder names to the roots in the configuration. Nobody gets rights to a folder
    with another root. Raises ConfigError if a folder seems to be open or closed by mistake.
    """
    rights = {
        name: tuple(granted[name])
        for name, root in folders
        if name in granted and (configured or {}).get(name, root) == root
    }
    if rights and not requires_token:
        raise ConfigError(
            f"The folder {next(iter(rights))!r} lists `tokens`, but the server requires none: set "
            "--token-file or `serve.http.issuer`."
        )
    # Other people may publish folders in the same database: hide those without rights.
    hidden = {
        name for name, root in folders if granted and name not in rights and not is_local_path(root)
    }
    names = tuple(name for name, _ in folders if name not in hidden)
    for name in names:
        # once one folder has rights, a folder without them is probably a mistake
        if granted and name not in rights:
            raise ConfigError(
                f"The folder {name!r} lists no `tokens`, but other folders do: add [[folders]] "
                f'with tokens = ["{EVERYONE}"] for it if every token may see it.'
            )
        for token in rights.get(name, ()):
            kind, colon, _ = token.partition(":")
            is_claim = has_issuer and colon and kind in _ISSUER_CLAIMS
            if token != EVERYONE and token not in token_file_names and not is_claim:
                raise ConfigError(
                    f"The folder {name!r} lists {token!r}, which is not in the token file: "
                    "`thumbindex token NAME` adds a token. For an issuer's token, write sub:NAME, "
                    "scope:NAME or group:NAME, and set `serve.http.issuer`."
                )
    return FolderRights(names, rights)


def nested_folder_warnings(folders: Folders, rights: FolderRights) -> list[str]:
    """Return warnings about folders inside other folders.

    There is a warning if a token without access to the inner folder may see the outer folder.
    """
    if not rights.granted:
        return []
    warnings = []
    for inner, root in folders:
        for outer in (name for name, other in folders if other in root.parents):
            visible_to = rights.granted[inner]
            if EVERYONE not in visible_to and set(rights.granted[outer]) - set(visible_to):
                warnings.append(
                    f"The folder {inner!r} is inside {outer!r}: everyone who sees {outer!r} also "
                    f"sees the files in {inner!r}, unless `corpus.exclude` of {outer!r} excludes "
                    "them."
                )
    return warnings


def token_names(scope: Scope) -> frozenset[str]:
    """Return the names of a request's token, or no names if the server requires no token."""
    user = scope.get("user")
    claims = (user.access_token.claims or {}) if isinstance(user, AuthenticatedUser) else {}
    return frozenset(claims.get("names", ()))


# ------------------------------------------------------------------ tokens


class _AnyVerifier:
    """Accepts a token if any of its verifiers does."""

    def __init__(self, verifiers: Collection[TokenVerifier]) -> None:
        self._verifiers = tuple(verifiers)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the result of the first verifier that accepts `token`, or None."""
        for verifier in self._verifiers:
            if access := await verifier.verify_token(token):
                return access
        return None


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The token verifier and the rights of token holders."""

    rights: FolderRights
    verifier: _AnyVerifier | None  # None if no token is required


def access_policy(config: Config, folders: Folders) -> AccessPolicy:
    """Return the access policy of a configuration.

    Raises ConfigError if the server or a folder would be open by mistake.
    """
    settings = config.serve.http
    tokens = (
        TokenFileVerifier(Path(settings.token_file).expanduser(), settings.scopes)
        if settings.token_file
        else None
    )
    issuer = _IssuerVerifier(settings) if settings.issuer else None
    verifiers: list[TokenVerifier] = [
        verifier for verifier in (tokens, issuer) if verifier is not None
    ]
    opening_key = next(
        (name for name in ("url", "hosts", "proxies") if getattr(settings, name)), ""
    )
    if not verifiers and (opening_key or not is_loopback(settings.host)):
        reason = (
            f"`serve.http.{opening_key}` gives other machines access"
            if is_loopback(settings.host)
            else f"Other machines can reach {settings.host}"
        )
        raise ConfigError(
            f"{reason}, and no token is required: run `thumbindex token NAME` and start the "
            "server again, or set `serve.http.issuer`."
        )
    rights = check_rights(
        folders,
        config.folder_tokens,
        tokens.names if tokens else (),
        requires_token=bool(verifiers),
        has_issuer=issuer is not None,
        configured=configured_roots(config),
    )
    return AccessPolicy(rights, _AnyVerifier(verifiers) if verifiers else None)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class TokenFileVerifier:
    """Verifies tokens against the hashes in a file.

    The file is read for each request, so that deleting a line revokes its token at once.
    """

    def __init__(self, path: Path, scopes: Sequence[str] = ()) -> None:
        self._path = path
        # only issuers grant scopes: a token from the file has all required scopes
        self._scopes = list(scopes)
        self.names = frozenset(self._read())

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return a token's name and scopes, or None if the token is not in the file."""
        try:
            hashes = self._read()
        except ConfigError as error:
            _LOG.error("%s Until then, all tokens are refused.", error)
            return None
        digest = hash_token(token)
        name = next((name for name in hashes if hmac.compare_digest(hashes[name], digest)), None)
        if name is None:
            return None
        return AccessToken(
            token=f"sha256:{digest.hex()}",
            client_id=name,
            scopes=self._scopes,
            claims={"names": [name]},
        )

    def _read(self) -> Mapping[str, bytes]:
        try:
            return read_hashes(self._path)
        except OSError as error:
            raise ConfigError(
                f"Cannot read the token file {self._path}: {error.strerror}. Create it with "
                "`thumbindex token NAME`."
            ) from error


# ------------------------------------------------------------------ an OAuth issuer

_ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Accepted signature algorithms: asymmetric only, never `none` or a shared secret."""

MAX_TOKEN_CHARS = 16_384
"""Tokens with more characters are refused without verification."""

_VERIFY_THREADS = 8

_FETCH_SECONDS = 5.0

_FRESH_SECONDS, _OLDEST_SECONDS = 300.0, 3600.0
"""Seconds after which an issuer's keys are fetched again, and after which old keys are refused."""

_COOLDOWN_SECONDS = 10.0
"""Minimum seconds between fetches of an issuer's keys, even for unknown key ids."""

_LEEWAY_SECONDS = 30.0
"""Tolerated difference between the clocks of the issuer and the server."""

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class _IssuerVerifier:
    """Verifies the access tokens of an issuer (RFC 9068, RFC 7519)."""

    def __init__(self, settings: HttpSettings) -> None:
        self.address = settings.issuer
        self._audience = settings.audience or settings.url
        for name, address in (("issuer", self.address), ("jwks", settings.jwks)):
            if address and not is_https_or_loopback(address):
                raise ConfigError(
                    f"`serve.http.{name}` must start with https://, not {address!r}: over plain "
                    "HTTP, tokens could be forged."
                )
        if not settings.url:
            raise ConfigError(
                "`serve.http.issuer` needs `serve.http.url`, the address of /mcp that clients "
                "use: tokens for other addresses are refused."
            )
        self._keys = SigningKeys(self.address, settings.jwks)
        self._threads: CapacityLimiter | None = None  # created in the event loop

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return a token's claims, or None if the token is invalid."""
        if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
            return None
        # separate threads: waiting for a silent issuer must not block other requests
        self._threads = self._threads or CapacityLimiter(_VERIFY_THREADS)
        return await run_sync(self._verify, token, limiter=self._threads)

    def _verify(self, token: str) -> AccessToken | None:
        try:
            header = jwt.get_unverified_header(token)
            key = (
                self._keys.find(str(header.get("kid")))
                if header.get("alg") in _ALGORITHMS
                else None
            )
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._audience,
                issuer=self.address,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        subject, scopes = str(claims["sub"]), _claim_values(claims.get("scope", claims.get("scp")))
        names = [
            f"sub:{subject}",
            *(f"scope:{scope}" for scope in scopes),
            *(f"group:{group}" for group in _claim_values(claims.get("groups"))),
        ]
        client = str(claims.get("client_id") or claims.get("azp") or subject)
        # A session belongs to `iss` and the subject. The token itself is not stored.
        return AccessToken(
            token="",
            client_id=client,
            scopes=scopes,
            expires_at=int(claims["exp"] + _LEEWAY_SECONDS),
            subject=subject,
            claims={"iss": claims["iss"], "names": names},
        )


class SigningKeys:
    """An issuer's public keys by id."""

    def __init__(
        self, issuer: str, jwks: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer, self._jwks, self._clock = issuer, jwks, clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def find(self, kid: str) -> jwt.PyJWK | None:
        """Return the key `kid`, or None. Fetches the keys first if they are old or lack `kid`."""
        if kid not in self._keys or self._age() > _FRESH_SECONDS:
            with self._lock:
                if self._clock() > self._tried_at + _COOLDOWN_SECONDS:
                    self._fetch()
        return self._keys.get(kid) if self._age() <= _OLDEST_SECONDS else None

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _fetch(self) -> None:
        try:
            keys = _jwks_client(self._jwks or self._published_address()).get_signing_keys()
            self._keys = {str(key.key_id): key for key in keys}
            self._fetched_at = self._clock()
        # a dropped connection raises OSError
        except (jwt.PyJWTError, OSError, ValueError) as error:
            _LOG.warning("Cannot fetch the signing keys of %s: %s", self._issuer, error)
        self._tried_at = self._clock()

    def _published_address(self) -> str:
        """Return the address of the issuer's published keys (OpenID Connect Discovery).

        Raises PyJWKClientError.
        """
        address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = _jwks_client(address).fetch_data()
        jwks = metadata.get("jwks_uri")
        if (
            metadata.get("issuer") != self._issuer
            or not isinstance(jwks, str)
            or not is_https_or_loopback(jwks)
        ):
            raise jwt.PyJWKClientError(
                f"{address} names another issuer, or has no https address of signing keys: set "
                "`serve.http.jwks`."
            )
        return jwks


def _jwks_client(address: str) -> jwt.PyJWKClient:
    # With PyJWT's cache, made-up key ids would block valid tokens while the issuer is down.
    return jwt.PyJWKClient(address, cache_jwk_set=False, timeout=_FETCH_SECONDS)


def is_https_or_loopback(address: str) -> bool:
    """Return whether an address uses https or is on this machine."""
    parts = urlsplit(address)
    return (parts.scheme == "https" and bool(parts.hostname)) or (
        parts.scheme == "http" and parts.hostname in _LOOPBACK
    )


def _claim_values(claim: Any) -> list[str]:
    """Return the values of a claim, which is a list or a space-separated string."""
    if isinstance(claim, str):
        return claim.split()
    return [item for item in claim if isinstance(item, str)] if isinstance(claim, list) else []


# ------------------------------------------------------------------ hosts and origins


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a JSON-RPC message, which MCP clients show."""
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": types.INVALID_REQUEST, "message": message},
    }
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


_ALL_ADDRESSES = ("0.0.0.0", "::")


_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+)(?::[0-9]+)?")
"""A Host header: a host and an optional port, e.g. `[::1]:8000`."""


_LOCAL_ORIGIN = re.compile(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?")


_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


_OPEN_PATHS = ("/health", "/ready")
"""Monitoring paths, which accept any Host header and reveal nothing about the notes."""


class HostCheck:
    """Refuses requests for unknown hosts and from other websites, against DNS rebinding.

    Also refuses requests with both a Content-Length and a Transfer-Encoding header. If the server
    requires no token, refuses requests that came through a proxy.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, *, requires_token: bool) -> None:
        self._app, self._requires_token = app, requires_token
        self._has_page, self._is_local = settings.page, is_loopback(settings.host)
        self._hosts, self._origins = allowed_hosts(settings), allowed_origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # Request smuggling: a proxy may use the length and see a second request in the body.
            return error_response(
                400,
                "Send either Content-Length or Transfer-Encoding, not both.",
                {"Connection": "close"},
            )
        if scope["path"] in _OPEN_PATHS:
            return None
        # By default, nginx forwards as HTTP/1.0 and sends no proxy header.
        is_proxied = scope["http_version"] == "1.0" or any(
            name in headers for name in _PROXY_HEADERS
        )
        if is_proxied and not self._requires_token:
            return error_response(
                403,
                "This request came through a proxy, but the server requires no token. Its "
                "administrator must start it with --token-file.",
            )
        host = headers.get("host", "").lower()
        name = _HOST.fullmatch(host)
        if name is None or name[1] not in self._hosts:
            _LOG.warning("Refused a request to an unknown host: see `serve.http.hosts`.")
            return error_response(
                421, "Unknown host. The server's administrator can allow it in `serve.http.hosts`."
            )
        if not self._is_allowed_origin(headers.getlist("origin"), host):
            _LOG.warning("Refused a request from another web page: see `serve.http.origins`.")
            return error_response(
                403,
                "Unknown origin. The server's administrator can allow it in `serve.http.origins`.",
            )
        return None

    def _is_allowed_origin(self, origins: list[str], host: str) -> bool:
        if not origins:
            return True
        origin = origins[0].lower()
        is_own_page = self._has_page and origin in (f"http://{host}", f"https://{host}")
        is_local = self._is_local and _LOCAL_ORIGIN.fullmatch(origin) is not None
        return len(origins) == 1 and (origin in self._origins or is_own_page or is_local)


def allowed_hosts(settings: HttpSettings) -> frozenset[str]:
    """Return the allowed values of the Host header, without a port."""
    bound = () if settings.host in _ALL_ADDRESSES else (settings.host,)
    names = (*bound, *settings.hosts, urlsplit(settings.url).hostname or "")
    return frozenset(_LOOPBACK_HOSTS) | {_host_header(name.lower()) for name in names if name}


def _host_header(name: str) -> str:
    """Return a name as written in the Host header, with IPv6 addresses in brackets."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


def allowed_origins(settings: HttpSettings) -> frozenset[str]:
    """Return the allowed values of the Origin header."""
    origins = [*settings.origins]
    if settings.url:
        url = urlsplit(settings.url)
        origins.append(f"{url.scheme}://{url.netloc}")
    return frozenset(origin.lower() for origin in origins)
