"""Access tokens of an OAuth issuer: whether its signature, audience and dates are right, and what they tell of their holder."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import jwt
from anyio.to_thread import run_sync
from mcp.server.auth.provider import AccessToken

from thumbindex.errors import ConfigError
from thumbindex.settings import HttpSettings

_LOG = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are taken: by a private key that the issuer alone has. Never `none`, never a secret that is shared."""

LONGEST_TOKEN = 16_384
"""Characters: no issuer's token is longer, and a longer one is not worked on."""

_FETCH_SECONDS = 5.0

_KEYS_SECONDS, _OLDEST_SECONDS = 300.0, 3600.0
"""After the first keys are fetched anew; until the second the old ones are believed where the issuer does not answer."""

_COOLDOWN_SECONDS = 10.0
"""Between two questions to the issuer, answered or not."""

_LEEWAY_SECONDS = 30.0
"""By which two machines' clocks may differ."""

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class Issuer:
    """Verifies one issuer's access tokens for one audience (RFC 9068, RFC 7519)."""

    def __init__(self, settings: HttpSettings) -> None:
        self.address = settings.issuer
        self._audience = settings.audience or settings.url
        for name, address in (("issuer", self.address), ("jwks", settings.jwks)):
            if address and not is_safe(address):
                raise ConfigError(f"`serve.http.{name}` must begin with https://, not {address!r}: whoever is between could forge tokens.")
        if not settings.url:
            raise ConfigError("`serve.http.issuer` needs `serve.http.url`, the address of /mcp as clients write it: tokens for others are not taken.")
        self._keys = Keys(self.address, settings.jwks)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token tells of its holder; None for one that is not this issuer's, not for us, or too old."""
        return await run_sync(self._verify, token) if len(token) <= LONGEST_TOKEN and token.count(".") == 2 else None

    def _verify(self, token: str) -> AccessToken | None:
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(str(header.get("kid"))) if header.get("alg") in ALGORITHMS else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self.address,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return _access(claims)


class Keys:
    """An issuer's public keys by their ids. Who shows a token of a known key never waits for the issuer."""

    def __init__(self, issuer: str, jwks: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._jwks, self._clock = issuer, jwks, clock
        self._known: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def find(self, kid: str) -> jwt.PyJWK | None:
        """Return the key of an id; one that is not known, or too old, is asked for, but not for every token that somebody makes up."""
        if self._believed(kid) is None:
            self._renew()
        elif self._clock() > self._fetched_at + _KEYS_SECONDS and self._may_ask() and not self._lock.locked():
            threading.Thread(target=self._renew, name="issuer's keys", daemon=True).start()
        return self._believed(kid)

    def _believed(self, kid: str) -> jwt.PyJWK | None:
        return None if self._clock() > self._fetched_at + _OLDEST_SECONDS else self._known.get(kid)

    def _may_ask(self) -> bool:
        return self._clock() > self._asked_at + _COOLDOWN_SECONDS

    def _renew(self) -> None:
        with self._lock:
            if self._may_ask():
                self._fetch()
                self._asked_at = self._clock()

    def _fetch(self) -> None:
        try:
            found = jwt.PyJWKSet.from_dict(dict(_fetch_json(self._jwks or self._published())))
        except (jwt.PyJWTError, OSError, ValueError) as error:  # a connection that is cut off comes as the system calls it
            _LOG.warning("The keys of %s cannot be had: %s", self._issuer, error)
            return
        self._known = {key.key_id: key for key in found.keys if key.key_id and key.public_key_use in ("sig", None)}
        self._fetched_at = self._clock()

    def _published(self) -> str:
        """Return where the issuer says that its keys are (RFC 8414, OpenID Connect Discovery). Raises PyJWKClientError."""
        failure = jwt.PyJWKClientError("it publishes no metadata: set `serve.http.jwks`.")
        for address in _metadata_addresses(self._issuer):
            try:
                found = _fetch_json(address)
            except (jwt.PyJWKClientError, OSError, ValueError) as error:
                failure = jwt.PyJWKClientError(f"{address}: {error}")
                continue
            jwks = found.get("jwks_uri")
            if found.get("issuer") == self._issuer and isinstance(jwks, str) and is_safe(jwks):
                return jwks
            failure = jwt.PyJWKClientError(f"{address} is not its metadata, or names no keys over https: set `serve.http.jwks`.")
        raise failure


def _fetch_json(address: str) -> Mapping[str, Any]:
    # The client for keys fetches any JSON object, in a bounded time, and follows no redirect.
    found: Mapping[str, Any] = jwt.PyJWKClient(address, cache_jwk_set=False, timeout=_FETCH_SECONDS).fetch_data()
    return found


def is_safe(address: str) -> bool:
    """Tell whether nobody between can change what an address answers: https, or this machine."""
    parts = urlsplit(address)
    return (parts.scheme == "https" and bool(parts.hostname)) or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _metadata_addresses(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    root = f"{parts.scheme}://{parts.netloc}"
    return [f"{root}{_METADATA[0]}{path}", f"{root}{path}{_METADATA[1]}"]


def _access(claims: Mapping[str, Any]) -> AccessToken:
    """Put a token's claims as the protocol's package holds them; the token itself is not kept."""
    subject = str(claims["sub"])
    scopes = _texts(claims.get("scope", claims.get("scp")))
    names = [f"sub:{subject}", *(f"scope:{each}" for each in scopes), *(f"group:{each}" for each in _texts(claims.get("groups")))]
    client = str(claims.get("client_id") or claims.get("azp") or subject)
    # `iss` with the subject is what a session belongs to: another holder's session is not found.
    kept = {"iss": claims["iss"], "names": names}
    return AccessToken(token="", client_id=client, scopes=scopes, expires_at=int(claims["exp"] + _LEEWAY_SECONDS), subject=subject, claims=kept)


def _texts(claim: object) -> list[str]:
    """Read a claim that is a list, or a text with spaces between."""
    if isinstance(claim, str):
        return claim.split()
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []
